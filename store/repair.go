package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/metric"
)

const repairSlice = 2000 // series that are rolled up anew in one transaction

// repair rolls up anew what late points have touched, and nothing else.
func (s *Store) repair(ctx context.Context) error {
	rows, err := s.maint.Query(ctx, "select distinct d.day from headroom.store_dirty d, headroom.store_state s where d.day < s.rolled order by 1")
	if err != nil {
		return err
	}
	days, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		return err
	}
	for _, d := range days {
		if err := s.parts(ctx, d); err != nil {
			return err
		}
		for more := true; more; {
			err := s.inMaint(ctx, func(tx pgx.Tx) error {
				var err error
				more, err = s.repairDay(ctx, tx, d)
				return err
			})
			if err != nil {
				return fmt.Errorf("roll up %s anew: %w", d.Format(time.DateOnly), err)
			}
		}
	}
	return nil
}

// repairDay rolls up some series of a day anew. Where the day's points were
// dropped already, what came late is added to what there is, and the points
// go in the same transaction, so that they count once.
func (s *Store) repairDay(ctx context.Context, tx pgx.Tx, d time.Time) (more bool, err error) {
	st, err := readState(ctx, tx)
	if err != nil {
		return false, err
	}
	join := st.rawFrom != nil && d.Before(*st.rawFrom)
	for {
		rows, err := tx.Query(ctx, "select series from headroom.store_dirty where day = $1 order by series limit $2", d, repairSlice)
		if err != nil {
			return false, err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return false, err
		}
		if len(ids) > 0 {
			if err := repairSeries(ctx, tx, d, st, ids, join); err != nil {
				return false, err
			}
		}
		if len(ids) == repairSlice && join {
			continue
		}
		if join {
			err = dropRaw(ctx, tx, d)
		}
		return len(ids) == repairSlice, err
	}
}

func repairSeries(ctx context.Context, tx pgx.Tx, d time.Time, st *state, ids []int64, join bool) error {
	names, err := readNames(ctx, tx, "select id, name from headroom.series where id = any($1)", ids)
	if err != nil {
		return err
	}
	r := newRoller(d, st, names)
	take := r.points
	if join {
		old, err := readDay(ctx, tx, d, ids)
		if err != nil {
			return err
		}
		take = func(id int64, ps []metric.Point) { old.join(r, id, ps) }
	}
	rows, err := tx.Query(ctx, rawSQL, ids, d, d.Add(day))
	if err != nil {
		return err
	}
	var c coder
	g := perDay{done: take}
	if err := eachRaw(rows, &c, g.add); err != nil {
		return err
	}
	g.flush()
	for i, t := range []string{"store_minute", "store_hour", "store_day"} {
		if !r.levels[i] {
			continue
		}
		if _, err := tx.Exec(ctx, "delete from headroom."+t+" where series = any($1) and day = $2", ids, d); err != nil {
			return err
		}
	}
	if err := r.store(ctx, tx); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "delete from headroom.store_dirty where day = $1 and series = any($2)", d, ids)
	return err
}

// dayRows is what is stored of one day's roll-ups.
type dayRows struct {
	minutes, hours map[int64][]bucket
	days           map[int64]bucket
}

func readDay(ctx context.Context, tx pgx.Tx, d time.Time, ids []int64) (*dayRows, error) {
	out := &dayRows{map[int64][]bucket{}, map[int64][]bucket{}, map[int64]bucket{}}
	var c coder
	for _, l := range []struct {
		sql   string
		width int64
		into  map[int64][]bucket
	}{{minuteSQL, minuteMS, out.minutes}, {hourSQL, hourMS, out.hours}} {
		rows, err := tx.Query(ctx, l.sql, ids, d, d.Add(day))
		if err != nil {
			return nil, err
		}
		if err := eachPacked(rows, &c, l.width, func(id int64, _ time.Time, bs []bucket) { l.into[id] = bs }); err != nil {
			return nil, err
		}
	}
	rows, err := tx.Query(ctx, daySQL, ids, d, d.Add(day))
	if err != nil {
		return nil, err
	}
	return out, eachDay(rows, func(id int64, b bucket) { out.days[id] = b })
}

// join adds points to a series' buckets.
func (o *dayRows) join(r *roller, id int64, ps []metric.Point) {
	counter := isCounter(r.names[id])
	d := o.days[id]
	d.combine(aggregate(ps, dayMS, counter, true)[0])
	r.buckets(id, counter,
		joinBuckets(o.minutes[id], aggregate(ps, minuteMS, counter, false)),
		joinBuckets(o.hours[id], aggregate(ps, hourMS, counter, true)), d)
}

// joinBuckets joins two lists that rise in time.
func joinBuckets(a, b []bucket) []bucket {
	var out []bucket
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].at < b[0].at:
			out, a = append(out, a[0]), a[1:]
		case len(a) == 0 || b[0].at < a[0].at:
			out, b = append(out, b[0]), b[1:]
		default:
			x := a[0]
			x.combine(b[0])
			out, a, b = append(out, x), a[1:], b[1:]
		}
	}
	return out
}
