package store

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
)

// A column of whole numbers, packed so that plain SQL can read it, too
// (headroom._ints):
//
//	head    1 byte: order (bits 0–1), flat (bit 2), signed (bit 3)
//	fields  order 1: the first number; order 2: the first number and the first difference
//	base    the least of the differences of that order (order 0: of the numbers);
//	        signed: the one that most of them are
//	widths  unless flat: one byte for each block of 32 differences, bits for one of them
//	bits    unless flat: difference minus base, most significant bit first, blocks without a gap;
//	        signed: 2x for x ≥ 0, -2x-1 for x < 0, so that one missed round costs its own block only
//
// A field is a length byte (0 to 8) and so many bytes of a big-endian two's
// complement. How many numbers there are is kept by whoever keeps the column.
const (
	intsBlock  = 32
	intsFlat   = 4
	intsSigned = 8
)

var errPacked = errors.New("packed numbers are damaged")

// packInts appends the numbers, in the order of differences that is smallest.
func packInts(dst []byte, v []int64) []byte {
	if len(v) == 0 {
		return append(dst, intsFlat, 0)
	}
	var room [2][64]int64 // most columns are short: no garbage for them
	var buf [2][]int64
	best, diffs, order := shapeOf(v, 0), v, 0
	for o, cur := 1, v; o <= 2 && o < len(v); o++ {
		next, ok := differences(room[o-1][:0], cur)
		if !ok {
			break
		}
		buf[o-1], cur = next, next
		if x := shapeOf(cur, o); x.cost < best.cost {
			best, diffs, order = x, cur, o
		}
	}
	head := byte(order)
	if best.flat {
		head |= intsFlat
	}
	if best.signed {
		head |= intsSigned
	}
	dst = append(dst, head)
	if order > 0 {
		dst = appendField(dst, v[0])
	}
	if order > 1 {
		dst = appendField(dst, buf[0][0])
	}
	dst = appendField(dst, best.base)
	if best.flat {
		return dst
	}
	return appendBits(dst, diffs, best)
}

// differences appends v[i+1]-v[i]; not ok if one overflows.
func differences(d, v []int64) ([]int64, bool) {
	if cap(d) < len(v)-1 {
		d = make([]int64, 0, len(v)-1)
	}
	for i := range len(v) - 1 {
		x := v[i+1] - v[i]
		if (v[i+1] >= v[i]) != (x >= 0) {
			return nil, false
		}
		d = append(d, x)
	}
	return d, true
}

// shape is how numbers are laid out, and about how many bits that takes.
type shape struct {
	base         int64
	flat, signed bool
	cost         int
}

// shapeOf finds the better base: the least number, or the commonest.
func shapeOf(v []int64, order int) shape {
	lo, hi := slices.Min(v), slices.Max(v)
	x := shape{base: lo, flat: lo == hi, cost: order * 24}
	if x.flat {
		return x
	}
	small := hi-lo >= 0 && hi-lo < 1<<60
	if hi-lo < 0 { // a span of more than 63 bits
		x.base = 0
	}
	x.cost += x.bits(v)
	if small {
		y := shape{base: commonest(v), signed: true, cost: order * 24}
		if y.cost += y.bits(v); y.cost < x.cost {
			return y
		}
	}
	return x
}

// commonest is the number that more than half are, if there is such a one.
func commonest(v []int64) int64 {
	best, votes := v[0], 0
	for _, x := range v {
		switch {
		case x == best:
			votes++
		case votes == 0:
			best, votes = x, 1
		default:
			votes--
		}
	}
	return best
}

func (x *shape) bits(v []int64) int {
	cost := 0
	for len(v) > 0 {
		n := min(intsBlock, len(v))
		cost += 8 + n*x.width(v[:n])
		v = v[n:]
	}
	return cost
}

func (x *shape) word(n int64) uint64 {
	n -= x.base
	if x.signed {
		return uint64(n<<1 ^ n>>63)
	}
	return uint64(n)
}

func (x *shape) width(v []int64) int {
	var all uint64
	for _, n := range v {
		all |= x.word(n)
	}
	return bits.Len64(all)
}

func appendBits(dst []byte, v []int64, x shape) []byte {
	at := len(dst)
	for i := 0; i < len(v); i += intsBlock {
		dst = append(dst, byte(x.width(v[i:min(i+intsBlock, len(v))])))
	}
	var acc uint64 // the high `have` bits are to be written
	have := 0
	for i, n := range v {
		w := int(dst[at+i/intsBlock])
		if w == 0 {
			continue
		}
		u := x.word(n) << (64 - w)
		acc |= u >> have
		if have+w < 64 {
			have += w
			continue
		}
		dst = binary.BigEndian.AppendUint64(dst, acc)
		acc = u << (64 - have) // 0 where have is 0
		have += w - 64
	}
	for ; have > 0; have -= 8 {
		dst = append(dst, byte(acc>>56))
		acc <<= 8
	}
	return dst
}

func appendField(dst []byte, v int64) []byte {
	n := 0
	if v != 0 {
		n = (bits.Len64(uint64(v^(v>>63))))/8 + 1
	}
	dst = append(dst, byte(n))
	for i := n - 1; i >= 0; i-- {
		dst = append(dst, byte(v>>(8*i)))
	}
	return dst
}

func readField(src []byte) (v int64, rest []byte, err error) {
	if len(src) == 0 || src[0] > 8 || len(src) < 1+int(src[0]) {
		return 0, nil, errPacked
	}
	n := int(src[0])
	if n > 0 {
		v = int64(int8(src[1]))
		for _, b := range src[2 : 1+n] {
			v = v<<8 | int64(b)
		}
	}
	return v, src[1+n:], nil
}

// unpackInts appends n numbers to dst.
func unpackInts(dst []int64, src []byte, n int) ([]int64, error) {
	if len(src) == 0 || n < 0 {
		return dst, errPacked
	}
	order, flat, signed := int(src[0]&3), src[0]&intsFlat != 0, src[0]&intsSigned != 0
	src = src[1:]
	var f [3]int64 // first number, first difference, base; what is missing is 0
	var err error
	for i := range order + 1 {
		at := i
		if i == order {
			at = 2
		}
		if f[at], src, err = readField(src); err != nil {
			return dst, err
		}
	}
	if n == 0 {
		return dst, nil
	}
	if order > 2 || n < order {
		return dst, errPacked
	}
	start := len(dst)
	if order > 0 {
		dst = append(dst, f[0])
	}
	if order > 1 {
		dst = append(dst, f[0]+f[1])
	}
	if dst, err = unpackBits(dst, src, n-order, f[2], flat, signed); err != nil {
		return dst[:start], err
	}
	integrate(dst[start:], order)
	return dst, nil
}

// integrate makes numbers of differences; the first `order` are numbers already.
func integrate(v []int64, order int) {
	switch order {
	case 1:
		for i := 1; i < len(v); i++ {
			v[i] += v[i-1]
		}
	case 2:
		for i := 2; i < len(v); i++ {
			v[i] += 2*v[i-1] - v[i-2]
		}
	}
}

func unpackBits(dst []int64, src []byte, n int, base int64, flat, signed bool) ([]int64, error) {
	if flat {
		for range n {
			dst = append(dst, base)
		}
		return dst, nil
	}
	blocks := (n + intsBlock - 1) / intsBlock
	if len(src) < blocks {
		return dst, errPacked
	}
	widths, src := src[:blocks], src[blocks:]
	total := 0
	for i, w := range widths {
		if w > 64 {
			return dst, errPacked
		}
		total += int(w) * min(intsBlock, n-i*intsBlock)
	}
	if len(src) < (total+7)/8 {
		return dst, errPacked
	}
	r := bitReader{src: src}
	for i := range n {
		u := r.take(int(widths[i/intsBlock]))
		if signed {
			u = u>>1 ^ -(u & 1)
		}
		dst = append(dst, base+int64(u))
	}
	return dst, nil
}

// bitReader hands out bits, most significant first; the caller knows how many
// there are.
type bitReader struct {
	src  []byte
	acc  uint64
	have int
}

func (r *bitReader) take(w int) uint64 {
	if w == 0 {
		return 0
	}
	if w > 56 { // more than refills at once
		hi := r.take(w - 32)
		return hi<<32 | r.take(32)
	}
	for r.have < w {
		if len(r.src) >= 4 && r.have <= 32 {
			r.acc |= uint64(binary.BigEndian.Uint32(r.src)) << (32 - r.have)
			r.src, r.have = r.src[4:], r.have+32
			continue
		}
		r.acc |= uint64(r.src[0]) << (56 - r.have)
		r.src, r.have = r.src[1:], r.have+8
	}
	u := r.acc >> (64 - w)
	r.acc <<= w
	r.have -= w
	return u
}
