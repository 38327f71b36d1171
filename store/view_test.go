package store

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/metric"
)

// TestViewsSayTheSameBeforeAndAfterTheRollUp reads minutes, hours and days by
// SQL while they are made of the points, and again when the day is packed.
func TestViewsSayTheSameBeforeAndAfterTheRollUp(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		dsn := base(t, major)
		c := newClock("2026-03-01 00:00:00")
		s := openStore(t, dsn, c)
		g, n := series(`temperature_celsius{host="a"}`), series(`requests_total{host="a"}`)
		start, count := c.now(), 0.0
		for i := range 24 * 60 * 2 {
			at := start.Add(time.Duration(i) * 30 * time.Second)
			c.set(at)
			if i%1000 == 999 {
				count = 0 // a restart
			}
			count += float64(i % 7)
			write(t, s, batch(row(g, pt(at, float64(i%60))), row(n, pt(at, count))))
			if i%120 == 2 {
				maintain(t, s)
			}
		}
		pg := dial(t, dsn)
		before := readViews(t, pg)
		if len(before) != 2*(24*60+24+1) {
			t.Fatalf("%d rows before the day is over", len(before))
		}
		c.set(start.Add(25 * time.Hour))
		write(t, s, batch(row(g, pt(c.now(), 1)))) // the newest point says what is over
		c.add(31 * time.Minute)
		maintain(t, s)
		if st := must(s.Status(context.Background())); !st.RolledTo.Equal(at("2026-03-02 00:00:00")) {
			t.Fatalf("rolled up to %s", st.RolledTo)
		}
		after := readViews(t, pg)
		for key, want := range before {
			got := after[key]
			for i := range want {
				if math.Abs(got[i]-want[i]) > 1e-9*math.Abs(want[i]) {
					t.Errorf("%s: %v of the points, %v packed", key, want, got)
					break
				}
			}
		}
	})
}

// readViews reads count, sum, min, max, last and increase of the first day's
// minutes, hours and day.
func readViews(t *testing.T, pg *pgx.Conn) map[string][6]float64 {
	t.Helper()
	out := map[string][6]float64{}
	for _, view := range []string{"minute", "hour", "day"} {
		rows, err := pg.Query(context.Background(), "select s.name, v.at, v.count::float8, v.sum, v.min, v.max, v.last, coalesce(v.increase, -1) from headroom."+view+" v join headroom.series s on s.id = v.series where v.day = '2026-03-01'")
		if err != nil {
			t.Fatal(err)
		}
		var name string
		var at time.Time
		var v [6]float64
		_, err = pgx.ForEachRow(rows, []any{&name, &at, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5]}, func() error {
			key := fmt.Sprint(view, " ", name, " ", at.UTC())
			if _, twice := out[key]; twice {
				t.Errorf("%s is there twice", key)
			}
			out[key] = v
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestThePointViewShowsTheLaterOfTwo(t *testing.T) {
	c := newClock("2026-03-01 10:00:00")
	dsn := base(t, 0)
	s := openStore(t, dsn, c)
	g := series(`x{host="a"}`)
	write(t, s, batch(row(g, pt(c.now(), 1))))
	write(t, s, batch(row(g, pt(c.now(), 2), metric.Point{At: c.now().UnixMilli() + 1000, Value: 3})))
	pg := dial(t, dsn)
	if got := one[int64](t, pg, "select count(*) from headroom.point"); got != 2 {
		t.Errorf("%d points, want 2", got)
	}
	if got := one[float64](t, pg, "select sum(value) from headroom.point"); got != 5 {
		t.Errorf("the values add up to %v, want 2 + 3", got)
	}
}
