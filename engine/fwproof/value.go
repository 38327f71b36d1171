package fwproof

import (
	"net/netip"
	"strconv"
	"strings"

	"headroom/engine/ruleset"
)

func addrRange(s string) (ruleset.AddrRange, bool) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return ruleset.PrefixRange(p), true
	}
	lo, hi, isRange := strings.Cut(s, "-")
	a, err := netip.ParseAddr(lo)
	b := a
	if err == nil && isRange {
		b, err = netip.ParseAddr(hi)
	}
	return ruleset.AddrRange{Lo: a, Hi: b}, err == nil
}

func numberRange(s string) (ruleset.Range, bool) {
	lo, hi, isRange := strings.Cut(s, "-")
	a, err := strconv.ParseUint(lo, 0, 16)
	b := a
	if err == nil && isRange {
		b, err = strconv.ParseUint(hi, 0, 16)
	}
	return ruleset.Range{Lo: a, Hi: b}, err == nil && a <= b
}
