package live

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"headroom/fail"
	"headroom/metric"
	"headroom/store"
	"headroom/testkit/need"
)

func row(t testing.TB, name, host string, points ...metric.Point) metric.Row {
	t.Helper()
	s, err := metric.NewSeries(name, []metric.Label{{Name: "host", Value: host}})
	if err != nil {
		t.Fatal(err)
	}
	return metric.Row{Series: s, Points: points}
}

func batch(rows ...metric.Row) *metric.Batch { return &metric.Batch{ID: metric.NewID(), Rows: rows} }

func filter(t testing.TB, ms ...store.Match) Filter {
	t.Helper()
	f, err := NewFilter(ms)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFilter(t *testing.T) {
	r := row(t, "cpu", "web1").Series
	for _, c := range []struct {
		m    store.Match
		want bool
	}{
		{store.Match{Label: "__name__", Op: "=", Value: "cpu"}, true},
		{store.Match{Label: "__name__", Op: "=", Value: "cp"}, false},
		{store.Match{Label: "host", Op: "=~", Value: "web."}, true},
		{store.Match{Label: "host", Op: "=~", Value: "web"}, false}, // anchored
		{store.Match{Label: "host", Op: "=~", Value: "a|web1|b"}, true},
		{store.Match{Label: "host", Op: "=~", Value: "xweb1|b"}, false},
		{store.Match{Label: "host", Op: "!=", Value: "web1"}, false},
		{store.Match{Label: "host", Op: "!~", Value: "db.*"}, true},
		{store.Match{Label: "server", Op: "=", Value: ""}, true}, // missing is empty
		{store.Match{Label: "server", Op: "!=", Value: ""}, false},
	} {
		if got := filter(t, c.m).Takes(r); got != c.want {
			t.Errorf("%+v: %t", c.m, got)
		}
	}
	for _, m := range []store.Match{{Label: "a", Op: "=~", Value: "("}, {Label: "a", Op: "<", Value: "1"}} {
		if _, err := NewFilter([]store.Match{m}); fail.Code(err) != fail.Usage {
			t.Errorf("%+v: %v", m, err)
		}
	}
}

func TestRecentIsInOrderAndBounded(t *testing.T) {
	now := time.UnixMilli(1_763_733_600_000)
	h := New(Options{Keep: time.Minute, Now: func() time.Time { return now }})
	ms := now.UnixMilli()
	h.Publish(batch(row(t, "a", "x", metric.Point{At: ms - 3000, Value: 1}, metric.Point{At: ms - 1000, Value: 3})))
	h.Publish(batch(row(t, "a", "x", metric.Point{At: ms - 2000, Value: 2}))) // late
	h.Publish(batch(row(t, "a", "x", metric.Point{At: ms - 1000, Value: 4}))) // again: the later one counts
	h.Publish(batch(row(t, "a", "x", metric.Point{At: ms - 90_000, Value: 9})))
	rows, more := h.Recent(filter(t), now.Add(-time.Hour), 10)
	if len(rows) != 1 || more {
		t.Fatal(rows, more)
	}
	if got := fmt.Sprint(rows[0].Points); got != fmt.Sprintf("[{%d 1} {%d 2} {%d 4}]", ms-3000, ms-2000, ms-1000) {
		t.Error(got)
	}
	if rows, _ := h.Recent(filter(t), now.Add(-2*time.Second), 10); len(rows[0].Points) != 2 {
		t.Errorf("since: %v", rows)
	}
	for i := range 10_000 { // a series for hours stays small
		now = now.Add(time.Second)
		h.Publish(batch(row(t, "a", "x", metric.Point{At: now.UnixMilli(), Value: float64(i)})))
	}
	if _, points, _ := h.Kept(); points > 200 {
		t.Errorf("%d points of one minute are kept", points)
	}
	now = now.Add(time.Hour)
	h.Publish(batch(row(t, "b", "x", metric.Point{At: now.UnixMilli(), Value: 1})))
	if series, _, _ := h.Kept(); series != 1 {
		t.Errorf("%d series are kept, of one nothing was heard for an hour", series)
	}
}

// What came while the clock was a year ahead does not stay the newest when it
// is back, and what fell silent then is forgotten.
func TestTheClockIsSetBack(t *testing.T) {
	now := time.UnixMilli(1_763_733_600_000)
	h := New(Options{Keep: time.Minute, Now: func() time.Time { return now }})
	tell := func(name string, v float64) {
		h.Publish(batch(row(t, name, "x", metric.Point{At: now.UnixMilli(), Value: v})))
	}
	now = now.AddDate(1, 0, 0)
	tell("silent", 1)
	tell("a", 1)
	now = now.AddDate(-1, 0, 0)
	tell("a", 2)
	rows := h.Last(filter(t), now.Add(-time.Minute).UnixMilli())
	if len(rows) != 1 || len(rows[0].Points) != 1 || rows[0].Points[0].Value != 2 {
		t.Errorf("%+v", rows)
	}
	if series, points, _ := h.Kept(); series != 1 || points != 1 {
		t.Errorf("%d series, %d points are kept", series, points)
	}
}

func TestAFloodOfSeriesPushesOutNothing(t *testing.T) {
	now := time.UnixMilli(1_763_733_600_000)
	h := New(Options{Series: 100, Points: 1000, Now: func() time.Time { return now }})
	p := func() metric.Point { return metric.Point{At: now.UnixMilli(), Value: 1} }
	for i := range 100 {
		h.Publish(batch(row(t, fmt.Sprintf("mine%d", i), "x", p())))
	}
	for i := range 1000 {
		h.Publish(batch(row(t, fmt.Sprintf("flood%d", i), "x", p())))
	}
	if rows, _ := h.Recent(filter(t, store.Match{Label: "__name__", Op: "=~", Value: "mine.*"}), now.Add(-time.Minute), 1000); len(rows) != 100 {
		t.Errorf("%d of 100 are left", len(rows))
	}
	if _, _, refused := h.Kept(); refused != 1000 {
		t.Errorf("%d refused are counted", refused)
	}
	now = now.Add(2 * time.Minute) // those that are silent make room
	h.Publish(batch(row(t, "new", "x", p())))
	if rows, _ := h.Recent(filter(t, store.Match{Label: "__name__", Op: "=", Value: "new"}), now.Add(-time.Minute), 10); len(rows) != 1 {
		t.Error("a new series finds no room beside silent ones")
	}
	var many []metric.Point
	for i := range 2000 {
		many = append(many, metric.Point{At: now.UnixMilli() - int64(2000-i), Value: 1})
	}
	h.Publish(batch(row(t, "new", "x", many...)))
	if _, points, _ := h.Kept(); points > 1000 {
		t.Errorf("%d points are kept", points)
	}
}

func TestSubscribersGetTheirOwn(t *testing.T) {
	h := New(Options{})
	ctx, stop := context.WithCancel(t.Context())
	a := h.Subscribe(ctx, filter(t, store.Match{Label: "__name__", Op: "=", Value: "a"}), func() {}).Updates()
	now := time.Now().UnixMilli()
	pa := []metric.Point{{At: now, Value: 1}}
	h.Publish(batch(row(t, "b", "x", metric.Point{At: now, Value: 2})))
	h.Publish(batch(metric.Row{Series: row(t, "a", "x").Series, Points: pa}, row(t, "b", "x", metric.Point{At: now, Value: 2})))
	pa[0].Value = 99 // the batch's memory is used again by its owner
	u := <-a
	if len(u.Rows) != 1 || u.Rows[0].Series.Name != "a" || u.Rows[0].Points[0].Value != 1 || u.Skipped != 0 {
		t.Errorf("%+v", u)
	}
	stop()
	if _, open := <-a; open {
		t.Error("more came")
	}
	need.Eventually(t, 10*time.Second, "nobody looks", func() bool { return h.Lookers() == 0 })
	if len(h.groups) != 0 {
		t.Error("the filter is still kept")
	}
}

func TestASlowReaderSkipsAndHoldsUpNobody(t *testing.T) {
	h := New(Options{})
	slow, quick := h.Subscribe(t.Context(), filter(t), func() {}).Updates(), h.Subscribe(t.Context(), filter(t), func() {}).Updates()
	const n = 1000
	for i := range n {
		h.Publish(batch(row(t, "a", "x", metric.Point{At: time.Now().UnixMilli(), Value: float64(i)})))
		if u := <-quick; u.Rows[0].Points[0].Value != float64(i) {
			t.Fatalf("the quick one got %v as number %d", u, i)
		}
	}
	shown(t, h)
	seen, skipped, last := 0, 0, -1.0
	for len(slow) > 0 {
		u := <-slow
		seen++
		skipped += u.Skipped
		if v := u.Rows[0].Points[0].Value; v <= last {
			t.Errorf("%v after %v", v, last)
		} else {
			last = v
		}
	}
	if seen != subBacklog || last != n-1 {
		t.Errorf("%d seen, the last is %v", seen, last)
	}
	h.Publish(batch(row(t, "a", "x", metric.Point{At: time.Now().UnixMilli(), Value: n})))
	if u := <-slow; seen+skipped+u.Skipped != n {
		t.Errorf("%d seen and %d told to be skipped, of %d", seen, skipped+u.Skipped, n)
	}
}

// shown waits until nothing is in line.
func shown(t *testing.T, h *Hub) {
	t.Helper()
	need.Eventually(t, 10*time.Second, "all is shown", func() bool {
		h.line.mu.Lock()
		defer h.line.mu.Unlock()
		return !h.line.showing
	})
}

// While those who look cannot be served, whoever brings batches goes on; what
// waits stays bounded, and how much was left out is told.
func TestWhoBringsBatchesNeverWaits(t *testing.T) {
	h := New(Options{})
	c := h.Subscribe(t.Context(), filter(t), func() {}).Updates()
	const n = 3 * lineBatches
	var g *group
	for _, g = range h.groups {
		g.mu.Lock() // it cannot be served
	}
	for i := range n {
		h.Publish(batch(row(t, "a", "x", metric.Point{At: int64(i) + 1, Value: float64(i)})))
	}
	h.line.mu.Lock()
	if w := len(h.line.waiting); w > lineBatches {
		t.Errorf("%d batches wait", w)
	}
	h.line.mu.Unlock()
	g.mu.Unlock()
	shown(t, h)
	seen, skipped := 0, 0
	for len(c) > 0 {
		u := <-c
		seen++
		skipped += u.Skipped
		if len(c) == 0 && u.Rows[0].Points[0].Value != n-1 {
			t.Errorf("the last one shown is %v", u.Rows[0].Points[0].Value)
		}
	}
	if seen+skipped != n {
		t.Errorf("%d shown, %d told to be left out, of %d", seen, skipped, n)
	}
}

func TestWatchedIsToldOfTheFirstAndTheLast(t *testing.T) {
	var mu sync.Mutex
	var told []bool
	h := New(Options{Watched: func(b bool) { mu.Lock(); defer mu.Unlock(); told = append(told, b) }})
	list := func() string { mu.Lock(); defer mu.Unlock(); return fmt.Sprint(told) }
	var stops []context.CancelFunc
	for range 50 {
		ctx, stop := context.WithCancel(t.Context())
		h.Subscribe(ctx, filter(t), func() {}).Updates()
		stops = append(stops, stop)
	}
	if list() != "[true]" {
		t.Error(list())
	}
	for _, s := range stops {
		go s()
	}
	need.Eventually(t, 10*time.Second, "the last one is told of, once", func() bool { return list() == "[true false]" })
}

func TestManyAtOnce(t *testing.T) {
	h := New(Options{Series: 500, Points: 5000, Watched: func(bool) {}})
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 300 {
				h.Publish(batch(row(t, fmt.Sprintf("m%d", (i*7+w)%600), "x", metric.Point{At: time.Now().UnixMilli(), Value: 1})))
			}
		})
		all.Go(func() {
			for range 100 {
				ctx, stop := context.WithCancel(t.Context())
				c := h.Subscribe(ctx, filter(t, store.Match{Label: "__name__", Op: "=~", Value: fmt.Sprintf("m%d.*", w)}), func() {}).Updates()
				h.Recent(Filter{}, time.Now().Add(-time.Hour), 100)
				select {
				case u := <-c:
					u.Encoded(func(r []metric.Row) []byte { return []byte(fmt.Sprint(len(r))) })
				default:
				}
				stop()
			}
		})
	}
	all.Wait()
	need.Eventually(t, 10*time.Second, "nobody looks", func() bool { return h.Lookers() == 0 })
}

func BenchmarkPublish(b *testing.B) {
	h := New(Options{})
	var rows []metric.Row
	for i := range 1000 {
		rows = append(rows, row(b, fmt.Sprintf("m%d", i), "x", metric.Point{}))
	}
	at := time.Now().UnixMilli()
	for b.Loop() {
		for i := range rows {
			rows[i].Points[0].At = at
		}
		at++
		h.Publish(batch(rows...))
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "points/s")
}
