package ruleset

import (
	"strconv"
	"strings"
)

// understood says whether an option of a match or target has a known form.
func understood(module, option string) bool {
	if _, ok := ipTargets[module]; ok {
		return strings.Contains(" "+targetOptions[module]+" ", " "+option+" ")
	}
	m, ok := ipMatches[module]
	if module == "comment" {
		return option == "--comment"
	}
	return ok && strings.Contains(" "+m.options+" ", " "+option+" ")
}

const portOptions = "--sport --source-port --dport --destination-port"

// ipMatches are the matches that are understood: their options, and what makes
// the model of them. build answers false for a use that the model lacks.
var ipMatches = map[string]struct {
	options string
	build   func(p *ipParser, m *ipModule) ([]Match, bool)
}{
	"tcp":       {portOptions + " --tcp-flags --syn --tcp-option", (*ipParser).ports},
	"udp":       {portOptions, (*ipParser).ports},
	"udplite":   {portOptions, (*ipParser).ports},
	"sctp":      {portOptions, (*ipParser).ports},
	"dccp":      {portOptions, (*ipParser).ports},
	"multiport": {"--sports --source-ports --dports --destination-ports --ports", (*ipParser).multiport},
	"icmp":      {"--icmp-type", (*ipParser).icmp},
	"icmp6":     {"--icmpv6-type", (*ipParser).icmp},
	"icmpv6":    {"--icmpv6-type", (*ipParser).icmp},
	"ipv6-icmp": {"--icmpv6-type", (*ipParser).icmp},
	"conntrack": {"--ctstate --ctstatus --ctdir --ctproto --ctorigsrc --ctorigdst --ctreplsrc --ctrepldst --ctorigsrcport --ctorigdstport --ctreplsrcport --ctrepldstport --ctexpire", (*ipParser).conntrack},
	"state":     {"--state", (*ipParser).conntrack},
	"set":       {"--match-set --return-nomatch --update-counters --update-subcounters", (*ipParser).set},
	"limit":     {"--limit --limit-burst", (*ipParser).limit},
	"mark":      {"--mark", (*ipParser).mark},
	"connmark":  {"--mark", (*ipParser).mark},
	"addrtype":  {"--src-type --dst-type --limit-iface-in --limit-iface-out", (*ipParser).addrtype},
	"iprange":   {"--src-range --dst-range", (*ipParser).iprange},
	"pkttype":   {"--pkt-type", (*ipParser).words},
	"length":    {"--length", (*ipParser).number},
	"ttl":       {"--ttl-eq --ttl-lt --ttl-gt --ttl", (*ipParser).number},
	"hl":        {"--hl-eq --hl-lt --hl-gt --hl", (*ipParser).number},
	"dscp":      {"--dscp --dscp-class", (*ipParser).number},
	"owner":     {"--uid-owner --gid-owner --socket-exists", (*ipParser).number},
	"string":    {"--algo --string --hex-string --from --to --icase", (*ipParser).text},
}

// build adds what a match says to the rule.
func (p *ipParser) build(r *Rule, m *ipModule) {
	if m.name == "comment" && len(m.options) == 1 && m.options[0].name == "--comment" && len(m.options[0].args) == 1 && r.Comment == "" {
		r.Comment = m.options[0].args[0]
		return
	}
	known, ok := ipMatches[m.name]
	if ok && len(m.options) == 0 && (m.name == "tcp" || m.name == "udp" || m.name == "icmp" || m.name == "icmp6") {
		return // it asks nothing beyond the protocol
	}
	var ms []Match
	if ok {
		for _, o := range m.options {
			ok = ok && understood(m.name, o.name)
		}
		if ok && len(m.options) > 0 {
			ms, ok = known.build(p, m)
		} else {
			ok = false
		}
	}
	if !ok {
		ms = []Match{{Field: Other, Module: m.name}}
	}
	for i := range ms {
		if ms[i].Text == "" || ms[i].Field == Other {
			ms[i].Text = again(m.words)
		}
	}
	r.Matches = append(r.Matches, ms...)
}

// plain makes the model of an option that needs no module; nil if it asks nothing.
func (p *ipParser) plain(name, v string, not bool) *Match {
	m := &Match{Not: not}
	switch name {
	case "-p":
		m.Field = Proto
		if strings.EqualFold(v, "all") || v == "0" {
			return everything(m, Range{0, 255})
		}
		n, ok := lookup(protocols, v)
		if !ok || n > 255 {
			return &Match{Field: Other, Module: "protocol"}
		}
		m.Numbers = []Range{{n, n}}
	case "-s", "-d":
		m.Field = SAddr
		if name == "-d" {
			m.Field = DAddr
		}
		for part := range strings.SplitSeq(v, ",") {
			r, err := parseAddrs(part)
			if err != nil || strings.Contains(part, "-") || r.Lo.Is4() != (p.family == IP) {
				return &Match{Field: Other, Module: "address"}
			}
			m.Addrs = append(m.Addrs, r)
		}
		if pre, ok := m.Addrs[0].Prefix(); !not && ok && pre.Bits() == 0 {
			return nil
		}
	default:
		m.Field = IIf
		if name == "-o" {
			m.Field = OIf
		}
		if rest, ok := strings.CutSuffix(v, "+"); ok {
			v = rest + "*"
		}
		if v == "*" && !not {
			return nil
		}
		m.Words = []string{v}
	}
	return m
}

// everything is nil for a match that always holds; one that never does stays.
func everything(m *Match, all Range) *Match {
	if !m.Not {
		return nil
	}
	m.Numbers = []Range{all}
	return m
}

func (p *ipParser) ports(m *ipModule) (out []Match, ok bool) {
	for _, o := range m.options {
		x := Match{Not: o.not, Text: optionText(o)}
		switch o.name {
		case "--sport", "--source-port", "--dport", "--destination-port":
			x.Field = SPort
			if o.name[2] == 'd' {
				x.Field = DPort
			}
			r, ok := parsePorts(o.args[0])
			if !ok {
				return nil, false
			}
			x.Numbers = []Range{r}
		case "--syn":
			x.Field, x.Mask, x.Numbers = TCPFlags, FlagSYN|FlagRST|FlagACK|FlagFIN, []Range{{FlagSYN, FlagSYN}}
		case "--tcp-flags":
			mask, ok1 := flagsOf(o.args[0])
			want, ok2 := flagsOf(o.args[1])
			if !ok1 || !ok2 || mask == 0 {
				return nil, false
			}
			x.Field, x.Mask, x.Numbers = TCPFlags, mask, []Range{{want, want}}
		case "--tcp-option":
			n, err := strconv.ParseUint(o.args[0], 0, 8)
			if err != nil {
				return nil, false
			}
			x.Field, x.Numbers = TCPOpt, []Range{{n, n}}
		}
		out = append(out, x)
	}
	return out, true
}

// optionText is an option as written.
func optionText(o ipOption) string {
	s := o.name
	if o.not {
		s = "! " + s
	}
	for _, a := range o.args {
		s += " " + quote(a)
	}
	return s
}

func (p *ipParser) multiport(m *ipModule) (out []Match, ok bool) {
	for _, o := range m.options {
		x := Match{Not: o.not, Text: optionText(o)}
		switch o.name {
		case "--ports":
			x.Field = Port
		case "--sports", "--source-ports":
			x.Field = SPort
		default:
			x.Field = DPort
		}
		for part := range strings.SplitSeq(o.args[0], ",") {
			r, ok := parsePorts(part)
			if !ok {
				return nil, false
			}
			x.Numbers = append(x.Numbers, r)
		}
		out = append(out, x)
	}
	return out, true
}

func (p *ipParser) icmp(m *ipModule) (out []Match, ok bool) {
	names, typ, code := icmp4Names, ICMPType, ICMPCode
	if m.name != "icmp" {
		names, typ, code = icmp6Names, ICMP6, ICMP6C
	}
	for _, o := range m.options {
		if o.args[0] == "any" || o.args[0] == "255" && m.name == "icmp" {
			if o.not {
				return nil, false
			}
			out = append(out, Match{Field: typ, Numbers: []Range{{0, 255}}, Text: optionText(o)})
			continue
		}
		n, ok := icmpOf(names, o.args[0])
		if !ok || o.not && n.code >= 0 {
			return nil, false
		}
		out = append(out, Match{Field: typ, Not: o.not, Numbers: []Range{{n.typ, n.typ}}, Text: optionText(o)})
		if n.code >= 0 {
			out = append(out, Match{Field: code, Numbers: []Range{{uint64(n.code), uint64(n.code)}}, Text: optionText(o)})
		}
	}
	return out, true
}
