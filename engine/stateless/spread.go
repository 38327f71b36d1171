package stateless

import (
	"slices"
	"strconv"
	"strings"

	"headroom/engine/ruleset"
)

// spread copies a table with its verdict maps taken apart into rules, as far as
// they are understood. A map that is not stays as it is.
func spread(t *ruleset.Table) *ruleset.Table {
	out := *t
	out.Chains = nil
	for _, ch := range t.Chains {
		one := *ch
		one.Rules = nil
		for _, r := range ch.Rules {
			one.Rules = append(one.Rules, takeApart(t, r)...)
		}
		out.Chains = append(out.Chains, &one)
	}
	return &out
}

func takeApart(t *ruleset.Table, r *ruleset.Rule) []*ruleset.Rule {
	if r.Verdict.Kind != ruleset.Map || r.Verdict.Map == nil {
		return []*ruleset.Rule{r}
	}
	elements := r.Verdict.Map.Elements
	for _, s := range t.Sets {
		if s.Name == r.Verdict.Map.Name && s.Verdicts {
			elements = s.Elements
		}
	}
	// An element is found whatever its place, so that of a connection's states
	// the one that most packets have can come first.
	elements = slices.Clone(elements)
	slices.SortStableFunc(elements, func(a, b ruleset.Element) int {
		return strings.Index("invalid related established", b.Text) - strings.Index("invalid related established", a.Text)
	})
	var out []*ruleset.Rule
	for _, e := range elements {
		parts := strings.Split(e.Text, " . ")
		if len(parts) != len(r.Verdict.Map.Key) || e.Verdict == nil {
			return []*ruleset.Rule{r}
		}
		one := *r
		one.Verdict = *e.Verdict
		one.Matches = slices.Clone(r.Matches)
		for i, f := range r.Verdict.Map.Key {
			m, ok := value(f, strings.TrimSpace(parts[i]))
			if !ok {
				return []*ruleset.Rule{r}
			}
			one.Matches = append(one.Matches, m)
		}
		out = append(out, &one)
	}
	return out
}

var protoNames = map[string]uint64{"icmp": 1, "tcp": 6, "udp": 17, "esp": 50, "ah": 51, "icmpv6": 58, "ipv6-icmp": 58, "sctp": 132, "udplite": 136, "dccp": 33, "gre": 47, "igmp": 2}

var typeNames = map[ruleset.Field]map[string]uint64{
	ruleset.Proto: protoNames,
	ruleset.ICMPType: {"echo-reply": 0, "destination-unreachable": 3, "source-quench": 4, "redirect": 5, "echo-request": 8, "router-advertisement": 9,
		"router-solicitation": 10, "time-exceeded": 11, "parameter-problem": 12, "timestamp-request": 13, "timestamp-reply": 14},
	ruleset.ICMP6: {"destination-unreachable": 1, "packet-too-big": 2, "time-exceeded": 3, "parameter-problem": 4, "echo-request": 128, "echo-reply": 129,
		"mld-listener-query": 130, "mld-listener-report": 131, "mld-listener-done": 132, "mld-listener-reduction": 132, "nd-router-solicit": 133,
		"nd-router-advert": 134, "nd-neighbor-solicit": 135, "nd-neighbor-advert": 136, "nd-redirect": 137, "mld2-listener-report": 143},
}

// value makes a match of one field and one element of a map.
func value(f ruleset.Field, text string) (ruleset.Match, bool) {
	m := ruleset.Match{Field: f}
	switch f {
	case ruleset.CTState, ruleset.NFProto, ruleset.IIf, ruleset.OIf, ruleset.PktType:
		m.Words = []string{strings.Trim(text, `"`)}
		return m, true
	case ruleset.SAddr, ruleset.DAddr:
		r, ok := ruleset.ParseAddrRange(text)
		m.Addrs = []ruleset.AddrRange{r}
		return m, ok
	case ruleset.Proto, ruleset.SPort, ruleset.DPort, ruleset.ICMPType, ruleset.ICMP6, ruleset.Mark:
		lo, hi, isRange := strings.Cut(text, "-")
		a, ok := number(f, lo)
		if !ok { // a name with a dash
			a, ok = number(f, text)
			isRange = false
		}
		b := a
		if isRange {
			var fine bool
			b, fine = number(f, hi)
			ok = ok && fine
		}
		m.Numbers = []ruleset.Range{{Lo: a, Hi: b}}
		return m, ok && a <= b
	}
	return m, false
}

func number(f ruleset.Field, s string) (uint64, bool) {
	if n, ok := typeNames[f][s]; ok {
		return n, true
	}
	n, err := strconv.ParseUint(s, 0, 32)
	return n, err == nil
}
