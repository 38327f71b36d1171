package api

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"headroom/metric"
)

// builder makes batches of points that come one by one, and puts them while
// the next are read.
type builder struct {
	a      *API
	origin string
	key    []byte // what makes a repeated request the same; nil: nothing does
	puts   *puts

	load *load
	size int // bound of the encoded form, bytes
	part int
}

// load is one batch in the making, and the memory it lies in. Loads are used
// again, so that a point costs no allocation.
type load struct {
	batch  metric.Batch
	rowOf  rowTable
	series []*metric.Series
	count  []int32 // points of each series
	flat   []loose
	points []metric.Point
}

type loose struct {
	row   int32
	at    int64
	value float64
}

var loads = sync.Pool{New: func() any { return new(load) }}

// Bounds of what a row and a point add to an encoded batch; see metric.Split.
const (
	rowBytes   = 16
	pointBytes = 19
	cutAt      = metric.MaxBatchBytes - 8<<10
)

func newBuilder(ctx context.Context, a *API, origin string, key []byte) *builder {
	return &builder{a: a, origin: origin, key: key, puts: newPuts(ctx, a), load: loads.Get().(*load)}
}

// add takes a point that is good.
func (b *builder) add(s *metric.Series, at int64, value float64) {
	row, ok := b.load.rowOf.row(s, b.load.series)
	if !ok {
		b.load.series = append(b.load.series, s)
		b.load.count = append(b.load.count, 0)
		b.size += rowBytes + len(s.Key())
	}
	b.load.count[row]++
	b.load.flat = append(b.load.flat, loose{row, at, value})
	if b.size += pointBytes; b.size > cutAt || len(b.load.flat) >= metric.MaxBatchPoints {
		b.flush()
	}
}

// flush sends off what was gathered. It waits while too much is on its way.
func (b *builder) flush() {
	l := b.load
	if len(l.flat) == 0 {
		return
	}
	l.arrange()
	l.batch.Origin = b.origin
	l.batch.ID = b.id()
	b.load, b.size, b.part = loads.Get().(*load), 0, b.part+1
	b.puts.send(l)
}

// done sends off the rest and waits until all is on disk.
func (b *builder) done() error {
	b.flush()
	b.load.reset()
	loads.Put(b.load)
	return b.puts.wait()
}

// arrange sorts the points by series, and those of a series by time; of two at
// the same time the one that came later stays.
func (l *load) arrange() {
	l.points = slices.Grow(l.points[:0], len(l.flat))[:len(l.flat)]
	next := make([]int32, len(l.count))
	sum := int32(0)
	for i, n := range l.count {
		next[i] = sum
		sum += n
	}
	for _, p := range l.flat {
		l.points[next[p.row]] = metric.Point{At: p.at, Value: p.value}
		next[p.row]++
	}
	l.batch.Rows = slices.Grow(l.batch.Rows[:0], len(l.series))
	for i, s := range l.series {
		end := next[i]
		ps := inOrder(l.points[end-l.count[i] : end : end])
		l.batch.Rows = append(l.batch.Rows, metric.Row{Series: s, Points: ps})
	}
}

func inOrder(ps []metric.Point) []metric.Point {
	rising := true
	for i := 1; i < len(ps) && rising; i++ {
		rising = ps[i-1].At < ps[i].At
	}
	if rising {
		return ps
	}
	slices.SortStableFunc(ps, func(a, b metric.Point) int { return int(a.At - b.At) })
	out := ps[:1]
	for _, p := range ps[1:] {
		if last := &out[len(out)-1]; last.At == p.At {
			*last = p
		} else {
			out = append(out, p)
		}
	}
	return out
}

func (l *load) reset() {
	l.rowOf.reset()
	clear(l.series)
	clear(l.batch.Rows)
	l.series, l.count, l.flat, l.batch.Rows = l.series[:0], l.count[:0], l.flat[:0], l.batch.Rows[:0]
}

// id names the batch. With a key it follows from key, place and content: a
// request that is repeated names its batches the same, and one that uses the
// key again for something else does not.
func (b *builder) id() metric.ID {
	if b.key == nil {
		return metric.NewID()
	}
	h := sha256.New()
	h.Write(b.key)
	var buf []byte
	for i := range b.load.batch.Rows {
		r := &b.load.batch.Rows[i]
		buf = binary.BigEndian.AppendUint64(buf[:0], uint64(r.Series.ID()))
		for _, p := range r.Points {
			buf = binary.BigEndian.AppendUint64(buf, uint64(p.At))
			buf = binary.BigEndian.AppendUint64(buf, math.Float64bits(p.Value))
		}
		h.Write(buf)
	}
	var part [8]byte
	binary.BigEndian.PutUint64(part[:], uint64(b.part))
	h.Write(part[:])
	return metric.ID(h.Sum(nil)[:len(metric.ID{})])
}
