// Package queuetest holds what every queue must do, whatever it is made of.
package queuetest

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"headroom/queue"
)

// Kind is one kind of queue under test.
type Kind struct {
	// Open opens the queue of a place with these options; the folder of the
	// options is the place's. It is called again after Close for a restart.
	Open func(t testing.TB, o queue.Options) queue.Queue
	// Small is the least MaxBytes that makes sense for the kind.
	Small int64
	// Shared says that other readers may have what this one had out when it
	// ended, so that it comes again only after the lease.
	Shared bool
	// Remote says that the disk is not ours to look at.
	Remote bool
	// Slow makes the long tests shorter, for kinds that need it.
	Slow bool
}

// Run runs the suite.
func Run(t *testing.T, k Kind) {
	for name, test := range map[string]func(*testing.T, Kind){
		"order": order, "lease": lease, "hold": hold, "back": back, "kill": kill, "dead letters": deadLetters, "full": full,
		"restart": restart, "many": many, "cancel": cancel, "close": closing, "huge": huge, "status": status,
		"small messages": smallMessages, "late ack": lateAck,
	} {
		t.Run(name, func(t *testing.T) { test(t, k) })
	}
}

func (k Kind) options(t testing.TB) queue.Options {
	return queue.Options{Dir: t.TempDir(), Lease: time.Minute, MinFree: -1}
}

func (k Kind) open(t testing.TB, o queue.Options) queue.Queue {
	t.Helper()
	q := k.Open(t, o)
	t.Cleanup(func() { _ = q.Close() })
	return q
}

func ctxOf(t testing.TB) context.Context {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(stop)
	return ctx
}

// Payload is a message that can be told from others.
func Payload(n uint64, size int) []byte {
	b := make([]byte, max(size, 8))
	r := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)})
	_, _ = r.Read(b)
	binary.LittleEndian.PutUint64(b, n)
	return b
}

// Number reads back which message it is.
func Number(data []byte) uint64 {
	if len(data) < 8 {
		return 1 << 63
	}
	return binary.LittleEndian.Uint64(data)
}

func put(t testing.TB, q queue.Queue, from, to uint64, size int) {
	t.Helper()
	for n := from; n < to; n++ {
		if err := q.Put(ctxOf(t), Payload(n, size)); err != nil {
			t.Fatalf("put %d: %v", n, err)
		}
	}
}

// fetch returns exactly n messages.
func fetch(t testing.TB, q queue.Queue, n int) []queue.Message {
	t.Helper()
	var out []queue.Message
	for len(out) < n {
		got, err := q.Fetch(ctxOf(t), n-len(out))
		if err != nil {
			t.Fatalf("fetch after %d of %d: %v", len(out), n, err)
		}
		out = append(out, got...)
	}
	return out
}

// empty fails if a message comes within a moment.
func empty(t testing.TB, q queue.Queue) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer stop()
	got, err := q.Fetch(ctx, 1)
	if len(got) > 0 {
		t.Fatalf("message %d came, none was expected", Number(got[0].Data()))
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("fetch of nothing: %v, want the end of the context", err)
	}
}

func ack(t testing.TB, ms ...queue.Message) {
	t.Helper()
	for _, m := range ms {
		if err := m.Ack(ctxOf(t)); err != nil {
			t.Fatalf("ack of %d: %v", Number(m.Data()), err)
		}
	}
}

func same(t testing.TB, ms []queue.Message, want ...uint64) {
	t.Helper()
	var got []uint64
	for _, m := range ms {
		got = append(got, Number(m.Data()))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got messages %v, want %v", got, want)
	}
}

func order(t *testing.T, k Kind) {
	q := k.open(t, k.options(t))
	put(t, q, 0, 50, 300)
	ms := fetch(t, q, 50)
	for i, m := range ms {
		if Number(m.Data()) != uint64(i) || string(m.Data()) != string(Payload(uint64(i), 300)) {
			t.Fatalf("message %d is %d or not what was put", i, Number(m.Data()))
		}
		if m.Deliveries() != 1 || time.Since(m.Put()).Abs() > time.Minute {
			t.Fatalf("message %d: delivery %d, put %s", i, m.Deliveries(), m.Put())
		}
	}
	ack(t, ms...)
	empty(t, q)
}

func lease(t *testing.T, k Kind) {
	o := k.options(t)
	o.Lease = time.Second
	q := k.open(t, o)
	put(t, q, 0, 3, 100)
	first := fetch(t, q, 3)
	ack(t, first[1])
	second := fetch(t, q, 2)
	same(t, second, 0, 2)
	if second[0].Deliveries() != 2 {
		t.Errorf("delivery %d, want 2", second[0].Deliveries())
	}
	ack(t, second...)
	empty(t, q)
}

func hold(t *testing.T, k Kind) {
	o := k.options(t)
	o.Lease = 2 * time.Second
	q := k.open(t, o)
	put(t, q, 0, 1, 100)
	m := fetch(t, q, 1)[0]
	for range 5 {
		if err := m.Hold(ctxOf(t)); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
		got, _ := q.Fetch(ctx, 1)
		stop()
		if len(got) > 0 {
			t.Fatal("a message that was held came again")
		}
	}
	ack(t, m)
	empty(t, q)
}

func back(t *testing.T, k Kind) {
	q := k.open(t, k.options(t))
	put(t, q, 0, 2, 100)
	ms := fetch(t, q, 2)
	given := time.Now()
	if err := ms[0].Back(ctxOf(t), 700*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	again := fetch(t, q, 1)
	if passed := time.Since(given); passed < 600*time.Millisecond {
		t.Errorf("came again after %s, want 700ms", passed)
	}
	same(t, again, 0)
	if again[0].Deliveries() != 2 {
		t.Errorf("delivery %d, want 2", again[0].Deliveries())
	}
	ack(t, again[0], ms[1])
	empty(t, q)
}

func kill(t *testing.T, k Kind) {
	o := k.options(t)
	q := k.open(t, o)
	put(t, q, 0, 3, 100)
	ms := fetch(t, q, 3)
	for i, m := range ms[:2] {
		if err := m.Kill(ctxOf(t), fmt.Sprintf("bad %d: ü", i)); err != nil {
			t.Fatal(err)
		}
	}
	ack(t, ms[2])
	empty(t, q)
	check := func(q queue.Queue) {
		t.Helper()
		dead, err := q.Dead(ctxOf(t), "", 10)
		if err != nil || len(dead) != 2 {
			t.Fatalf("%d dead letters, %v; want 2", len(dead), err)
		}
		for i, d := range dead {
			n := uint64(1 - i) // newest first
			if d.Reason != fmt.Sprintf("bad %d: ü", n) || string(d.Data) != string(Payload(n, 100)) || time.Since(d.At).Abs() > time.Minute {
				t.Errorf("dead letter %d: %q %s", i, d.Reason, d.At)
			}
		}
		if one, err := q.Dead(ctxOf(t), "", 1); err != nil || len(one) != 1 || Number(one[0].Data) != 1 {
			t.Errorf("the newest one: %d, %v", len(one), err)
		}
	}
	check(q)
	settle(t, q, func(s queue.Status) bool { return s.Killed == 2 && s.Dead == 2 && s.Messages == 0 })
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	check(k.open(t, o))
}

func full(t *testing.T, k Kind) {
	o := k.options(t)
	o.MaxBytes = k.Small
	q := k.open(t, o)
	kept := uint64(0)
	for ; ; kept++ {
		err := q.Put(ctxOf(t), Payload(kept, 10_000))
		if errors.Is(err, queue.ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if int64(kept)*10_000 > 2*o.MaxBytes {
			t.Fatalf("%d messages of 10,000 bytes were taken, the limit is %d bytes", kept, o.MaxBytes)
		}
	}
	s, err := q.Status(ctxOf(t))
	if err != nil || s.Messages != kept || s.Bytes > s.Limit || s.Refused != 1 {
		t.Fatalf("status after %d: %+v, %v", kept, s, err)
	}
	for n := uint64(0); n < kept; {
		for _, m := range fetch(t, q, 1) {
			if Number(m.Data()) != n {
				t.Fatalf("message %d came in place of %d: one was dropped", Number(m.Data()), n)
			}
			ack(t, m)
			n++
		}
	}
	var err2 error
	for range 100 {
		if err2 = q.Put(ctxOf(t), Payload(1, 10_000)); err2 == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("after all was acknowledged nothing is taken: %v", err2)
}

func restart(t *testing.T, k Kind) {
	o := k.options(t)
	if k.Shared {
		o.Lease = 2 * time.Second
	}
	n := uint64(0)
	left := []uint64{}
	for range 4 {
		q := k.open(t, o)
		put(t, q, n, n+20, 5000)
		for i := range uint64(20) {
			left = append(left, n+i)
		}
		n += 20
		ms := fetch(t, q, len(left))
		if k.Shared {
			slices.SortFunc(ms, func(a, b queue.Message) int { return cmp.Compare(Number(a.Data()), Number(b.Data())) })
		}
		same(t, ms, left...)
		left = left[:0]
		for i, m := range ms {
			if i%3 == 0 {
				ack(t, m)
			} else {
				left = append(left, Number(m.Data()))
			}
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	}
	q := k.open(t, o)
	settle(t, q, func(s queue.Status) bool { return s.Messages == uint64(len(left)) && s.Lost == 0 })
	ms := fetch(t, q, len(left))
	if !k.Shared {
		same(t, ms, left...)
	}
	ack(t, ms...)
	empty(t, q)
}

// many has writers and readers at once, some of which give messages back.
func many(t *testing.T, k Kind) {
	q := k.open(t, k.options(t))
	const writers, each, readers = 8, 60, 4
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := q.Put(ctxOf(t), Payload(uint64(w*each+i), 2000)); err != nil {
					t.Errorf("put: %v", err)
				}
			}
		})
	}
	var mu sync.Mutex
	seen := map[uint64]int{}
	ctx, stop := context.WithCancel(ctxOf(t))
	for range readers {
		wg.Go(func() {
			for {
				ms, err := q.Fetch(ctx, 7)
				if err != nil {
					return
				}
				for _, m := range ms {
					n := Number(m.Data())
					if n%10 == 3 && m.Deliveries() == 1 {
						if err := m.Back(ctxOf(t), 10*time.Millisecond); err != nil {
							t.Errorf("back: %v", err)
						}
						continue
					}
					ack(t, m)
					mu.Lock()
					seen[n]++
					if len(seen) == writers*each {
						stop()
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	stop()
	for n, times := range seen {
		if times != 1 {
			t.Errorf("message %d was done %d times", n, times)
		}
	}
	if len(seen) != writers*each {
		t.Errorf("%d messages came, want %d", len(seen), writers*each)
	}
}
