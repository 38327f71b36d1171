package live

import (
	"sync"
	"sync/atomic"

	"headroom/metric"
)

// Update is what one batch holds for a subscriber. It is shared with others
// and must not be altered.
type Update struct {
	Rows    []metric.Row
	Skipped int // updates that this subscriber was too slow for since the last one

	rows, text *parcel // text is nil where nobody else has the rows
	shared     *encoded
	sub        *Sub
}

type encoded struct {
	once sync.Once
	text []byte
}

// parcel is memory that several may hold; it counts once.
type parcel struct {
	h     *Hub
	bytes int64
	refs  atomic.Int32
}

// parcel is n bytes for the caller to hold; nil if that were more than a limit,
// and who holds most is cut off. h.mu is held, to read.
func (h *Hub) parcel(n, limit int64) *parcel {
	if h.held.Load()+n > limit {
		h.relieve(n)
		return nil
	}
	p := &parcel{h: h, bytes: n}
	p.refs.Store(1)
	h.held.Add(n)
	return p
}

func (p *parcel) release() {
	if p != nil && p.refs.Add(-1) == 0 {
		p.h.held.Add(-p.bytes)
	}
}

// Encoded returns the rows as f writes them, made once for all subscribers
// with the same filter: they must all use the same f. nil if there is only one,
// who may as well write them bit by bit.
func (u Update) Encoded(f func([]metric.Row) []byte) []byte {
	if u.shared == nil {
		return nil
	}
	u.shared.once.Do(func() { u.shared.text = f(u.Rows) })
	return u.shared.text
}

// Done says that the update is written: it counts no longer as held. It has to
// be called once for each update that was read.
func (u Update) Done() {
	u.sub.held.Add(-u.bytes())
	u.rows.release()
	u.text.release()
}

// hold is the reverse of Done.
func (u Update) hold() {
	u.sub.held.Add(u.bytes())
	u.rows.refs.Add(1)
	if u.text != nil {
		u.text.refs.Add(1)
	}
}

func (u Update) bytes() int64 {
	if u.text == nil {
		return u.rows.bytes
	}
	return u.rows.bytes + u.text.bytes
}

// Sub is one who looks.
type Sub struct {
	h       *Hub
	out     chan Update
	skipped int
	cut     func()
	over    atomic.Bool  // it is cut off
	held    atomic.Int64 // bytes that wait for it, or that it writes
}

// Updates is what was published, closed when the subscription has ended.
func (s *Sub) Updates() <-chan Update { return s.out }

// Hold counts rows that the subscriber keeps besides, until release is called.
// Not ok: there is no room for them.
func (s *Sub) Hold(rows []metric.Row) (release func(), ok bool) {
	s.h.mu.RLock()
	defer s.h.mu.RUnlock()
	p := s.h.parcel(weight(rows), s.h.o.Bytes)
	if p == nil {
		return nil, false
	}
	s.held.Add(p.bytes)
	return func() { s.held.Add(-p.bytes); p.release() }, true
}

const (
	subBacklog = 8         // updates that wait for a slow reader; then the oldest goes
	knownLimit = 200_000   // decisions remembered for a filter
	knownAll   = 1_000_000 // and for all of them, about 20 bytes each
)

// weight is about how many bytes rows take in memory; textWeight their text.
func weight(rows []metric.Row) int64     { return 64 + 32*int64(len(rows)) + 16*int64(count(rows)) }
func textWeight(rows []metric.Row) int64 { return 200*int64(len(rows)) + 24*int64(count(rows)) }

// relieve cuts off those who hold most, until there is room for n more bytes as
// soon as they have let go. h.mu is held, to read.
func (h *Hub) relieve(n int64) {
	h.cutting.Lock()
	defer h.cutting.Unlock()
	going := int64(0)
	for s := range h.cut {
		if held := s.held.Load(); held > 0 {
			going += held
		} else {
			delete(h.cut, s)
		}
	}
	for h.held.Load()+n-going > h.o.Bytes {
		var most *Sub
		for _, g := range h.groups {
			for s := range g.subs {
				if !s.over.Load() && (most == nil || s.held.Load() > most.held.Load()) {
					most = s
				}
			}
		}
		if most == nil || most.held.Load() < n {
			return // who asks would be the one who holds most
		}
		going += most.held.Load()
		most.over.Store(true)
		h.cut[most] = struct{}{}
		most.cut()
	}
}

// group is all subscribers with the same filter: matching and encoding are
// done once for them.
type group struct {
	filter Filter
	subs   map[*Sub]struct{}

	mu    sync.Mutex
	known map[int64]bool
}

// send picks what a group takes of a batch and hands it out, with how many
// batches were left out before it. h.mu is held, to read.
func (h *Hub) send(g *group, all []metric.Row, whole *parcel, left int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for s := range g.subs {
		s.skipped += left
	}
	rows := h.pick(g, all)
	if len(rows) == 0 {
		return
	}
	limit := h.o.Bytes
	for s := range g.subs {
		if s.held.Load() == 0 { // what others hold is not the fault of one who reads
			limit = 2 * h.o.Bytes
		}
	}
	u := Update{Rows: rows, rows: whole}
	if len(rows) < len(all) {
		u.rows = h.parcel(weight(rows), limit)
		defer u.rows.release()
	}
	if len(g.subs) > 1 {
		u.text, u.shared = h.parcel(textWeight(rows), limit), &encoded{}
		defer u.text.release()
	}
	for s := range g.subs {
		if u.rows == nil || u.shared != nil && u.text == nil { // no room
			s.skipped++
			continue
		}
		s.give(u)
	}
}

// pick returns the rows that a group takes. Where that is not all of them their
// points are copied, so that few of them do not hold a whole batch.
func (h *Hub) pick(g *group, all []metric.Row) []metric.Row {
	var taken []int32
	points := 0
	for i := range all {
		if h.takes(g, all[i].Series) {
			taken = append(taken, int32(i))
			points += len(all[i].Points)
		}
	}
	if len(taken) == len(all) {
		return all
	}
	rows, arena := make([]metric.Row, 0, len(taken)), make([]metric.Point, 0, points)
	for _, i := range taken {
		first := len(arena)
		arena = append(arena, all[i].Points...)
		rows = append(rows, metric.Row{Series: all[i].Series, Points: arena[first:len(arena):len(arena)]})
	}
	return rows
}

func (h *Hub) takes(g *group, s *metric.Series) bool {
	if g.filter.cheap() {
		return g.filter.Takes(s)
	}
	yes, ok := g.known[s.ID()]
	if !ok {
		if len(g.known) >= knownLimit {
			h.known.Add(-int64(len(g.known)))
			clear(g.known)
		}
		yes = g.filter.Takes(s)
		if h.known.Load() < knownAll {
			h.known.Add(1)
			g.known[s.ID()] = yes
		}
	}
	return yes
}

// give hands over an update; only the group's one sender calls it.
func (s *Sub) give(u Update) {
	u.sub = s
	for !s.over.Load() {
		u.Skipped = s.skipped
		u.hold()
		select {
		case s.out <- u:
			s.skipped = 0
			return
		default:
			u.Done()
		}
		select {
		case old := <-s.out:
			s.skipped += 1 + old.Skipped
			old.Done()
		default:
		}
	}
}
