package metric

import (
	"testing"
	"time"
)

// What a sender is told of a refused time is in units that people use.
func TestWindowTellsItsLengths(t *testing.T) {
	w, now := Window{Past: 14 * 24 * time.Hour, Future: 5 * time.Minute}, time.UnixMilli(1795269600000)
	for at, want := range map[int64]string{
		1:                                 "older than the 14 days that are taken",
		now.AddDate(1, 0, 0).UnixMilli():  "time is more than 5 min ahead of this server's clock",
		now.Add(-time.Minute).UnixMilli(): "",
	} {
		if got := w.Why(Point{At: at, Value: 1}, now); got != want {
			t.Errorf("%d: %q, want %q", at, got, want)
		}
	}
}
