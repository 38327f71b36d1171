package store

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"headroom/metric"
)

func TestBadPoints(t *testing.T) {
	c := newClock("2026-03-01 10:00:00")
	dsn := base(t, 0)
	s := openStore(t, dsn, c, func(o *Options) { o.MaxSeries = 5 })
	bomb := batch()
	for i := range 10 {
		bomb.Rows = append(bomb.Rows, row(series(fmt.Sprintf(`x{request="%d"}`, i)), pt(c.now(), 1)))
	}
	for what, b := range map[string]*metric.Batch{
		"NaN":       batch(row(series("x"), pt(c.now(), math.NaN()))),
		"infinite":  batch(row(series("x"), pt(c.now(), math.Inf(1)))),
		"1970":      batch(row(series("x"), metric.Point{At: 1000, Value: 1})),
		"next year": batch(row(series("x"), pt(c.now().AddDate(1, 0, 0), 1))),
		"bomb":      bomb,
	} {
		if err := s.Write(context.Background(), []*metric.Batch{b}); err == nil || !IsPermanent(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	write(t, s, batch(row(series("x"), pt(c.now(), 1))))
	pg := dial(t, dsn)
	if n := one[int64](t, pg, "select count(*) from headroom.series"); n != 1 {
		t.Errorf("%d series", n)
	}
	y := series(`y{a="1"}`)
	do(t, pg, "insert into headroom.series values ($1, 'z', '{}', 'z', now())", y.ID())
	err := s.Write(context.Background(), []*metric.Batch{batch(row(y, pt(c.now(), 1)))})
	if err == nil || !IsPermanent(err) || !strings.Contains(err.Error(), `y{a="1"}`) || !strings.Contains(err.Error(), "stored series z") {
		t.Errorf("a second key of one id: %v", err)
	}
}

// TestHostileLabels: any text comes back as it went in, and conditions on it
// hold for it alone.
func TestHostileLabels(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := newClock("2026-03-01 10:00:00")
		dsn := base(t, major)
		s := openStore(t, dsn, c)
		texts := []string{`it's "quoted" \ back`, "😀\u202e", strings.Repeat("é", 512), "a\nb\tc\x01", "'; drop table x; --", "%s $1 {}", "NULL", `{"a": 1}`, ".*", "a|b"}
		b := batch()
		for _, v := range texts {
			b.Rows = append(b.Rows, row(must(metric.NewSeries("x", []metric.Label{{Name: "v", Value: v}, {Name: "user", Value: "a"}})), pt(c.now(), 1)))
		}
		write(t, s, b)
		for _, v := range texts {
			got := must(s.Series(context.Background(), []Match{{"__name__", "=", "x"}, {"v", "=", v}}, time.Time{}, time.Time{}, 0))
			if len(got) != 1 || got[0].Series.Get("v") != v {
				t.Errorf("%q: %v", v, got)
			}
			if n := len(must(s.LabelValues(context.Background(), "v", []Match{{"v", "!=", v}}))); n != len(texts)-1 {
				t.Errorf("%q: %d others", v, n)
			}
		}
		if n := len(must(s.LabelValues(context.Background(), "v", []Match{{"__name__", "=~", "x|y"}, {"v", "=~", "a.b.c.|NULL"}}))); n != 2 {
			t.Errorf("%d by a regular expression", n)
		}
		if got := must(s.Last(context.Background(), []Match{{"v", "!~", ".+"}})); len(got) != 0 {
			t.Errorf("%v", got)
		}
		if _, err := s.Last(context.Background(), []Match{{"v", "=~", "("}}); err == nil {
			t.Error("a broken expression is taken")
		}
	})
}

// TestClockJumps: neither a clock a year ahead nor one a year behind drops
// anything or makes partitions without end.
func TestClockJumps(t *testing.T) {
	dsn := base(t, 0)
	c := newClock("2026-03-01 10:00:00")
	s := openStore(t, dsn, c)
	x, pg := series("x"), dial(t, dsn)
	m := model{}
	put := func(at time.Time, v float64) {
		b := batch(row(x, pt(at, v)))
		write(t, s, b)
		m.write(b)
	}
	for i := range 30 {
		put(c.now(), float64(i))
		c.add(time.Hour)
		maintain(t, s)
	}
	right := c.now()
	for _, jump := range []int{1, -1, 1} {
		c.set(right.AddDate(jump, 0, 0))
		maintain(t, s)
		put(right.Add(time.Duration(jump)*time.Minute), 7) // an agent whose clock is right
		c.add(time.Hour)
		maintain(t, s)
	}
	c.set(right)
	maintain(t, s)
	if n := one[int64](t, pg, "select count(*) from pg_inherits"); n > 60 {
		t.Errorf("%d partitions", n)
	}
	agree(t, pg, m, must(s.Status(context.Background())).RolledTo)
}
