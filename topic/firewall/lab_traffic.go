package firewall

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"headroom/engine/packet"
	"headroom/engine/ruleset"
)

// traffic is what rule sets are about: a packet or some for each rule, weighed
// by its counter where counters are there.
type traffic struct {
	parts   []part
	dsts    map[netip.Addr]bool // single addresses
	devices map[string]int
	sets    map[string]*ruleset.Set // of the table that is being read
	rng     *rand.Rand
}

// part is the packets of one rule.
type part struct {
	packets []packet.Packet
	weight  float64
}

func (t *traffic) add(rs *ruleset.Ruleset) {
	if t.dsts == nil {
		t.dsts, t.devices = map[netip.Addr]bool{}, map[string]int{}
		t.rng = rand.New(rand.NewPCG(1, 0x7275_6c65))
	}
	for _, table := range rs.Tables {
		if table.Family == ruleset.ARP || table.Family == ruleset.Bridge {
			continue
		}
		t.sets = map[string]*ruleset.Set{}
		for _, set := range table.Sets {
			t.sets[set.Name] = set
		}
		for _, c := range table.Chains {
			if c.Hook == "output" || c.Hook == "postrouting" {
				continue // packets that come in never meet them
			}
			for _, r := range c.Rules {
				t.rule(r)
			}
		}
	}
}

// variants is how many packets a rule with a set stands for: elements at random.
const variants = 32

// rule makes packets that a rule's matches hold for, as far as they are known.
func (t *traffic) rule(r *ruleset.Rule) {
	var one part
	if r.Counter != nil {
		one.weight = float64(r.Counter.Packets)
	}
	n := 1
	if slices.ContainsFunc(r.Matches, func(m ruleset.Match) bool { return m.Set != "" || len(m.Elements) > 0 }) {
		n = variants
	}
	for range n {
		p, ok := t.packet(r)
		if !ok {
			continue
		}
		if p.Proto != packet.TCP {
			one.packets = append(one.packets, p)
			continue
		}
		for _, f := range tcpFlags {
			p.Flags = f
			one.packets = append(one.packets, p)
		}
	}
	if len(one.packets) > 0 {
		t.parts = append(t.parts, one)
	}
}

// packet makes one packet of a rule; false if the rule is about all packets, or
// about IPv6, of which the flood has none.
func (t *traffic) packet(r *ruleset.Rule) (packet.Packet, bool) {
	p := packet.Packet{Proto: packet.UDP, DstPort: uint16(1 + t.rng.IntN(65535))}
	named := false
	for _, m := range r.Matches {
		if !m.Not {
			named = t.match(&p, m) || named
		}
	}
	if !named || p.Src.Is6() || p.Dst.Is6() {
		return p, false
	}
	if p.Dst.IsValid() {
		t.dsts[p.Dst] = true
	}
	return p, true
}

// match puts one condition into the packet, and says whether it could.
func (t *traffic) match(p *packet.Packet, m ruleset.Match) bool {
	if m.Set != "" || len(m.Elements) > 0 {
		return t.member(p, m)
	}
	switch {
	case m.Field == ruleset.IIf && len(m.Words) > 0 && m.Words[0] != "lo":
		t.devices[m.Words[0]]++
	case m.Field == ruleset.Proto && len(m.Numbers) > 0:
		p.Proto = uint8(m.Numbers[0].Lo)
		return true
	case (m.Field == ruleset.DPort || m.Field == ruleset.Port) && len(m.Numbers) > 0:
		r := m.Numbers[t.rng.IntN(len(m.Numbers))]
		p.DstPort = uint16(r.Lo)
		return true
	case m.Field == ruleset.SPort && len(m.Numbers) > 0:
		p.SrcPort = uint16(m.Numbers[0].Lo)
		return true
	case m.Field == ruleset.SAddr && len(m.Addrs) > 0:
		p.Src = t.of(m.Addrs[t.rng.IntN(len(m.Addrs))])
		return true
	case m.Field == ruleset.DAddr && len(m.Addrs) > 0:
		if a := m.Addrs[0].Lo; a == m.Addrs[0].Hi && a.IsGlobalUnicast() {
			p.Dst = a
		}
		return true
	case m.Field == ruleset.ICMPType && len(m.Numbers) > 0:
		p.Proto, p.Type = packet.ICMP, uint8(m.Numbers[0].Lo)
		return true
	}
	return false
}

// member takes an element of a set, or of a list of tuples, into the packet.
func (t *traffic) member(p *packet.Packet, m ruleset.Match) (could bool) {
	elements, fields := m.Elements, m.Fields
	if set := t.sets[m.Set]; set != nil {
		elements = set.Elements
	}
	if len(fields) == 0 {
		fields = []ruleset.Field{m.Field}
	}
	if len(elements) == 0 {
		return false
	}
	parts := strings.Split(elements[t.rng.IntN(len(elements))].Text, " . ")
	for i, f := range fields {
		if i < len(parts) {
			could = t.take(p, f, strings.TrimSpace(parts[i])) || could
		}
	}
	return could
}

// take puts one value, as a set has it, into the packet.
func (t *traffic) take(p *packet.Packet, f ruleset.Field, text string) bool {
	first, last, _ := strings.Cut(text, "-")
	switch f {
	case ruleset.SAddr, ruleset.DAddr:
		r, ok := span(first, last)
		if !ok {
			return false
		}
		if f == ruleset.SAddr {
			p.Src = t.of(r)
		} else if r.Lo == r.Hi && r.Lo.IsGlobalUnicast() {
			p.Dst = r.Lo
		}
		return true
	case ruleset.DPort, ruleset.Port:
		n, err := strconv.ParseUint(first, 10, 16)
		if err != nil {
			return false
		}
		p.DstPort = uint16(n)
		return true
	case ruleset.Proto:
		n, ok := map[string]uint8{"tcp": packet.TCP, "udp": packet.UDP, "icmp": packet.ICMP, "6": packet.TCP, "17": packet.UDP, "1": packet.ICMP}[text]
		if ok {
			p.Proto = n
		}
		return ok
	}
	return false
}

// span reads an address, a prefix, or a range's two ends.
func span(first, last string) (r ruleset.AddrRange, ok bool) {
	if p, err := netip.ParsePrefix(first); err == nil && last == "" {
		lo := p.Masked().Addr()
		if !lo.Is4() {
			return ruleset.AddrRange{Lo: lo, Hi: lo}, true
		}
		b := lo.As4()
		n := binary.BigEndian.Uint32(b[:]) | uint32(1<<(32-p.Bits())-1)
		return ruleset.AddrRange{Lo: lo, Hi: netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n)))}, true
	}
	if last == "" {
		last = first
	}
	lo, err1 := netip.ParseAddr(first)
	hi, err2 := netip.ParseAddr(last)
	return ruleset.AddrRange{Lo: lo, Hi: hi}, err1 == nil && err2 == nil && !hi.Less(lo)
}

// of is a random address of a range of IPv4, or the first of IPv6.
func (t *traffic) of(r ruleset.AddrRange) netip.Addr {
	if !r.Lo.Is4() || !r.Hi.Is4() {
		return r.Lo
	}
	lo, hi := r.Lo.As4(), r.Hi.As4()
	a, b := binary.BigEndian.Uint32(lo[:]), binary.BigEndian.Uint32(hi[:])
	n := a + uint32(t.rng.Uint64N(uint64(b-a)+1))
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n)))
}

// device is the name that most rules have for the device packets come in by;
// "" if none has.
func (t *traffic) device() string {
	best := ""
	for name, n := range t.devices {
		if name != "" && len(name) < 16 && name[len(name)-1] != '*' && name[len(name)-1] != '+' && (best == "" || n > t.devices[best] || n == t.devices[best] && name < best) {
			best = name
		}
	}
	return best
}

// mixSize is how many packets a mix has; one in eight is of no rule.
const mixSize = 4096

// mix is the packets in random order: by the rules' counters where there are
// any, else each rule as often as any other.
func (t *traffic) mix(to netip.Addr, size int) []packet.Packet {
	counted := slices.ContainsFunc(t.parts, func(p part) bool { return p.weight > 0 })
	sum := 0.0
	for i, p := range t.parts {
		if !counted {
			t.parts[i].weight = 1
		} else if p.weight == 0 {
			t.parts[i].weight = 1e-9
		}
		sum += t.parts[i].weight
	}
	out := make([]packet.Packet, mixSize)
	for i := range out {
		p := packet.Packet{Proto: packet.UDP, DstPort: uint16(1 + t.rng.IntN(65535))}
		if i%8 != 0 && len(t.parts) > 0 {
			p = t.pick(sum)
		}
		if !p.Src.IsValid() || !p.Src.IsGlobalUnicast() {
			p.Src = member(t.rng.IntN(1 << 20))
		}
		if !p.Dst.IsValid() {
			p.Dst = to
		}
		if p.SrcPort == 0 {
			p.SrcPort = uint16(1024 + t.rng.IntN(64512))
		}
		p.Size = size
		out[i] = p
	}
	return out
}

func (t *traffic) pick(sum float64) packet.Packet {
	at := t.rng.Float64() * sum
	for _, p := range t.parts {
		if at -= p.weight; at <= 0 {
			return p.packets[t.rng.IntN(len(p.packets))]
		}
	}
	last := t.parts[len(t.parts)-1]
	return last.packets[0]
}
