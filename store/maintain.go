package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/host"
)

const (
	closeGrace = 90 * time.Second // after an hour's end, for points on their way
	rollGrace  = 30 * time.Minute // after a day's end
	passEvery  = 15 * time.Second
)

// Run keeps the store in order until the context ends: Maintain every 15 s, and
// at once when memory for points is full. What fails is told to Log once and
// tried again after 15 s.
func (s *Store) Run(ctx context.Context) {
	told := ""
	for {
		err := s.Maintain(ctx)
		if ctx.Err() != nil {
			return
		}
		now := ""
		if err != nil {
			now = err.Error()
		}
		if now != told && now != "" {
			s.o.Log("store: " + now + "; trying again")
		} else if now != told {
			s.o.Log("store: in order again")
		}
		told = now
		full := s.full
		if err != nil {
			full = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-full:
		case <-time.After(passEvery):
		}
	}
}

// Maintain makes one pass: partitions ahead, hours that are over packed, days
// that are over rolled up, what came late repaired, what retention ends
// dropped. It does only what is due; each part is a transaction of its own, so
// that it can be broken off at any point.
func (s *Store) Maintain(ctx context.Context) error {
	s.mmu.Lock()
	defer s.mmu.Unlock()
	err := host.Plainly(s.pass(ctx))
	s.emu.Lock()
	defer s.emu.Unlock()
	s.passError = err
	if err != nil {
		return fmt.Errorf("maintain the store: %w", err)
	}
	return nil
}

func (s *Store) pass(ctx context.Context) error {
	now := s.o.Now()
	if err := s.ahead(ctx, now); err != nil {
		return err
	}
	if err := s.packDue(ctx, now); err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	clock, err := s.trust(ctx, now)
	if err != nil {
		return err
	}
	limit := dayStart(clock.Add(-rollGrace))
	if cut := s.packedUpTo(); cut.Before(limit) {
		limit = dayStart(cut)
	}
	return errors.Join(s.rollDays(ctx, limit), s.repair(ctx), s.expire(ctx, clock))
}

func (s *Store) ahead(ctx context.Context, now time.Time) error {
	for _, at := range []time.Time{now, now.Add(day)} {
		if err := rawTable.create(ctx, s.maint, at); err != nil {
			return err
		}
	}
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if err := s.ready(ctx); err != nil && !errors.Is(err, errBehind) {
		return err
	}
	return s.todaysBatches(ctx)
}

// packDue packs once for each hour, and in between where memory is short or
// the last time is long ago by the clock that does not jump.
func (s *Store) packDue(ctx context.Context, now time.Time) error {
	cutoff := now.Add(-closeGrace).Truncate(time.Hour)
	switch {
	case s.head.full(s.o.HeadBytes) || time.Since(s.packedAt) > 70*time.Minute:
		cutoff = time.UnixMilli(1<<62 - 1)
	case !s.retry() && s.packed.Equal(cutoff):
		return nil
	}
	if s.retry() { // what was written since it was begun is not part of it
		if err := s.pack(ctx, cutoff.UnixMilli()); err != nil {
			return err
		}
	}
	if err := s.pack(ctx, cutoff.UnixMilli()); err != nil {
		return err
	}
	s.packed, s.packedAt = now.Add(-closeGrace).Truncate(time.Hour), time.Now()
	return nil
}

// retry says that a packing was begun and not ended.
func (s *Store) retry() bool {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	return s.frozen
}

func (s *Store) packedUpTo() time.Time { return s.packed }

// expire drops the partitions that retention has ended.
func (s *Store) expire(ctx context.Context, clock time.Time) error {
	var errs []error
	r := s.o.Retention
	for _, l := range []struct {
		t      *parted
		keep   time.Duration
		column string
	}{{rawTable, r.Raw, "raw_from"}, {minuteTable, r.Minute, "minute_from"}, {hourTable, r.Hour, "hour_from"}, {dayTable, r.Day, "day_from"}} {
		if l.keep == Forever {
			continue
		}
		errs = append(errs, s.expireTable(ctx, l.t, clock.Add(-l.keep), l.column))
	}
	return errors.Join(append(errs, s.expireBatches(ctx))...)
}

func (s *Store) expireTable(ctx context.Context, t *parted, before time.Time, column string) error {
	starts, err := t.list(ctx, s.maint)
	if err != nil {
		return err
	}
	for _, start := range starts {
		end := t.next(start)
		if end.After(before) {
			return nil
		}
		err := s.inMaint(ctx, func(tx pgx.Tx) error {
			if t == rawTable {
				ready := false
				err := tx.QueryRow(ctx, `select coalesce(rolled > $1::date, false) and not exists (select from headroom.store_dirty where day = $1::date) from headroom.store_state`, start).Scan(&ready)
				if err != nil || !ready {
					return err
				}
				if err := dropRaw(ctx, tx, start); err != nil {
					return err
				}
			} else if err := t.dropPart(ctx, tx, start); err != nil {
				return err
			}
			// The column's name is one of four above.
			_, err := tx.Exec(ctx, "update headroom.store_state set "+column+" = greatest("+column+", $1::date)", end)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func dropRaw(ctx context.Context, tx pgx.Tx, d time.Time) error {
	if _, err := tx.Exec(ctx, "delete from headroom.store_hour_packed where hour >= $1 and hour < $2", d, d.Add(day)); err != nil {
		return err
	}
	return rawTable.dropPart(ctx, tx, d)
}

// expireBatches forgets the IDs of batches that no queue can hold any more.
// The newest days stay whatever the clock says.
func (s *Store) expireBatches(ctx context.Context) error {
	starts, err := batchTable.list(ctx, s.maint)
	if err != nil {
		return err
	}
	keep := int(BatchMemory/day) + 2 // today and tomorrow, beside what is promised
	for len(starts) > keep {
		if err := s.inMaint(ctx, func(tx pgx.Tx) error { return batchTable.dropPart(ctx, tx, starts[0]) }); err != nil {
			return err
		}
		starts = starts[1:]
	}
	return nil
}
