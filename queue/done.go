package queue

import "slices"

// span is the sequences from lo to hi, both included.
type span struct{ lo, hi uint64 }

// doneSet is the sequences that are taken from the queue for good: all below
// low, and the spans above it, which neither touch nor overlap.
type doneSet struct {
	low   uint64 // the smallest that is not done
	spans []span
}

// add marks lo to hi and returns how many of them were not done before.
func (d *doneSet) add(lo, hi uint64) uint64 {
	lo = max(lo, d.low)
	if hi < lo {
		return 0
	}
	added := hi - lo + 1
	i, _ := slices.BinarySearchFunc(d.spans, lo, func(s span, v uint64) int {
		if s.hi+1 < v {
			return -1
		}
		return 1
	})
	j, merged := i, span{lo, hi}
	for ; j < len(d.spans) && d.spans[j].lo <= hi+1; j++ {
		s := d.spans[j]
		if l, h := max(s.lo, lo), min(s.hi, hi); l <= h {
			added -= h - l + 1
		}
		merged = span{min(merged.lo, s.lo), max(merged.hi, s.hi)}
	}
	d.spans = slices.Replace(d.spans, i, j, merged)
	if d.spans[0].lo == d.low {
		d.low = d.spans[0].hi + 1
		d.spans = slices.Delete(d.spans, 0, 1)
	}
	return added
}

func (d *doneSet) has(seq uint64) bool { return d.covers(seq, seq) }

// covers says whether all of lo to hi are done; of an empty range, yes.
func (d *doneSet) covers(lo, hi uint64) bool {
	lo = max(lo, d.low)
	if hi < lo {
		return true
	}
	for _, s := range d.spans {
		if s.lo <= lo && hi <= s.hi {
			return true
		}
	}
	return false
}

// above is how many are done that are not below low.
func (d *doneSet) above() uint64 {
	n := uint64(0)
	for _, s := range d.spans {
		n += s.hi - s.lo + 1
	}
	return n
}
