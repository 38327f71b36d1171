package store

import (
	"encoding/binary"
	"math"

	"headroom/metric"
)

// run is points of a series in the order of writing, in the memory of about 4
// bytes each: blocks that are packed, and behind them the newest points, each
// as the difference to the one before.
type run struct {
	data   []byte
	last   metric.Point // of the newest points; zero where there are none
	n      int32        // points in all
	loose  int32        // of which not packed
	blocks int32        // bytes of data that are packed
}

const sealAt = 16 // points that are packed together in memory

func (r *run) add(c *coder, p metric.Point) {
	if r.loose == sealAt {
		r.seal(c)
	}
	r.data = binary.AppendVarint(r.data, p.At-r.last.At)
	r.data = appendNext(r.data, r.last.Value, p.Value)
	r.last = p
	r.loose++
	r.n++
}

// seal packs the newest points.
func (r *run) seal(c *coder) {
	if r.loose == 0 {
		return
	}
	c.points = appendLoose(c.points[:0], r.data[r.blocks:])
	r.data = c.seal(r.data[:r.blocks], c.points)
	r.last, r.loose, r.blocks = metric.Point{}, 0, int32(len(r.data))
}

func (r *run) size() int { return cap(r.data) }

// list appends the run's points in the order of writing.
func (r *run) list(c *coder, dst []metric.Point) []metric.Point {
	return appendLoose(c.unseal(dst, r.data[:r.blocks]), r.data[r.blocks:])
}

// join appends what another run holds, and empties it.
func (r *run) join(c *coder, o *run) {
	if r.n == 0 {
		*r, *o = *o, run{}
		return
	}
	if o.n > 0 {
		r.seal(c)
		r.last, r.loose, r.blocks = o.last, o.loose, int32(len(r.data))+o.blocks
		r.data = append(r.data, o.data...)
		r.n += o.n
	}
	*o = run{}
}

// appendNext appends a value that comes after another: between whole numbers
// twice the difference as a varint, else 1 and the bits of the value.
func appendNext(dst []byte, before, v float64) []byte {
	a, okA := small(before)
	b, okB := small(v)
	if okA && okB {
		d := b - a
		return binary.AppendUvarint(dst, uint64(d<<1^d>>63)<<1)
	}
	return binary.LittleEndian.AppendUint64(append(dst, 1), math.Float64bits(v))
}

// small is a value as a whole number, if it is one of less than 2^53 from which
// the value comes back.
func small(v float64) (int64, bool) {
	i := int64(v)
	return i, float64(i) == v && i > -1<<53 && i < 1<<53 && (i != 0 || math.Float64bits(v) == 0)
}

// appendLoose appends the points that add wrote in this process.
func appendLoose(dst []metric.Point, src []byte) []metric.Point {
	var p metric.Point
	for len(src) > 0 {
		d, n := binary.Varint(src)
		u, m := binary.Uvarint(src[n:])
		p.At += d
		src = src[n+m:]
		if u&1 == 0 {
			u >>= 1
			p.Value = float64(int64(p.Value) + (int64(u>>1) ^ -int64(u&1)))
		} else {
			p.Value = math.Float64frombits(binary.LittleEndian.Uint64(src))
			src = src[8:]
		}
		dst = append(dst, p)
	}
	return dst
}
