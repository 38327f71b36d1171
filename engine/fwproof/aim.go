package fwproof

import (
	"net/netip"
	"slices"
	"strings"

	"headroom/engine/ruleset"
)

// aim is a rule that packets are made for: the matches of it and of the jumps
// that lead to it.
type aim struct {
	hook   string
	family ruleset.Family // IP or IP6
	ms     []ruleset.Match
	about  string
	rule   *ruleset.Rule
}

// aims lists the rules of some rule sets, each for one hook and family.
func aims(all []*ruleset.Ruleset) (out []aim) {
	for _, rs := range all {
		for _, t := range rs.Tables {
			var families []ruleset.Family
			switch t.Family {
			case ruleset.IP, ruleset.IP6:
				families = []ruleset.Family{t.Family}
			case ruleset.Inet:
				families = []ruleset.Family{ruleset.IP, ruleset.IP6}
			default:
				continue
			}
			w := walk{table: t, seen: map[*ruleset.Rule]int{}}
			for _, c := range t.Chains {
				if c.Hook == "" || c.Type == "nat" {
					continue
				}
				for _, f := range families {
					w.hook, w.family = c.Hook, f
					clear(w.seen)
					w.chain(c, nil, 0)
				}
			}
			out = append(out, w.out...)
		}
	}
	return out
}

type walk struct {
	table  *ruleset.Table
	hook   string
	family ruleset.Family
	seen   map[*ruleset.Rule]int
	out    []aim
}

// ways is by how many jumps a rule is aimed at.
const ways = 2

func (w *walk) chain(c *ruleset.Chain, path []ruleset.Match, depth int) {
	for _, r := range c.Rules {
		if w.seen[r]++; w.seen[r] > ways || depth > 16 {
			continue
		}
		ms := append(slices.Clone(path), r.Matches...)
		if !fits(ms, w.family) {
			continue
		}
		about := r.Text
		if about == "" {
			about = "chain " + c.Name
		}
		w.out = append(w.out, aim{w.hook, w.family, ms, about, r})
		if k := r.Verdict.Kind; k == ruleset.Jump || k == ruleset.Goto {
			for _, to := range w.table.Chains {
				if to.Name == r.Verdict.Chain {
					w.chain(to, ms, depth+1)
				}
			}
		}
	}
}

// fits says whether packets of a family can match.
func fits(ms []ruleset.Match, f ruleset.Family) bool {
	for _, m := range ms {
		switch {
		case m.Field == ruleset.NFProto && slices.Contains(m.Words, map[ruleset.Family]string{ruleset.IP: "ipv4", ruleset.IP6: "ipv6"}[f]) == m.Not:
			return false
		case (m.Field == ruleset.SAddr || m.Field == ruleset.DAddr) && len(m.Addrs) > 0 && m.Addrs[0].Lo.Is4() != (f == ruleset.IP):
			return false
		case m.Field == ruleset.ICMPType && f != ruleset.IP, m.Field == ruleset.ICMP6 && f != ruleset.IP6:
			return false
		}
	}
	return true
}

// numbersAt lists the values of a field at the edges of what some matches ask
// for, and a first one that satisfies them all; ok is false if none is asked.
func numbersAt(ms []ruleset.Match, sets []*ruleset.Set, limit uint64, fields ...ruleset.Field) (good uint64, edges []uint64, ok bool) {
	var all [][]ruleset.Range
	var not []bool
	for _, m := range ms {
		if !slices.Contains(fields, m.Field) {
			continue
		}
		rs := m.Numbers
		if m.Set != "" {
			rs = setNumbers(sets, m.Set)
		}
		if len(rs) == 0 {
			continue
		}
		all, not = append(all, rs), append(not, m.Not)
		for _, r := range some(rs) {
			edges = append(edges, r.Lo, r.Hi, r.Lo+(r.Hi-r.Lo)/2)
			if r.Lo > 0 {
				edges = append(edges, r.Lo-1)
			}
			if r.Hi < limit {
				edges = append(edges, r.Hi+1)
			}
		}
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	for _, e := range edges {
		fine := true
		for i, rs := range all {
			fine = fine && slices.ContainsFunc(rs, func(r ruleset.Range) bool { return r.Lo <= e && e <= r.Hi }) != not[i]
		}
		if fine {
			return e, edges, true
		}
	}
	return 0, edges, false
}

// some keeps the first and last few of a long list.
func some[T any](in []T) []T {
	if len(in) <= 6 {
		return in
	}
	return append(slices.Clone(in[:3]), in[len(in)-3:]...)
}

func addrsAt(ms []ruleset.Match, sets []*ruleset.Set, family ruleset.Family, field ruleset.Field, side string) (good netip.Addr, edges []netip.Addr) {
	var all [][]ruleset.AddrRange
	var not []bool
	for _, m := range ms {
		inSet := m.Field == ruleset.InSet && slices.Contains(m.Words, side)
		if m.Field != field && !inSet {
			continue
		}
		rs := m.Addrs
		if m.Set != "" {
			rs = setAddrs(sets, m.Set)
		}
		if len(rs) == 0 || rs[0].Lo.Is4() != (family == ruleset.IP) {
			continue
		}
		all, not = append(all, rs), append(not, m.Not)
		for _, r := range some(rs) {
			edges = append(edges, r.Lo, r.Hi, r.Lo.Next(), r.Hi.Prev(), r.Lo.Prev(), r.Hi.Next())
		}
	}
	edges = slices.DeleteFunc(edges, func(a netip.Addr) bool { return !a.IsValid() || a.Is4() != (family == ruleset.IP) || !usable(a) })
	slices.SortFunc(edges, netip.Addr.Compare)
	edges = slices.Compact(edges)
	for _, e := range edges {
		fine := true
		for i, rs := range all {
			fine = fine && slices.ContainsFunc(rs, func(r ruleset.AddrRange) bool { return r.Lo.Compare(e) <= 0 && e.Compare(r.Hi) <= 0 }) != not[i]
		}
		if fine {
			return e, edges
		}
	}
	return netip.Addr{}, edges
}

// usable says whether an address can be in a packet that the kernel takes from
// a device.
func usable(a netip.Addr) bool {
	if a.Is4() {
		b := a.As4()
		return b[0] != 0 && b[0] != 127 && b[0] < 240
	}
	return !a.IsUnspecified() && !a.IsLoopback() && a != routers
}

// routers is every router of the link: nobody's own address.
var routers = netip.MustParseAddr("fe80::")

func setNamed(sets []*ruleset.Set, name string) []ruleset.Element {
	for _, s := range sets {
		if s.Name == name {
			return some(s.Elements)
		}
	}
	return nil
}

func setAddrs(sets []*ruleset.Set, name string) (out []ruleset.AddrRange) {
	for _, e := range setNamed(sets, name) {
		text, _, _ := strings.Cut(strings.ReplaceAll(e.Text, " . ", ","), ",")
		if r, ok := ruleset.ParseAddrRange(strings.TrimSpace(text)); ok {
			out = append(out, r)
		}
	}
	return out
}

func setNumbers(sets []*ruleset.Set, name string) (out []ruleset.Range) {
	for _, e := range setNamed(sets, name) {
		parts := strings.Split(strings.ReplaceAll(e.Text, " . ", ","), ",")
		text := parts[len(parts)-1]
		if _, port, ok := strings.Cut(text, ":"); ok {
			text = port
		}
		if r, ok := numberRange(strings.TrimSpace(text)); ok {
			out = append(out, r)
		}
	}
	return out
}
