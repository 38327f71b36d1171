package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"headroom/metric"
	"headroom/testkit/need"
)

// TestReadersDuringPacking: whoever reads with SQL while hours are packed sees
// all points, as before it or as after it.
func TestReadersDuringPacking(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		for _, q := range []string{
			"select count(*) from headroom.series s, headroom.series_points(s.id, '-infinity', 'infinity')",
			"select count(*) from headroom.point",
			"select sum(count)::bigint from headroom.minute",
			"select sum(count)::bigint from headroom.hour",
			"select sum(count)::bigint from headroom.day",
			"select sum(p.count)::bigint from headroom.series s, headroom.series_minutes(s.id, '2026-03-01', '2026-03-02') p",
			"select sum(p.count)::bigint from headroom.series s, headroom.series_hours(s.id, '2026-03-01', '2026-03-02') p",
			"select sum(p.count)::bigint from headroom.series s, headroom.series_days(s.id, '2026-03-01', '2026-03-02') p",
		} {
			if n := readDuringPacking(t, base(t, major), q); n != 300 {
				t.Errorf("%s counts %d of 300 points", q, n)
			}
		}
	})
}

// readDuringPacking runs a query that begins while the packer has emptied the
// hot table and not committed.
func readDuringPacking(t *testing.T, dsn, q string) int64 {
	t.Helper()
	ctx := context.Background()
	c := newClock("2026-03-01 12:59:00")
	s := openStore(t, dsn, c)
	var ps []metric.Point
	for i := range 300 {
		ps = append(ps, pt(at("2026-03-01 12:00:00").Add(time.Duration(i)*10*time.Second), float64(i)))
	}
	write(t, s, batch(row(series("m"), ps...)))
	c.set(at("2026-03-01 13:05:00"))
	gate, err := dial(t, dsn).Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gate.Exec(ctx, "lock table headroom.store_hour_packed in share mode"); err != nil {
		t.Fatal(err)
	}
	pg, see := dial(t, dsn), dial(t, dsn)
	waiting := func(n int) {
		t.Helper()
		need.Eventually(t, 20*time.Second, fmt.Sprintf("%d wait for a lock", n), func() bool {
			return one[int64](t, see, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'") == int64(n)
		})
	}
	packed, read := make(chan error, 1), make(chan error, 1)
	go func() { packed <- s.Maintain(ctx) }()
	waiting(1)
	var n int64
	go func() { read <- pg.QueryRow(ctx, q).Scan(&n) }()
	waiting(2)
	if err := gate.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-packed; err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return n
}
