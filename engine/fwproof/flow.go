package fwproof

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"

	"headroom/engine/packet"
	"headroom/engine/ruleset"
)

// flow is the first packet of a conversation and its way.
type flow struct {
	Step
	about string
	rule  *ruleset.Rule // that it was made for; nil for none
	full  bool          // make all kinds of packets of it, not only the usual ones
}

// maker makes flows that rules are about.
type maker struct {
	sets    []*ruleset.Set
	devices []string // without lo
	n       uint32
}

// other is a device that no rule names.
const other = "hrother0"

var (
	strangers4 = netip.MustParsePrefix("82.0.0.0/8")
	strangers6 = netip.MustParsePrefix("2a00:99::/32")
)

// once says whether an address was made by stranger, so that another will do.
func once(a netip.Addr) bool { return strangers4.Contains(a) || strangers6.Contains(a) }

var (
	here4 = netip.MustParseAddr("198.18.0.1")
	here6 = netip.MustParseAddr("2001:db8:ffff::1")
)

// stranger is an address that is used once.
func (k *maker) stranger(f ruleset.Family) netip.Addr {
	k.n++
	if f == ruleset.IP {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], 82<<24+k.n*7)
		return netip.AddrFrom4(b)
	}
	b := netip.MustParseAddr("2a00:99::").As16()
	binary.BigEndian.PutUint32(b[10:], k.n*7)
	return netip.AddrFrom16(b)
}

// client is a client's port that is used once in a while.
func (k *maker) client() uint16 {
	k.n++
	return 32768 + uint16(k.n*13%28000)
}

// of makes the flows for a rule: one that matches, and for each thing that it
// asks for those at its edges.
func (k *maker) of(a aim) (out []flow) {
	for _, hook := range hooks(a.hook) {
		for _, proto := range k.protos(a) {
			base := k.base(a, hook, proto)
			base.full = true
			out = append(out, base)
			for _, edge := range k.edges(a, base, hook) {
				edge.full = false
				out = append(out, edge)
			}
		}
	}
	return slices.DeleteFunc(out, func(f flow) bool { return !f.sound() })
}

// hooks are those that decide on packets of a hook, too.
func hooks(h string) []string {
	switch h {
	case "prerouting":
		return []string{"input", "forward"}
	case "postrouting":
		return []string{"output", "forward"}
	}
	return []string{h}
}

func (k *maker) protos(a aim) (out []uint8) {
	good, edges, ok := numbersAt(a.ms, k.sets, 255, ruleset.Proto)
	if ok {
		out = append(out, uint8(good))
		for _, e := range edges {
			if len(out) < 3 && e != good {
				out = append(out, uint8(e))
			}
		}
		return slices.Compact(out)
	}
	icmp := uint8(packet.ICMP)
	if a.family == ruleset.IP6 {
		icmp = packet.ICMPv6
	}
	return []uint8{packet.TCP, packet.UDP, icmp, 47}
}

// base is a flow that matches as far as it can be known.
func (k *maker) base(a aim, hook string, proto uint8) flow {
	f := flow{about: a.about, rule: a.rule}
	f.Proto, f.Size = proto, 100
	f.In, f.Out = k.way(a, hook)
	f.Src, _ = addrsAt(a.ms, k.sets, a.family, ruleset.SAddr, "src")
	f.Dst, _ = addrsAt(a.ms, k.sets, a.family, ruleset.DAddr, "dst")
	here, loop := here4, netip.MustParseAddr("127.0.0.1")
	if a.family == ruleset.IP6 {
		here, loop = here6, netip.IPv6Loopback()
	}
	if f.Out == "lo" {
		f.Src, f.Dst = loop, loop
	}
	if !f.Src.IsValid() {
		f.Src = here
		if hook != "output" {
			f.Src = k.stranger(a.family)
		}
	}
	if !f.Dst.IsValid() {
		f.Dst = here
		if hook != "input" {
			f.Dst = k.stranger(a.family)
		}
	}
	switch proto {
	case packet.TCP, packet.UDP:
		f.SrcPort, f.DstPort = k.client(), 7
		if v, _, ok := numbersAt(a.ms, k.sets, 65535, ruleset.SPort); ok {
			f.SrcPort = uint16(v)
		}
		if v, _, ok := numbersAt(a.ms, k.sets, 65535, ruleset.DPort, ruleset.Port); ok {
			f.DstPort = uint16(v)
		}
	case packet.ICMP, packet.ICMPv6:
		k.n++
		f.Type, f.Rest = 8, k.n<<16|1
		if proto == packet.ICMPv6 {
			f.Type = 128
		}
		if v, _, ok := numbersAt(a.ms, k.sets, 255, ruleset.ICMPType, ruleset.ICMP6); ok {
			f.Type = uint8(v)
		}
		if v, _, ok := numbersAt(a.ms, k.sets, 255, ruleset.ICMPCode, ruleset.ICMP6C); ok {
			f.Code = uint8(v)
		}
	}
	return f
}

// way chooses the devices.
func (k *maker) way(a aim, hook string) (in, out string) {
	in, out = k.device(a.ms, ruleset.IIf, ""), k.device(a.ms, ruleset.OIf, "")
	switch hook {
	case "input":
		out = ""
		if in == "lo" {
			in, out = "", "lo"
		}
	case "output":
		in = ""
	default:
		if in == "lo" {
			in = other
		}
		if out == "lo" {
			out = other
		}
		if in == out {
			if out = k.device(a.ms, ruleset.OIf, in); out == in {
				in = k.device(a.ms, ruleset.IIf, out)
			}
		}
	}
	return in, out
}

// device chooses one that matches, not the one to be avoided if there is
// another.
func (k *maker) device(ms []ruleset.Match, f ruleset.Field, avoid string) string {
	fallback := ""
	for _, d := range append(slices.Clone(k.devices), "lo") {
		fine := true
		for _, m := range ms {
			if m.Field == f && m.Set == "" && slices.ContainsFunc(m.Words, func(w string) bool { return named(w, d) }) == m.Not {
				fine = false
			}
		}
		switch {
		case fine && d != avoid:
			return d
		case fine:
			fallback = d
		}
	}
	if fallback == "" {
		return other
	}
	return fallback
}

func named(pattern, device string) bool {
	if rest, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(device, rest)
	}
	return pattern == device
}

// edges are the flows that differ from base in one thing that the rule asks
// for.
func (k *maker) edges(a aim, base flow, hook string) (out []flow) {
	add := func(set func(f *flow)) {
		f := base
		if f.SrcPort >= 32768 {
			f.SrcPort = k.client()
		}
		set(&f)
		out = append(out, f)
	}
	if base.Out != "lo" {
		_, srcs := addrsAt(a.ms, k.sets, a.family, ruleset.SAddr, "src")
		for _, v := range srcs {
			add(func(f *flow) { f.Src = v })
		}
		_, dsts := addrsAt(a.ms, k.sets, a.family, ruleset.DAddr, "dst")
		for _, v := range dsts {
			add(func(f *flow) { f.Dst = v })
		}
		if len(srcs) > 0 && hook != "output" {
			add(func(f *flow) { f.Src = k.stranger(a.family) })
		}
		if len(dsts) > 0 && hook != "input" {
			add(func(f *flow) { f.Dst = k.stranger(a.family) })
		}
		for _, d := range append(slices.Clone(k.devices), other) {
			if base.In != "" && d != base.In && d != base.Out && asks(a.ms, ruleset.IIf) {
				add(func(f *flow) { f.In = d })
			}
			if base.Out != "" && d != base.In && d != base.Out && asks(a.ms, ruleset.OIf) {
				add(func(f *flow) { f.Out = d })
			}
		}
	}
	switch base.Proto {
	case packet.TCP, packet.UDP:
		_, sports, _ := numbersAt(a.ms, k.sets, 65535, ruleset.SPort, ruleset.Port)
		for _, v := range sports {
			add(func(f *flow) { f.SrcPort = uint16(v) })
		}
		_, dports, _ := numbersAt(a.ms, k.sets, 65535, ruleset.DPort, ruleset.Port)
		for _, v := range dports {
			add(func(f *flow) { f.DstPort = uint16(v) })
		}
	case packet.ICMP, packet.ICMPv6:
		_, types, _ := numbersAt(a.ms, k.sets, 255, ruleset.ICMPType, ruleset.ICMP6)
		for _, v := range types {
			add(func(f *flow) { k.n++; f.Type, f.Rest = uint8(v), k.n<<16|1 })
		}
	}
	return out
}

func asks(ms []ruleset.Match, f ruleset.Field) bool {
	return slices.ContainsFunc(ms, func(m ruleset.Match) bool { return m.Field == f })
}

// sound says whether the kernel takes such a packet at all.
func (f flow) sound() bool {
	if !f.Src.Is4() && slices.Contains(extensions, f.Proto) {
		return false
	}
	if f.Out == "lo" {
		return f.In == ""
	}
	if f.In == "lo" {
		return false
	}
	if f.Src.IsMulticast() || !usable(f.Src) || !usable(f.Dst) || f.Src == f.Dst {
		return false
	}
	if f.Proto == packet.ICMP && !f.Src.Is4() || f.Proto == packet.ICMPv6 && f.Src.Is4() {
		return false
	}
	if f.Dst.IsMulticast() && f.In != "" && f.Out != "" {
		return false
	}
	return f.In != f.Out
}

// extensions are the numbers of IPv6 that stand for further headers, or none,
// not for a protocol.
var extensions = []uint8{0, 43, 44, 59, 60, 135, 139, 140}
