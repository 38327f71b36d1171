package fwproof

import (
	"fmt"
	"strings"

	"headroom/engine/packet"
)

// Step is one packet and its way through the machine.
type Step struct {
	packet.Packet
	In  string // device that it comes in on; "" if this machine sends it
	Out string // device that it goes out of; "" if it is for this machine; "lo" from itself to itself
	Cut bool   // sent in fragments
	// About is the packet that an ICMP error quotes.
	About *packet.Packet
	Note  string // what it is in its conversation: "opens", "answers" …
}

// pieces are what is sent for a step.
func (s Step) pieces() []packet.Packet {
	if s.Cut {
		if ps, err := s.Fragments(fragment); err == nil {
			return ps
		}
	}
	return []packet.Packet{s.Packet}
}

// fragment is the size of the pieces of a packet that is sent in fragments,
// in bytes.
const fragment = 576

// Conversation is packets in their order. About is the rule that it was made
// for.
type Conversation struct {
	About string
	Steps []Step
}

// back is the way of what comes back.
func (s Step) back(p packet.Packet) Step {
	s.Packet, s.In, s.Out = p, s.Out, s.In
	if s.In == "lo" {
		s.In, s.Out = "", "lo"
	}
	s.Note, s.Cut, s.About = "", false, nil
	return s
}

var flagLetters = []string{"FIN", "SYN", "RST", "PSH", "ACK", "URG"}

func flagNames(f uint8) string {
	var out []string
	for i, name := range flagLetters {
		if f&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	if len(out) == 0 {
		return "no flags"
	}
	return strings.Join(out, "+")
}

// String tells the packet in one line: "in on eth0: UDP 192.0.2.1:53 → …".
func (s Step) String() string {
	var way string
	switch {
	case s.Out == "lo":
		way = "on lo"
	case s.In == "":
		way = "out of " + s.Out
	case s.Out == "":
		way = "in on " + s.In
	default:
		way = "from " + s.In + " to " + s.Out
	}
	p := s.Packet
	text := fmt.Sprintf("%s: protocol %d %s → %s", way, p.Proto, p.Src, p.Dst)
	switch p.Proto {
	case packet.TCP, packet.UDP:
		name := "UDP"
		if p.Proto == packet.TCP {
			name = "TCP " + flagNames(p.Flags)
		}
		text = fmt.Sprintf("%s: %s %s → %s", way, name, ends(p.Src.String(), p.SrcPort), ends(p.Dst.String(), p.DstPort))
	case packet.ICMP, packet.ICMPv6:
		text = fmt.Sprintf("%s: %s type %d code %d %s → %s", way, map[uint8]string{packet.ICMP: "ICMP", packet.ICMPv6: "ICMPv6"}[p.Proto], p.Type, p.Code, p.Src, p.Dst)
	}
	if s.Cut {
		text += ", in fragments"
	}
	return text
}

func ends(addr string, port uint16) string {
	if strings.Contains(addr, ":") {
		return fmt.Sprintf("[%s]:%d", addr, port)
	}
	return fmt.Sprintf("%s:%d", addr, port)
}
