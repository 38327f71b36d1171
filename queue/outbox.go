package queue

import (
	"container/heap"
	"time"
)

// entry is a message that was read: out until due, or given back until due.
type entry struct {
	seg        *segment
	off        int64
	head       header
	deliveries int
	out        bool // somebody has it
	due        time.Time
	place      int // in byDue
}

// outbox is the messages that were read and are not done, by sequence and by
// when they come again.
type outbox struct {
	bySeq map[uint64]*entry
	byDue dueHeap
}

func newOutbox() outbox { return outbox{bySeq: map[uint64]*entry{}} }

func (b *outbox) add(e *entry) {
	b.bySeq[e.head.seq] = e
	heap.Push(&b.byDue, e)
}

func (b *outbox) remove(e *entry) {
	delete(b.bySeq, e.head.seq)
	heap.Remove(&b.byDue, e.place)
}

func (b *outbox) set(e *entry, out bool, due time.Time) {
	e.out, e.due = out, due
	heap.Fix(&b.byDue, e.place)
}

// ripe takes those that are due out of the heap's order; they stay in the box.
func (b *outbox) ripe(now time.Time) []*entry {
	var out []*entry
	for len(b.byDue) > 0 && !b.byDue[0].due.After(now) {
		out = append(out, heap.Pop(&b.byDue).(*entry))
	}
	return out
}

// next is when one is due; false if there is none.
func (b *outbox) next() (time.Time, bool) {
	if len(b.byDue) == 0 {
		return time.Time{}, false
	}
	return b.byDue[0].due, true
}

type dueHeap []*entry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *dueHeap) Push(x any) {
	e := x.(*entry)
	e.place = len(*h)
	*h = append(*h, e)
}

func (h *dueHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}
