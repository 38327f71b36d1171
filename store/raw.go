package store

import (
	"fmt"
	"strings"
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

// lean leaves the sketches out where no quantile is asked for: they are most
// of what is read.
func lean(sql string, quantile bool) string {
	if quantile {
		return sql
	}
	return strings.Replace(strings.Replace(sql, ", sketches from", ", null::bytea[] from", 1), ", sketch from", ", null::bytea from", 1)
}

// eachPacked unpacks rows of store_minute or store_hour.
func eachPacked(rows pgx.Rows, c *coder, width int64, f func(series int64, day time.Time, bs []bucket)) error {
	var id int64
	var d time.Time
	var p packed
	into := []any{&id, &d, &p.n, &p.slots, &p.counts, &p.sums, &p.mins, &p.maxs, &p.lasts, &p.firsts, &p.incs}
	if width == hourMS {
		into = append(into, &p.sketches)
	}
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

// eachDay reads rows of store_day.
func eachDay(rows pgx.Rows, f func(series int64, b bucket)) error {
	var id int64
	var d, end time.Time
	var b bucket
	var first, inc *float64
	var sk []byte
	_, err := pgx.ForEachRow(rows, []any{&id, &d, &b.count, &b.sum, &b.min, &b.max, &b.last, &end, &first, &inc, &sk}, func() error {
		b.at, b.end, b.first, b.inc, b.sk = d.UnixMilli(), end.UnixMilli(), b.last, 0, nil
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
