package queuetest

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"headroom/queue"
)

func cancel(t *testing.T, k Kind) {
	q := k.open(t, k.options(t))
	empty(t, q)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := q.Fetch(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("fetch with an ended context: %v", err)
	}
	put(t, q, 0, 1, 100)
	ms := fetch(t, q, 1)
	same(t, ms, 0)
	ack(t, ms...)
}

func closing(t *testing.T, k Kind) {
	q := k.open(t, k.options(t))
	put(t, q, 0, 2, 100)
	out := fetch(t, q, 1)
	ack(t, fetch(t, q, 1)...)
	waiting := make(chan error)
	go func() {
		_, err := q.Fetch(context.WithoutCancel(t.Context()), 1)
		waiting <- err
	}()
	go func() {
		for {
			if err := q.Put(context.WithoutCancel(t.Context()), Payload(9, 100)); err != nil {
				waiting <- err
				return
			}
		}
	}()
	go func() { // takes what the writer brings, so that it ends
		for {
			if _, err := q.Fetch(context.WithoutCancel(t.Context()), 100); err != nil {
				waiting <- err
				return
			}
		}
	}()
	time.Sleep(50 * time.Millisecond)
	if err := q.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	for range 3 {
		select {
		case err := <-waiting:
			if err != nil && !errors.Is(err, queue.ErrStopped) {
				t.Errorf("after Close: %v, want ErrStopped", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("somebody still waits for a queue that is closed")
		}
	}
	if err := out[0].Ack(t.Context()); !errors.Is(err, queue.ErrStopped) {
		t.Errorf("ack after Close: %v", err)
	}
	if err := q.Put(t.Context(), nil); !errors.Is(err, queue.ErrStopped) {
		t.Errorf("put after Close: %v", err)
	}
	if err := q.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func huge(t *testing.T, k Kind) {
	q := k.open(t, k.options(t))
	if err := q.Put(ctxOf(t), make([]byte, queue.MaxMessage+1)); !errors.Is(err, queue.ErrTooLarge) {
		t.Fatalf("one byte too many: %v", err)
	}
	if err := q.Put(ctxOf(t), Payload(7, queue.MaxMessage)); err != nil {
		t.Fatalf("the largest message: %v", err)
	}
	ms := fetch(t, q, 1)
	if string(ms[0].Data()) != string(Payload(7, queue.MaxMessage)) {
		t.Fatal("the largest message is not what was put")
	}
	ack(t, ms...)
	empty(t, q)
}

func status(t *testing.T, k Kind) {
	o := k.options(t)
	o.MaxBytes = 50 << 20
	q := k.open(t, o)
	s, err := q.Status(ctxOf(t))
	if err != nil || s.Messages != 0 || s.Bytes != 0 || !s.Oldest.IsZero() || s.Paused != "" || s.Limit != 50<<20 || (s.DiskFree == 0) != k.Remote {
		t.Fatalf("at first: %+v, %v", s, err)
	}
	before := time.Now()
	put(t, q, 0, 5, 10_000)
	s, err = q.Status(ctxOf(t))
	if err != nil || s.Messages != 5 || s.Bytes < 50_000 || s.Bytes > 60_000 || s.Oldest.Sub(before).Abs() > 5*time.Second || s.FsyncLast <= 0 {
		t.Fatalf("with five: %+v, %v", s, err)
	}
	ms := fetch(t, q, 5)
	ack(t, ms[:4]...)
	settle(t, q, func(s queue.Status) bool { return s.Messages == 1 && !s.Oldest.IsZero() })
	ack(t, ms[4])
	settle(t, q, func(s queue.Status) bool { return s.Messages == 0 && s.Oldest.IsZero() })
}

// settle waits a moment for a status: a cluster counts after it has answered.
func settle(t testing.TB, q queue.Queue, ok func(queue.Status) bool) {
	t.Helper()
	var s queue.Status
	for range 100 {
		var err error
		if s, err = q.Status(ctxOf(t)); err != nil {
			t.Fatal(err)
		}
		if ok(s) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("status stays %+v", s)
}

// lateAck acknowledges after the lease, while another has the message.
func lateAck(t *testing.T, k Kind) {
	o := k.options(t)
	o.Lease = time.Second
	q := k.open(t, o)
	put(t, q, 0, 1, 100)
	late := fetch(t, q, 1)
	now := fetch(t, q, 1)
	ack(t, late...)
	ack(t, now...)
	empty(t, q)
	settle(t, q, func(s queue.Status) bool { return s.Messages == 0 })
}

// smallMessages shows that memory does not grow with the number of messages.
func smallMessages(t *testing.T, k Kind) {
	q := k.open(t, k.options(t))
	total, writers := 100_000, 200
	if k.Slow {
		total, writers = 2_000, 50
	}
	errs, ctx := make(chan error, writers), ctxOf(t)
	for w := range writers {
		go func() {
			for i := w; i < total; i += writers {
				if err := q.Put(ctx, Payload(uint64(i), 20)); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range writers {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if held := heap(); held > 64<<20 {
		t.Errorf("%d MiB are held for %d messages", held>>20, total)
	}
	seen := make([]bool, total)
	for n := 0; n < total; {
		ms, err := q.Fetch(ctx, 1000)
		if err != nil {
			t.Fatalf("after %d: %v", n, err)
		}
		for _, m := range ms {
			i := Number(m.Data())
			if seen[i] {
				t.Fatalf("message %d came twice", i)
			}
			seen[i] = true
			if err := m.Ack(ctx); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	empty(t, q)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
