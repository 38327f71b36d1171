package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"headroom/metric"
)

// A series that packing let go of comes again as the same pointer, behind the
// series that it always comes behind: its points are seen.
func TestForgottenSeriesComesAgain(t *testing.T) {
	c := newClock("2026-03-01 10:00:00")
	s := openStore(t, base(t, 0), c)
	a, b := series(`a{host="x"}`), series(`b{host="x"}`)
	both := func(v float64) {
		write(t, s, batch(row(a, pt(c.now(), v)), row(b, pt(c.now(), v))))
		c.add(time.Minute)
	}
	both(1)
	both(2)
	for range 4 * 60 { // b is silent for long enough
		write(t, s, batch(row(a, pt(c.now(), 3))))
		c.add(time.Minute)
		if c.now().Minute() == 5 {
			maintain(t, s)
		}
	}
	if s.head.series[b.ID()] != nil {
		t.Fatal("the head still holds a silent series")
	}
	both(4)
	for _, x := range []*metric.Series{a, b} {
		f := query(t, s, Query{Match: named(x.Name), From: c.now().Add(-10 * time.Minute), To: c.now(), Step: time.Minute, Func: "last"})
		if v := f.Lines[0].Values; v[len(v)-1] != 4 {
			t.Errorf("%s ends with %v, want 4", x, v[len(v)-1])
		}
	}
}

// Points go to their series in whatever order series come.
func TestOrderOfSeriesChanges(t *testing.T) {
	c := newClock("2026-03-01 10:00:00")
	s := openStore(t, base(t, 0), c)
	all := []*metric.Series{series(`a{host="x"}`), series(`b{host="x"}`), series(`c{host="x"}`), series(`d{host="x"}`)}
	sums := map[string]float64{}
	for i, order := range []string{"abcd", "abcd", "dcba", "acbd", "aabb", "abcd", "d", "bd"} {
		bt := batch()
		for k, name := range order {
			v := float64(100*i + k)
			bt.Rows = append(bt.Rows, row(all[name-'a'], pt(c.now().Add(time.Duration(k)*time.Second), v)))
			sums[string(name)] += v
		}
		write(t, s, bt)
		c.add(time.Minute)
	}
	for name, want := range sums {
		f := query(t, s, Query{Match: named(name), From: c.now().Add(-time.Hour), To: c.now(), Step: time.Hour, Func: "sum"})
		sum := 0.0
		for _, v := range f.Lines[0].Values {
			if v == v {
				sum += v
			}
		}
		if sum != want {
			t.Errorf("%s: sum %v, want %v", name, sum, want)
		}
	}
}

// When memory is full, who packs is told, and does not wait for the next pass;
// what is known of many series is no reason to pack.
func TestFullMemoryIsPackedAtOnce(t *testing.T) {
	c := newClock("2026-03-01 10:00:00")
	s := openStore(t, base(t, 0), c, func(o *Options) { o.HeadBytes = 20 * entrySize })
	b := batch()
	for i := range 40 {
		b.Rows = append(b.Rows, row(series(fmt.Sprintf(`m%d{host="x"}`, i))))
	}
	write(t, s, b)
	if len(s.full) != 0 || s.head.size() < s.o.HeadBytes {
		t.Fatalf("%d bytes of %d, told %d times; want series without points to fill it, and nobody told", s.head.size(), s.o.HeadBytes, len(s.full))
	}
	x := series(`m1{host="x"}`)
	for i := range 600 {
		write(t, s, batch(row(x, pt(c.now().Add(time.Duration(i*i)*time.Millisecond), float64(i)/7))))
	}
	if len(s.full) != 1 {
		t.Fatal("nobody was told that memory is full")
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan struct{})
	go func() { s.Run(ctx); close(ended) }()
	for len(s.full) > 0 || s.head.full(s.o.HeadBytes) {
		time.Sleep(time.Millisecond)
	}
	stop()
	<-ended
	f := query(t, s, Query{Match: named("m1"), From: c.now(), To: c.now().Add(time.Hour), Step: time.Hour, Func: "count"})
	if f.Lines[0].Values[0] != 600 {
		t.Errorf("%v points, want 600", f.Lines[0].Values[0])
	}
}
