package upsert

import (
	"bytes"
	"encoding/binary"
	"math/big"
)

// maxExponent bounds a number's exponent: PostgreSQL's numeric has 16,383
// digits after the point.
const maxExponent = 16383

// digits is a decimal number taken apart.
type digits struct {
	neg  bool
	text []byte // the digits, without leading zeros; empty for zero
	exp  int    // the number is 0.text × 10^exp
	tail int    // digits written after the point, the exponent applied; not below 0
}

// parseDigits reads [sign]digits[.digits][e[sign]digits].
func parseDigits(s []byte) (d digits, ok bool) {
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		d.neg = s[0] == '-'
		s = s[1:]
	}
	exp := int64(0)
	if i := bytes.IndexAny(s, "eE"); i >= 0 {
		if exp, ok = parseInt(s[i+1:]); !ok || exp > maxExponent || exp < -maxExponent {
			return d, false
		}
		s = s[:i]
	}
	whole, part, point := bytes.Cut(s, []byte("."))
	if len(whole)+len(part) == 0 || point && len(part) == 0 && len(whole) == 0 {
		return d, false
	}
	d.text = make([]byte, 0, len(s))
	d.text = append(append(d.text, whole...), part...)
	for _, b := range d.text {
		if b < '0' || b > '9' {
			return d, false
		}
	}
	d.exp, d.tail = len(whole)+int(exp), max(len(part)-int(exp), 0)
	n := len(d.text)
	d.text = bytes.TrimLeft(d.text, "0")
	d.exp -= n - len(d.text)
	return d, true
}

// round cuts the number to so many digits after the point, half away from zero.
func (d *digits) round(scale int) {
	keep := d.exp + scale
	if keep >= len(d.text) {
		return
	}
	if keep < 0 {
		d.text = nil
		return
	}
	up := d.text[keep] >= '5'
	d.text = d.text[:keep]
	if !up {
		return
	}
	for i := keep - 1; i >= 0; i-- {
		if d.text[i] < '9' {
			d.text[i]++
			return
		}
		d.text[i] = '0'
	}
	d.text = append([]byte{'1'}, d.text...)
	d.exp++
}

// numericKey appends the same bytes for 1, 1.0 and 10e-1, after the rounding
// of numeric(p,s).
func numericKey(dst, text []byte, c *column) ([]byte, bool) {
	d, ok := parseDigits(text)
	if !ok {
		return dst, false
	}
	if c.mod >= 4 {
		scale := int(c.mod-4) & 0x7ff
		d.round(scale ^ 0x400 - 0x400) // 11 bits with a sign
	}
	d.text = bytes.TrimRight(d.text, "0")
	if len(d.text) == 0 {
		return append(dst, '0'), true
	}
	sign := byte('p')
	if d.neg {
		sign = 'm'
	}
	dst = append(dst, sign)
	dst = binary.BigEndian.AppendUint32(dst, uint32(d.exp)^1<<31)
	return append(dst, d.text...), true
}

// sum adds up decimal numbers exactly; the scale is the largest of any.
type sum struct {
	small int64 // used while big is nil
	big   *big.Int
	scale int
}

// add adds a number; false if it is not one or its exponent is out of bounds.
func (s *sum) add(text []byte) bool {
	if v, ok := parseInt(text); ok && s.big == nil {
		if t := s.small + v; (t > s.small) == (v > 0) {
			s.small = t
			return true
		}
	}
	d, ok := parseDigits(text)
	if !ok {
		return false
	}
	v := new(big.Int)
	if len(d.text) > 0 {
		v.SetString(string(d.text), 10)
	}
	scale := len(d.text) - d.exp // v × 10^-scale
	if len(d.text) == 0 {
		scale = d.tail
	}
	if d.neg {
		v.Neg(v)
	}
	if s.big == nil {
		s.big = big.NewInt(s.small)
	}
	to := max(scale, s.scale, d.tail)
	scaleBy(v, to-scale)
	scaleBy(s.big, to-s.scale)
	s.big.Add(s.big, v)
	s.scale = to
	return true
}

func scaleBy(v *big.Int, n int) {
	if n > 0 {
		v.Mul(v, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil))
	}
}

// append writes the sum.
func (s *sum) append(dst []byte) []byte {
	v := s.big
	if v == nil {
		v = big.NewInt(s.small)
	}
	if s.scale <= 0 {
		return v.Append(dst, 10)
	}
	text := new(big.Int).Abs(v).Append(nil, 10)
	if v.Sign() < 0 {
		dst = append(dst, '-')
	}
	for len(text) <= s.scale {
		text = append([]byte{'0'}, text...)
	}
	dst = append(dst, text[:len(text)-s.scale]...)
	dst = append(dst, '.')
	return append(dst, text[len(text)-s.scale:]...)
}
