// Package live holds what is new: the samples of the last minutes, in memory,
// and the line to those who look right now. It is a convenience beside the
// store: what it forgets is in the store, and a restart empties it.
package live

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"headroom/metric"
)

// Options bounds a Hub. Zero values are sound choices.
type Options struct {
	Keep   time.Duration // how long samples are kept; 0: 15 minutes
	Series int           // series kept; 0: 50,000
	Points int           // points kept over all series, 16 bytes each; 0: 4,000,000
	Bytes  int64         // that slow readers may hold, about, all together; at most twice as much with the quick ones; 0: 64 MiB
	// Watched is told when the first one begins to look and when the last one
	// has gone. Calls never overlap.
	Watched func(bool)
	Now     func() time.Time // nil: time.Now
}

// Hub takes every batch that was acknowledged and hands it to whoever looks.
// It is safe for concurrent use.
type Hub struct {
	o      Options
	memory memory

	mu     sync.RWMutex
	groups map[string]*group // those and their subscribers are altered with mu locked
	subs   int
	line   line
	held   atomic.Int64 // bytes of all subscribers
	known  atomic.Int64 // decisions remembered of all groups

	cutting sync.Mutex
	cut     map[*Sub]struct{} // cut off, and perhaps not gone yet

	telling sync.Mutex
	told    bool
}

// New returns an empty hub.
func New(o Options) *Hub {
	if o.Keep == 0 {
		o.Keep = 15 * time.Minute
	}
	if o.Series == 0 {
		o.Series = 50_000
	}
	if o.Points == 0 {
		o.Points = 4_000_000
	}
	if o.Bytes == 0 {
		o.Bytes = 64 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Hub{o: o, memory: newMemory(o), groups: map[string]*group{}, cut: map[*Sub]struct{}{}}
}

// Publish remembers a batch and has it shown to all who look. It waits for
// none of them. The batch and its points may be altered afterwards, its series
// may not.
func (h *Hub) Publish(b *metric.Batch) {
	h.memory.add(b)
	if h.Lookers() > 0 && h.line.add(snapshot(b)) {
		go h.show()
	}
}

// show hands out what is in line until nothing is.
func (h *Hub) show() {
	for {
		rows, left, ok := h.line.next()
		if !ok {
			return
		}
		h.mu.RLock()
		whole := h.parcel(weight(rows), 2*h.o.Bytes)
		for _, g := range h.groups {
			h.send(g, rows, whole, left)
		}
		whole.release()
		h.mu.RUnlock()
	}
}

// Recent returns the samples kept of the series that a filter takes, from a
// time on, the newest of which are those just published; at most limit series,
// more says whether there were more.
func (h *Hub) Recent(f Filter, since time.Time, limit int) (rows []metric.Row, more bool) {
	return h.memory.recent(f, since.UnixMilli(), limit)
}

// Subscribe shows what is published from now on, until the context ends. A slow
// reader misses the oldest updates and holds up nobody. Where all together hold
// too much the one who holds most is cut off: cut is called, which must not wait
// and has to end the context.
func (h *Hub) Subscribe(ctx context.Context, f Filter, cut func()) *Sub {
	s := &Sub{h: h, out: make(chan Update, subBacklog), cut: cut}
	h.mu.Lock()
	g := h.groups[f.text]
	if g == nil {
		g = &group{filter: f, known: map[int64]bool{}, subs: map[*Sub]struct{}{}}
		h.groups[f.text] = g
	}
	g.mu.Lock()
	g.subs[s] = struct{}{}
	g.mu.Unlock()
	h.subs++
	h.mu.Unlock()
	h.tell()
	context.AfterFunc(ctx, func() { h.leave(g, s) })
	return s
}

func (h *Hub) leave(g *group, s *Sub) {
	h.mu.Lock()
	g.mu.Lock()
	delete(g.subs, s)
	close(s.out)
	if len(g.subs) == 0 {
		delete(h.groups, g.filter.text)
		h.known.Add(-int64(len(g.known)))
	}
	g.mu.Unlock()
	h.subs--
	h.mu.Unlock()
	for u := range s.out { // what nobody will read
		u.Done()
	}
	h.tell()
}

// tell calls Watched if somebody looks now and nobody did, or the reverse.
func (h *Hub) tell() {
	if h.o.Watched == nil {
		return
	}
	h.telling.Lock()
	defer h.telling.Unlock()
	if now := h.Lookers() > 0; now != h.told {
		h.told = now
		h.o.Watched(now)
	}
}

// Lookers is how many subscribers there are.
func (h *Hub) Lookers() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.subs
}
