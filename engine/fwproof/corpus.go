package fwproof

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"headroom/engine/packet"
	"headroom/engine/ruleset"
)

// wellKnown are ports that are tried whether rules name them or not.
var wellKnown = []uint16{22, 25, 53, 80, 123, 443, 500, 1023, 1024, 5353, 32767, 32768, 60999, 61000}

// corpus is the conversations for two rule sets.
type corpus struct {
	scene scene
	talk  []Conversation
	// tried are the rules that any of them was made for.
	tried map[*ruleset.Rule]bool
	// plain is a conversation for each of many rules, where there was no room to
	// try all.
	plain []Conversation
}

func newCorpus(rules []*ruleset.Ruleset, random, most int, rng *rand.Rand) *corpus {
	c := &corpus{tried: map[*ruleset.Rule]bool{}}
	s := &c.scene
	k := &maker{}
	all := aims(rules)
	if len(all) > mostRules {
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:mostRules]
	}
	s.devices = devices(all)
	k.devices = slices.DeleteFunc(slices.Clone(s.devices), func(d string) bool { return d == other })
	if len(k.devices) == 0 {
		k.devices = []string{other}
	}
	for _, rs := range rules {
		k.sets = append(k.sets, rs.Sets...)
		for _, t := range rs.Tables {
			k.sets = append(k.sets, t.Sets...)
		}
	}
	var flows []flow
	for _, a := range all {
		flows = append(flows, k.of(a)...)
	}
	flows = append(flows, k.everywhere(all)...)
	flows = append(flows, k.random(flows, random, rng)...)
	if len(flows) > most {
		c.plain = k.plain(flows, rng)
	}
	for _, f := range thin(flows, most, rng) {
		c.talk = append(c.talk, k.talk(f)...)
		c.tried[f.rule] = true
	}
	s.addresses(append(slices.Clone(c.talk), c.plain...))
	c.talk = slices.DeleteFunc(c.talk, s.astray)
	return c
}

// astray says whether a packet that shall go through the machine comes from
// or goes to an address that is the machine's own there.
func (s *scene) astray(c Conversation) bool {
	return slices.ContainsFunc(c.Steps, func(st Step) bool {
		return st.through() && (s.routed[st.Dst] || s.routed[st.Src])
	})
}

// through says whether a packet goes through the machine.
func (s Step) through() bool { return s.In != "" && s.Out != "" }

// mostRules is how many rules packets are made for at most.
const mostRules = 3000

// devices lists the devices that rules name, and one that none does.
func devices(all []aim) []string {
	out := []string{other}
	for _, a := range all {
		for _, m := range a.ms {
			if m.Field != ruleset.IIf && m.Field != ruleset.OIf {
				continue
			}
			for _, w := range m.Words {
				if w = strings.TrimSuffix(w, "*") + map[bool]string{true: "0"}[strings.HasSuffix(w, "*")]; w != "lo" && w != "" && len(w) <= 15 && !slices.Contains(out, w) {
					out = append(out, w)
				}
			}
		}
	}
	if len(out) == 1 {
		out = append(out, "eth0")
	}
	return out[:min(len(out), 12)]
}

// everywhere are flows of the usual kinds over every hook and device, and to
// every port that a rule names, whatever the rules of that hook ask for.
func (k *maker) everywhere(all []aim) (out []flow) {
	ports := slices.Clone(wellKnown)
	families := map[ruleset.Family]bool{}
	for _, a := range all {
		families[a.family] = true
		for _, m := range a.ms {
			if m.Field != ruleset.DPort && m.Field != ruleset.SPort && m.Field != ruleset.Port {
				continue
			}
			for _, r := range some(m.Numbers) {
				ports = append(ports, uint16(r.Lo), uint16(r.Hi))
			}
		}
	}
	slices.Sort(ports)
	ports = slices.Compact(ports)
	for f := range families {
		for _, hook := range []string{"input", "output", "forward"} {
			for _, proto := range []uint64{packet.TCP, packet.UDP} {
				for i, p := range ports {
					a := aim{hook: hook, family: f, about: "any packet", ms: []ruleset.Match{number(ruleset.Proto, proto), number(ruleset.DPort, uint64(p))}}
					f := k.base(a, hook, uint8(proto))
					f.full = i == 0
					out = append(out, f)
					if p >= 32767 && proto == packet.UDP || p == 53 || p == 123 || p == 1023 {
						f = k.base(a, hook, uint8(proto))
						f.SrcPort, f.DstPort = p, 53
						out = append(out, f)
					}
				}
			}
			rest := aim{hook: hook, family: f, about: "any packet"}
			for _, g := range k.of(rest) {
				g.full = true
				out = append(out, g)
			}
			out = append(out, k.types(rest, hook)...)
			for _, d := range k.devices {
				one := aim{hook: hook, family: f, about: "any packet", ms: []ruleset.Match{{Field: ruleset.IIf, Words: []string{d}}}}
				two := aim{hook: hook, family: f, about: "any packet", ms: []ruleset.Match{{Field: ruleset.OIf, Words: []string{d}}}}
				out = append(out, k.of(one)...)
				out = append(out, k.of(two)...)
			}
			lo := aim{hook: hook, family: f, about: "any packet", ms: []ruleset.Match{{Field: ruleset.IIf, Words: []string{"lo"}}, {Field: ruleset.OIf, Words: []string{"lo"}}}}
			if hook == "input" {
				out = append(out, k.of(lo)...)
			}
		}
	}
	return slices.DeleteFunc(out, func(f flow) bool { return !f.sound() })
}

func number(f ruleset.Field, n uint64) ruleset.Match {
	return ruleset.Match{Field: f, Numbers: []ruleset.Range{{Lo: n, Hi: n}}}
}

// types are one packet of every kind of ICMP.
func (k *maker) types(a aim, hook string) (out []flow) {
	list := []uint8{0, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 30, 255}
	proto := uint8(packet.ICMP)
	if a.family == ruleset.IP6 {
		list, proto = []uint8{1, 2, 3, 4, 100, 127, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 139, 140, 141, 142, 143, 144, 151, 255}, packet.ICMPv6
	}
	for _, t := range list {
		f := k.base(a, hook, proto)
		f.Type = t
		out = append(out, f)
	}
	return out
}

// random mixes what the other flows are made of.
func (k *maker) random(of []flow, n int, rng *rand.Rand) (out []flow) {
	if len(of) == 0 {
		return nil
	}
	pick := func() flow { return of[rng.IntN(len(of))] }
	for range n {
		f := pick()
		f.about, f.rule = "any packet", nil
		if g := pick(); g.Src.Is4() == f.Src.Is4() && g.Proto == f.Proto && f.Out != "lo" && g.Out != "lo" {
			if (g.In == "") == (f.In == "") {
				f.Src = g.Src
			}
			if (g.Out == "") == (f.Out == "") {
				f.Dst = g.Dst
			}
			f.DstPort = g.DstPort
		}
		if f.Proto == packet.TCP || f.Proto == packet.UDP {
			f.SrcPort = 1024 + uint16(rng.IntN(64000))
			if rng.IntN(4) == 0 {
				f.DstPort = uint16(1 + rng.IntN(65535))
			}
		}
		f.full = rng.IntN(8) == 0
		if f.sound() {
			out = append(out, f)
		}
	}
	return out
}

// thin keeps by chance as many flows as there is room for: first those that all
// kinds of packets are made of, but of long lists half of them others, which
// are at the rules' edges.
func thin(in []flow, most int, rng *rand.Rand) []flow {
	if len(in) <= most {
		return in
	}
	rng.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
	var full, edges []flow
	for _, f := range in {
		if f.full {
			full = append(full, f)
		} else {
			edges = append(edges, f)
		}
	}
	if n := max(most/2, most-len(edges)); len(full) > n {
		full = full[:n]
	}
	return append(full, edges[:most-len(full)]...)
}

// plain makes the first conversation of flows for rules, of no more than an
// error is tried after.
func (k *maker) plain(flows []flow, rng *rand.Rand) (out []Conversation) {
	for _, i := range rng.Perm(len(flows)) {
		if f := flows[i]; f.full && len(out) < many {
			all := k.talk(f)
			out = append(out, all[:min(len(all), 1)]...)
		}
	}
	return out
}

// addresses notes which addresses must be this machine's.
func (s *scene) addresses(all []Conversation) {
	local := map[netip.Addr]bool{here4: true, here6: true}
	groups := map[netip.Addr]bool{}
	for _, c := range all {
		for _, st := range c.Steps {
			if st.Out == "lo" {
				continue
			}
			if st.In == "" && !st.Src.IsMulticast() {
				local[st.Src] = true
			}
			if st.Out == "" {
				if st.Dst.IsMulticast() {
					groups[st.Dst] = true
				} else {
					local[st.Dst] = true
				}
			}
		}
	}
	for a := range local {
		s.local = append(s.local, a)
	}
	for a := range groups {
		s.groups = append(s.groups, a)
	}
	s.routed = map[netip.Addr]bool{here4: true, here6: true}
	s.apart = slices.ContainsFunc(all, func(c Conversation) bool {
		return slices.ContainsFunc(c.Steps, func(st Step) bool { return st.through() && (local[st.Dst] || local[st.Src]) })
	})
}
