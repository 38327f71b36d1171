package live

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"headroom/metric"
	"headroom/store"
	"headroom/testkit/need"
)

// many is a batch of n series with a point each.
func many(t testing.TB, n int) *metric.Batch {
	b := &metric.Batch{ID: metric.NewID()}
	for i := range n {
		b.Rows = append(b.Rows, row(t, fmt.Sprintf("m%d", i), "x", metric.Point{At: time.Now().UnixMilli(), Value: 1}))
	}
	return b
}

// Readers that never read, each with a match of its own, hold no more than they
// may, together; who holds most is cut off, and one who reads is shown all.
func TestSlowReadersHoldNoMoreThanTheyMay(t *testing.T) {
	const limit = 2 << 20
	h := New(Options{Bytes: limit})
	var cuts atomic.Int32
	ctx, stopAll := context.WithCancel(t.Context())
	defer stopAll()
	look := func(f Filter, cut func()) *Sub {
		ctx, stop := context.WithCancel(ctx)
		return h.Subscribe(ctx, f, func() { cut(); stop() })
	}
	quick := look(filter(t, store.Match{Label: "__name__", Op: "=~", Value: "m1?"}), func() { t.Error("the quick one is cut off") })
	seen := make(chan int)
	var skipped atomic.Int64
	go func() {
		n := 0
		for u := range quick.Updates() {
			skipped.Add(int64(u.Skipped))
			if u.Done(); u.Rows[0].Points[0].Value == 2 {
				seen <- n
				return
			}
			n++
		}
	}()
	const slow = 100
	for i := range slow { // every fourth shares its match, and the text, with the one before
		look(filter(t, store.Match{Label: "__name__", Op: "=~", Value: fmt.Sprintf("m[1-9].*|x%d", i-i%4/3)}), func() { cuts.Add(1) })
	}
	b := many(t, 1000)
	const rounds = 20
	for range rounds {
		h.Publish(b)
		shown(t, h)
		if held := h.held.Load(); held > 2*limit { // those being cut off have yet to let go
			t.Errorf("%d bytes are held, %d may be", held, limit)
		}
	}
	for i := range b.Rows {
		b.Rows[i].Points[0].Value = 2
	}
	h.Publish(b)
	if n := <-seen; n+int(skipped.Load()) != rounds || n < rounds/2 {
		t.Errorf("the quick one saw %d of %d, and was told of %d left out", n, rounds, skipped.Load())
	}
	if n := cuts.Load(); n < slow/5 || n > slow {
		t.Errorf("%d of %d were cut off", n, slow)
	}
	if n := h.known.Load(); n > knownAll || n == 0 {
		t.Errorf("%d decisions are remembered", n)
	}
	stopAll()
	need.Eventually(t, 10*time.Second, "nothing is held", func() bool {
		return h.held.Load() == 0 && h.known.Load() == 0 && h.Lookers() == 0
	})
}

// What a reader keeps besides counts, and is refused where there is no room.
func TestHold(t *testing.T) {
	h := New(Options{Bytes: 10_000})
	s := h.Subscribe(t.Context(), filter(t), func() { t.Error("it is cut off for what it asks") })
	release, ok := s.Hold(many(t, 100).Rows)
	if !ok {
		t.Fatal("refused")
	}
	if _, ok := s.Hold(many(t, 200).Rows); ok {
		t.Error("more than there is was given")
	}
	release()
	if n := h.held.Load(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}

// Few rows of a large batch do not hold all of it.
func TestFewRowsDoNotHoldABatch(t *testing.T) {
	h := New(Options{})
	c := h.Subscribe(t.Context(), filter(t, store.Match{Label: "__name__", Op: "=", Value: "m7"}), func() {}).Updates()
	h.Publish(many(t, 1000))
	shown(t, h)
	u := <-c
	if len(u.Rows) != 1 || cap(u.Rows[0].Points) != 1 || u.bytes() > 200 {
		t.Errorf("%d rows, %d bytes", len(u.Rows), u.bytes())
	}
	if n := h.held.Load(); n != u.bytes() {
		t.Errorf("%d bytes are held, want %d", n, u.bytes())
	}
	u.Done()
	if n := h.held.Load(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}
