package queuetest

import (
	"errors"
	"slices"
	"testing"

	"headroom/queue"
)

// deadLetters lists, retries and drops what was set aside.
func deadLetters(t *testing.T, k Kind) {
	o := k.options(t)
	o.MaxBytes = k.Small
	q := k.open(t, o)
	put(t, q, 0, 5, 1000)
	for _, m := range fetch(t, q, 5) {
		if err := m.Kill(ctxOf(t), "bad"); err != nil {
			t.Fatal(err)
		}
	}
	list := func(before string, n int, want ...uint64) []queue.DeadLetter { return listed(t, q, before, n, want...) }
	all := list("", 10, 4, 3, 2, 1, 0)
	list(all[1].ID, 2, 2, 1)
	list(all[4].ID, 2)

	// One that is retried comes as a new message, and is a dead letter no more.
	if err := q.Retry(ctxOf(t), all[1].ID); err != nil {
		t.Fatal(err)
	}
	again := fetch(t, q, 1)
	same(t, again, 3)
	if again[0].Deliveries() != 1 || string(again[0].Data()) != string(Payload(3, 1000)) {
		t.Errorf("delivery %d of %d bytes, want the first of what was set aside", again[0].Deliveries(), len(again[0].Data()))
	}
	list(all[1].ID, 9, 2, 1, 0)
	ack(t, again...)

	if err := q.Drop(ctxOf(t), all[3].ID); err != nil {
		t.Fatal(err)
	}
	list("", 10, 4, 2, 0)
	for _, id := range []string{all[1].ID, all[3].ID, "", "7", "0", "../../x", "99999999999999999999999"} {
		if err := q.Retry(ctxOf(t), id); !errors.Is(err, queue.ErrNoLetter) {
			t.Errorf("retry of %q, which is not there: %v", id, err)
		}
		if err := q.Drop(ctxOf(t), id); !errors.Is(err, queue.ErrNoLetter) {
			t.Errorf("drop of %q, which is not there: %v", id, err)
		}
	}
	// What a person took away did not make room for newer ones.
	settle(t, q, func(s queue.Status) bool { return s.Dead == 3 && s.DeadDropped == 0 && s.Messages == 0 })

	// What the queue cannot take stays where it is.
	fill(t, q)
	if err := q.Retry(ctxOf(t), all[0].ID); !errors.Is(err, queue.ErrFull) {
		t.Fatalf("retry into a queue that is full: %v", err)
	}
	list("", 10, 4, 2, 0)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	q = k.open(t, o)
	list("", 10, 4, 2, 0)
	for _, d := range []int{0, 2, 4} {
		if err := q.Drop(ctxOf(t), all[d].ID); err != nil {
			t.Fatal(err)
		}
	}
	list("", 10)
	settle(t, q, func(s queue.Status) bool { return s.Dead == 0 && s.DeadDropped == 0 })
}

// listed fails unless the dead letters are the messages of these numbers.
func listed(t testing.TB, q queue.Queue, before string, n int, want ...uint64) []queue.DeadLetter {
	t.Helper()
	dead, err := q.Dead(ctxOf(t), before, n)
	if err != nil {
		t.Fatal(err)
	}
	got := []uint64{}
	for _, d := range dead {
		got = append(got, Number(d.Data))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("dead letters %v, want %v", got, want)
	}
	return dead
}

// fill puts messages until not even a small one is taken.
func fill(t testing.TB, q queue.Queue) {
	t.Helper()
	for n := uint64(100); ; n++ {
		err := q.Put(ctxOf(t), Payload(n, 10_000))
		for size := 10_000; errors.Is(err, queue.ErrFull) && size > 500; size /= 2 {
			err = q.Put(ctxOf(t), Payload(n, size))
		}
		if errors.Is(err, queue.ErrFull) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
