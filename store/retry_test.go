package store

import (
	"context"
	"testing"
	"time"
)

// TestPackedAnewPacksAll: a packing that failed is ended at the next pass, and
// what came in between is packed in that pass, too: the day that is rolled up
// right after has all of its points.
func TestPackedAnewPacksAll(t *testing.T) {
	dsn := base(t, 0)
	c := newClock("2026-03-01 10:10:00")
	s := openStore(t, dsn, c)
	x, pg := series("x_total"), dial(t, dsn)
	m := model{}
	put := func(ago time.Duration, v float64) {
		b := batch(row(x, pt(c.now().Add(-ago), v)))
		write(t, s, b)
		m.write(b)
	}
	put(time.Minute, 1)
	maintain(t, s)
	c.add(2 * time.Hour)
	do(t, pg, "alter table headroom.store_hour_packed rename to away")
	if err := s.Maintain(context.Background()); err == nil {
		t.Fatal("packed without one of its tables")
	}
	do(t, pg, "alter table headroom.away rename to store_hour_packed")
	put(time.Hour, 2) // after the points that are being packed were set apart
	c.add(26 * time.Hour)
	put(0, 3)
	maintain(t, s)
	rolled := must(s.Status(context.Background())).RolledTo
	if !rolled.After(at("2026-03-01 00:00:00")) {
		t.Fatalf("rolled up to %s", rolled)
	}
	agree(t, pg, m, rolled)
}
