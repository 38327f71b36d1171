package loop

import (
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

// restEvery is long against a transaction, so that the clients' rests overlap,
// and short against a round.
const restEvery = 50 * time.Millisecond

// owed is the rest that lowers the rate over the time worked by Throttle.
func (c *client) owed() time.Duration {
	return time.Duration(float64(c.worked) * c.Throttle / (1 - c.Throttle))
}

// pause rests if a new period has begun, and returns the time then.
func (c *client) pause(now time.Duration) time.Duration {
	if c.Throttle == 0 || c.plan != nil {
		return now
	}
	period := int64(float64(now) * (1 - c.Throttle) / float64(restEvery))
	if period == c.rest {
		return now
	}
	c.rest = period
	c.sleepUntil(now + c.owed())
	c.worked = 0
	return time.Since(c.start)
}

// sleepUntil waits until t after the start, or until the run is stopped. The
// runtime's timers wake up to a millisecond late, which would show in latencies
// from the due time; so the thread itself sleeps, in slices.
func (c *client) sleepUntil(t time.Duration) {
	for !c.stop.Load() {
		left := t - time.Since(c.start)
		if left <= 0 {
			return
		}
		if c.yield != nil {
			c.yield(event{fd: -1, until: t})
			continue
		}
		ts := syscall.NsecToTimespec(int64(min(left, 20*time.Millisecond)))
		_ = syscall.Nanosleep(&ts, nil) // a signal only ends a slice early
	}
}

// schedule deals out due times to whichever client is free.
type schedule struct {
	mu   sync.Mutex
	gap  float64 // mean distance, seconds
	even bool
	at   float64 // the next due time, seconds after the start
	rng  *rand.Rand
}

func newSchedule(rate float64, even bool, seed uint64) *schedule {
	s := &schedule{gap: 1 / rate, even: even, rng: rand.New(rand.NewPCG(seed, 0x5ced))}
	s.advance()
	return s
}

func (s *schedule) advance() {
	step := s.gap
	if !s.even {
		step *= s.rng.ExpFloat64()
	}
	s.at += step
}

// next is the next due time before end; an end of 0 is no end.
func (s *schedule) next(end time.Duration) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := time.Duration(s.at * float64(time.Second))
	if end > 0 && due >= end {
		return 0, false
	}
	s.advance()
	return due, true
}
