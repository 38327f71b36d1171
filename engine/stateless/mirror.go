package stateless

import (
	"reflect"
	"slices"
	"strings"

	"headroom/engine/ruleset"
)

// reversed turns the conditions on the first packet of a flow into those on
// its replies. sure is false where a match has no counterpart and was left out;
// never says that no reply can match.
func reversed(when conj) (out conj, sure, never bool) {
	sure = true
	for _, m := range when {
		switch m.Field {
		case ruleset.SAddr, ruleset.DAddr, ruleset.SPort, ruleset.DPort, ruleset.IIf, ruleset.OIf:
			m.Field = swap[m.Field]
		case ruleset.AddrType:
			m.Words = turnWords(m.Words)
		case ruleset.InSet:
			m.Words = slices.Clone(m.Words)
			for i, w := range m.Words {
				m.Words[i] = turned[w] + strings.TrimPrefix(strings.TrimPrefix(w, "src"), "dst")
			}
		case ruleset.Concat:
			m.Fields = slices.Clone(m.Fields)
			for i, f := range m.Fields {
				if s, ok := swap[f]; ok {
					m.Fields[i] = s
				} else if f != ruleset.Proto && f != ruleset.NFProto {
					sure = false
				}
			}
			if !sure {
				continue
			}
		case ruleset.ICMPType:
			if m, never = replies(m, v4); never {
				return nil, false, true
			}
		case ruleset.ICMP6:
			if m, never = replies(m, v6); never {
				return nil, false, true
			}
		case ruleset.Proto, ruleset.NFProto, ruleset.Port:
		default:
			sure = false
			continue
		}
		out = append(out, m)
	}
	return out, sure, false
}

var swap = map[ruleset.Field]ruleset.Field{
	ruleset.SAddr: ruleset.DAddr, ruleset.DAddr: ruleset.SAddr, ruleset.SPort: ruleset.DPort, ruleset.DPort: ruleset.SPort,
	ruleset.IIf: ruleset.OIf, ruleset.OIf: ruleset.IIf,
}

var turned = map[string]string{"src": "dst", "dst": "src"}

func turnWords(in []string) []string {
	out := slices.Clone(in)
	for i, w := range out {
		side, kind, _ := strings.Cut(w, " ")
		if t, ok := turned[side]; ok {
			out[i] = t + " " + kind
		}
	}
	return out
}

// replies turns types of requests into those of their answers.
func replies(m ruleset.Match, k kinds) (out ruleset.Match, never bool) {
	var types []uint64
	for _, q := range k.request {
		if in(m.Numbers, q) != m.Not {
			types = append(types, k.answer[q])
		}
	}
	return numbers(m.Field, types...), len(types) == 0
}

// way is one direction of a flow through the machine.
type way struct {
	family ruleset.Family
	tool   ruleset.Tool
	local  bool // the replies go to sockets of this machine
	ports  ruleset.Range
	peers  []Peer
}

// mirror turns the leaves that first packets of flows meet into rules for the
// replies: accept ends in yes, refusals in no.
func (w way) mirror(ls []leaf) (out []entry) {
	for _, l := range ls {
		when, sure, never := reversed(l.when)
		switch {
		case never:
		case !l.accept:
			if sure {
				out = append(out, entry{when, false})
			}
		default:
			out = append(out, w.answers(when)...)
		}
	}
	return out
}

// entry is a rule of a made chain.
type entry struct {
	when conj
	yes  bool
}

// answers lists the replies of the flows that one leaf accepts.
func (w way) answers(when conj) (out []entry) {
	if when.allows(tcp) {
		out = append(out, withFlags(when, w.tool, answering)...)
	}
	if when.allows(udp) {
		out = append(out, w.datagrams(when)...)
	}
	for _, k := range kindsOf(w.family) {
		if !when.allows(k.proto) {
			continue
		}
		if c, ok := when.all(conj{numbers(ruleset.Proto, k.proto), numbers(k.field, k.reply...)}); ok {
			out = append(out, entry{c.drop(k.code), true})
		}
	}
	if m := when.find(ruleset.Proto); m != nil { // others only if they are named
		var others []ruleset.Range
		for _, r := range without(m.Numbers, numbers(ruleset.Proto, icmp, tcp, udp, icmp6).Numbers) {
			if r.Hi-r.Lo < 4 {
				others = append(others, r)
			}
		}
		if len(others) > 0 {
			if c, ok := when.and(ruleset.Match{Field: ruleset.Proto, Numbers: others}); ok {
				out = append(out, entry{c, true})
			}
		}
	}
	return out
}

func withFlags(when conj, tool ruleset.Tool, cs []cube) (out []entry) {
	c, ok := when.and(numbers(ruleset.Proto, tcp))
	if !ok {
		return nil
	}
	for _, f := range segments(tool, cs) {
		if one, ok := c.and(f); ok {
			out = append(out, entry{one, true})
		}
	}
	return out
}

// datagrams lists the UDP replies: to a port of the range that clients take,
// unless the rule named the client's port, and to the service's own port, from
// which some clients ask (NTP, IKE). Where peers are named for a service, only
// they answer.
func (w way) datagrams(when conj) (out []entry) {
	c, ok := when.and(numbers(ruleset.Proto, udp))
	if !ok {
		return nil
	}
	for _, c := range w.narrow(c) {
		service := c.find(ruleset.SPort)
		if c.has(ruleset.DPort) || c.has(ruleset.Concat) || w.ports.Hi == 0 {
			out = append(out, entry{c, true})
			continue
		}
		if eph, ok := c.and(ruleset.Match{Field: ruleset.DPort, Numbers: []ruleset.Range{w.ports}}); ok {
			out = append(out, entry{eph, true})
		}
		if service == nil {
			continue
		}
		for _, r := range service.Numbers {
			if r.Lo != r.Hi || in([]ruleset.Range{w.ports}, r.Lo) {
				continue
			}
			same, ok := c.and(numbers(ruleset.SPort, r.Lo))
			if ok {
				out = append(out, entry{append(same, numbers(ruleset.DPort, r.Lo)), true})
			}
		}
	}
	return out
}

// narrow keeps of the replies those of the named peers. A rule that names
// services keeps those for which no peer is named; one that names none is cut
// down to the named services.
func (w way) narrow(c conj) (out []conj) {
	if len(w.peers) == 0 || !w.local || c.has(ruleset.SAddr) || onLoopback(c) {
		return []conj{c}
	}
	for _, p := range w.peers {
		one, ok := c.and(numbers(ruleset.SPort, uint64(p.Port)))
		for _, addrs := range addrsOf(p, w.family) {
			if more, meets := one.and(ruleset.Match{Field: ruleset.SAddr, Addrs: addrs}); ok && meets {
				out = append(out, more)
			}
		}
	}
	if ports := c.find(ruleset.SPort); ports != nil {
		rest := ports.Numbers
		for _, p := range w.peers {
			rest = without(rest, numbers(ruleset.SPort, uint64(p.Port)).Numbers)
		}
		if len(rest) > 0 {
			one, _ := c.and(ruleset.Match{Field: ruleset.SPort, Numbers: rest})
			out = append(out, one)
		}
	}
	return out
}

// onLoopback says whether packets come from this machine itself.
func onLoopback(c conj) bool {
	m := c.find(ruleset.IIf)
	return m != nil && len(m.Words) == 1 && m.Words[0] == "lo"
}

// addrsOf lists a peer's addresses that a family has, one list for each of the
// internet's two.
func addrsOf(p Peer, f ruleset.Family) (out [][]ruleset.AddrRange) {
	var four, six []ruleset.AddrRange
	for _, a := range p.Addrs {
		if a.Lo.Is4() && f != ruleset.IP6 {
			four = append(four, a)
		} else if !a.Lo.Is4() && f != ruleset.IP {
			six = append(six, a)
		}
	}
	for _, list := range [][]ruleset.AddrRange{four, six} {
		if len(list) > 0 {
			out = append(out, list)
		}
	}
	return out
}

// prune leaves out entries that a later one makes needless.
func prune(in []entry) (out []entry) {
	for len(in) > 0 && !in[len(in)-1].yes {
		in = in[:len(in)-1]
	}
	if len(in) > most/10 {
		return in
	}
next:
	for i, e := range in {
		for _, later := range in[i+1:] {
			if later.yes != e.yes {
				break
			}
			if implies(e.when, later.when) {
				continue next
			}
		}
		out = append(out, e)
	}
	return out
}

// implies says whether all that matches a matches b, as far as can be seen.
func implies(a, b conj) bool {
	return !slices.ContainsFunc(b, func(m ruleset.Match) bool {
		return !slices.ContainsFunc(a, func(n ruleset.Match) bool { return within(n, m) })
	})
}

func within(a, b ruleset.Match) bool {
	if a.Field != b.Field || a.Not != b.Not || a.Mask != b.Mask || a.Set != b.Set {
		return false
	}
	if reflect.DeepEqual(a, b) {
		return true
	}
	return !a.Not && len(a.Numbers) > 0 && len(b.Numbers) > 0 && len(without(a.Numbers, b.Numbers)) == 0
}
