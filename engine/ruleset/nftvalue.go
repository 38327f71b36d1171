package ruleset

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// members are the values on the right of a match: of a set all, else the one.
func members(right any) []any {
	if k, x := only(right); k == "set" {
		return list(x)
	}
	return []any{right}
}

// plainValue takes an element's options away.
func plainValue(v any) any {
	if k, x := only(v); k == "elem" {
		if o, ok := x.(object); ok {
			return o["val"]
		}
	}
	return v
}

// words reads names; only equal and not equal.
func words(m *Match, op string, right any) bool {
	if op != "==" && op != "!=" {
		return false
	}
	for _, v := range members(right) {
		s, ok := plainValue(v).(string)
		if !ok || s == "" || s[0] == '@' {
			return false
		}
		m.Words = append(m.Words, s)
	}
	return true
}

// bitWords reads names of which exactly one is true of a packet.
func bitWords(m *Match, op string, right any) bool {
	if op == "in" || op == "==" {
		if l, ok := right.([]any); ok {
			if op == "==" && len(l) > 1 {
				return false // all at once
			}
			right = object{"set": l}
		}
		if k, x := only(right); k == "|" {
			right = object{"set": list(x)}
		}
		return words(m, "==", right)
	}
	return words(m, op, right)
}

// anyBit reads names of which several may be true of a packet.
func anyBit(m *Match, op string, right any) bool {
	return op == "in" && bitWords(m, op, right)
}

// numbers reads figures, or names of a table; limit is the field's greatest value.
func numbers(names map[string]uint64, limit uint64) func(m *Match, op string, right any) bool {
	return func(m *Match, op string, right any) bool {
		if op == "in" {
			op = "=="
		}
		for _, v := range members(right) {
			r, ok := numberRange(names, plainValue(v))
			if !ok || r.Hi > limit {
				return false
			}
			m.Numbers = append(m.Numbers, r)
		}
		if op == "==" || op == "!=" {
			return len(m.Numbers) > 0
		}
		if len(m.Numbers) != 1 || m.Numbers[0].Lo != m.Numbers[0].Hi {
			return false
		}
		r, ok := compared(op, m.Numbers[0].Lo, limit)
		m.Numbers[0] = r
		return ok
	}
}

// compared is the range that a comparison with n leaves.
func compared(op string, n, limit uint64) (Range, bool) {
	switch {
	case op == "<" && n > 0:
		return Range{0, n - 1}, true
	case op == "<=":
		return Range{0, n}, true
	case op == ">" && n < limit:
		return Range{n + 1, limit}, true
	case op == ">=":
		return Range{n, limit}, true
	}
	return Range{}, false
}

func numberRange(names map[string]uint64, v any) (Range, bool) {
	if k, x := only(v); k == "range" {
		pair := list(x)
		if len(pair) != 2 {
			return Range{}, false
		}
		lo, ok1 := number(names, pair[0])
		hi, ok2 := number(names, pair[1])
		return Range{lo, hi}, ok1 && ok2 && lo <= hi
	}
	n, ok := number(names, v)
	return Range{n, n}, ok
}

func number(names map[string]uint64, v any) (uint64, bool) {
	switch v := v.(type) {
	case json.Number:
		n, err := strconv.ParseUint(v.String(), 10, 64)
		return n, err == nil
	case string:
		return lookup(names, v)
	}
	return 0, false
}

func addrs(m *Match, op string, right any) bool {
	if op != "==" && op != "!=" {
		return false
	}
	for _, v := range members(right) {
		s := exprText(plainValue(v))
		r, err := parseAddrs(s)
		if err != nil {
			return false
		}
		m.Addrs = append(m.Addrs, r)
	}
	return len(m.Addrs) > 0
}

// flagBits is the sum of TCP flags, given as one, a list, or a sum.
func flagBits(v any) (bits uint64, ok bool) {
	switch v := v.(type) {
	case json.Number:
		n, err := strconv.ParseUint(v.String(), 10, 8)
		return n, err == nil
	case string:
		return flagsOf(v)
	case []any:
		for _, x := range v {
			b, ok := flagBits(x)
			if !ok {
				return 0, false
			}
			bits |= b
		}
		return bits, true
	}
	if k, x := only(v); k == "|" {
		return flagBits(list(x))
	}
	return 0, false
}

// flags reads a match on the TCP flags without a mask: "in" means any of them,
// else all eight bits are compared.
func flags(m *Match, op string, right any) bool {
	if op == "in" {
		bits, ok := flagBits(right)
		m.Not, m.Mask, m.Numbers = true, bits, []Range{{0, 0}}
		return ok && bits > 0
	}
	return (op == "==" || op == "!=") && maskedFlags(m, 0xff, right)
}

func maskedFlags(m *Match, mask uint64, right any) bool {
	m.Mask = mask
	for _, v := range members(right) {
		bits, ok := flagBits(plainValue(v))
		if !ok {
			return false
		}
		m.Numbers = append(m.Numbers, Range{bits, bits})
	}
	return true
}

// masked reads field & mask OP value.
func (n *nftRule) masked(left, mask any, op string, right any) (m Match, ok bool) {
	if op != "==" && op != "!=" {
		return m, false
	}
	if k, x := only(left); k == "payload" {
		o, _ := x.(object)
		if str(o, "protocol") == "ip" && str(o, "field") == "frag-off" {
			bits, ok1 := number(nil, mask)
			zero, ok2 := number(nil, right)
			n.implyFamily(IP)
			return Match{Field: Fragment, Not: op == "=="}, ok1 && ok2 && bits == 0x1fff && zero == 0
		}
	}
	f, ok := n.field(left)
	if !ok {
		return m, false
	}
	m = Match{Field: f.field, Not: op == "!="}
	switch f.field {
	case TCPFlags:
		bits, ok := flagBits(mask)
		ok = ok && bits > 0 && maskedFlags(&m, bits, right)
		return m, ok
	case Mark, CTMark:
		bits, ok := number(nil, mask)
		m.Mask = bits
		ok = ok && bits > 0 && f.read(&m, op, right)
		return m, ok
	}
	return m, false
}

// concat reads several fields at once.
func (n *nftRule) concat(parts []any, op string, right any) (m Match, ok bool) {
	if op != "==" && op != "!=" && op != "in" {
		return m, false
	}
	m = Match{Field: Concat, Not: op == "!="}
	for _, p := range parts {
		f, ok := n.field(p)
		if !ok {
			return m, false
		}
		m.Fields = append(m.Fields, f.field)
	}
	if s, isText := right.(string); isText && strings.HasPrefix(s, "@") {
		m.Set = s[1:]
		return m, true
	}
	for _, v := range members(right) {
		m.Elements = append(m.Elements, Element{Text: exprText(plainValue(v))})
	}
	return m, true
}

// scale turns a rate in nft's units into bytes; ok is false for a count of packets.
func scale(unit string, n float64) (float64, bool) {
	switch unit {
	case "bytes":
		return n, true
	case "kbytes":
		return n * 1024, true
	case "mbytes":
		return n * 1024 * 1024, true
	case "gbytes":
		return n * math.Exp2(30), true
	}
	return n, false
}
