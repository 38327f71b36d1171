package fwproof

import (
	"net/netip"
	"slices"

	"headroom/engine/ruleset"
)

// named says whether a packet answers from a service to that same port, and an
// old rule names the service by its one port and lets it be asked.
func (p *proof) named(s Step) bool {
	if s.SrcPort != s.DstPort {
		return false
	}
	ask := s.back(s.Reply(0))
	return slices.ContainsFunc(p.aims, func(a aim) bool {
		single := slices.ContainsFunc(a.ms, func(m ruleset.Match) bool {
			return m.Field == ruleset.DPort && !m.Not && slices.Contains(m.Numbers, ruleset.Range{Lo: uint64(s.SrcPort), Hi: uint64(s.SrcPort)})
		})
		return single && a.hook == ask.hook() && a.takes(ask)
	})
}

// takes says whether a packet matches, as far as addresses, ports, protocol
// and devices go.
func (a aim) takes(s Step) bool {
	for _, m := range a.ms {
		var holds bool
		switch m.Field {
		case ruleset.Proto:
			holds = inRanges(m.Numbers, uint64(s.Proto))
		case ruleset.SPort:
			holds = inRanges(m.Numbers, uint64(s.SrcPort))
		case ruleset.DPort:
			holds = inRanges(m.Numbers, uint64(s.DstPort))
		case ruleset.SAddr:
			holds = inAddrs(m.Addrs, s.Src)
		case ruleset.DAddr:
			holds = inAddrs(m.Addrs, s.Dst)
		case ruleset.IIf:
			holds = slices.ContainsFunc(m.Words, func(w string) bool { return named(w, s.In) })
		case ruleset.OIf:
			holds = slices.ContainsFunc(m.Words, func(w string) bool { return named(w, s.Out) })
		default:
			continue
		}
		if m.Set == "" && holds == m.Not {
			return false
		}
	}
	return true
}

func inRanges(rs []ruleset.Range, n uint64) bool {
	return slices.ContainsFunc(rs, func(r ruleset.Range) bool { return r.Lo <= n && n <= r.Hi })
}

func inAddrs(rs []ruleset.AddrRange, a netip.Addr) bool {
	return slices.ContainsFunc(rs, func(r ruleset.AddrRange) bool { return r.Lo.Compare(a) <= 0 && a.Compare(r.Hi) <= 0 })
}

// hook is the filtering hook that a packet passes first.
func (s Step) hook() string {
	switch {
	case s.In == "":
		return "output"
	case s.Out == "":
		return "input"
	}
	return "forward"
}
