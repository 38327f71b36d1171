package fwproof

import (
	"headroom/engine/packet"
	"headroom/engine/ruleset"
)

const (
	seqA = 1000 // first number of the side that opens
	seqB = 5000 // of the other side
)

// talk makes the conversations of a flow: those that keep to the rules, and
// packets that belong to none.
func (k *maker) talk(f flow) (out []Conversation) {
	switch f.Proto {
	case packet.TCP:
		out = k.tcp(f)
	case packet.UDP:
		out = k.udp(f)
	case packet.ICMP, packet.ICMPv6:
		out = k.icmp(f)
	default:
		out = append(out, conv(f, f.Step, f.back(f.Reply(0)), f.Step), conv(f, f.back(f.Reply(0))))
	}
	return out
}

func conv(f flow, steps ...Step) Conversation { return Conversation{f.about, steps} }

// anew is the same flow from another port, or with another number, so that
// nothing is known of it; what a rule names stays.
func (k *maker) anew(f flow) flow {
	if f.SrcPort >= 32768 && f.SrcPort <= 60999 {
		f.SrcPort = k.client()
	}
	if once(f.Src) {
		f.Src = k.stranger(family(f))
	}
	if once(f.Dst) {
		f.Dst = k.stranger(family(f))
	}
	if f.Proto == packet.ICMP || f.Proto == packet.ICMPv6 {
		k.n++
		f.Rest = k.n<<16 | 1
	}
	return f
}

// segment is one of a connection that f opens: of the opener, or of the other
// side.
func segment(f flow, flags uint8, opener bool, payload int) Step {
	p := f.Packet
	p.Size, p.Flags, p.Seq, p.Ack = 0, flags, seqA+1, seqB+1
	p.Payload = make([]byte, payload)
	if flags&packet.ACK == 0 {
		p.Ack = 0
	}
	if flags == packet.SYN {
		p.Seq = seqA
	}
	s := f.Step
	s.Packet = p
	if opener {
		return s
	}
	p.Src, p.Dst, p.SrcPort, p.DstPort = p.Dst, p.Src, p.DstPort, p.SrcPort
	p.Seq, p.Ack = seqB+1, seqA+1
	switch {
	case flags == packet.SYN|packet.ACK:
		p.Seq = seqB
	case flags == packet.SYN:
		p.Seq, p.Ack = seqB, 0
	case flags&packet.ACK == 0:
		p.Ack = 0
	}
	return s.back(p)
}

// stray are the flags of segments that are sent without a connection.
var stray = []uint8{
	packet.ACK, packet.SYN | packet.ACK, packet.FIN | packet.ACK, packet.RST, packet.RST | packet.ACK, 0, packet.FIN, packet.URG,
	packet.FIN | packet.PSH | packet.URG, packet.SYN | packet.FIN, packet.SYN | packet.RST, packet.FIN | packet.RST, packet.RST | packet.URG,
	packet.SYN | packet.ACK | packet.URG, packet.SYN | packet.URG, packet.PSH, packet.ACK | packet.PSH | packet.URG, packet.FIN | packet.ACK | packet.URG, 63,
}

func (k *maker) tcp(f flow) []Conversation {
	const a, b = true, false
	whole := func(f flow) []Step {
		return []Step{
			segment(f, packet.SYN, a, 0), segment(f, packet.SYN|packet.ACK, b, 0), segment(f, packet.ACK, a, 0),
			segment(f, packet.PSH|packet.ACK, a, 20), segment(f, packet.PSH|packet.ACK, b, 20),
		}
	}
	out := []Conversation{conv(f, append(whole(f), segment(f, packet.FIN|packet.ACK, a, 0), segment(f, packet.FIN|packet.ACK, b, 0), segment(f, packet.ACK, a, 0))...)}
	flags := stray
	if !f.full {
		flags = stray[:2]
	}
	for _, x := range flags {
		f = k.anew(f)
		out = append(out, conv(f, segment(f, x, a, 0)))
		f = k.anew(f)
		out = append(out, conv(f, segment(f, x, b, 0)))
	}
	if !f.full {
		return out
	}
	f = k.anew(f)
	out = append(out, conv(f, append(whole(f)[:3], segment(f, packet.RST|packet.ACK, b, 0))...))
	f = k.anew(f)
	out = append(out, conv(f, segment(f, packet.SYN, a, 0), segment(f, packet.RST|packet.ACK, b, 0)))
	f = k.anew(f)
	out = append(out, conv(f, segment(f, packet.SYN, b, 0)))
	f = k.anew(f)
	both := segment(f, packet.SYN, b, 0)
	both.Note = simultaneous
	out = append(out, conv(f, segment(f, packet.SYN, a, 0), both))
	f = k.anew(f)
	cut := segment(f, packet.PSH|packet.ACK, a, 1400)
	cut.Cut = true
	out = append(out, conv(f, append(whole(f)[:3], cut)...))
	return append(out, k.errors(f, whole(f)[:3])...)
}

// simultaneous marks the second SYN where both sides open.
const simultaneous = "both sides open"

func (k *maker) udp(f flow) []Conversation {
	ask, answer := f.Step, f.back(f.Reply(0))
	out := []Conversation{conv(f, ask, answer, ask)}
	f = k.anew(f)
	out = append(out, conv(f, f.back(f.Reply(0))))
	if !f.full {
		return out
	}
	f = k.anew(f)
	wrong := f.Reply(0) // from another port of the one that was asked
	wrong.SrcPort ^= 1
	out = append(out, conv(f, f.Step, f.back(wrong)))
	f = k.anew(f)
	spoofed := f.Reply(0) // from somebody who was not asked
	spoofed.Src = k.stranger(family(f))
	if f.Out != "" && f.Out != "lo" {
		out = append(out, conv(f, f.Step, f.back(spoofed)))
	}
	f = k.anew(f)
	cut := f.Step
	cut.Size, cut.Cut = 1400, true
	back := f.back(f.Reply(0))
	back.Size, back.Cut = 1400, true
	out = append(out, conv(f, cut, back))
	return append(out, k.errors(f, []Step{f.Step})...)
}

func family(f flow) ruleset.Family {
	if f.V6() {
		return ruleset.IP6
	}
	return ruleset.IP
}

// requests are the ICMP types that are answered, and by which.
var requests = map[uint8]map[uint8]uint8{
	packet.ICMP: {8: 0, 13: 14, 15: 16, 17: 18}, packet.ICMPv6: {128: 129, 139: 140},
}

func (k *maker) icmp(f flow) []Conversation {
	reply, asks := requests[f.Proto][f.Type]
	if !asks {
		if isError(f.Packet) { // needs something to be about
			return k.errors(f, nil)
		}
		return []Conversation{conv(f, f.Step), conv(f, f.back(f.Reply(0)))}
	}
	answer := f.Reply(0)
	answer.Type = reply
	out := []Conversation{conv(f, f.Step, f.back(answer), f.Step)}
	f = k.anew(f)
	answer = f.Reply(0)
	answer.Type = reply
	out = append(out, conv(f, f.back(answer)))
	if f.full {
		out = append(out, k.errors(f, []Step{f.Step})...)
	}
	return out
}

// isError says whether a packet is an ICMP error, which carries the packet that
// it is about.
func isError(p packet.Packet) bool {
	return p.Proto == packet.ICMP && (p.Type == 3 || p.Type == 4 || p.Type == 5 || p.Type == 11 || p.Type == 12) ||
		p.Proto == packet.ICMPv6 && (p.Type < 100 || p.Type == 137)
}

// errors are ICMP errors about a known flow (the last packet of known) and
// about unknown ones, in both directions.
func (k *maker) errors(f flow, known []Step) (out []Conversation) {
	types := [][2]uint8{{3, 1}, {3, 4}, {11, 0}, {12, 0}, {5, 1}, {4, 0}}
	if f.V6() {
		types = [][2]uint8{{1, 0}, {1, 4}, {2, 0}, {3, 0}, {4, 0}}
	}
	if known == nil { // f is the error itself
		about := f.back(packet.Packet{Src: f.Dst, Dst: f.Src, Proto: packet.UDP, SrcPort: k.client(), DstPort: 33434, Size: 60})
		if e, err := about.Error(f.Src, f.Type, f.Code, 1400); err == nil {
			s := f.Step
			s.Packet, s.About = e, &about.Packet
			out = append(out, conv(f, s))
		}
		return out
	}
	for _, t := range types {
		f = k.anew(f)
		steps := make([]Step, 0, len(known)+1)
		for _, s := range known {
			s = renumber(s, known[0], f)
			if s.Proto == packet.ICMP || s.Proto == packet.ICMPv6 {
				s.Rest = f.Rest
			}
			steps = append(steps, s)
		}
		last := steps[len(steps)-1]
		if e, err := last.Error(last.Dst, t[0], t[1], 1400); err == nil {
			out = append(out, conv(f, append(steps, last.telling(e))...))
		}
		f = k.anew(f)
		lone := f.Step // nothing is known of it
		if e, err := lone.Error(lone.Dst, t[0], t[1], 1400); err == nil {
			out = append(out, conv(f, lone.telling(e)))
		}
	}
	return out
}

// telling is an error about s on its way back.
func (s Step) telling(e packet.Packet) Step {
	out := s.back(e)
	out.About = &s.Packet
	return out
}

// renumber gives a step of a known conversation the addresses and ports of f.
func renumber(s, first Step, f flow) Step {
	forth := s.SrcPort == first.SrcPort && s.DstPort == first.DstPort && s.Src == first.Src
	s.Src, s.Dst, s.SrcPort, s.DstPort = f.Dst, f.Src, f.DstPort, f.SrcPort
	if forth {
		s.Src, s.Dst, s.SrcPort, s.DstPort = f.Src, f.Dst, f.SrcPort, f.DstPort
	}
	return s
}
