package ruleset

import (
	"strconv"
	"strings"
)

// ctStatus are nft's names of a connection's status by those of iptables.
var ctStatus = map[string]string{"EXPECTED": "expected", "SEEN_REPLY": "seen-reply", "ASSURED": "assured", "CONFIRMED": "confirmed", "SNAT": "snat", "DNAT": "dnat"}

func (p *ipParser) conntrack(m *ipModule) (out []Match, ok bool) {
	for _, o := range m.options {
		x := Match{Not: o.not, Text: optionText(o)}
		for w := range strings.SplitSeq(o.args[0], ",") {
			switch o.name {
			case "--ctstate", "--state":
				x.Field = CTState
				if w = strings.ToLower(w); w == "" || !strings.Contains(" new established related invalid untracked snat dnat ", " "+w+" ") {
					return nil, false
				}
			case "--ctdir":
				x.Field = CTDir
				if w = strings.ToLower(w); w != "original" && w != "reply" || o.not {
					return nil, false
				}
			case "--ctstatus":
				x.Field = CTStatus
				if w = ctStatus[w]; w == "" {
					return nil, false
				}
			default:
				x.Field, x.Module = CTOther, strings.TrimPrefix(o.name, "--")
			}
			x.Words = append(x.Words, w)
		}
		out = append(out, x)
	}
	return out, true
}

func (p *ipParser) set(m *ipModule) ([]Match, bool) {
	if len(m.options) != 1 || m.options[0].name != "--match-set" {
		return nil, false
	}
	o := m.options[0]
	return []Match{{Field: InSet, Not: o.not, Set: o.args[0], Words: strings.Split(o.args[1], ","), Text: optionText(o)}}, true
}

var periods = map[string]string{"s": "second", "sec": "second", "second": "second", "m": "minute", "min": "minute", "minute": "minute",
	"h": "hour", "hour": "hour", "d": "day", "day": "day", "week": "week"}

func (p *ipParser) limit(m *ipModule) ([]Match, bool) {
	r := &Rate{Count: 3, Per: "hour", Burst: 5}
	for _, o := range m.options {
		if o.not {
			return nil, false
		}
		var err error
		if o.name == "--limit-burst" {
			r.Burst, err = strconv.ParseUint(o.args[0], 10, 32)
		} else {
			count, per, slash := strings.Cut(o.args[0], "/")
			var n uint64
			n, err = strconv.ParseUint(count, 10, 32)
			r.Count, r.Per = float64(n), "second"
			if slash {
				r.Per = periods[strings.ToLower(per)]
			}
		}
		if err != nil || r.Per == "" || r.Count == 0 {
			return nil, false
		}
	}
	return []Match{{Field: Limit, Rate: r}}, true
}

func (p *ipParser) mark(m *ipModule) (out []Match, ok bool) {
	f := Mark
	if m.name == "connmark" {
		f = CTMark
	}
	for _, o := range m.options {
		v, mask, ok := parseMasked(o.args[0])
		if !ok {
			return nil, false
		}
		out = append(out, Match{Field: f, Not: o.not, Mask: mask, Numbers: []Range{{v, v}}})
	}
	return out, true
}

func (p *ipParser) addrtype(m *ipModule) (out []Match, ok bool) {
	for _, o := range m.options {
		var side string
		switch o.name {
		case "--src-type":
			side = "src "
		case "--dst-type":
			side = "dst "
		default:
			return nil, false
		}
		x := Match{Field: AddrType, Not: o.not, Text: optionText(o)}
		for w := range strings.SplitSeq(o.args[0], ",") {
			x.Words = append(x.Words, side+strings.ToLower(w))
		}
		out = append(out, x)
	}
	return out, true
}

func (p *ipParser) iprange(m *ipModule) (out []Match, ok bool) {
	for _, o := range m.options {
		r, err := parseAddrs(o.args[0])
		if err != nil || r.Lo.Is4() != (p.family == IP) {
			return nil, false
		}
		x := Match{Field: SAddr, Not: o.not, Addrs: []AddrRange{r}, Text: optionText(o)}
		if o.name == "--dst-range" {
			x.Field = DAddr
		}
		out = append(out, x)
	}
	return out, true
}

func (p *ipParser) words(m *ipModule) (out []Match, ok bool) {
	for _, o := range m.options {
		w := strings.ToLower(o.args[0])
		if w == "unicast" {
			w = "host"
		}
		if w != "host" && w != "broadcast" && w != "multicast" {
			return nil, false
		}
		out = append(out, Match{Field: PktType, Not: o.not, Words: []string{w}})
	}
	return out, true
}

var numberFields = map[string]struct {
	field Field
	max   uint64
}{"length": {Length, 65535}, "ttl": {TTL, 255}, "hl": {TTL, 255}, "dscp": {DSCP, 63}}

// number reads one figure or range: length, ttl, hl, dscp, owner.
func (p *ipParser) number(m *ipModule) (out []Match, ok bool) {
	for _, o := range m.options {
		f := numberFields[m.name]
		switch o.name {
		case "--uid-owner":
			f.field, f.max = UID, 1<<32-1
		case "--gid-owner":
			f.field, f.max = GID, 1<<32-1
		case "--socket-exists":
			return nil, false
		}
		var r Range
		if o.name == "--dscp-class" {
			n, known := dscpNames[strings.ToLower(o.args[0])]
			r, ok = Range{n, n}, known
		} else {
			r, ok = numbersOf(o.args[0], f.max)
		}
		switch {
		case !ok, o.not && r.Lo == 0 && r.Hi == f.max:
			return nil, false
		case strings.HasSuffix(o.name, "-lt") && r.Lo > 0:
			r = Range{0, r.Lo - 1}
		case strings.HasSuffix(o.name, "-gt") && r.Hi < f.max:
			r = Range{r.Hi + 1, f.max}
		case strings.HasSuffix(o.name, "-lt"), strings.HasSuffix(o.name, "-gt"):
			return nil, false
		}
		out = append(out, Match{Field: f.field, Not: o.not, Numbers: []Range{r}, Text: optionText(o)})
	}
	return out, true
}

// numbersOf reads "1", "0x1", "1:5", "1-5" or "1:".
func numbersOf(s string, limit uint64) (Range, bool) {
	a, b, sep := strings.Cut(s, ":")
	if !sep {
		a, b, sep = strings.Cut(s, "-")
	}
	lo, err := strconv.ParseUint(a, 0, 32)
	if err != nil || lo > limit {
		return Range{}, false
	}
	if !sep {
		return Range{lo, lo}, true
	}
	if b == "" {
		return Range{lo, limit}, true
	}
	hi, err := strconv.ParseUint(b, 0, 32)
	return Range{lo, hi}, err == nil && hi >= lo && hi <= limit
}

// text reads the match of a string in the payload; other options than the text
// itself stay with Match.Text.
func (p *ipParser) text(m *ipModule) ([]Match, bool) {
	x := Match{Field: String}
	for _, o := range m.options {
		if o.name == "--string" || o.name == "--hex-string" {
			x.Words, x.Not = append(x.Words, o.args[0]), o.not
		}
	}
	return []Match{x}, len(x.Words) == 1
}
