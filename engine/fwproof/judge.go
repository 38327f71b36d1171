package fwproof

import (
	"context"
	"fmt"
	"slices"

	"headroom/engine/packet"
	"headroom/engine/ruleset"
)

// Intent is what the new rules leave out on purpose.
type Intent struct {
	// Ports are those that this machine's clients take; replies to others may
	// be refused.
	Ports ruleset.Range
	// Peers, by UDP port, are the only ones whose answers are taken.
	Peers map[uint16][]ruleset.AddrRange
}

func (p *proof) judge(ctx context.Context) error {
	var doubtful []int
	for i := range p.talk {
		if _, narrower := p.differences(i); len(narrower) > 0 {
			doubtful = append(doubtful, i)
		}
	}
	if err := p.again(ctx, doubtful); err != nil {
		return err
	}
	var wider []Difference
	for i, c := range p.talk {
		for k := range c.Steps {
			if !p.free[i][k] {
				break // what comes after it says nothing either
			}
			if p.was[i][k] {
				p.rep.Accepted++
			}
			if p.is[i][k] || !p.was[i][k] {
				continue
			}
			if name, meaning := p.lost(i, k); name != "" {
				p.group(name, false, meaning, p.difference(i, k))
			}
		}
		more, narrower := p.differences(i)
		wider = append(wider, more...)
		p.rep.Unexpected = append(p.rep.Unexpected, narrower...)
	}
	return p.histories(ctx, wider)
}

// differences are the packets of a conversation that only the new rules let
// pass, and those that only the old ones do without a reason that is announced.
func (p *proof) differences(i int) (wider, narrower []Difference) {
	for k := range p.talk[i].Steps {
		switch was, is := p.was[i][k], p.is[i][k]; {
		case !p.free[i][k]:
			return wider, narrower
		case is && !was:
			wider = append(wider, p.difference(i, k))
		case was && !is:
			if name, _ := p.lost(i, k); name == "" {
				d := p.difference(i, k)
				d.Why = "the old rules let it pass, the new ones refuse it"
				narrower = append(narrower, d)
			}
		}
	}
	return wider, narrower
}

func (p *proof) difference(i, k int) Difference {
	c := p.talk[i]
	d := Difference{Packet: c.Steps[k].String(), About: c.About, New: p.is[i][k], step: c.Steps[k]}
	for _, b := range c.Steps[:k] {
		d.Before = append(d.Before, b.String())
	}
	return d
}

// again plays conversations once more, with both rule sets. A packet that was
// seen once passes; one that was not may have been lost on a busy machine.
func (p *proof) again(ctx context.Context, which []int) error {
	if len(which) == 0 {
		return nil
	}
	talk := make([]Conversation, len(which))
	for n, i := range which {
		talk[n] = p.talk[i]
	}
	for _, side := range []struct {
		on     *machine
		passed [][]bool
	}{{p.old, p.was}, {p.fresh, p.is}} {
		got, err := side.on.playAll(ctx, talk)
		if err != nil {
			return err
		}
		for n, i := range which {
			for k, passed := range got[n] {
				side.passed[i][k] = side.passed[i][k] || passed
			}
		}
	}
	return nil
}

func (p *proof) group(name string, wider bool, meaning string, d Difference) {
	i := slices.IndexFunc(p.rep.Groups, func(g Group) bool { return g.Name == name })
	if i < 0 {
		i = len(p.rep.Groups)
		p.rep.Groups = append(p.rep.Groups, Group{Name: name, Wider: wider, Meaning: meaning, Example: d.Packet})
	}
	p.rep.Groups[i].Count++
}

// lost explains a packet that only the old rules let pass; "" if nothing does.
func (p *proof) lost(i, k int) (name, meaning string) {
	c, in := p.talk[i], p.in.Intent
	s := c.Steps[k]
	switch {
	case s.Out == "lo" && !p.was[i][0]:
		return "loopback that never begins", "The old rules refuse the first packet of this conversation of the machine with itself, and took later ones of it only because they had gone out before."
	case s.Out == "lo" && s.Cut:
		return "fragments on the loopback", "What this machine sends to itself in fragments is not put together before the rules look, for it is untracked when it comes in: the loopback takes 64 kB at a time, so that nothing is cut there."
	case s.Proto == packet.TCP && k > 0 && c.Steps[0].Flags == packet.SYN && !p.was[i][0]:
		return "connection picked up in the middle", "The old rules refuse the segment that opens this connection, and took later ones only because connection tracking makes a connection of any ACK (nf_conntrack_tcp_loose)."
	case s.Note == simultaneous:
		return simultaneous, "A connection that both sides open at the same moment is refused: a SYN is taken for a new connection."
	case s.Proto == packet.ICMP && (s.Type == 4 || s.Type == 5), s.Proto == packet.ICMPv6 && s.Type == 137:
		return "redirect, source quench", "ICMP redirects and source quench about a known flow are refused: they cannot be told from forged ones, and no host should obey them."
	case k == 0:
		return "", ""
	case s.Proto == packet.UDP && (s.Out == "" || s.Out == "lo") && !p.named(s) && (uint64(s.DstPort) < in.Ports.Lo || uint64(s.DstPort) > in.Ports.Hi) && answers(c, k):
		return "answer to an odd port", fmt.Sprintf("UDP answers to ports outside of %d-%d are refused, but for the own port of a service that a rule names: a client that takes such a port itself (ntpd: 123) needs its peers named, e.g. ntp=10.0.0.3.", in.Ports.Lo, in.Ports.Hi)
	case s.Proto == packet.UDP && s.In != "" && s.Out != "" && s.DstPort < 1024 && !p.named(s) && answers(c, k):
		return "answer to an odd port behind", "UDP answers to ports below 1024 of machines behind this one are refused, but for the own port of a service that a rule names."
	case s.Proto == packet.UDP && s.Out == "" && in.otherPeer(s) && answers(c, k):
		return "answer of another peer", "UDP answers of others than the named peers are refused."
	case s.Proto != packet.TCP && s.Proto != packet.UDP && s.Proto != packet.ICMP && s.Proto != packet.ICMPv6 && answers(c, k):
		return "answer of another protocol", "Answers of protocols other than TCP, UDP and ICMP pass only where a rule names the protocol."
	}
	return "", ""
}

func (in Intent) otherPeer(s Step) bool {
	if len(in.Peers) == 0 {
		return false
	}
	return !slices.ContainsFunc(in.Peers[s.SrcPort], func(r ruleset.AddrRange) bool {
		return r.Lo.Compare(s.Src) <= 0 && s.Src.Compare(r.Hi) <= 0
	})
}

// answers says whether a step is the reverse of an earlier one.
func answers(c Conversation, k int) bool {
	s := c.Steps[k]
	return slices.ContainsFunc(c.Steps[:k], func(b Step) bool {
		return b.Src == s.Dst && b.Dst == s.Src && b.SrcPort == s.DstPort && b.DstPort == s.SrcPort && b.Proto == s.Proto
	})
}

// histories finds out which of the packets that only the new rules let pass
// the old ones let pass, too, after others: first by a few conversations for
// each, then by many for the errors that are left, and once more by those for
// all that are left, for a packet may be lost on a busy machine.
func (p *proof) histories(ctx context.Context, wider []Difference) error {
	explained := make([]bool, len(wider))
	for round, most := range []int{few, many, many} {
		var tries []Conversation
		var of []int
		for i, d := range wider {
			if explained[i] || round == 1 && !isError(d.step.Packet) {
				continue
			}
			for _, h := range p.before(d.step, most) {
				if p.scene.astray(Conversation{Steps: h}) {
					continue
				}
				tries, of = append(tries, Conversation{d.About, h}), append(of, i)
			}
		}
		got, err := p.old.playAll(ctx, tries)
		if err != nil {
			return err
		}
		for n, passed := range got {
			if passed[len(passed)-1] {
				explained[of[n]] = true
			}
		}
	}
	for i, d := range wider {
		if !explained[i] {
			d.Why = "the new rules let it pass; the old ones never do, whatever went before"
			p.rep.Unexpected = append(p.rep.Unexpected, d)
			continue
		}
		name, meaning := p.in.Intent.widening(d.step)
		p.group(name, true, meaning, d)
	}
	return nil
}

// How many conversations an ICMP error is tried after.
const (
	few  = 8
	many = 400
)

// before lists conversations that end in a packet, after which connection
// tracking may take it for a part of them.
func (p *proof) before(s Step, most int) (out [][]Step) {
	switch s.Proto {
	case packet.TCP:
		return handshakes(s)
	case packet.ICMP, packet.ICMPv6:
		if isError(s.Packet) {
			return p.quotes(s, most)
		}
		for ask, reply := range requests[s.Proto] {
			if reply == s.Type {
				q := s.Reply(0)
				q.Type = ask
				out = append(out, []Step{s.back(q), s})
			}
		}
		return append(out, []Step{s, s})
	}
	back := s.back(s.Reply(0))
	return append(out, []Step{back, s}, []Step{s, back, s})
}

// handshakes are the ways to have a connection that a segment belongs to.
func handshakes(s Step) [][]Step {
	at := func(flags uint8, mine bool, seq, ack uint32) Step {
		p := s.Packet
		p.Flags, p.Payload, p.Size, p.Seq, p.Ack = flags, nil, 0, seq, ack
		if mine {
			x := s
			x.Packet, x.Cut = p, false
			return x
		}
		p.Src, p.Dst, p.SrcPort, p.DstPort = p.Dst, p.Src, p.DstPort, p.SrcPort
		return s.back(p)
	}
	seq, ack := s.Seq, s.Ack
	if ack == 0 {
		ack = seqB + 1
	}
	const syn, both = packet.SYN, packet.SYN | packet.ACK
	return [][]Step{
		{at(syn, true, seq-1, 0), at(both, false, ack-1, seq), at(packet.ACK, true, seq, ack), s},
		{at(syn, false, ack-1, 0), at(both, true, seq-1, ack), at(packet.ACK, false, ack, seq), s},
		{at(syn, false, ack-1, 0), s},
		{at(syn, true, seq-1, 0), s},
	}
}

// widening names why a packet that the old rules take only as part of a
// conversation passes without one.
func (in Intent) widening(s Step) (name, meaning string) {
	switch {
	case s.Proto == packet.TCP:
		return "TCP without a connection", "TCP segments other than the opening one pass without a connection: the target's own TCP answers them with a reset, a scan with ACK sees that the host is there."
	case s.Proto == packet.UDP && len(in.Peers[s.SrcPort]) > 0:
		return fmt.Sprintf("unsolicited UDP from port %d", s.SrcPort), fmt.Sprintf("UDP from port %d of the hosts that are named passes where an answer could be, asked for or not; who forges their addresses can send it, too.", s.SrcPort)
	case s.Proto == packet.UDP && (s.SrcPort == 53 || s.SrcPort == 123):
		return fmt.Sprintf("unsolicited UDP from port %d", s.SrcPort), fmt.Sprintf("UDP from port %d passes where an answer could be: narrow it by naming who is asked: %s=10.0.0.2.",
			s.SrcPort, map[uint16]string{53: "dns", 123: "ntp"}[s.SrcPort])
	case s.Proto == packet.UDP:
		return "unsolicited UDP", "UDP passes where an answer could be: narrow it by naming who is asked: peers=PORT@10.0.0.2."
	case isError(s.Packet):
		return "ICMP error about an unknown flow", "ICMP errors pass whatever they are about: path MTU and dead ends must be told; the kernel checks the quoted packet against its own sockets."
	case s.Proto == packet.ICMP || s.Proto == packet.ICMPv6:
		return "unasked echo reply", "ICMP replies pass without a question: no program gets them that did not ask."
	}
	return "other protocols without a flow", "Packets of this protocol pass where an answer could be."
}
