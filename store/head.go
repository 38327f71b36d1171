package store

import (
	"maps"
	"slices"
	"sync"

	"headroom/metric"
)

// head holds the points that are in the hot tables and not packed yet: what
// the newest part of a chart is made of. It is filled from what was committed
// and from nothing else, and can be read anew from the hot tables at any time.
type head struct {
	mu     sync.RWMutex
	series map[int64]*entry
	points int
	bytes  int   // about
	newest int64 // latest time of any point met, milliseconds
	c      coder
	gen    int    // rises when all is forgotten
	wrote  *entry // the last that was written; of the writer alone

	days, oldDays map[int64]bool // starts of the days that runs have points of
	lastDay       int64
}

// entry is what memory knows of a series that is written. The writer alone
// uses series and after.
type entry struct {
	id       int64
	series   *metric.Series // as it came last; nil: none did, or the head has let go of the entry
	after    *entry         // written after it the last time: most often the next again
	hash     uint64         // of the key, to notice two series with one id
	old      run            // being packed, or left over from packing
	now      run            // written since
	last     metric.Point
	packedTo int64 // all that is packed is at or before; 0: not known
}

const entrySize = 224 // bytes of an entry and its place in the map, about

func newHead() *head {
	h := &head{}
	h.forget()
	return h
}

// forget empties the head.
func (h *head) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.series, h.points, h.bytes = map[int64]*entry{}, 0, 0
	h.days, h.oldDays, h.lastDay = map[int64]bool{}, map[int64]bool{}, -1
	h.wrote = nil
	h.gen++
}

// add appends a point of a series.
func (h *head) add(e *entry, p metric.Point) {
	before := e.now.size()
	e.now.add(&h.c, p)
	h.bytes += e.now.size() - before
	h.points++
	if p.At >= e.last.At {
		e.last = p
	}
	h.newest = max(h.newest, p.At)
	if d := p.At - p.At%dayMS; d != h.lastDay {
		h.lastDay, h.days[d] = d, true
	}
}

func (h *head) entry(id int64, hash uint64) *entry {
	e := h.series[id]
	if e == nil {
		e = &entry{id: id, hash: hash}
		h.series[id] = e
		h.bytes += entrySize
	}
	return e
}

// next is the entry after another, if it is a series'; else nil. The same
// pointer is the same key.
func (e *entry) next(s *metric.Series) *entry {
	if e == nil || e.after == nil || e.after.series != s {
		return nil
	}
	return e.after
}

// freeze makes what was written so far the part to be packed.
func (h *head) freeze() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.series {
		e.old.join(&h.c, &e.now)
	}
	maps.Copy(h.oldDays, h.days)
	h.days, h.lastDay = map[int64]bool{}, -1
}

// read returns a series' points within from ≤ at < to, rising, the later
// written of two at one time.
func (h *head) read(c *coder, id, from, to int64) []metric.Point {
	h.mu.RLock()
	defer h.mu.RUnlock()
	e := h.series[id]
	if e == nil {
		return nil
	}
	ps := make([]metric.Point, 0, e.old.n+e.now.n)
	ps = e.now.list(c, e.old.list(c, ps))
	ps = slices.DeleteFunc(ps, func(p metric.Point) bool { return p.At < from || p.At >= to })
	return settle(ps)
}

// settle sorts points that are in the order of writing by time, and keeps of
// those at one time the last.
func settle(ps []metric.Point) []metric.Point {
	byTime := func(a, b metric.Point) int {
		if a.At < b.At {
			return -1
		}
		if a.At > b.At {
			return 1
		}
		return 0
	}
	if !slices.IsSortedFunc(ps, byTime) {
		slices.SortStableFunc(ps, byTime)
	}
	out := ps[:0]
	for i, p := range ps {
		if i+1 < len(ps) && ps[i+1].At == p.At {
			continue
		}
		out = append(out, p)
	}
	return out
}

// size is about how many bytes the head takes.
func (h *head) size() int64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return int64(h.bytes)
}

// full says whether the points are to be packed before their hour is over. Of
// a great many series, what is known of them takes more than the limit; packing
// would not make that less.
func (h *head) full(limit int64) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return int64(h.bytes) > limit && int64(h.bytes-len(h.series)*entrySize) > limit/4
}

// latest is the latest time of any point met, milliseconds; 0: none.
func (h *head) latest() int64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.newest
}
