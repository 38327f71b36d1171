package store

import (
	"context"
	"strings"
	"testing"
	"time"

	"headroom/metric"
)

// clocked is a store of five days, hour by hour, of which three are rolled up
// and one was dropped.
type clocked struct {
	t    *testing.T
	dsn  string
	c    *clock
	s    *Store
	x    *metric.Series
	sent int
}

func newClocked(t *testing.T) *clocked {
	k := &clocked{t: t, dsn: base(t, 0), c: newClock("2026-03-01 00:00:00"), x: series("x")}
	k.s = openStore(t, k.dsn, k.c)
	k.run(5 * day)
	return k
}

// run has hours pass, with a point each.
func (k *clocked) run(d time.Duration) {
	k.t.Helper()
	for range d / time.Hour {
		k.c.add(time.Hour)
		write(k.t, k.s, batch(row(k.x, pt(k.c.now(), 1))))
		k.sent++
		if k.c.now().Hour()%6 == 0 {
			maintain(k.t, k.s)
		}
	}
	maintain(k.t, k.s)
}

func (k *clocked) again() {
	k.s.Close()
	k.s = openStore(k.t, k.dsn, k.c)
	maintain(k.t, k.s)
}

// oldest is the first day that has points, and minutes.
func (k *clocked) oldest() (raw, minute string) {
	k.t.Helper()
	pg := dial(k.t, k.dsn)
	first := func(t *parted) string { return must(t.list(context.Background(), pg))[0].Format(time.DateOnly) }
	return first(rawTable), first(minuteTable)
}

func (k *clocked) keeps(when, raw, minute string) {
	k.t.Helper()
	if r, m := k.oldest(); r != raw || m != minute {
		k.t.Errorf("%s: points since %s, minutes since %s; want %s, %s", when, r, m, raw, minute)
	}
	pg := dial(k.t, k.dsn)
	if n := one[int64](k.t, pg, "select sum(count)::bigint from headroom.day"); n != int64(k.sent) {
		k.t.Errorf("%s: %d points of %d", when, n, k.sent)
	}
}

func (k *clocked) says(text string) {
	k.t.Helper()
	if got := must(k.s.Status(context.Background())).Clock; text == "" && got != "" || !strings.Contains(got, text) {
		k.t.Errorf("it says %q of the clock, want %q", got, text)
	}
}

// TestClockSetForwardAndBack: nothing is dropped and no day is taken for over,
// by a day or by a year, also through a restart; when the clock is back all
// goes on as before.
func TestClockSetForwardAndBack(t *testing.T) {
	for _, by := range []time.Duration{day + 7*time.Minute, year} {
		t.Run(by.String(), func(t *testing.T) {
			k := newClocked(t)
			k.keeps("before", "2026-03-04", "2026-03-01")
			k.says("")
			k.c.jump(by)
			k.run(2 * time.Hour)
			k.says("ahead of what was stored")
			k.again()
			k.run(2 * time.Hour)
			k.says("ahead of what was stored")
			k.keeps("ahead", "2026-03-04", "2026-03-01")
			k.c.jump(-by)
			k.run(2 * time.Hour)
			k.keeps("back", "2026-03-04", "2026-03-01")
			k.says("a time to come")
			if st := must(k.s.Status(t.Context())); st.RolledTo.After(k.c.now()) || st.Lag < 0 {
				t.Errorf("rolled up to %s, lag %s", st.RolledTo, st.Lag)
			}
			k.again()
			k.run(2 * day)
			k.keeps("two days later", "2026-03-06", "2026-03-01")
			f := query(t, k.s, Query{Match: named("x"), From: k.c.now().Add(-day), To: k.c.now(), Step: time.Hour, Func: "count"})
			n := 0.0
			for _, v := range f.Lines[0].Values {
				n += v
			}
			if by == year && n != 24 {
				t.Errorf("%v points of the last day are shown, want 24", n)
			}
		})
	}
}

// TestClockIsTheWallClock: differences of time.Now are those of another clock,
// in which a jump does not show.
func TestClockIsTheWallClock(t *testing.T) {
	var o Options
	if err := o.defaults(); err != nil || strings.Contains(o.Now().String(), "m=") {
		t.Errorf("%s, %v", o.Now(), err)
	}
}

// TestClockSetForwardForGood: what was wrong was the clock before. After two
// days of running the new time counts, and what is over by it goes.
func TestClockSetForwardForGood(t *testing.T) {
	k := newClocked(t)
	k.c.jump(30 * day)
	k.run(day)
	k.keeps("a day later", "2026-03-05", "2026-03-01")
	k.again()
	k.run(day + 8*time.Hour)
	k.says("")
	k.keeps("two days later", "2026-04-05", "2026-04-05")
}

// TestClockSetBackForGood: days begin again and are taken as late.
func TestClockSetBackForGood(t *testing.T) {
	k := newClocked(t)
	k.c.jump(-90 * time.Minute)
	k.run(3 * day)
	k.keeps("later", "2026-03-06", "2026-03-01")
}
