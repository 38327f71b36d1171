package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/metric"
)

// catchUp reads into the head what the hot tables hold beyond what it has:
// after a start all of it, after a broken connection the write whose fate was
// unknown.
func (s *Store) catchUp(ctx context.Context) error {
	if err := s.ensure(ctx); err != nil {
		return err
	}
	if err := s.todaysBatches(ctx); err != nil {
		return err
	}
	if s.seq == 0 {
		if err := s.begin(ctx); err != nil {
			return err
		}
	}
	rows, err := s.writer.Query(ctx, `select seq, series, at, value from (
		select * from headroom.store_hot_0 union all select * from headroom.store_hot_1) h where seq > $1 order by seq`, s.seq)
	if err != nil {
		return err
	}
	h := s.head
	h.mu.Lock()
	defer h.mu.Unlock()
	var seq int64
	var ids, at []int64
	var value []float64
	_, err = pgx.ForEachRow(rows, []any{&seq, &ids, &at, &value}, func() error {
		if len(ids) != len(at) || len(at) != len(value) {
			return fmt.Errorf("a hot table has a row with %d series, %d times and %d values", len(ids), len(at), len(value))
		}
		for i, id := range ids {
			h.add(h.entry(id, 0), metric.Point{At: at[i], Value: value[i] + 0})
		}
		s.seq = max(s.seq, seq)
		return nil
	})
	return err
}

// begin is what a new hold starts with: all hot points in one table, and the
// newest time that is known.
func (s *Store) begin(ctx context.Context) error {
	tx, err := s.writer.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	for _, sql := range []string{
		"lock table headroom.store_hot_1 in access exclusive mode",
		"insert into headroom.store_hot_0 select * from headroom.store_hot_1",
		"truncate headroom.store_hot_1",
	} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return fmt.Errorf("join the hot tables: %w", err)
		}
	}
	if err := tx.QueryRow(ctx, "select count(*) from headroom.series").Scan(&s.nids); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	s.hot = 0
	day, err := s.newestDay(ctx)
	if err == nil && !day.IsZero() {
		s.head.met(day)
	}
	return err
}

// newestDay is the start of the newest day that holds packed points; zero:
// none does. Days to come have partitions already, and nothing in them.
func (s *Store) newestDay(ctx context.Context) (time.Time, error) {
	days, err := rawTable.list(ctx, s.writer)
	if err != nil {
		return time.Time{}, err
	}
	for _, day := range slices.Backward(days) {
		var some bool
		if err := s.writer.QueryRow(ctx, "select exists (select from headroom."+rawTable.child(day)+")").Scan(&some); err != nil {
			return time.Time{}, err
		}
		if some {
			return day, nil
		}
	}
	return time.Time{}, nil
}

func (h *head) met(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newest = max(h.newest, at.UnixMilli())
}
