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
	for _, t := range p.passed()[sortOf(s)] {
		from, told := t.about.Src, append(slices.Clone(t.steps), t.about)
		for i := range told {
			forth := told[i].In == t.about.In && told[i].Out == t.about.Out
			told[i].Packet = moved(told[i].Packet, from, s.Dst)
			switch {
			case s.Out == "lo":
			case forth:
				told[i].In, told[i].Out = s.Out, s.In
			default:
				told[i].In, told[i].Out = s.In, s.Out
			}
		}
		about := told[len(told)-1]
		e, err := about.Error(s.Src, s.Type, s.Code, s.Rest)
		if err != nil {
			continue
		}
		told[len(told)-1] = about.telling(e)
		if from == s.Dst || once(from) {
			near = append(near, told)
		} else {
			far = append(far, told)
		}
	}
	all := append(near, far...)
	return append(all[:min(len(all), most)], p.made(s)...)
}

// told is what an error may be about: a packet, and what goes before the error.
type told struct {
	steps []Step
	about Step
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

// passed lists what errors may be about, by the sort of the error: packets that
// the old rules let pass, one of each kind; such that there was no room to try,
// which may have passed; and answers to packets that passed, though no rule lets
// the answers in: their connection is known.
func (p *proof) passed() map[sort][]told {
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
		unheard  bool // an answer that was not let in
	}
	seen := map[kind]bool{}
	p.kinds = map[sort][]told{}
	add := func(steps []Step, about Step, unheard bool) {
		if isError(about.Packet) || about.Proto == packet.TCP && about.Flags&packet.RST != 0 {
			return
		}
		x := kind{sortOf(about.back(about.Packet)), about.Proto, about.Type, about.Flags == packet.SYN, service(about.SrcPort), service(about.DstPort), fixed(about.Src), fixed(about.Dst), unheard}
		if !seen[x] {
			seen[x] = true
			p.kinds[x.sort] = append(p.kinds[x.sort], told{steps, about})
		}
	}
	for i, c := range p.talk {
		for k := range c.Steps {
			if p.was[i][k] {
				add(c.Steps[:k+1], c.Steps[k], false)
			}
		}
	}
	for _, c := range p.plain {
		for k := range c.Steps {
			add(c.Steps[:k+1], c.Steps[k], false)
		}
	}
	for i, c := range p.talk {
		if p.was[i][0] {
			add(c.Steps[:1], c.Steps[0].back(c.Steps[0].Reply(packet.SYN|packet.ACK)), true)
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
