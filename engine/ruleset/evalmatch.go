package ruleset

import (
	"net/netip"
	"slices"
	"strings"
)

// match says whether one match holds for the packet.
func (e *evaluation) match(m Match) answer {
	p := e.p
	if m.Field == Concat {
		return e.concat(m)
	}
	if m.Set != "" && m.Field != SAddr && m.Field != DAddr {
		if m.Field == InSet || m.Field == Other {
			return maybe
		}
		x := m
		x.Fields = []Field{m.Field}
		return e.concat(x)
	}
	switch m.Field {
	case NFProto:
		return m.words(map[Family]string{IP: "ipv4", IP6: "ipv6"}[p.Family])
	case Proto:
		return m.figure(p.Proto)
	case SAddr:
		return e.addr(m, p.Src)
	case DAddr:
		return e.addr(m, p.Dst)
	case IIf:
		return device(m, p.IIf)
	case OIf:
		return device(m, p.OIf)
	case CTState:
		if slices.Contains(m.Words, "snat") || slices.Contains(m.Words, "dnat") {
			return maybe
		}
		return m.words(p.State)
	case Fragment:
		return of(p.Family == IP && p.Fragment != m.Not)
	case Limit:
		return of(m.Rate != nil && !m.Rate.Over)
	case AddrType:
		return e.addrType(m)
	case Mark, CTMark:
		return maybe // another rule may have set it
	}
	return e.header(m)
}

// concat looks for the packet's values among tuples.
func (e *evaluation) concat(m Match) answer {
	elements := m.Elements
	if m.Set != "" {
		s := e.table.Set(m.Set)
		if s == nil {
			return maybe
		}
		elements = s.Elements
	}
	found := no
	for _, el := range elements {
		found = max(found, e.tuple(m.Fields, el.Text))
	}
	if found == maybe || m.Not && found == no { // whether the packet has all fields is not asked here
		return maybe
	}
	return of((found == yes) != m.Not)
}

// header asks for what lies behind the packet's IP header.
func (e *evaluation) header(m Match) answer {
	p := e.p
	ports := p.Proto == 6 || p.Proto == 17 || p.Proto == 33 || p.Proto == 132 || p.Proto == 136
	switch m.Field {
	case SPort, DPort, Port:
		if !ports || p.Fragment {
			return no
		}
		switch m.Field {
		case SPort:
			return m.figure(p.SPort)
		case DPort:
			return m.figure(p.DPort)
		}
		x := m
		x.Not = false
		return of((x.figure(p.SPort) == yes || x.figure(p.DPort) == yes) != m.Not)
	case TCPFlags:
		if p.Proto != 6 || p.Fragment {
			return no
		}
		return m.figure(p.Flags)
	case ICMPType, ICMPCode:
		return e.icmp(m, 1, ICMPType)
	case ICMP6, ICMP6C:
		return e.icmp(m, 58, ICMP6)
	case Length:
		return known0(p.Length, m)
	case TTL:
		return known0(p.TTL, m)
	}
	return maybe
}

// known0 takes a figure of zero for one that was not given.
func known0(n uint64, m Match) answer {
	if n == 0 {
		return maybe
	}
	return m.figure(n)
}

func (e *evaluation) icmp(m Match, proto uint64, typ Field) answer {
	switch {
	case e.p.Proto != proto || e.p.Fragment:
		return no
	case m.Field == typ:
		return m.figure(e.p.ICMP)
	}
	return m.figure(e.p.Code)
}

func (e *evaluation) addr(m Match, a netip.Addr) answer {
	if !a.IsValid() {
		return maybe
	}
	ranges := m.Addrs
	if m.Set != "" {
		s := e.table.Set(m.Set)
		if s == nil {
			return maybe
		}
		ranges = nil
		for _, el := range s.Elements {
			if strings.Contains(el.Data, "nomatch") {
				return maybe
			}
			text, _, _ := strings.Cut(el.Text, " ")
			r, err := parseAddrs(text)
			if err != nil {
				return maybe
			}
			ranges = append(ranges, r)
		}
	} else if len(ranges) > 0 && ranges[0].Lo.BitLen() != a.BitLen() {
		return no
	}
	in := slices.ContainsFunc(ranges, func(r AddrRange) bool { return r.Contains(AddrRange{a, a}) })
	return of(in != m.Not)
}

func device(m Match, name string) answer {
	if name == "" {
		return maybe
	}
	in := slices.ContainsFunc(m.Words, func(w string) bool { return nameMatches(w, name) })
	return of(in != m.Not)
}

// nameMatches says whether an interface's name fits a pattern with an asterisk
// at its end.
func nameMatches(pattern, name string) bool {
	if rest, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, rest)
	}
	return pattern == name
}

func (e *evaluation) addrType(m Match) answer {
	if e.p.ToLocal && !m.Not && slices.Contains(m.Words, "dst local") {
		return yes
	}
	if e.p.ToLocal && !slices.ContainsFunc(m.Words, func(w string) bool { return strings.HasPrefix(w, "src") }) {
		return of(slices.Contains(m.Words, "dst local") != m.Not)
	}
	return maybe
}
