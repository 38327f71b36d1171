package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// state is what the store knows of itself.
type state struct {
	epoch                                  int64
	rolled                                 *time.Time // days before it have roll-ups; nil: none has
	slice                                  int        // of the day `rolled`, parts that have
	rawFrom, minuteFrom, hourFrom, dayFrom *time.Time // days before it were dropped; nil: none was
}

func readState(ctx context.Context, c execer) (*state, error) {
	var st state
	err := c.QueryRow(ctx, "select epoch, rolled, slice, raw_from, minute_from, hour_from, day_from from headroom.store_state").
		Scan(&st.epoch, &st.rolled, &st.slice, &st.rawFrom, &st.minuteFrom, &st.hourFrom, &st.dayFrom)
	return &st, err
}

// inMaint runs f in a transaction that fails if another process took the store.
func (s *Store) inMaint(ctx context.Context, f func(tx pgx.Tx) error) error {
	s.wmu.Lock()
	ours := s.epoch
	s.wmu.Unlock()
	return pgx.BeginFunc(ctx, s.maint, func(tx pgx.Tx) error {
		var epoch int64
		if err := tx.QueryRow(ctx, "select epoch from headroom.store_state for update").Scan(&epoch); err != nil {
			return err
		}
		if epoch != ours {
			return errors.New("another process has taken the store")
		}
		return f(tx)
	})
}
