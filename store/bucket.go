package store

import (
	"strings"

	"headroom/metric"
)

// bucket is what is kept of the points within a minute, an hour or a day.
type bucket struct {
	at    int64 // its start, milliseconds
	count int64
	sum   float64 // in the order of time, so that any order of arrival gives the same
	min   float64
	max   float64
	last  float64
	first float64 // of counters; else last
	inc   float64 // of counters: how much was counted between first and last, restarts included
	sk    *sketch // of gauges whose values differ, where asked for
	end   int64   // time of the last point where it is known, else 0
}

// isCounter tells by the name, as Prometheus does, whether a series only grows.
func isCounter(name string) bool {
	return strings.HasSuffix(name, "_total") || strings.HasSuffix(name, "_bucket")
}

// rise is what a counter counted between two of its values: after a restart it
// began at 0.
func rise(before, after float64) float64 {
	if after < before {
		return after
	}
	return after - before
}

// aggregate makes buckets of points that rise in time.
func aggregate(ps []metric.Point, width int64, counter, sketches bool) []bucket {
	var out []bucket
	var keys []int64
	for i := 0; i < len(ps); {
		start := ps[i].At - ps[i].At%width
		b := bucket{at: start, min: ps[i].Value, max: ps[i].Value, first: ps[i].Value, last: ps[i].Value}
		keys = keys[:0]
		for ; i < len(ps) && ps[i].At < start+width; i++ {
			v := ps[i].Value
			if counter && b.count > 0 {
				b.inc += rise(b.last, v)
			}
			b.count++
			b.sum += v
			b.min, b.max = min(b.min, v), max(b.max, v)
			b.last, b.end = v, ps[i].At
			if sketches && !counter {
				keys = append(keys, sketchKey(v))
			}
		}
		if !counter {
			b.first = b.last
		}
		if len(keys) > 0 && b.min < b.max {
			b.sk = sketchOf(keys)
		}
		out = append(out, b)
	}
	return out
}

// withSketch returns the bucket's sketch, made up where all values are one.
func (b *bucket) withSketch() *sketch {
	if b.sk == nil && b.min == b.max {
		return &sketch{keys: []int64{sketchKey(b.min)}, counts: []int64{b.count}}
	}
	return b.sk
}

// combine adds to a bucket one of the same time made of points that came
// later; only where the points of the first are gone.
func (b *bucket) combine(o bucket) {
	if b.count == 0 {
		*b = o
		return
	}
	if b.min != b.max || o.min != o.max || b.min != o.min {
		b.sk = joinSketch(b.withSketch(), o.withSketch())
	}
	b.count += o.count
	b.sum += o.sum
	b.min, b.max = min(b.min, o.min), max(b.max, o.max)
	if o.end > b.end && b.end > 0 {
		b.inc += rise(b.last, o.first) + o.inc
		b.last, b.end = o.last, o.end
	}
}

// packed are the columns of a store_minute or store_hour row.
type packed struct {
	n                                                    int
	slots, counts, sums, mins, maxs, lasts, firsts, incs []byte
	sketches                                             [][]byte
}

// packBuckets packs the buckets of one day. A column that says what others say
// is NULL (sums, mins, maxs: as lasts; incs: last less first); firsts is NULL
// for a gauge and empty where it is as mins.
func (c *coder) packBuckets(bs []bucket, dayAt, width int64, counter bool) packed {
	p := packed{n: len(bs)}
	c.ints = c.ints[:0]
	for _, b := range bs {
		c.ints = append(c.ints, (b.at-dayAt)/width)
	}
	p.slots = packInts(nil, c.ints)
	c.ints = c.ints[:0]
	for _, b := range bs {
		c.ints = append(c.ints, b.count)
	}
	p.counts = packInts(nil, c.ints)
	last := func(b *bucket) float64 { return b.last }
	p.lasts = c.column(bs, last, nil)
	p.sums = c.column(bs, func(b *bucket) float64 { return b.sum }, last)
	p.mins = c.column(bs, func(b *bucket) float64 { return b.min }, last)
	p.maxs = c.column(bs, func(b *bucket) float64 { return b.max }, last)
	if counter {
		if p.firsts = c.column(bs, func(b *bucket) float64 { return b.first }, func(b *bucket) float64 { return b.min }); p.firsts == nil {
			p.firsts = []byte{}
		}
		p.incs = c.column(bs, func(b *bucket) float64 { return b.inc }, func(b *bucket) float64 { return b.last - b.first })
	}
	for i := range bs {
		if bs[i].sk != nil && p.sketches == nil {
			p.sketches = make([][]byte, len(bs))
		}
		if bs[i].sk != nil {
			p.sketches[i] = bs[i].sk.pack()
		}
	}
	return p
}

// column packs one figure of the buckets; nil where all are like another.
func (c *coder) column(bs []bucket, of, like func(*bucket) float64) []byte {
	c.floats = c.floats[:0]
	same := like != nil
	for i := range bs {
		v := of(&bs[i])
		same = same && v == like(&bs[i])
		c.floats = append(c.floats, v)
	}
	if same {
		return nil
	}
	return packFloats(nil, c.floats, c.ints)
}

// unpackBuckets is the way back.
func (c *coder) unpackBuckets(p packed, dayAt, width int64) ([]bucket, error) {
	bs := make([]bucket, p.n)
	var err error
	if c.ints, err = unpackInts(c.ints[:0], p.slots, p.n); err != nil {
		return nil, err
	}
	for i, v := range c.ints {
		bs[i].at = dayAt + v*width
	}
	if c.ints, err = unpackInts(c.ints[:0], p.counts, p.n); err != nil {
		return nil, err
	}
	for i, v := range c.ints {
		bs[i].count = v
	}
	if err := c.fill(bs, p.lasts, func(b *bucket, v float64) { b.last, b.sum, b.min, b.max, b.first = v, v, v, v, v }); err != nil {
		return nil, err
	}
	for _, col := range []struct {
		data []byte
		into func(*bucket, float64)
	}{
		{p.sums, func(b *bucket, v float64) { b.sum = v }},
		{p.mins, func(b *bucket, v float64) { b.min = v }},
		{p.maxs, func(b *bucket, v float64) { b.max = v }},
	} {
		if err := c.fill(bs, col.data, col.into); err != nil {
			return nil, err
		}
	}
	if p.firsts != nil {
		err = c.counters(bs, p)
	}
	for i, b := range p.sketches {
		if b != nil && i < len(bs) && err == nil {
			bs[i].sk, err = unpackSketch(b)
		}
	}
	return bs, err
}

func (c *coder) counters(bs []bucket, p packed) error {
	for i := range bs {
		bs[i].first = bs[i].min
	}
	if err := c.fill(bs, p.firsts, func(b *bucket, v float64) { b.first = v }); err != nil {
		return err
	}
	for i := range bs {
		bs[i].inc = bs[i].last - bs[i].first
	}
	return c.fill(bs, p.incs, func(b *bucket, v float64) { b.inc = v })
}

func (c *coder) fill(bs []bucket, data []byte, into func(*bucket, float64)) error {
	if len(data) == 0 {
		return nil
	}
	var err error
	if c.floats, c.spare, err = unpackFloats(c.floats[:0], data, len(bs), c.spare); err != nil {
		return err
	}
	for i, v := range c.floats {
		into(&bs[i], v)
	}
	return nil
}
