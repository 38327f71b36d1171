package stateless

import "headroom/engine/ruleset"

// Protocol numbers.
const (
	icmp  = 1
	tcp   = 6
	udp   = 17
	icmp6 = 58
)

const (
	fin = ruleset.FlagFIN
	syn = ruleset.FlagSYN
	rst = ruleset.FlagRST
	ack = ruleset.FlagACK
	urg = ruleset.FlagURG
	// five are the flags that connection tracking judges a segment by; the
	// others say nothing about its place in a connection.
	five = fin | syn | rst | ack | urg
)

// cube is a set of flag combinations: the bits of mask are as in value.
type cube struct{ mask, value uint64 }

// The classes of TCP segments. Together with invalid they are the same as the
// kernel's table tcp_valid_flags (net/netfilter/nf_conntrack_proto_tcp.c).
var (
	// opening begins a connection.
	opening = []cube{{fin | syn | rst | ack, syn}}
	// ongoing is every segment of the side that opened, after the first.
	ongoing = []cube{{syn | rst | ack, ack}, {fin | syn | rst | urg, rst}}
	// answering is every segment of the other side.
	answering = append([]cube{{five, syn | ack}}, ongoing...)
	// forward is every segment of the side that opened.
	forward = append(append([]cube{}, opening...), ongoing...)
	// beginning is what connection tracking makes a new connection of: also an
	// ACK, for connections older than itself (nf_conntrack_tcp_loose).
	beginning = append([]cube{{fin | syn | rst | ack, ack}}, opening...)
	// lost is what is sound only within a connection.
	lost = []cube{{five, syn | ack}, {fin | syn | rst | urg, rst}, {fin | syn | rst | ack, fin | ack}}
	// invalid are the combinations that no sound stack sends.
	invalid = []cube{{syn | rst | ack, 0}, {syn | rst, syn | rst}, {syn | fin, syn | fin}, {rst | fin, rst | fin}, {rst | urg, rst | urg}, {syn | ack | urg, syn | ack | urg}}
)

// values lists the combinations of five flags in some cubes.
func values(cs []cube) (out []uint64) {
	for v := range uint64(five + 1) {
		if v&^five != 0 {
			continue
		}
		for _, c := range cs {
			if v&c.mask == c.value {
				out = append(out, v)
				break
			}
		}
	}
	return out
}

// segments gives the matches of a class, any of which must hold: one with a
// list of values for nft, one for each cube for iptables.
func segments(tool ruleset.Tool, cs []cube) (out []ruleset.Match) {
	if tool == ruleset.IPTables || len(cs) == 1 {
		for _, c := range cs {
			m := numbers(ruleset.TCPFlags, c.value)
			m.Mask = c.mask
			out = append(out, m)
		}
		return out
	}
	m := ruleset.Match{Field: ruleset.TCPFlags, Mask: five}
	for _, v := range values(cs) {
		m.Numbers = append(m.Numbers, ruleset.Range{Lo: v, Hi: v})
	}
	return []ruleset.Match{m}
}

// kinds are the ICMP types of one family as connection tracking sees them.
type kinds struct {
	proto   uint64
	field   ruleset.Field
	code    ruleset.Field
	nfproto string
	answer  map[uint64]uint64 // request → reply
	request []uint64
	reply   []uint64
	errors  []uint64 // those of RELATED that must pass: they carry path MTU and dead ends
	related []uint64 // the others of RELATED: source quench, redirect
	free    []uint64 // never tracked: neighbour discovery and multicast listeners
}

var v4 = kinds{
	proto: icmp, field: ruleset.ICMPType, code: ruleset.ICMPCode, nfproto: "ipv4",
	answer: map[uint64]uint64{8: 0, 13: 14, 15: 16, 17: 18}, request: []uint64{8, 13, 15, 17}, reply: []uint64{0, 14, 16, 18},
	errors: []uint64{3, 11, 12}, related: []uint64{4, 5},
}

var v6 = kinds{
	proto: icmp6, field: ruleset.ICMP6, code: ruleset.ICMP6C, nfproto: "ipv6",
	answer: map[uint64]uint64{128: 129, 139: 140}, request: []uint64{128, 139}, reply: []uint64{129, 140},
	errors: []uint64{1, 2, 3, 4}, free: []uint64{130, 131, 132, 133, 134, 135, 136, 143, 151, 152},
}

// kindsOf lists the ICMP families that a table sees.
func kindsOf(f ruleset.Family) []kinds {
	switch f {
	case ruleset.IP:
		return []kinds{v4}
	case ruleset.IP6:
		return []kinds{v6}
	}
	return []kinds{v4, v6}
}

// strange are the types that no flow has, INVALID for connection tracking.
// Replies and errors are among them only where those that a flow may have were
// accepted before.
func (k kinds) strange(answered, told bool) ruleset.Match {
	m := ruleset.Match{Field: k.field, Not: true}
	lists := [][]uint64{k.request, k.free}
	if !answered {
		lists = append(lists, k.reply)
	}
	if !told {
		lists = append(lists, k.errors, k.related)
	}
	var known []ruleset.Range
	for _, list := range lists {
		for _, n := range list {
			known = append(known, ruleset.Range{Lo: n, Hi: n})
		}
	}
	m.Numbers = tidy(known)
	return m
}
