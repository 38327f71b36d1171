package store

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/metric"
)

// roller makes rows of minutes, hours and days, for one day.
type roller struct {
	day     int64
	levels  [3]bool // minute, hour, day: whether that is still kept for this day
	names   map[int64]string
	c       coder
	minutes copyRows
	hours   copyRows
	days    copyRows
	n       int
}

func newRoller(d time.Time, st *state, names map[int64]string) *roller {
	r := &roller{day: d.UnixMilli(), names: names}
	for i, from := range []*time.Time{st.minuteFrom, st.hourFrom, st.dayFrom} {
		r.levels[i] = from == nil || !d.Before(*from)
	}
	r.minutes.reset()
	r.hours.reset()
	r.days.reset()
	return r
}

// points takes all points of a series on the day.
func (r *roller) points(id int64, ps []metric.Point) {
	if len(ps) == 0 {
		return
	}
	counter := isCounter(r.names[id])
	r.buckets(id, counter, aggregate(ps, minuteMS, counter, false), aggregate(ps, hourMS, counter, true), aggregate(ps, dayMS, counter, true)[0])
}

func (r *roller) buckets(id int64, counter bool, minutes, hours []bucket, d bucket) {
	r.n++
	at := time.UnixMilli(r.day).UTC()
	if r.levels[0] {
		r.level(&r.minutes, 11, id, at, r.c.packBuckets(minutes, r.day, minuteMS, counter))
	}
	if r.levels[1] {
		p := r.c.packBuckets(hours, r.day, hourMS, counter)
		r.level(&r.hours, 12, id, at, p)
		if p.sketches == nil {
			r.hours.null()
		} else {
			r.hours.byteas(p.sketches)
		}
	}
	if !r.levels[2] {
		return
	}
	o := &r.days
	o.row(11)
	o.int8(id)
	o.date(at)
	o.int8(d.count)
	for _, v := range []float64{d.sum, d.min, d.max, d.last} {
		o.float8(v)
	}
	o.time(d.end)
	if counter {
		o.float8(d.first)
		o.float8(d.inc)
	} else {
		o.null()
		o.null()
	}
	if d.sk == nil {
		o.null()
	} else {
		o.bytes(d.sk.pack())
	}
}

func (r *roller) level(o *copyRows, columns int, id int64, at time.Time, p packed) {
	o.row(columns)
	o.int8(id)
	o.date(at)
	o.int4(p.n)
	o.bytes(p.slots)
	o.bytes(p.counts)
	o.maybe(p.sums)
	o.maybe(p.mins)
	o.maybe(p.maxs)
	o.bytes(p.lasts)
	o.maybe(p.firsts)
	o.maybe(p.incs)
}

// store copies the rows that were made.
func (r *roller) store(ctx context.Context, tx pgx.Tx) error {
	if r.n == 0 {
		return nil
	}
	for i, t := range []struct {
		o   *copyRows
		sql string
	}{
		{&r.minutes, "copy headroom.store_minute (series, day, n, slots, counts, sums, mins, maxs, lasts, firsts, incs) from stdin with (format binary)"},
		{&r.hours, "copy headroom.store_hour (series, day, n, slots, counts, sums, mins, maxs, lasts, firsts, incs, sketches) from stdin with (format binary)"},
		{&r.days, "copy headroom.store_day (series, day, count, sum, min, max, last, last_at, first, increase, sketch) from stdin with (format binary)"},
	} {
		if !r.levels[i] {
			continue
		}
		t.o.end()
		if err := copyIn(ctx, tx.Conn().PgConn(), bytes.NewReader(t.o.buf), t.sql); err != nil {
			return fmt.Errorf("store %s: %w", []string{"minutes", "hours", "days"}[i], err)
		}
	}
	return nil
}

// perDay gathers packed rows of one series after the other.
type perDay struct {
	id   int64
	ps   []metric.Point
	done func(id int64, ps []metric.Point)
}

func (g *perDay) add(id, _ int64, ps []metric.Point) {
	if id != g.id {
		g.flush()
		g.id = id
	}
	g.ps = append(g.ps, ps...)
}

func (g *perDay) flush() {
	if len(g.ps) > 0 {
		g.done(g.id, g.ps)
	}
	g.ps = g.ps[:0]
}

const (
	rollParts  = 64   // of a day's series, by their ids
	rollSeries = 4000 // in one transaction, about
)

// rollDays rolls up all days that are over and packed, up to before the limit.
func (s *Store) rollDays(ctx context.Context, limit time.Time) error {
	for {
		st, err := readState(ctx, s.maint)
		if err != nil {
			return err
		}
		d, err := s.nextDay(ctx, st)
		if err != nil || d.IsZero() || !d.Before(limit) {
			return err
		}
		if err := s.parts(ctx, d); err != nil {
			return err
		}
		var series int64
		if err := s.maint.QueryRow(ctx, "select count(*) from headroom.series").Scan(&series); err != nil {
			return err
		}
		step := max(1, rollParts/int(series/rollSeries+1))
		for i := st.slice; i < rollParts; i += step {
			if err := s.rollSlice(ctx, d, i, min(i+step, rollParts)); err != nil {
				return fmt.Errorf("roll up %s: %w", d.Format(time.DateOnly), err)
			}
		}
	}
}

// nextDay is the first day that is not rolled up and may have points.
func (s *Store) nextDay(ctx context.Context, st *state) (time.Time, error) {
	if st.slice > 0 && st.rolled != nil { // was broken off
		return *st.rolled, nil
	}
	days, err := rawTable.list(ctx, s.maint)
	if err != nil {
		return time.Time{}, err
	}
	for _, d := range days {
		if st.rolled == nil || !d.Before(*st.rolled) {
			return d, nil
		}
	}
	return time.Time{}, nil
}

// parts makes the partitions that a day's roll-ups go to.
func (s *Store) parts(ctx context.Context, d time.Time) error {
	for _, t := range []*parted{minuteTable, hourTable, dayTable} {
		if err := t.create(ctx, s.maint, d); err != nil {
			return err
		}
	}
	return nil
}

// rollSlice rolls up the parts of a day's series from one to before another
// and notes that it did.
func (s *Store) rollSlice(ctx context.Context, d time.Time, from, to int) error {
	return s.inMaint(ctx, func(tx pgx.Tx) error {
		st, err := readState(ctx, tx)
		if err != nil {
			return err
		}
		lo := int64(from) << 57
		hi := lo + int64(to-from)<<57 - 1
		names, err := readNames(ctx, tx, "select id, name from headroom.series where id >= $1 and id <= $2", lo, hi)
		if err != nil {
			return err
		}
		r := newRoller(d, st, names)
		g := perDay{done: r.points}
		rows, err := tx.Query(ctx, rawRangeSQL, lo, hi, d, d.Add(day))
		if err != nil {
			return err
		}
		var c coder
		if err := eachRaw(rows, &c, g.add); err != nil {
			return err
		}
		g.flush()
		if err := r.store(ctx, tx); err != nil {
			return err
		}
		rolled, next := d, to
		if next == rollParts {
			rolled, next = d.Add(day), 0
		}
		_, err = tx.Exec(ctx, "update headroom.store_state set rolled = $1::date, slice = $2", rolled, next)
		return err
	})
}

func readNames(ctx context.Context, c execer, sql string, args ...any) (map[int64]string, error) {
	rows, err := c.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	names := map[int64]string{}
	var id int64
	var name string
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		names[id] = name
		return nil
	})
	return names, err
}
