package store

import (
	"context"
	"math"
	"testing"
	"time"

	"headroom/metric"
)

// TestThreeDays writes three days of a gauge and a counter and reads them back
// at every resolution, in Go and in plain SQL, on both sides of a roll-up.
func TestThreeDays(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		dsn := base(t, major)
		c := newClock("2026-03-01 00:00:00")
		s := openStore(t, dsn, c)
		g, n := series(`temperature_celsius{host="a"}`), series(`requests_total{host="a"}`)
		start := c.now()
		count := 0.0
		for i := range 3 * 24 * 60 {
			at := start.Add(time.Duration(i) * time.Minute)
			c.set(at)
			if i%1000 == 999 {
				count = 0 // a restart
			}
			count += float64(i % 7)
			write(t, s, batch(row(g, pt(at, 20+float64(i%60)/10)), row(n, pt(at, count))))
			if i%60 == 2 {
				maintain(t, s)
			}
		}
		maintain(t, s)
		st := must(s.Status(context.Background()))
		if !st.RolledTo.Equal(at("2026-03-03 00:00:00")) || st.Problem != "" {
			t.Errorf("rolled up to %s, %q", st.RolledTo, st.Problem)
		}
		for _, step := range []time.Duration{time.Minute, 5 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour} {
			f := query(t, s, Query{Match: named("temperature_celsius"), From: start, To: c.now().Add(time.Minute), Step: step, Func: "count"})
			sum := 0.0
			for _, v := range f.Lines[0].Values {
				sum += v
			}
			if sum != 3*24*60 {
				t.Errorf("step %s, made of %s: %v points", step, f.Resolution, sum)
			}
			f = query(t, s, Query{Match: named("requests_total"), From: start, To: c.now().Add(time.Minute), Step: step, Func: "increase"})
			total := 0.0
			for _, v := range f.Lines[0].Values {
				if !math.IsNaN(v) {
					total += v
				}
			}
			want := 0.0
			for i := 1; i < 3*24*60; i++ {
				want += float64(i % 7)
			}
			if total != want {
				t.Errorf("step %s, made of %s: increase of %v, want %v", step, f.Resolution, total, want)
			}
		}
		pg := dial(t, dsn)
		if got := one[int64](t, pg, "select count(*) from headroom.point"); got != 2*3*24*60 {
			t.Errorf("%d points by SQL", got)
		}
		if got := one[int64](t, pg, "select sum(count) from headroom.minute join headroom.series on id = series where name = 'requests_total'"); got != 3*24*60 {
			t.Errorf("%d points in minutes by SQL", got)
		}
		var lo, hi, p50 float64
		if err := pg.QueryRow(context.Background(), "select min(min), max(max), avg(p50) from headroom.hour join headroom.series on id = series where name like 'temp%'").Scan(&lo, &hi, &p50); err != nil {
			t.Fatal(err)
		}
		if lo != 20 || hi != 25.9 || math.Abs(p50-22.95) > 0.5 {
			t.Errorf("hours by SQL: min %v, max %v, median %v", lo, hi, p50)
		}
	})
}

func TestOnceAndLatestWins(t *testing.T) {
	c := newClock("2026-03-01 10:00:00")
	s := openStore(t, base(t, 0), c)
	g := series(`x{host="a"}`)
	b := batch(row(g, pt(c.now(), 1)))
	write(t, s, b, b)
	write(t, s, b)
	write(t, s, batch(row(g, pt(c.now(), 2), metric.Point{At: c.now().UnixMilli() + 1000, Value: 3})))
	f := query(t, s, Query{Match: named("x"), From: c.now(), To: c.now().Add(time.Minute), Step: time.Second, Func: "sum"})
	if f.Lines[0].Values[0] != 2 || f.Lines[0].Values[1] != 3 || f.Resolution != "raw" {
		t.Errorf("%+v", f)
	}
}
