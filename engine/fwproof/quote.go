package fwproof

import (
	"net/netip"
	"slices"

	"headroom/engine/packet"
)

// quotes are conversations that an ICMP error can be about: such of the corpus
// as the old rules let pass, moved to the address that the error goes to and
// the devices that it comes by, and some of our own. Whether the old rules let
// the moved ones pass, too, the kernel tells.
func (p *proof) quotes(s Step, most int) [][]Step {
	var near, far [][]Step
	for _, told := range p.passed()[sortOf(s)] {
		steps, sent := slices.Clone(told), told[len(told)-1]
		for i := range steps {
			forth := steps[i].In == sent.In && steps[i].Out == sent.Out
			steps[i].Packet = moved(steps[i].Packet, sent.Src, s.Dst)
			switch {
			case s.Out == "lo":
			case forth:
				steps[i].In, steps[i].Out = s.Out, s.In
			default:
				steps[i].In, steps[i].Out = s.In, s.Out
			}
		}
		last := steps[len(steps)-1]
		e, err := last.Error(s.Src, s.Type, s.Code, s.Rest)
		if err != nil {
			continue
		}
		steps = append(steps, last.telling(e))
		if sent.Src == s.Dst || once(sent.Src) {
			near = append(near, steps)
		} else {
			far = append(far, steps)
		}
	}
	all := append(near, far...)
	return append(all[:min(len(all), most)], p.made(s)...)
}

// moved is a packet with one address changed.
func moved(p packet.Packet, from, to netip.Addr) packet.Packet {
	if p.Src == from {
		p.Src = to
	}
	if p.Dst == from {
		p.Dst = to
	}
	return p
}

// sort is what an error and the packets that it can be about have in common:
// whether it comes in, goes out, or both, and the family.
type sort struct {
	in, out, loop, v6 bool
}

func sortOf(s Step) sort { return sort{s.In != "", s.Out != "", s.Out == "lo", s.V6()} }

// passed lists conversations up to a packet that the old rules let pass, one of
// each kind, by the sort of an error about it; then those up to packets that
// there was no room to try, which may have passed.
func (p *proof) passed() map[sort][][]Step {
	if p.kinds != nil {
		return p.kinds
	}
	type kind struct {
		sort
		proto    uint8
		typ      uint8
		opens    bool // of TCP: a later segment that passes by itself may belong to no connection
		src, dst uint16
		from, to netip.Addr
	}
	seen := map[kind]bool{}
	p.kinds = map[sort][][]Step{}
	add := func(steps []Step) {
		s := steps[len(steps)-1]
		if isError(s.Packet) || s.Proto == packet.TCP && s.Flags&packet.RST != 0 {
			return
		}
		x := kind{sortOf(s.back(s.Packet)), s.Proto, s.Type, s.Flags == packet.SYN, service(s.SrcPort), service(s.DstPort), fixed(s.Src), fixed(s.Dst)}
		if !seen[x] {
			seen[x] = true
			p.kinds[x.sort] = append(p.kinds[x.sort], steps)
		}
	}
	for i, c := range p.talk {
		for k := range c.Steps {
			if p.was[i][k] {
				add(c.Steps[:k+1])
			}
		}
	}
	for _, c := range p.plain {
		for k := range c.Steps {
			add(c.Steps[:k+1])
		}
	}
	return p.kinds
}

// service is a port, or 0 for all those that clients take.
func service(port uint16) uint16 {
	if port >= 32768 {
		return 0
	}
	return port
}

// fixed is an address, or none for all those that are used once.
func fixed(a netip.Addr) netip.Addr {
	if once(a) {
		return netip.Addr{}
	}
	return a
}

// made are flows of our own that the error may be about: a web page fetched or
// served.
func (p *proof) made(s Step) (out [][]Step) {
	for _, port := range []uint16{80, 53, 22} {
		for _, proto := range []uint8{packet.TCP, packet.UDP} {
			q := packet.Packet{Src: s.Dst, Dst: s.Src, Proto: proto, SrcPort: 40000, DstPort: port, Flags: packet.SYN, Seq: seqA, Size: 60}
			if !q.Src.IsValid() || q.Dst == (netip.Addr{}) {
				continue
			}
			e, err := q.Error(s.Src, s.Type, s.Code, s.Rest)
			if err != nil {
				continue
			}
			ask := s.back(q)
			out = append(out, []Step{ask, ask.telling(e)})
		}
	}
	return out
}
