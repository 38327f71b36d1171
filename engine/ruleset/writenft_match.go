package ruleset

import (
	"fmt"
	"strconv"
	"strings"
)

// nftFields are how nft calls the fields that need nothing else to be named.
var nftFields = map[Field]string{
	NFProto: "meta nfproto", Proto: "meta l4proto", IIf: "iifname", OIf: "oifname", CTState: "ct state", CTStatus: "ct status", CTDir: "ct direction",
	ICMPType: "icmp type", ICMPCode: "icmp code", ICMP6: "icmpv6 type", ICMP6C: "icmpv6 code", NextHdr: "ip6 nexthdr",
	Mark: "meta mark", CTMark: "ct mark", Length: "meta length", PktType: "meta pkttype", UID: "meta skuid", GID: "meta skgid", TCPFlags: "tcp flags",
}

// nftField is how nft calls a field in a rule.
func (w *writer) nftField(r *Rule, f Field, m *Match) (string, error) {
	if s := nftFields[f]; s != "" {
		return s, nil
	}
	ip := "ip"
	switch family := r.familyOf(w.table); {
	case family == IP6:
		ip = "ip6"
	case m != nil && family == "" && f != SPort && f != DPort:
		return "", lacks("the rule does not say whether it is for IPv4 or IPv6")
	}
	switch f {
	case SAddr, DAddr:
		return ip + " " + string(f), nil
	case DSCP:
		return ip + " dscp", nil
	case TTL:
		return map[string]string{"ip": "ip ttl", "ip6": "ip6 hoplimit"}[ip], nil
	case SPort, DPort:
		n, ok := r.protoOf()
		name := protocolNames[n]
		if _, ports := transport[name]; !ok || !ports {
			name = "th"
		}
		return name + " " + string(f), nil
	}
	return "", lacks("no nft for the match %s", f)
}

func (w *writer) nftMatch(r *Rule, m Match) (string, error) {
	switch m.Field {
	case Other, CTOther, String, InSet, Port:
		if native(w.rs, NFT, m.Text) {
			return m.Text, nil
		}
		return "", lacks("no nft for %q", m.Text)
	case Limit:
		return rateText(m.Rate), nil
	case Fragment:
		if m.Not {
			return "ip frag-off & 0x1fff == 0", nil
		}
		return "ip frag-off & 0x1fff != 0", nil
	case TCPFlags:
		return nftFlags(m), nil
	case TCPOpt:
		return nftOption(m)
	case AddrType:
		return nftAddrType(m)
	case CTState, CTStatus:
		return nftStates(m)
	case Concat:
		return w.nftConcat(r, m)
	case ICMPType:
		if !m.Not && len(m.Numbers) == 1 && m.Numbers[0] == (Range{0, 255}) {
			return "", nil // any: the protocol says it
		}
	case NFProto:
		switch w.table.Family {
		case IP, IP6:
			return "", nil
		case Bridge, Netdev:
			return "meta protocol" + equal(m) + map[string]string{"ipv4": "ip", "ipv6": "ip6"}[m.Words[0]], nil
		}
	}
	name, err := w.nftField(r, m.Field, &m)
	if err != nil {
		return "", err
	}
	if m.Mask > 0 {
		name += fmt.Sprintf(" & 0x%x", m.Mask)
	}
	return name + equal(m) + values(m), nil
}

// equal is the operator of a match.
func equal(m Match) string {
	switch {
	case m.Not:
		return " != "
	case m.Mask > 0:
		return " == "
	}
	return " "
}

// values writes the right side of a match.
func values(m Match) string {
	if m.Set != "" {
		return "@" + m.Set
	}
	var parts []string
	for _, a := range m.Addrs {
		parts = append(parts, a.String())
	}
	for _, n := range m.Numbers {
		s := strconv.FormatUint(n.Lo, 10)
		if n.Hi != n.Lo {
			s += "-" + strconv.FormatUint(n.Hi, 10)
		}
		parts = append(parts, s)
	}
	for _, s := range m.Words {
		if m.Field == IIf || m.Field == OIf {
			s = nftString(s)
		}
		parts = append(parts, s)
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

func flagList(bits uint64) string {
	var out []string
	for i, name := range flagNames {
		if bits&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	if len(out) == 0 {
		return "0x0"
	}
	return strings.Join(out, " | ")
}

func nftFlags(m Match) string {
	mask := m.Mask
	if mask == 0 {
		mask = 0xff
	}
	var parts []string
	for _, n := range m.Numbers {
		parts = append(parts, flagList(n.Lo))
	}
	op, value := " == ", "("+parts[0]+")"
	if m.Not {
		op = " != "
	}
	if len(parts) > 1 {
		value = "{ " + strings.Join(parts, ", ") + " }"
	} else if m.Numbers[0].Lo == 0 {
		value = "0x0"
	}
	return "tcp flags & (" + flagList(mask) + ")" + op + value
}

func nftOption(m Match) (string, error) {
	for name, kind := range tcpOptions {
		if len(m.Numbers) == 1 && m.Numbers[0] == (Range{kind, kind}) && name != "sack-permitted" && name != "fastopen" {
			if m.Not {
				return "tcp option " + name + " missing", nil
			}
			return "tcp option " + name + " exists", nil
		}
	}
	return "", lacks("no nft for a TCP option by number")
}

func nftAddrType(m Match) (string, error) {
	side, _, _ := strings.Cut(m.Words[0], " ")
	x := m
	x.Words = nil
	for _, s := range m.Words {
		typ, ok := strings.CutPrefix(s, side+" ")
		if !ok || typ == "throw" || typ == "nat" || typ == "xresolve" {
			return "", lacks("no nft for the address type %s", s)
		}
		x.Words = append(x.Words, typ)
	}
	return "fib " + map[string]string{"src": "saddr", "dst": "daddr"}[side] + " type" + equal(x) + values(x), nil
}

func nftStates(m Match) (string, error) {
	name := nftFields[m.Field]
	nat := 0
	for _, s := range m.Words {
		if m.Field == CTState && (s == "snat" || s == "dnat") {
			nat++
		}
	}
	switch {
	case nat > 0 && nat < len(m.Words):
		return "", lacks("no nft for states and address translation in one match")
	case nat > 0:
		name = "ct status"
	}
	switch {
	case !m.Not:
		return name + " " + strings.Join(m.Words, ","), nil
	case name == "ct status":
		return name + " & (" + strings.Join(m.Words, " | ") + ") == 0", nil
	}
	return name + " != { " + strings.Join(m.Words, ", ") + " }", nil
}

func (w *writer) nftConcat(r *Rule, m Match) (string, error) {
	var names []string
	for _, f := range m.Fields {
		s, err := w.nftField(r, f, &m)
		if err != nil {
			return "", err
		}
		names = append(names, s)
	}
	x := Match{Field: Concat, Not: m.Not, Set: m.Set}
	text := strings.Join(names, " . ")
	if m.Set != "" {
		return text + equal(x) + values(x), nil
	}
	var parts []string
	for _, e := range m.Elements {
		parts = append(parts, e.Text)
	}
	return text + equal(x) + "{ " + strings.Join(parts, ", ") + " }", nil
}
