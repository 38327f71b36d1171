package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// A clock that jumps must cost nothing that is stored. So days are rolled up
// and dropped by a clock of our own: it is the machine's where that goes on as
// time does, or falls back. Where the machine's is ahead, because it was set
// forward or Headroom was down, ours goes on at its own pace until the machine
// has been at the new time for two days of running, or comes back.
const (
	doubtFrom  = time.Hour   // less is a clock that was put right
	doubtUntil = 2 * day     // of running; the shortest time for which points are kept
	saveClock  = time.Minute // how much of the running a crash may have forgotten
)

// trusted is the clock that days end by.
type trusted struct {
	at      time.Time     // zero: not known yet
	lived   time.Duration // Options.Lived then; to begin with, when the store was opened
	doubted time.Duration // how long the machine's clock has been ahead; meaningful with doubt
	doubt   bool
	saved   time.Time // at, as the store has it
}

// trust moves our clock on and returns it. Where no points come, it stays at
// the newest: what is not replaced is not dropped.
func (s *Store) trust(ctx context.Context, now time.Time) (time.Time, error) {
	s.emu.Lock()
	c := s.clock
	s.emu.Unlock()
	lived := s.o.Lived()
	if c.at.IsZero() {
		kept, err := s.readClock(ctx, now)
		if err != nil {
			return now, err
		}
		kept.lived = c.lived
		c = kept
	}
	was := c.doubt
	c.on(now, lived)
	if c.doubt && !was {
		s.o.Log(fmt.Sprintf("store: the clock is %s ahead of what is stored: it was set forward, or Headroom was down; days are rolled up and dropped as before that until it has run for %s so", days(now.Sub(c.at)), days(doubtUntil)))
	}
	if c.doubt != was || c.at.Sub(c.saved).Abs() >= saveClock {
		if err := s.saveClock(ctx, &c); err != nil {
			return now, err
		}
	}
	s.emu.Lock()
	s.clock = c
	s.emu.Unlock()
	if newest := s.head.latest(); newest > 0 && newest < c.at.UnixMilli() {
		return time.UnixMilli(newest), nil
	}
	return c.at, nil
}

// on moves the clock on by what has passed.
func (c *trusted) on(now time.Time, lived time.Duration) {
	passed := lived - c.lived
	c.at, c.lived = c.at.Add(passed), lived
	if now.Sub(c.at) < doubtFrom {
		c.at, c.doubt, c.doubted = now, false, 0
		return
	}
	if c.doubt {
		c.doubted += passed
	}
	c.doubt = true
	if c.doubted >= doubtUntil {
		c.at, c.doubt, c.doubted = now, false, 0
	}
}

// readClock is our clock as the last pass left it; in a store that has none
// yet, the newest point's time.
func (s *Store) readClock(ctx context.Context, now time.Time) (trusted, error) {
	var at *time.Time
	var doubted *float64
	if err := s.maint.QueryRow(ctx, "select clock, doubted from headroom.store_state").Scan(&at, &doubted); err != nil {
		return trusted{}, err
	}
	c := trusted{at: now}
	if newest := s.head.latest(); newest > 0 {
		c.at = time.UnixMilli(newest)
	}
	if at != nil {
		c.at, c.saved = *at, *at
	}
	if doubted != nil {
		c.doubt, c.doubted = true, time.Duration(*doubted*float64(time.Second))
	}
	return c, nil
}

func (s *Store) saveClock(ctx context.Context, c *trusted) error {
	var doubted *float64
	if c.doubt {
		seconds := c.doubted.Seconds()
		doubted = &seconds
	}
	c.saved = c.at
	return s.inMaint(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "update headroom.store_state set clock = $1, doubted = $2", c.at, doubted)
		return err
	})
}

// clockText says what is wrong with the machine's clock, as far as the store
// sees it; "" if nothing is.
func (s *Store) clockText(now, newest time.Time) string {
	s.emu.Lock()
	c := s.clock
	s.emu.Unlock()
	switch {
	case c.doubt:
		return fmt.Sprintf("the clock is %s ahead of what was stored before: it was set forward, or Headroom was down. Nothing is dropped because of that until it has run for %s so (%s to go)",
			days(now.Sub(c.at)), days(doubtUntil), days(doubtUntil-c.doubted))
	case newest.Sub(now) > doubtFrom:
		return fmt.Sprintf("points of a time to come are stored, up to %s: the clock was set back. They stay, and are shown when that time comes", newest.UTC().Format("2006-01-02 15:04 UTC"))
	}
	return ""
}

// days is a span in words that a person reads.
func days(d time.Duration) string {
	d = d.Round(time.Minute)
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%d days", d/day)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", d/time.Hour)
	}
	return fmt.Sprintf("%d minutes", max(d, 0)/time.Minute)
}
