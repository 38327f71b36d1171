// Package live holds what is new: the samples of the last minutes, in memory,
// and the line to those who look right now. It is a convenience beside the
// store: what it forgets is in the store, and a restart empties it.
package live

import (
	"context"
	"sync"
	"time"

	"headroom/metric"
)

// Options bounds a Hub. Zero values are sound choices.
type Options struct {
	Keep   time.Duration // how long samples are kept; 0: 15 minutes
	Series int           // series kept; 0: 50,000
	Points int           // points kept over all series, 16 bytes each; 0: 4,000,000
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
	groups map[string]*group
	subs   int
	line   line

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
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Hub{o: o, memory: newMemory(o), groups: map[string]*group{}}
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
		for _, g := range h.groups {
			g.send(rows, left)
		}
		h.mu.RUnlock()
	}
}

// Recent returns the samples kept of the series that a filter takes, from a
// time on, the newest of which are those just published; at most limit series,
// more says whether there were more.
func (h *Hub) Recent(f Filter, since time.Time, limit int) (rows []metric.Row, more bool) {
	return h.memory.recent(f, since.UnixMilli(), limit)
}

// Update is what one batch holds for a subscriber. It is shared with others
// and must not be altered.
type Update struct {
	Rows    []metric.Row
	Skipped int // updates that this subscriber was too slow for since the last one

	shared *encoded
}

type encoded struct {
	once sync.Once
	text []byte
}

// Encoded returns the rows as f writes them, made once for all subscribers
// with the same filter: they must all use the same f.
func (u Update) Encoded(f func([]metric.Row) []byte) []byte {
	u.shared.once.Do(func() { u.shared.text = f(u.Rows) })
	return u.shared.text
}

// group is all subscribers with the same filter: matching and encoding are
// done once for them.
type group struct {
	filter Filter

	mu    sync.Mutex
	known map[int64]bool
	subs  map[*sub]struct{}
}

type sub struct {
	out     chan Update
	skipped int
}

const (
	subBacklog = 8       // updates that wait for a slow reader; then the oldest goes
	knownLimit = 200_000 // decisions remembered for a filter
)

// Subscribe shows what is published from now on to whoever reads the channel,
// until the context ends; the channel is closed then. A slow reader misses the
// oldest updates and holds up nobody.
func (h *Hub) Subscribe(ctx context.Context, f Filter) <-chan Update {
	s := &sub{out: make(chan Update, subBacklog)}
	h.mu.Lock()
	g := h.groups[f.text]
	if g == nil {
		g = &group{filter: f, known: map[int64]bool{}, subs: map[*sub]struct{}{}}
		h.groups[f.text] = g
	}
	g.mu.Lock()
	g.subs[s] = struct{}{}
	g.mu.Unlock()
	h.subs++
	h.mu.Unlock()
	h.tell()
	context.AfterFunc(ctx, func() { h.leave(g, s) })
	return s.out
}

func (h *Hub) leave(g *group, s *sub) {
	h.mu.Lock()
	g.mu.Lock()
	delete(g.subs, s)
	close(s.out)
	if len(g.subs) == 0 {
		delete(h.groups, g.filter.text)
	}
	g.mu.Unlock()
	h.subs--
	h.mu.Unlock()
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

// send picks what the group takes of a batch and hands it out, with how many
// batches were left out before it.
func (g *group) send(all []metric.Row, left int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for s := range g.subs {
		s.skipped += left
	}
	n := 0
	for i := range all {
		if g.takes(all[i].Series) {
			n++
		}
	}
	if n == 0 {
		return
	}
	u := Update{Rows: all, shared: &encoded{}}
	if n < len(all) {
		u.Rows = make([]metric.Row, 0, n)
		for i := range all {
			if g.takes(all[i].Series) {
				u.Rows = append(u.Rows, all[i])
			}
		}
	}
	for s := range g.subs {
		s.give(u)
	}
}

func (g *group) takes(s *metric.Series) bool {
	yes, ok := g.known[s.ID()]
	if !ok {
		if len(g.known) >= knownLimit {
			clear(g.known)
		}
		yes = g.filter.Takes(s)
		g.known[s.ID()] = yes
	}
	return yes
}

// give hands over an update; only the group's one sender calls it.
func (s *sub) give(u Update) {
	for {
		u.Skipped = s.skipped
		select {
		case s.out <- u:
			s.skipped = 0
			return
		default:
		}
		select {
		case old := <-s.out:
			s.skipped += 1 + old.Skipped
		default:
		}
	}
}
