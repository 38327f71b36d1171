package store

import (
	"math"
	"slices"
)

// sketch tells quantiles of many values to within 2 % of the value: it counts
// values by the logarithm to base 1.02/0.98, as DDSketch does. Two sketches are
// joined by adding counts. Keys rise with values: 0 is zero and what is nearer
// to it than sketchZero, others are the rounded-up logarithm plus 20,000, with
// the value's sign.
type sketch struct {
	keys   []int64
	counts []int64
}

const (
	sketchError = 0.02
	sketchShift = 20_000
	sketchZero  = 1e-300 // nearer to zero, a float64 has not the digits for 2 %
	gamma       = (1 + sketchError) / (1 - sketchError)
)

var logGamma = math.Log(gamma)

func sketchKey(v float64) int64 {
	if math.Abs(v) < sketchZero {
		return 0
	}
	k := int64(math.Ceil(math.Log(math.Abs(v))/logGamma)) + sketchShift
	if v < 0 {
		return -k
	}
	return k
}

func sketchValue(k int64) float64 {
	if k == 0 {
		return 0
	}
	v := 2 * math.Exp(math.Abs(float64(k))*logGamma-sketchShift*logGamma) / (1 + gamma)
	return math.Copysign(v, float64(k))
}

// sketchOf counts values; the slice is not kept.
func sketchOf(keys []int64) *sketch {
	slices.Sort(keys)
	s := &sketch{}
	for _, k := range keys {
		s.add(k, 1)
	}
	return s
}

// add counts a key that is not below the last one.
func (s *sketch) add(k, n int64) {
	if last := len(s.keys) - 1; last >= 0 && s.keys[last] == k {
		s.counts[last] += n
		return
	}
	s.keys, s.counts = append(s.keys, k), append(s.counts, n)
}

// joinSketch returns the sum of two sketches; nil is an empty one.
func joinSketch(a, b *sketch) *sketch {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	out := &sketch{}
	for i, j := 0, 0; i < len(a.keys) || j < len(b.keys); {
		if j == len(b.keys) || i < len(a.keys) && a.keys[i] <= b.keys[j] {
			out.add(a.keys[i], a.counts[i])
			i++
		} else {
			out.add(b.keys[j], b.counts[j])
			j++
		}
	}
	return out
}

// quantile is the value that a share q of all is not above; NaN if there is none.
func (s *sketch) quantile(q float64) float64 {
	var total, upto int64
	for _, n := range s.counts {
		total += n
	}
	rank := int64(math.Floor(q * float64(total-1)))
	for i, n := range s.counts {
		if upto += n; upto > rank {
			return sketchValue(s.keys[i])
		}
	}
	return math.NaN()
}

// pack is: number of keys, length of the packed keys (2 bytes each), keys,
// counts.
func (s *sketch) pack() []byte {
	keys := packInts(nil, s.keys)
	out := []byte{byte(len(s.keys) >> 8), byte(len(s.keys)), byte(len(keys) >> 8), byte(len(keys))}
	return packInts(append(out, keys...), s.counts)
}

func unpackSketch(b []byte) (*sketch, error) {
	if len(b) < 4 {
		return nil, errPacked
	}
	n, l := int(b[0])<<8|int(b[1]), int(b[2])<<8|int(b[3])
	if len(b) < 4+l {
		return nil, errPacked
	}
	var s sketch
	var err error
	if s.keys, err = unpackInts(nil, b[4:4+l], n); err != nil {
		return nil, err
	}
	s.counts, err = unpackInts(nil, b[4+l:], n)
	return &s, err
}
