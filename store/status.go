package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Status is how the store is doing.
type Status struct {
	Server    string // version of PostgreSQL
	Citus     bool
	Series    int64
	Tables    []Table
	Bytes     int64         // of all tables and indexes
	Oldest    time.Time     // start of the oldest day that is kept at any resolution; zero: none
	Newest    time.Time     // newest point
	Lag       time.Duration // from the newest point to now; 0 where that is to come
	Clock     string        // what is wrong with the machine's clock, as the store sees it; "" if nothing is
	Hot       int64         // points not packed yet
	HotBytes  int64         // memory for them, about
	PackedTo  time.Time     // hours before it are packed; zero: not since the start
	RolledTo  time.Time     // days before it have minutes, hours and days; zero: none
	Dirty     int64         // series and days that wait to be rolled up anew
	Problem   string        // why the last pass of maintenance failed, "" if it did not
	Retention Retention
	Forecast  Forecast
}

// Table is one table with its partitions.
type Table struct {
	Name       string
	Rows       int64 // as the planner estimates
	Bytes      int64 // with indexes
	Partitions int
}

// Forecast is how much disk the store will take once retention drops as much
// as comes in, at the rate of the newest full day of each table. It does not
// know of series to come.
type Forecast struct {
	Raw, Minute, Hour int64 // bytes when full
	DayPerYear        int64 // bytes that days add each year
	Total             int64 // bytes when full; days for the time that they are kept, at most ten years
	Known             bool  // false until a day is over: nothing to reckon with
}

// Status reads sizes and ages.
func (s *Store) Status(ctx context.Context) (Status, error) {
	st := Status{Retention: s.o.Retention, Citus: s.citus}
	if err := s.sizes(ctx, &st); err != nil {
		return st, fmt.Errorf("read the store's status: %w", err)
	}
	now, err := readState(ctx, s.read)
	if err != nil {
		return st, fmt.Errorf("read the store's status: %w", err)
	}
	if now.rolled != nil {
		st.RolledTo = *now.rolled
	}
	h := s.head
	h.mu.RLock()
	st.Hot, st.HotBytes = int64(h.points), int64(h.bytes)
	if h.newest > 0 {
		st.Newest = time.UnixMilli(h.newest).UTC()
	}
	h.mu.RUnlock()
	clock := s.o.Now()
	if !st.Newest.IsZero() {
		st.Lag = max(clock.Sub(st.Newest), 0)
	}
	st.Clock = s.clockText(clock, st.Newest)
	s.emu.Lock()
	st.PackedTo = s.packed
	if s.passError != nil {
		st.Problem = s.passError.Error()
	}
	s.emu.Unlock()
	st.Forecast, err = s.forecast(ctx)
	if err != nil {
		return st, fmt.Errorf("forecast the store's size: %w", err)
	}
	return st, nil
}

func (s *Store) sizes(ctx context.Context, st *Status) error {
	err := s.read.QueryRow(ctx, "select current_setting('server_version'), (select count(*) from headroom.series), (select count(*) from headroom.store_dirty)").
		Scan(&st.Server, &st.Series, &st.Dirty)
	if err != nil {
		return err
	}
	rows, err := s.read.Query(ctx, `select root.relname::text, sum(greatest(c.reltuples, 0))::bigint, sum(pg_total_relation_size(c.oid))::bigint,
			count(*) filter (where c.relispartition)::int
		from pg_class root join pg_class c on c.oid in (select relid from pg_partition_tree(root.oid) union select root.oid)
		where root.relnamespace = 'headroom'::regnamespace and root.relkind in ('r', 'p') and not root.relispartition
			and (root.relname = 'series' or root.relname like 'store\_%')
		group by 1 order by 1`)
	if err != nil {
		return err
	}
	st.Tables, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Table])
	for _, t := range st.Tables {
		st.Bytes += t.Bytes
	}
	if err != nil {
		return err
	}
	for _, t := range []*parted{dayTable, hourTable, minuteTable, rawTable} {
		starts, err := t.list(ctx, s.read)
		if err != nil {
			return err
		}
		if len(starts) > 0 && (st.Oldest.IsZero() || starts[0].Before(st.Oldest)) {
			st.Oldest = starts[0]
		}
	}
	return nil
}

// perDay tables: bytes of the newest partition that is over, by days of its
// length.
func (s *Store) bytesPerDay(ctx context.Context, t *parted, upto time.Time) (int64, error) {
	starts, err := t.list(ctx, s.read)
	if err != nil {
		return 0, err
	}
	for i := len(starts) - 1; i >= 0; i-- {
		start, end := starts[i], t.next(starts[i])
		if end.After(upto) {
			end = dayStart(upto)
		}
		days := int64(end.Sub(start) / day)
		if days <= 0 {
			continue
		}
		var n int64
		err := s.read.QueryRow(ctx, "select coalesce(pg_total_relation_size(to_regclass('headroom.' || $1::text)), 0)", t.child(start)).Scan(&n)
		return n / days, err
	}
	return 0, nil
}

func (s *Store) forecast(ctx context.Context) (Forecast, error) {
	var f Forecast
	st, err := readState(ctx, s.read)
	if err != nil || st.rolled == nil {
		return f, err
	}
	per := [4]int64{}
	for i, t := range []*parted{rawTable, minuteTable, hourTable, dayTable} {
		if per[i], err = s.bytesPerDay(ctx, t, *st.rolled); err != nil {
			return f, err
		}
	}
	full := func(bytes int64, keep time.Duration) int64 {
		return bytes * int64(min(keep, 10*year)/day+1)
	}
	r := s.o.Retention
	f = Forecast{Raw: full(per[0], r.Raw), Minute: full(per[1], r.Minute), Hour: full(per[2], r.Hour), DayPerYear: per[3] * 365, Known: per[1] > 0}
	f.Total = f.Raw + f.Minute + f.Hour + full(per[3], r.Day)
	return f, nil
}
