package stateless

import (
	"slices"

	"go4.org/netipx"

	"headroom/engine/ruleset"
)

// conj is a conjunction of matches.
type conj []ruleset.Match

// and adds a match to a conjunction. ok is false if nothing can match both.
// Numbers and addresses of one field become one match, so that contradictions
// show and the rules stay short.
func (c conj) and(m ruleset.Match) (out conj, ok bool) {
	for i, have := range c {
		if have.Field != m.Field || have.Mask != m.Mask || have.Set != "" || m.Set != "" || have.Not && m.Not {
			continue
		}
		a, b := have, m
		if a.Not {
			a, b = b, a
		}
		one, merged, ok := meet(a, b)
		if !merged {
			continue
		}
		if !ok {
			return nil, false
		}
		out = slices.Clone(c)
		out[i] = one
		return out, true
	}
	return append(slices.Clone(c), m), true
}

// all adds several.
func (c conj) all(ms conj) (conj, bool) {
	out, ok := c, true
	for _, m := range ms {
		if out, ok = out.and(m); !ok {
			return nil, false
		}
	}
	return out, true
}

// meet is what two matches of one field have in common. merged is false if
// that cannot be said in one match.
func meet(a, b ruleset.Match) (out ruleset.Match, merged, ok bool) {
	out = ruleset.Match{Field: a.Field, Mask: a.Mask}
	switch {
	case len(a.Numbers) > 0 && len(b.Numbers) > 0:
		if b.Not {
			out.Numbers = without(a.Numbers, b.Numbers)
		} else {
			out.Numbers = common(a.Numbers, b.Numbers)
		}
		return out, true, len(out.Numbers) > 0
	case len(a.Addrs) > 0 && len(b.Addrs) > 0:
		out.Addrs = commonAddrs(a.Addrs, b.Addrs, b.Not)
		return out, true, len(out.Addrs) > 0
	case len(a.Words) > 0 && len(b.Words) > 0 && !b.Not && (a.Field == ruleset.NFProto || a.Field == ruleset.IIf || a.Field == ruleset.OIf):
		for _, w := range a.Words {
			if covers(b.Words, w) {
				out.Words = append(out.Words, w)
			}
		}
		for _, w := range b.Words {
			if covers(a.Words, w) && !slices.Contains(out.Words, w) {
				out.Words = append(out.Words, w)
			}
		}
		return out, true, len(out.Words) > 0
	}
	return out, false, true
}

// covers says whether one of some interface patterns holds all of w.
func covers(patterns []string, w string) bool {
	for _, p := range patterns {
		if p == w {
			return true
		}
		if n := len(p) - 1; n >= 0 && p[n] == '*' && len(w) >= n && w[:n] == p[:n] {
			return true
		}
	}
	return false
}

func common(a, b []ruleset.Range) (out []ruleset.Range) {
	for _, x := range a {
		for _, y := range b {
			if lo, hi := max(x.Lo, y.Lo), min(x.Hi, y.Hi); lo <= hi {
				out = append(out, ruleset.Range{Lo: lo, Hi: hi})
			}
		}
	}
	return tidy(out)
}

func without(a, b []ruleset.Range) []ruleset.Range {
	out := slices.Clone(a)
	for _, y := range b {
		var next []ruleset.Range
		for _, x := range out {
			if y.Hi < x.Lo || y.Lo > x.Hi {
				next = append(next, x)
				continue
			}
			if x.Lo < y.Lo {
				next = append(next, ruleset.Range{Lo: x.Lo, Hi: y.Lo - 1})
			}
			if x.Hi > y.Hi {
				next = append(next, ruleset.Range{Lo: y.Hi + 1, Hi: x.Hi})
			}
		}
		out = next
	}
	return tidy(out)
}

// tidy sorts ranges and joins those that touch.
func tidy(in []ruleset.Range) []ruleset.Range {
	slices.SortFunc(in, func(a, b ruleset.Range) int {
		if a.Lo < b.Lo {
			return -1
		}
		return 1
	})
	var out []ruleset.Range
	for _, r := range in {
		if n := len(out); n > 0 && r.Lo <= out[n-1].Hi+1 {
			out[n-1].Hi = max(out[n-1].Hi, r.Hi)
			continue
		}
		out = append(out, r)
	}
	return out
}

func commonAddrs(a, b []ruleset.AddrRange, not bool) (out []ruleset.AddrRange) {
	build := func(rs []ruleset.AddrRange) *netipx.IPSet {
		var s netipx.IPSetBuilder
		for _, r := range rs {
			s.AddRange(netipx.IPRangeFrom(r.Lo, r.Hi))
		}
		set, err := s.IPSet()
		if err != nil {
			return &netipx.IPSet{}
		}
		return set
	}
	var s netipx.IPSetBuilder
	s.AddSet(build(a))
	if not {
		s.RemoveSet(build(b))
	} else {
		s.Intersect(build(b))
	}
	set, err := s.IPSet()
	if err != nil {
		return nil
	}
	for _, r := range set.Ranges() {
		out = append(out, ruleset.AddrRange{Lo: r.From(), Hi: r.To()})
	}
	return out
}

// find returns the positive match of a field that lists its values.
func (c conj) find(f ruleset.Field) *ruleset.Match {
	for i := range c {
		if c[i].Field == f && !c[i].Not && c[i].Set == "" {
			return &c[i]
		}
	}
	return nil
}

func (c conj) has(f ruleset.Field) bool {
	return slices.ContainsFunc(c, func(m ruleset.Match) bool { return m.Field == f })
}

// drop leaves out the matches of some fields.
func (c conj) drop(fields ...ruleset.Field) (out conj) {
	for _, m := range c {
		if !slices.Contains(fields, m.Field) {
			out = append(out, m)
		}
	}
	return out
}

// allows says whether packets of a protocol can match.
func (c conj) allows(proto uint64) bool {
	for _, m := range c {
		switch m.Field {
		case ruleset.Proto:
			if in(m.Numbers, proto) == m.Not && len(m.Numbers) > 0 {
				return false
			}
		case ruleset.TCPFlags, ruleset.TCPOpt:
			if proto != tcp {
				return false
			}
		case ruleset.ICMPType, ruleset.ICMPCode:
			if proto != icmp {
				return false
			}
		case ruleset.ICMP6, ruleset.ICMP6C:
			if proto != icmp6 {
				return false
			}
		case ruleset.SPort, ruleset.DPort, ruleset.Port:
			if proto == icmp || proto == icmp6 {
				return false
			}
		case ruleset.NFProto:
			if proto == icmp && !familyIn(m, "ipv4") || proto == icmp6 && !familyIn(m, "ipv6") {
				return false
			}
		case ruleset.SAddr, ruleset.DAddr:
			if len(m.Addrs) > 0 && (proto == icmp && !m.Addrs[0].Lo.Is4() || proto == icmp6 && m.Addrs[0].Lo.Is4()) {
				return false
			}
		}
	}
	return true
}

func familyIn(m ruleset.Match, name string) bool { return slices.Contains(m.Words, name) != m.Not }

func in(rs []ruleset.Range, n uint64) bool {
	return slices.ContainsFunc(rs, func(r ruleset.Range) bool { return r.Lo <= n && n <= r.Hi })
}

// exactly says whether only packets of one protocol can match.
func (c conj) exactly(proto uint64) bool {
	m := c.find(ruleset.Proto)
	return m != nil && len(m.Numbers) == 1 && m.Numbers[0] == ruleset.Range{Lo: proto, Hi: proto}
}

func numbers(f ruleset.Field, ns ...uint64) ruleset.Match {
	m := ruleset.Match{Field: f}
	for _, n := range ns {
		m.Numbers = append(m.Numbers, ruleset.Range{Lo: n, Hi: n})
	}
	return m
}
