package store

import (
	"math"
)

// A column of numbers with a fraction, packed so that plain SQL can read it,
// too (headroom._floats), and exact to the last bit:
//
//	0 exponent factor ints   value = (number · factor) / 10^exponent
//	1 ints                   value = the IEEE 754 double with these bits, as a whole number; negative ones negated
//
// What machines count is mostly whole, or decimal with few digits, or a
// multiple of a page or a sector: the first form then leaves small numbers.
const (
	floatsDecimal = 0
	floatsBits    = 1
	maxExponent   = 15
)

var pow10 = [maxExponent + 1]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// packFloats appends the values. Scratch is used for the whole numbers.
func packFloats(dst []byte, v []float64, scratch []int64) []byte {
	ints, exponent, ok := decimals(v, scratch[:0])
	if !ok {
		ints = ints[:0]
		for _, x := range v {
			ints = append(ints, bitsOf(x))
		}
		return packInts(append(dst, floatsBits), ints)
	}
	g := divisor(ints)
	if g > 1 {
		for i := range ints {
			ints[i] /= g
		}
	}
	dst = append(dst, floatsDecimal, byte(exponent))
	return packInts(appendField(dst, g), ints)
}

// decimals finds the smallest exponent that makes all values whole, exactly.
func decimals(v []float64, ints []int64) ([]int64, int, bool) {
	e := 0
	for i := 0; i < len(v); i++ {
		n, ok := whole(v[i], e)
		if ok {
			ints = append(ints, n)
			continue
		}
		if e++; e > maxExponent {
			return ints, 0, false
		}
		ints, i = ints[:0], -1
	}
	return ints, e, true
}

// whole is v·10^e, if that is a whole number from which v comes back.
func whole(v float64, e int) (int64, bool) {
	x := v * pow10[e]
	if !(x > -1<<62 && x < 1<<62) {
		return 0, false
	}
	n := int64(math.Round(x))
	if e > 0 && (n >= 1<<53 || n <= -1<<53) {
		return 0, false
	}
	return n, math.Float64bits(float64(n)/pow10[e]) == math.Float64bits(v)
}

// divisor is the greatest common divisor, at least 1.
func divisor(v []int64) int64 {
	var g int64
	for _, x := range v {
		if x < 0 {
			x = -x
		}
		for x != 0 {
			g, x = x, g%x
		}
		if g == 1 {
			return 1
		}
	}
	return max(g, 1)
}

func bitsOf(v float64) int64 {
	b := int64(math.Float64bits(v))
	if b < 0 {
		return -(b & math.MaxInt64)
	}
	return b
}

func floatOf(i int64) float64 {
	if i < 0 {
		return -math.Float64frombits(uint64(-i))
	}
	return math.Float64frombits(uint64(i))
}

// unpackFloats appends n values to dst. Scratch is used for the whole numbers
// and returned for the next call.
func unpackFloats(dst []float64, src []byte, n int, scratch []int64) ([]float64, []int64, error) {
	if len(src) == 0 {
		return dst, scratch, errPacked
	}
	form, g, e := src[0], int64(1), 0
	src = src[1:]
	var err error
	if form == floatsDecimal {
		if len(src) == 0 || src[0] > maxExponent {
			return dst, scratch, errPacked
		}
		e = int(src[0])
		if g, src, err = readField(src[1:]); err != nil {
			return dst, scratch, err
		}
	} else if form != floatsBits {
		return dst, scratch, errPacked
	}
	ints, err := unpackInts(scratch[:0], src, n)
	if err != nil {
		return dst, ints, err
	}
	switch {
	case form == floatsBits:
		for _, i := range ints {
			dst = append(dst, floatOf(i))
		}
	case e == 0:
		for _, i := range ints {
			dst = append(dst, float64(i*g))
		}
	default:
		p := pow10[e]
		for _, i := range ints {
			dst = append(dst, float64(i*g)/p)
		}
	}
	return dst, ints, nil
}
