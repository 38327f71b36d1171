package store

import (
	"testing"
)

// TestNewestAfterStart: days to come have partitions, but the newest point
// that a new start tells of is one that there is.
func TestNewestAfterStart(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		dsn, c := base(t, major), newClock("2026-11-21 15:00:00")
		s := openStore(t, dsn, c)
		maintain(t, s)
		s.Close()
		s = openStore(t, dsn, c)
		if st := must(s.Status(t.Context())); !st.Newest.IsZero() {
			t.Errorf("with no point the newest is of %s", st.Newest)
		}
		point := c.now()
		write(t, s, batch(row(series(`x_total{host="a"}`), pt(point, 1))))
		s.Close()
		s = openStore(t, dsn, c)
		if st := must(s.Status(t.Context())); !st.Newest.Equal(point) || st.Lag != 0 {
			t.Errorf("newest %s, lag %s; want %s, 0", st.Newest, st.Lag, point)
		}
		c.set(at("2026-11-22 17:00:00"))
		write(t, s, batch(row(series(`x_total{host="a"}`), pt(c.now(), 2))))
		maintain(t, s) // the first one is packed now, the second waits
		s.Close()
		s = openStore(t, dsn, c)
		if st := must(s.Status(t.Context())); !st.Newest.Equal(c.now()) {
			t.Errorf("newest %s; want %s", st.Newest, c.now())
		}
	})
}
