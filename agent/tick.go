package agent

import "time"

// ticks yields the times of rounds: multiples of an interval by the wall
// clock, waited for by the monotonic one. A wall clock that jumps moves the
// times and nothing else: the next round still comes within one interval, and
// no time comes twice in a row.
type ticks struct {
	now  func() time.Time
	last time.Time
}

// next is the time of the next round, and how long to wait for it.
func (t *ticks) next(every time.Duration) (at time.Time, wait time.Duration) {
	now := t.now()
	at = now.Truncate(every).Add(every)
	if at.Equal(t.last) { // the clock went back a little
		at = at.Add(every)
	}
	return at, min(at.Sub(now), every)
}

// settle is what the round is called in the end: the time that was planned,
// unless the wall clock jumped while we waited.
func (t *ticks) settle(planned time.Time, every time.Duration) time.Time {
	if d := t.now().Sub(planned); d < -every/2 || d > every {
		planned = t.now().Truncate(every)
	}
	if planned.Equal(t.last) {
		planned = planned.Add(every)
	}
	t.last = planned
	return planned
}
