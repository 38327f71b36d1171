package queue

import (
	"math"
	"time"
)

// Room is how long the queue can take bytes at a rate (per second) while
// nobody reads: until its own limit, or until the disk has no more than
// minFree left, whichever is first. Without a rate it is as long as can be.
func (s Status) Room(rate float64, minFree int64) time.Duration {
	room := float64(s.Limit) - float64(s.Bytes)
	if s.DiskFree > 0 {
		room = min(room, float64(s.DiskFree)-float64(minFree))
	}
	seconds := max(room, 0) / rate
	if math.IsNaN(seconds) || seconds > math.MaxInt64/1e9 {
		return math.MaxInt64
	}
	return time.Duration(seconds * float64(time.Second))
}
