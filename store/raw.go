package store

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/metric"
)

const (
	rawSQL = `select series, at, n, times, vals from headroom.store_raw
		where series = any($1) and at >= $2 and at < $3 order by series, at`
	rawRangeSQL = `select series, at, n, times, vals from headroom.store_raw
		where series >= $1 and series <= $2 and at >= $3 and at < $4 order by series, at`
)

// maxRow bounds what one packed row may unpack to.
const maxRow = 4_000_000

// eachRaw unpacks rows of store_raw; the points are f's only during its call.
func eachRaw(rows pgx.Rows, c *coder, f func(series, first int64, ps []metric.Point)) error {
	var id int64
	var at time.Time
	var n int
	var times, values []byte
	var ps []metric.Point
	_, err := pgx.ForEachRow(rows, []any{&id, &at, &n, &times, &values}, func() error {
		var err error
		if n < 0 || n > maxRow {
			return fmt.Errorf("read packed points of series %d at %s: %d points: %w", id, at.UTC().Format(time.RFC3339), n, errPacked)
		}
		if ps, err = c.unpack(ps[:0], at.UnixMilli(), n, times, values); err != nil {
			return fmt.Errorf("read packed points of series %d at %s: %w", id, at.UTC().Format(time.RFC3339), err)
		}
		f(id, at.UnixMilli(), ps)
		return nil
	})
	return err
}

const (
	minuteSQL = `select series, day, n, slots, counts, sums, mins, maxs, lasts, firsts, incs from headroom.store_minute
		where series = any($1) and day >= $2 and day < $3 order by series, day`
	hourSQL = `select series, day, n, slots, counts, sums, mins, maxs, lasts, firsts, incs, sketches from headroom.store_hour
		where series = any($1) and day >= $2 and day < $3 order by series, day`
	daySQL = `select series, day, count, sum, min, max, last, last_at, first, increase, sketch from headroom.store_day
		where series = any($1) and day >= $2 and day < $3 order by series, day`
)

// figures are what roll-ups keep of points: the column of a packed row, and of
// a day.
var figures = []struct{ name, packed, day string }{
	{"sum", "sums", "sum"}, {"min", "mins", "min"}, {"max", "maxs", "max"}, {"last", "lasts", "last"},
	{"first", "firsts", "first"}, {"increase", "incs", "increase"}, {"sketch", "sketches", "sketch"},
}

// needs says whether the answer is made of a figure. Packed, the first value is
// told by how it differs from the least.
func (p *plan) needs(figure string) bool {
	switch figure {
	case "sum":
		return p.q.Func == "sum" || p.q.Func == "avg"
	case "min":
		return p.q.Func == "min" || p.quantile > 0 || p.rate
	case "max":
		return p.q.Func == "max" || p.quantile > 0
	case "last":
		return p.q.Func == "last" || p.rate
	case "sketch":
		return p.quantile > 0
	}
	return p.rate
}

// sql reads roll-ups, and of them only what the answer is made of: each column
// of a day costs as much as finding its row. Packed rows come by series and
// day, days in any order.
func (p *plan) sql() string {
	table, columns, order := "store_day", "count", ""
	if p.level < levelDay {
		table, columns, order = []string{"", "store_minute", "store_hour"}[p.level], "n, slots, counts", " order by series, day"
	}
	for _, f := range figures {
		switch {
		case p.level == levelDay && p.needs(f.name):
			columns += ", " + f.day
		case p.level < levelDay && (p.needs(f.name) || f.name == "last"): // the others are told by the last
			columns += ", " + f.packed
		}
	}
	return "select series, day, " + columns + " from headroom." + table + " where series = any($1) and day >= $2 and day < $3" + order
}

// eachPacked unpacks rows of store_minute or store_hour, of whatever columns
// were asked for.
func eachPacked(rows pgx.Rows, c *coder, width int64, f func(series int64, day time.Time, bs []bucket)) error {
	var id int64
	var d time.Time
	var p packed
	into := targets(rows, map[string]any{"series": &id, "day": &d, "n": &p.n, "slots": &p.slots, "counts": &p.counts, "sums": &p.sums, "mins": &p.mins,
		"maxs": &p.maxs, "lasts": &p.lasts, "firsts": &p.firsts, "incs": &p.incs, "sketches": &p.sketches})
	_, err := pgx.ForEachRow(rows, into, func() error {
		if p.n < 0 || p.n > int(dayMS/width) {
			return fmt.Errorf("read the day %s of series %d: %d buckets: %w", d.Format(time.DateOnly), id, p.n, errPacked)
		}
		bs, err := c.unpackBuckets(p, d.UnixMilli(), width)
		if err != nil {
			return fmt.Errorf("read the day %s of series %d: %w", d.Format(time.DateOnly), id, err)
		}
		f(id, d, bs)
		return nil
	})
	return err
}

// targets are where the columns of rows go, by their names.
func targets(rows pgx.Rows, of map[string]any) (into []any) {
	for _, column := range rows.FieldDescriptions() {
		into = append(into, of[column.Name])
	}
	return into
}

// eachDay reads rows of store_day, of whatever columns were asked for.
func eachDay(rows pgx.Rows, f func(series int64, b bucket)) error {
	var id int64
	var d, end time.Time
	var b bucket
	var first, inc *float64
	var sk []byte
	into := targets(rows, map[string]any{"series": &id, "day": &d, "count": &b.count, "sum": &b.sum, "min": &b.min, "max": &b.max, "last": &b.last,
		"last_at": &end, "first": &first, "increase": &inc, "sketch": &sk})
	_, err := pgx.ForEachRow(rows, into, func() error {
		b.at, b.end, b.first, b.inc, b.sk = d.UnixMilli(), 0, b.last, 0, nil
		if !end.IsZero() {
			b.end = end.UnixMilli()
		}
		if first != nil && inc != nil {
			b.first, b.inc = *first, *inc
		}
		var err error
		if sk != nil {
			b.sk, err = unpackSketch(sk)
		}
		f(id, b)
		return err
	})
	return err
}

// daysInOrder reads rows of store_day that come in any order, and gives out
// each series' days as they rise: sorting here costs less than in the server.
func daysInOrder(rows pgx.Rows, f func(series int64, b bucket)) error {
	days := map[int64][]bucket{}
	if err := eachDay(rows, func(id int64, b bucket) { days[id] = append(days[id], b) }); err != nil {
		return err
	}
	byTime := func(a, b bucket) int { return cmp.Compare(a.at, b.at) }
	for id, bs := range days {
		if !slices.IsSortedFunc(bs, byTime) {
			slices.SortFunc(bs, byTime)
		}
		for _, b := range bs {
			f(id, b)
		}
	}
	return nil
}
