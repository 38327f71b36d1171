package store

import (
	"context"
	"slices"
	"testing"
	"time"

	"headroom/metric"
)

// TestRetentionDropsPartitions: what is over goes by DROP, level by level, the
// answers say so, and nothing that is kept is touched.
func TestRetentionDropsPartitions(t *testing.T) {
	dsn := base(t, 0)
	c := newClock("2026-01-30 00:00:00")
	s := openStore(t, dsn, c, func(o *Options) { o.Retention = must(ParseRetention("raw:2d,1m:4d,1h:8d,1d:forever")) })
	x, pg := series("x_total"), dial(t, dsn)
	start := c.now()
	for i := range 12 * 24 * 6 {
		c.set(start.Add(time.Duration(i) * 10 * time.Minute))
		write(t, s, batch(row(x, pt(c.now(), float64(i)))))
		if i%(6*6) == 20 {
			maintain(t, s)
		}
	}
	c.add(5 * time.Minute)
	maintain(t, s)
	for table, want := range map[*parted]string{rawTable: "2026-02-08", minuteTable: "2026-02-06", hourTable: "2026-02-01", dayTable: "2026-01-01"} {
		starts := must(table.list(context.Background(), pg))
		if got := starts[0].Format(time.DateOnly); got != want {
			t.Errorf("%s begins at %s, want %s", table.name, got, want)
		}
	}
	for _, q := range []struct {
		back, step, want time.Duration
		made             string
		warned           bool
	}{
		{time.Hour, 10 * time.Minute, 10 * time.Minute, "raw", false},
		{3 * day, 10 * time.Minute, 10 * time.Minute, "1m", false},
		{7 * day, 10 * time.Minute, time.Hour, "1h", true},
		{12 * day, 10 * time.Minute, day, "1d", true},
		{12 * day, day, day, "1d", false},
	} {
		f := query(t, s, Query{Match: named("x_total"), From: c.now().Add(-q.back), To: c.now(), Step: q.step, Func: "increase"})
		if f.Step != q.want || f.Resolution != q.made || (len(f.Warnings) > 0) != q.warned {
			t.Errorf("%s back by %s: step %s of %s, %v", q.back, q.step, f.Step, f.Resolution, f.Warnings)
		}
		total := 0.0
		for _, v := range f.Lines[0].Values {
			if v == v {
				total += v
			}
		}
		// Points rise by one each; the first step may begin a day before.
		if most := q.back.Minutes()/10 + 144; total > most || total < q.back.Minutes()/10-1 {
			t.Errorf("%s back: increase %v", q.back, total)
		}
	}
	if _, err := ParseRetention("raw:1d"); err == nil {
		t.Error("raw for a day is taken")
	}
	if _, err := ParseRetention("1m:3y"); err == nil {
		t.Error("minutes for longer than hours are taken")
	}
	for _, text := range []string{"1m", "2m:3d", "1m:", "1m:-3d", "1m:3", "1m:99999999999999d", "1h:forever,1d:2y"} {
		if _, err := ParseRetention(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if got := must(ParseRetention(" 1m:14d, 1h:2y,1d:forever")).String(); got != "raw:2d,1m:14d,1h:2y,1d:forever" {
		t.Error(got)
	}
}

// TestLateAfterDrop: points that come when the day's points are gone are added
// to its roll-ups, once, also where a packing was broken off.
func TestLateAfterDrop(t *testing.T) {
	dsn := base(t, 0)
	c := newClock("2026-03-01 00:00:00")
	s := openStore(t, dsn, c)
	g, n, pg := series("g"), series("n_total"), dial(t, dsn)
	var gs, ns []metric.Point
	for i := range 48 {
		gs = append(gs, pt(at("2026-03-01 00:10:00").Add(time.Duration(i)*30*time.Minute), float64(i%5)))
		ns = append(ns, pt(at("2026-03-01 00:10:00").Add(time.Duration(i)*30*time.Minute), float64(i)))
	}
	write(t, s, batch(row(g, gs[:20]...), row(n, ns[:20]...)))
	c.set(at("2026-03-06 12:00:00"))
	write(t, s, batch(row(g, pt(c.now(), 1)), row(n, pt(c.now(), 1))))
	maintain(t, s)
	maintain(t, s)
	if got := must(rawTable.list(context.Background(), pg)); !slices.ContainsFunc(got, func(d time.Time) bool { return d.Equal(at("2026-03-01 00:00:00")) }) == false {
		t.Fatalf("the day's points are still there: %v", got)
	}
	for _, part := range [][2]int{{20, 30}, {30, 48}} {
		write(t, s, batch(row(g, gs[part[0]:part[1]]...), row(n, ns[part[0]:part[1]]...)))
		c.add(time.Hour)
		maintain(t, s)
	}
	for x, ps := range map[*metric.Series][]metric.Point{g: gs, n: ns} {
		for view, width := range map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": day} {
			want := recompute(ps, width, isCounter(x.Name), at("2026-03-02 00:00:00"))
			var got sqlRow
			row := pg.QueryRow(context.Background(), "select min(at), sum(count)::bigint, sum(sum), min(min), max(max), sum(increase) from headroom."+view+" where series = $1 and day = '2026-03-01'", x.ID())
			if err := row.Scan(&got.At, &got.Count, &got.Sum, &got.Min, &got.Max, &got.Increase); err != nil {
				t.Fatal(err)
			}
			var count int64
			var sum float64
			for _, w := range want {
				count, sum = count+w.Count, sum+w.Sum
			}
			if got.Count != count || got.Sum != sum || got.Max != simply(ps, "max") {
				t.Errorf("%s by %s: %v, want %d points, sum %v", x, view, got, count, sum)
			}
		}
	}
	if got := one[float64](t, pg, "select increase from headroom.day where series = $1 and day = '2026-03-01'", n.ID()); got != 47 {
		t.Errorf("the day's increase is %v, want 47", got)
	}
}

// TestBatchesAreForgotten: only what no queue can hold any more, whatever the
// clock says.
func TestBatchesAreForgotten(t *testing.T) {
	dsn := base(t, 0)
	c := newClock("2026-03-01 00:00:00")
	s := openStore(t, dsn, c)
	pg := dial(t, dsn)
	b := batch(row(series("x"), pt(c.now(), 1)))
	write(t, s, b)
	for i := 1; i <= 20; i++ {
		if err := batchTable.create(context.Background(), pg, time.Now().AddDate(0, 0, -i)); err != nil {
			t.Fatal(err)
		}
	}
	maintain(t, s)
	if got := must(batchTable.list(context.Background(), pg)); len(got) != 10 || !got[9].After(time.Now()) {
		t.Errorf("%v", got)
	}
	c.add(-365 * day)
	maintain(t, s)
	write(t, s, b)
	if got := one[int64](t, pg, "select count(*) from headroom.point"); got != 1 {
		t.Errorf("%d points", got)
	}
}
