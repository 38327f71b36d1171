package queue

import (
	"math"
	"testing"
	"time"
)

func TestRoom(t *testing.T) {
	s := Status{Limit: 7200 * 1000, Bytes: 3600 * 1000, DiskFree: 1 << 40}
	for _, c := range []struct {
		s    Status
		rate float64
		want time.Duration
	}{
		{s, 1000, time.Hour}, {s, 0, math.MaxInt64}, {Status{}, 0, math.MaxInt64}, {s, 1e-300, math.MaxInt64},
		{Status{Limit: 10, Bytes: 20}, 1, 0},
		{Status{Limit: 1 << 40, DiskFree: 1000 + 60}, 1, time.Minute},
		{Status{Limit: 1 << 40, DiskFree: 500}, 1, 0},
	} {
		if got := c.s.Room(c.rate, 1000); got != c.want {
			t.Errorf("%+v at %g bytes a second: %s, want %s", c.s, c.rate, got, c.want)
		}
	}
}
