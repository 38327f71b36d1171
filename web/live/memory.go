package live

import (
	"container/list"
	"slices"
	"strings"
	"sync"

	"headroom/metric"
)

// memory keeps the newest points of a bounded number of series. When there is
// no room, the series that was silent longest makes it, unless even that one
// spoke within the last minute: then the newcomer is not kept, because a flood
// would only push out what somebody may look at.
type memory struct {
	keep    int64 // milliseconds
	series  int
	points  int
	nowMS   func() int64
	mu      sync.Mutex
	held    map[int64]*list.Element // of *kept
	order   *list.List              // front: spoke last
	total   int                     // points held
	refused int64                   // points of series that were not kept
}

type kept struct {
	series *metric.Series
	points []metric.Point
	spoke  int64 // our clock, milliseconds
}

const (
	quiet = 60_000  // milliseconds of silence after which a series may be pushed out
	ahead = 600_000 // what is further ahead of our clock is from before that was set back
)

func newMemory(o Options) memory {
	return memory{
		keep: o.Keep.Milliseconds(), series: o.Series, points: o.Points,
		nowMS: func() int64 { return o.Now().UnixMilli() },
		held:  map[int64]*list.Element{}, order: list.New(),
	}
}

func (m *memory) add(b *metric.Batch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.nowMS()
	for i := range b.Rows {
		m.row(&b.Rows[i], now)
	}
	for m.total > m.points && m.order.Len() > 0 {
		m.drop(m.order.Back())
	}
	for e := m.order.Back(); e != nil && e.Value.(*kept).stale(now, m.keep); e = m.order.Back() {
		m.drop(e)
	}
}

func (m *memory) row(r *metric.Row, now int64) {
	e, ok := m.held[r.Series.ID()]
	if !ok {
		if e = m.enter(r.Series, now); e == nil {
			m.refused += int64(len(r.Points))
			return
		}
	}
	k := e.Value.(*kept)
	if k.series != r.Series && k.series.Key() != r.Series.Key() {
		return // two keys share a number; the store tells of it
	}
	k.spoke = now
	m.order.MoveToFront(e)
	before := len(k.points)
	for n := before; n > 0 && k.points[n-1].At > now+ahead; n-- {
		k.points = k.points[:n-1] // or it would stay the newest for as long
	}
	for _, p := range r.Points {
		if p.At > now-m.keep {
			k.put(p, now-m.keep)
		}
	}
	m.total += len(k.points) - before
}

// stale says that nothing was heard for longer than points are kept.
func (k *kept) stale(now, keep int64) bool { return now-k.spoke > keep || k.spoke > now+ahead }

// put adds a point in its place; of two at the same time the later one stays.
func (k *kept) put(p metric.Point, oldest int64) {
	if len(k.points) == cap(k.points) { // before it grows, what is too old goes
		i, _ := slices.BinarySearchFunc(k.points, oldest, func(p metric.Point, t int64) int { return int(p.At - t) })
		k.points = slices.Delete(k.points, 0, i)
	}
	n := len(k.points)
	if n == 0 || k.points[n-1].At < p.At {
		k.points = append(k.points, p)
		return
	}
	i, same := slices.BinarySearchFunc(k.points, p.At, func(p metric.Point, t int64) int { return int(p.At - t) })
	if same {
		k.points[i] = p
		return
	}
	k.points = slices.Insert(k.points, i, p)
}

func (m *memory) enter(s *metric.Series, now int64) *list.Element {
	if len(m.held) >= m.series {
		last := m.order.Back()
		if now-last.Value.(*kept).spoke < quiet {
			return nil
		}
		m.drop(last)
	}
	e := m.order.PushFront(&kept{series: s})
	m.held[s.ID()] = e
	return e
}

func (m *memory) drop(e *list.Element) {
	k := m.order.Remove(e).(*kept)
	delete(m.held, k.series.ID())
	m.total -= len(k.points)
}

func (m *memory) recent(f Filter, since int64, limit int) (rows []metric.Row, more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	since = max(since, m.nowMS()-m.keep)
	for e := m.order.Front(); e != nil; e = e.Next() {
		k := e.Value.(*kept)
		i, _ := slices.BinarySearchFunc(k.points, since, func(p metric.Point, t int64) int { return int(p.At - t) })
		if i == len(k.points) || !f.Takes(k.series) {
			continue
		}
		if len(rows) == limit {
			more = true
			break
		}
		rows = append(rows, metric.Row{Series: k.series, Points: slices.Clone(k.points[i:])})
	}
	slices.SortFunc(rows, func(a, b metric.Row) int { return strings.Compare(a.Series.Key(), b.Series.Key()) })
	return rows, more
}

// Last returns the newest point kept of each series that a filter takes, from
// a time on.
func (h *Hub) Last(f Filter, sinceMS int64) []metric.Row {
	m := &h.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	var rows []metric.Row
	for e := m.order.Front(); e != nil; e = e.Next() {
		k := e.Value.(*kept)
		if n := len(k.points); n > 0 && k.points[n-1].At >= sinceMS && f.Takes(k.series) {
			rows = append(rows, metric.Row{Series: k.series, Points: []metric.Point{k.points[n-1]}})
		}
	}
	slices.SortFunc(rows, func(a, b metric.Row) int { return strings.Compare(a.Series.Key(), b.Series.Key()) })
	return rows
}

// Kept says how many series and points are remembered, and how many points of
// series there was no room for since the start.
func (h *Hub) Kept() (series, points int, refused int64) {
	m := &h.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.held), m.total, m.refused
}
