package queue

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// fetchBytes bounds what one Fetch returns, whatever n is.
const fetchBytes = 16 << 20

// Fetch returns at most n messages, of 16 MiB in all, or one that is larger.
func (l *log) Fetch(ctx context.Context, n int) ([]Message, error) {
	for {
		l.mu.Lock()
		closed, wake := l.closed, l.wake
		l.mu.Unlock()
		if closed {
			return nil, ErrStopped
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		got, due, err := l.fetch(max(n, 1))
		if len(got) > 0 {
			return got, nil
		}
		if err != nil {
			return nil, fmt.Errorf("fetch messages: %w", err)
		}
		if err := wait(ctx, wake, due); err != nil {
			return nil, err
		}
	}
}

// wait ends at a wake, at a time unless that is zero, or with the context.
func wait(ctx context.Context, wake <-chan struct{}, until time.Time) error {
	var timer <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-wake:
	case <-timer:
	}
	return nil
}

// fetch returns what is there now, and when the next one comes again.
func (l *log) fetch(n int) (got []Message, due time.Time, err error) {
	l.rmu.Lock()
	defer l.rmu.Unlock()
	size := 0
	give := func(e *entry, data []byte) {
		size += len(data)
		e.deliveries++
		got = append(got, &message{l: l, e: e, data: data, delivery: e.deliveries})
	}
	now := time.Now()
	ripe := l.out.ripe(now)
	slices.SortFunc(ripe, func(a, b *entry) int { return cmp.Compare(a.head.seq, b.head.seq) })
	for _, e := range ripe {
		heap.Push(&l.out.byDue, e)
		if len(got) == n || size >= fetchBytes {
			continue
		}
		data, err := l.again(e)
		if err != nil {
			l.out.remove(e)
			l.missing(e.head.seq, e.head.seq, err.Error())
			continue
		}
		l.out.set(e, true, now.Add(l.o.Lease))
		give(e, data)
	}
	for len(got) < n && size < fetchBytes && len(l.out.bySeq) < l.o.MaxOut {
		e, data, ok, err := l.advance()
		if err != nil || !ok {
			due, _ = l.out.next()
			return got, due, err
		}
		e.out, e.due = true, now.Add(l.o.Lease)
		l.out.add(e)
		give(e, data)
	}
	due, _ = l.out.next()
	return got, due, nil
}

// message is an entry as one who fetched it has it.
type message struct {
	l        *log
	e        *entry
	data     []byte
	delivery int
}

func (m *message) Data() []byte    { return m.data }
func (m *message) Put() time.Time  { return time.UnixMilli(m.e.head.at) }
func (m *message) Deliveries() int { return m.delivery }

// Ack may come after the lease is over, and twice.
func (m *message) Ack(context.Context) error {
	l := m.l
	l.rmu.Lock()
	defer l.rmu.Unlock()
	return m.finish()
}

// finish takes the message from the queue; l.rmu is held.
func (m *message) finish() error {
	l, seq := m.l, m.e.head.seq
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrStopped
	}
	if l.out.bySeq[seq] != m.e {
		return nil
	}
	l.out.remove(m.e)
	l.done.add(seq, seq)
	l.tidySoon()
	l.wakeLocked()
	return nil
}

func (m *message) Back(_ context.Context, delay time.Duration) error {
	return m.again(false, max(delay, 0))
}

func (m *message) Hold(context.Context) error { return m.again(true, m.l.o.Lease) }

// again says when the message comes again, if the caller still has it: what
// another fetched since is no longer his to give back.
func (m *message) again(out bool, after time.Duration) error {
	l := m.l
	l.rmu.Lock()
	defer l.rmu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrStopped
	}
	if l.out.bySeq[m.e.head.seq] != m.e || m.e.deliveries != m.delivery {
		return fmt.Errorf("message %d: %w", m.e.head.seq, ErrNotOut)
	}
	l.out.set(m.e, out, time.Now().Add(after))
	l.wakeLocked()
	return nil
}

func (m *message) Kill(ctx context.Context, reason string) error {
	l := m.l
	l.rmu.Lock()
	defer l.rmu.Unlock()
	if l.out.bySeq[m.e.head.seq] != m.e {
		return nil
	}
	if err := l.dead.put(time.Now(), m.e.head.seq, reason, m.data); err != nil {
		return fmt.Errorf("set message %d aside: %w", m.e.head.seq, err)
	}
	l.killed.Add(1)
	return m.finish()
}

func (l *log) Dead(_ context.Context, before string, n int) ([]DeadLetter, error) {
	return l.dead.list(before, n)
}

func (l *log) Retry(ctx context.Context, id string) error {
	d, err := l.dead.get(id)
	if err != nil {
		return fmt.Errorf("retry dead letter %.60q: %w", id, err)
	}
	if err := l.Put(ctx, d.Data); err != nil {
		return fmt.Errorf("retry dead letter %s: %w", id, err)
	}
	if err := l.dead.drop(id); err != nil && !errors.Is(err, ErrNoLetter) {
		return fmt.Errorf("dead letter %s is in the queue again, and stays in both: %w", id, err)
	}
	return nil
}

func (l *log) Drop(_ context.Context, id string) error {
	if err := l.dead.drop(id); err != nil {
		return fmt.Errorf("drop dead letter %.60q: %w", id, err)
	}
	return nil
}
