package store

import (
	"encoding/binary"

	"headroom/metric"
)

// coder packs and unpacks points; it keeps its buffers and is not safe for
// concurrent use.
type coder struct {
	ints   []int64
	spare  []int64
	floats []float64
	points []metric.Point
}

// pack makes the two columns of points that rise in time: milliseconds after
// the first point, and values.
func (c *coder) pack(ps []metric.Point) (times, values []byte) {
	c.ints, c.floats = c.ints[:0], c.floats[:0]
	for _, p := range ps {
		c.ints = append(c.ints, p.At-ps[0].At)
		c.floats = append(c.floats, p.Value)
	}
	times = packInts(make([]byte, 0, 16), c.ints)
	return times, packFloats(make([]byte, 0, 32), c.floats, c.ints)
}

// unpack appends n points whose first is at a time.
func (c *coder) unpack(dst []metric.Point, at int64, n int, times, values []byte) ([]metric.Point, error) {
	var err error
	if c.floats, c.spare, err = unpackFloats(c.floats[:0], values, n, c.spare); err != nil {
		return dst, err
	}
	if c.ints, err = unpackInts(c.ints[:0], times, n); err != nil {
		return dst, err
	}
	for i, t := range c.ints {
		dst = append(dst, metric.Point{At: at + t, Value: c.floats[i]})
	}
	return dst, nil
}

// seal appends points as one block that knows its own length, for memory.
func (c *coder) seal(dst []byte, ps []metric.Point) []byte {
	times, values := c.pack(ps)
	dst = binary.AppendUvarint(dst, uint64(len(ps)))
	dst = binary.AppendVarint(dst, ps[0].At)
	dst = binary.AppendUvarint(dst, uint64(len(times)))
	dst = append(dst, times...)
	dst = binary.AppendUvarint(dst, uint64(len(values)))
	return append(dst, values...)
}

// unseal appends the points of all blocks in src, which seal wrote in this
// process.
func (c *coder) unseal(dst []metric.Point, src []byte) []metric.Point {
	part := func() []byte {
		n, k := binary.Uvarint(src)
		p := src[k : k+int(n)]
		src = src[k+int(n):]
		return p
	}
	for len(src) > 0 {
		n, k := binary.Uvarint(src)
		at, l := binary.Varint(src[k:])
		src = src[k+l:]
		times := part()
		values := part()
		var err error
		if dst, err = c.unpack(dst, at, int(n), times, values); err != nil {
			panic("BUG: a block in memory cannot be read: " + err.Error())
		}
	}
	return dst
}
