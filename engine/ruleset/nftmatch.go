package ruleset

import (
	"strings"
)

// nftRule turns the expressions of one rule into the model.
type nftRule struct {
	rule   *Rule
	family Family
	texts  []string
}

// add adds a match that a statement wrote.
func (n *nftRule) add(m Match, text string) {
	m.Text = text
	n.rule.Matches = append(n.rule.Matches, m)
}

// imply adds a condition that nft keeps out of its listing because another one
// implies it.
func (n *nftRule) imply(m Match) {
	for _, have := range n.rule.Matches {
		if have.Field != m.Field || have.Not {
			continue
		}
		if m.Field == NFProto && len(have.Words) == 1 && have.Words[0] == m.Words[0] || m.Field == Proto && len(have.Numbers) == 1 && have.Numbers[0] == m.Numbers[0] {
			return
		}
	}
	n.rule.Matches = append(n.rule.Matches, m)
}

func (n *nftRule) implyFamily(f Family) {
	if n.family == f {
		return
	}
	word := "ipv4"
	if f == IP6 {
		word = "ipv6"
	}
	n.imply(Match{Field: NFProto, Words: []string{word}})
}

func (n *nftRule) implyProto(number uint64) {
	n.imply(Match{Field: Proto, Numbers: []Range{{number, number}}})
}

// match reads {"match": …}.
func (n *nftRule) match(o object) {
	text := matchText(o)
	m, ok := n.understood(o)
	if !ok {
		kind, _ := only(o["left"])
		m = Match{Field: Other, Module: kind}
		n.module(&m, o["left"])
	}
	n.add(m, text)
}

// module says in a match that is not understood what it looks at.
func (n *nftRule) module(m *Match, left any) {
	kind, x := only(left)
	o, _ := x.(object)
	switch kind {
	case "payload", "meta", "ct":
		m.Module = exprText(left)
		if kind == "ct" {
			m.Field, m.Module = CTOther, str(o, "key")
		}
	}
}

func (n *nftRule) understood(o object) (m Match, ok bool) {
	op := str(o, "op")
	left, right := o["left"], o["right"]
	if kind, args := only(left); kind == "&" {
		pair := list(args)
		if len(pair) != 2 {
			return m, false
		}
		return n.masked(pair[0], pair[1], op, right)
	} else if kind == "concat" {
		return n.concat(list(args), op, right)
	}
	f, ok := n.field(left)
	if !ok {
		return m, false
	}
	m = Match{Field: f.field, Not: op == "!="}
	if s, isText := right.(string); isText && strings.HasPrefix(s, "@") && (op == "==" || op == "!=" || op == "in") {
		m.Set = s[1:]
		return m, f.field != Fragment
	}
	ok = f.read(&m, op, right)
	return m, ok
}

// fieldOf is a field and how its values are written.
type fieldOf struct {
	field Field
	read  func(m *Match, op string, right any) bool
}

// field finds the model's field of an expression, and notes what it implies.
func (n *nftRule) field(left any) (f fieldOf, ok bool) {
	kind, x := only(left)
	o, isObject := x.(object)
	if !isObject {
		return f, false
	}
	switch kind {
	case "payload":
		return n.payload(str(o, "protocol"), str(o, "field"))
	case "meta":
		f, ok = metaFields[str(o, "key")]
		if f.field == Length && n.family != IP && n.family != IP6 && n.family != Inet {
			return f, false
		}
		return f, ok
	case "ct":
		if str(o, "dir") != "" || str(o, "family") != "" {
			return f, false
		}
		f, ok = ctFields[str(o, "key")]
		return f, ok
	case "fib":
		return fibField(o)
	case "tcp option":
		kind, known := tcpOptions[str(o, "name")]
		if !known || str(o, "field") != "" {
			return f, false
		}
		n.implyProto(6)
		return fieldOf{TCPOpt, func(m *Match, op string, right any) bool {
			there, ok := right.(bool)
			m.Numbers, m.Not = []Range{{kind, kind}}, !there
			return ok && op == "=="
		}}, true
	}
	return f, false
}

var tcpOptions = map[string]uint64{"eol": 0, "nop": 1, "maxseg": 2, "window": 3, "sack-perm": 4, "sack-permitted": 4, "sack": 5, "timestamp": 8, "fastopen": 34}

func fibField(o object) (f fieldOf, ok bool) {
	flags := list(o["flags"])
	if str(o, "result") != "type" || len(flags) != 1 || flags[0] != "saddr" && flags[0] != "daddr" {
		return f, false
	}
	side := "src "
	if flags[0] == "daddr" {
		side = "dst "
	}
	return fieldOf{AddrType, func(m *Match, op string, right any) bool {
		if !words(m, op, right) {
			return false
		}
		for i := range m.Words {
			m.Words[i] = side + m.Words[i]
		}
		return true
	}}, true
}

var metaFields = map[string]fieldOf{
	"l4proto": {Proto, numbers(protocols, 255)}, "nfproto": {NFProto, words}, "iif": {IIf, words}, "oif": {OIf, words}, "iifname": {IIf, words}, "oifname": {OIf, words},
	"mark": {Mark, numbers(nil, 1<<32-1)}, "length": {Length, numbers(nil, 65535)}, "pkttype": {PktType, words},
	"skuid": {UID, numbers(nil, 1<<32-1)}, "skgid": {GID, numbers(nil, 1<<32-1)},
}

var ctFields = map[string]fieldOf{
	"state": {CTState, bitWords}, "status": {CTStatus, anyBit}, "direction": {CTDir, words}, "mark": {CTMark, numbers(nil, 1<<32-1)},
}

// transport are the protocols with ports, by nft's names.
var transport = map[string]uint64{"tcp": 6, "udp": 17, "dccp": 33, "sctp": 132, "udplite": 136}

func (n *nftRule) payload(protocol, field string) (f fieldOf, ok bool) {
	f, ok = payloadFields[protocol+" "+field]
	if _, ports := transport[protocol]; (ports || protocol == "th") && (field == "sport" || field == "dport") {
		f, ok = fieldOf{Field(field), numbers(services, 65535)}, true
	}
	if !ok {
		return f, false
	}
	switch protocol {
	case "ip":
		n.implyFamily(IP)
	case "ip6":
		n.implyFamily(IP6)
	case "icmp":
		n.implyFamily(IP)
		n.implyProto(1)
	case "icmpv6":
		n.implyFamily(IP6)
		n.implyProto(58)
	case "th":
	default:
		n.implyProto(transport[protocol])
	}
	return f, true
}

var payloadFields = map[string]fieldOf{
	"ip saddr": {SAddr, addrs}, "ip daddr": {DAddr, addrs}, "ip6 saddr": {SAddr, addrs}, "ip6 daddr": {DAddr, addrs},
	"ip protocol": {Proto, numbers(protocols, 255)}, "ip6 nexthdr": {NextHdr, numbers(protocols, 255)},
	"ip length": {Length, numbers(nil, 65535)}, "ip ttl": {TTL, numbers(nil, 255)}, "ip6 hoplimit": {TTL, numbers(nil, 255)},
	"ip dscp": {DSCP, numbers(dscpNames, 63)}, "ip6 dscp": {DSCP, numbers(dscpNames, 63)},
	"icmp type": {ICMPType, numbers(types(icmp4Names), 255)}, "icmpv6 type": {ICMP6, numbers(types(icmp6Names), 255)},
	"icmp code": {ICMPCode, numbers(icmp4Codes, 255)}, "icmpv6 code": {ICMP6C, numbers(icmp6Codes, 255)},
	"tcp flags": {TCPFlags, flags},
}

var (
	icmp4Codes = map[string]uint64{"net-unreachable": 0, "host-unreachable": 1, "prot-unreachable": 2, "port-unreachable": 3, "frag-needed": 4, "net-prohibited": 9, "host-prohibited": 10, "admin-prohibited": 13}
	icmp6Codes = map[string]uint64{"no-route": 0, "admin-prohibited": 1, "addr-unreachable": 3, "port-unreachable": 4, "policy-fail": 5, "reject-route": 6}
)

// types are the names of types without a code.
func types(names map[string]icmpName) map[string]uint64 {
	out := map[string]uint64{}
	for k, v := range names {
		if v.code < 0 {
			out[k] = v.typ
		}
	}
	return out
}
