package ruleset

import (
	"fmt"
	"strings"
)

func (w *writer) ipMatch(r *Rule, m Match) (string, error) {
	switch m.Field {
	case Proto:
		n, err := one(m)
		if err != nil {
			return "", err
		}
		name := protocolNames[n]
		if name == "" {
			name = fmt.Sprint(n)
		}
		return negated(m.Not, "-p ", name), nil
	case NFProto:
		want := map[Family]string{IP: "ipv4", IP6: "ipv6"}[w.table.Family]
		if m.Not || len(m.Words) != 1 || m.Words[0] != want {
			return "", lacks("the rule is for the other family of addresses")
		}
		return "", nil
	case SAddr, DAddr:
		return ipAddrs(m)
	case IIf, OIf:
		if len(m.Words) != 1 {
			return "", lacks("iptables takes one interface in a rule")
		}
		name := m.Words[0]
		if rest, ok := strings.CutSuffix(name, "*"); ok {
			name = rest + "+"
		}
		return negated(m.Not, map[Field]string{IIf: "-i ", OIf: "-o "}[m.Field], quote(name)), nil
	case SPort, DPort, Port:
		return ipPorts(r, m)
	case Fragment:
		return negated(m.Not, "-f", ""), nil
	case ICMPType, ICMP6:
		return ipICMP(m, nil)
	case TCPFlags:
		return ipFlags(m)
	case CTState:
		return negated(m.Not, "-m conntrack --ctstate ", upper(m.Words)), nil
	case CTStatus:
		return negated(m.Not, "-m conntrack --ctstatus ", upper(m.Words)), nil
	case CTDir:
		return "-m conntrack --ctdir " + upper(m.Words), nil
	case Limit:
		return ipLimit(m.Rate)
	case AddrType:
		return ipAddrType(m)
	case Concat, InSet:
		if m.Set != "" && w.rs.Tool == IPTables && strings.Contains(m.Text, "--match-set") {
			return "-m set " + m.Text, nil
		}
	}
	return w.ipFigure(m)
}

// one is the single number of a match.
func one(m Match) (uint64, error) {
	if len(m.Numbers) != 1 || m.Numbers[0].Lo != m.Numbers[0].Hi {
		return 0, lacks("iptables takes one value of %s in a rule", m.Field)
	}
	return m.Numbers[0].Lo, nil
}

// ipFigure writes the matches on one figure, and what is kept as text.
func (w *writer) ipFigure(m Match) (string, error) {
	switch m.Field {
	case Mark, CTMark:
		n, err := one(m)
		if err != nil {
			return "", err
		}
		s := fmt.Sprintf("0x%x", n)
		if m.Mask > 0 {
			s += fmt.Sprintf("/0x%x", m.Mask)
		}
		return negated(m.Not, map[Field]string{Mark: "-m mark --mark ", CTMark: "-m connmark --mark "}[m.Field], s), nil
	case TCPOpt:
		n, err := one(m)
		return negated(m.Not, "-m tcp --tcp-option ", fmt.Sprint(n)), err
	case DSCP:
		n, err := one(m)
		return negated(m.Not, "-m dscp --dscp ", fmt.Sprintf("0x%x", n)), err
	case TTL:
		return w.ipTTL(m)
	case Length, UID, GID:
		if len(m.Numbers) != 1 {
			return "", lacks("iptables takes one range of %s in a rule", m.Field)
		}
		option, sep := map[Field]string{Length: "-m length --length ", UID: "-m owner --uid-owner ", GID: "-m owner --gid-owner "}[m.Field], "-"
		if m.Field == Length {
			sep = ":"
		}
		return negated(m.Not, option, rangeText(m.Numbers[0], sep)), nil
	case PktType:
		if len(m.Words) == 1 && m.Words[0] != "other" {
			return negated(m.Not, "-m pkttype --pkt-type ", strings.Replace(m.Words[0], "host", "unicast", 1)), nil
		}
	case CTOther:
		if native(w.rs, IPTables, m.Text) {
			return "-m conntrack " + m.Text, nil
		}
	}
	if native(w.rs, IPTables, m.Text) {
		return m.Text, nil
	}
	return "", lacks("no iptables for %q", string(m.Field)+" "+m.Text)
}

func rangeText(r Range, sep string) string {
	if r.Lo == r.Hi {
		return fmt.Sprint(r.Lo)
	}
	return fmt.Sprintf("%d%s%d", r.Lo, sep, r.Hi)
}

func (w *writer) ipTTL(m Match) (string, error) {
	option := "-m ttl --ttl-"
	if w.table.Family == IP6 {
		option = "-m hl --hl-"
	}
	if len(m.Numbers) != 1 {
		return "", lacks("iptables takes one comparison of the TTL in a rule")
	}
	switch r := m.Numbers[0]; {
	case r.Lo == r.Hi:
		return negated(m.Not, option+"eq ", fmt.Sprint(r.Lo)), nil
	case r.Lo == 0 && !m.Not:
		return fmt.Sprintf("%slt %d", option, r.Hi+1), nil
	case r.Hi == 255 && !m.Not:
		return fmt.Sprintf("%sgt %d", option, r.Lo-1), nil
	}
	return "", lacks("iptables has no range of the TTL")
}

func ipAddrs(m Match) (string, error) {
	side, letter := "src", "-s "
	if m.Field == DAddr {
		side, letter = "dst", "-d "
	}
	if m.Set != "" {
		return negated(m.Not, "-m set --match-set ", quote(m.Set)+" "+side), nil
	}
	var prefixes, parts []string
	for _, a := range m.Addrs {
		if p, ok := a.Prefix(); ok {
			prefixes = append(prefixes, p.String())
		}
		parts = append(parts, negated(m.Not, "-m iprange --"+side+"-range ", a.Lo.String()+"-"+a.Hi.String()))
	}
	switch {
	case len(m.Addrs) == 1 && len(prefixes) == 1, !m.Not && len(prefixes) == len(m.Addrs):
		return negated(m.Not, letter, strings.Join(prefixes, ",")), nil
	case len(m.Addrs) == 1, m.Not:
		return strings.Join(parts, " "), nil
	}
	return "", lacks("iptables takes one range of addresses in a rule")
}

// portSlots is how many numbers a multiport match holds.
const portSlots = 15

func ipPorts(r *Rule, m Match) (string, error) {
	n, ok := r.protoOf()
	_, ports := transport[protocolNames[n]]
	if !ok || !ports || m.Set != "" {
		return "", lacks("iptables takes ports of one named protocol, and not of a set")
	}
	option := map[Field]string{SPort: "--sport", DPort: "--dport", Port: "--port"}[m.Field]
	if len(m.Numbers) == 1 && m.Field != Port {
		return negated(m.Not, "-m "+protocolNames[n]+" "+option+" ", rangeText(m.Numbers[0], ":")), nil
	}
	slots := 0
	var parts []string
	for _, x := range m.Numbers {
		slots++
		if x.Lo != x.Hi {
			slots++
		}
		parts = append(parts, rangeText(x, ":"))
	}
	if slots > portSlots {
		return "", lacks("iptables takes %d ports in a rule", portSlots)
	}
	return negated(m.Not, "-m multiport "+option+"s ", strings.Join(parts, ",")), nil
}

func ipFlags(m Match) (string, error) {
	want, err := one(m)
	if err != nil {
		return "", err
	}
	mask := m.Mask
	if mask == 0 {
		mask = 0xff
	}
	if mask > 0x3f || want > 0x3f {
		return "", lacks("iptables knows no ECN and CWR flags")
	}
	return negated(m.Not, "-m tcp --tcp-flags ", ipFlagList(mask)+" "+ipFlagList(want)), nil
}

func ipFlagList(bits uint64) string {
	if bits == 0 {
		return "NONE"
	}
	return strings.ToUpper(strings.ReplaceAll(flagList(bits), " | ", ","))
}

func ipLimit(r *Rate) (string, error) {
	if r.Bytes || r.Over || r.Count != float64(uint64(r.Count)) || r.Per == "week" {
		return "", lacks("no iptables for a limit of bytes, or one that holds above its rate")
	}
	s := fmt.Sprintf("-m limit --limit %d/%s", uint64(r.Count), r.Per)
	if r.Burst > 0 {
		s += fmt.Sprintf(" --limit-burst %d", r.Burst)
	}
	return s, nil
}

func ipAddrType(m Match) (string, error) {
	side, _, _ := strings.Cut(m.Words[0], " ")
	var types []string
	for _, s := range m.Words {
		t, ok := strings.CutPrefix(s, side+" ")
		if !ok {
			return "", lacks("two sides in one match of address types")
		}
		types = append(types, t)
	}
	return negated(m.Not, "-m addrtype --"+side+"-type ", upper(types)), nil
}
