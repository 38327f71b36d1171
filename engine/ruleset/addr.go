package ruleset

import (
	"fmt"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"

	"go4.org/netipx"
)

// ParseAddrRange reads an address, a prefix, or two addresses with a dash
// between; false says that it is none of them. The order of two is not judged.
func ParseAddrRange(s string) (AddrRange, bool) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return PrefixRange(p), true
	}
	lo, hi, isRange := strings.Cut(s, "-")
	a, err := netip.ParseAddr(lo)
	b := a
	if err == nil && isRange {
		b, err = netip.ParseAddr(hi)
	}
	return AddrRange{Lo: a, Hi: b}, err == nil
}

// PrefixRange is the range of a prefix.
func PrefixRange(p netip.Prefix) AddrRange {
	p = p.Masked()
	return AddrRange{p.Addr(), netipx.PrefixLastIP(p)}
}

// Prefix is the range as one prefix; ok is false if it is none.
func (r AddrRange) Prefix() (p netip.Prefix, ok bool) {
	return netipx.IPRangeFrom(r.Lo, r.Hi).Prefix()
}

// Contains says whether all of o lies within r.
func (r AddrRange) Contains(o AddrRange) bool {
	return r.Lo.BitLen() == o.Lo.BitLen() && r.Lo.Compare(o.Lo) <= 0 && o.Hi.Compare(r.Hi) <= 0
}

// String is the address, the prefix or "first-last".
func (r AddrRange) String() string {
	if r.Lo == r.Hi {
		return r.Lo.String()
	}
	if p, ok := r.Prefix(); ok {
		return p.String()
	}
	return r.Lo.String() + "-" + r.Hi.String()
}

// parseAddrs reads an address, a prefix (also with a mask in dots) or a range
// first-last.
func parseAddrs(s string) (AddrRange, error) {
	if a, b, ok := strings.Cut(s, "-"); ok {
		lo, err1 := netip.ParseAddr(a)
		hi, err2 := netip.ParseAddr(b)
		if err1 != nil || err2 != nil || lo.BitLen() != hi.BitLen() || lo.Compare(hi) > 0 {
			return AddrRange{}, fmt.Errorf("no range of addresses: %s", s)
		}
		return AddrRange{lo, hi}, nil
	}
	host, mask, slash := strings.Cut(s, "/")
	a, err := netip.ParseAddr(host)
	if err != nil || a.Zone() != "" {
		return AddrRange{}, fmt.Errorf("no address: %s", s)
	}
	if !slash {
		return AddrRange{a, a}, nil
	}
	n, err := strconv.Atoi(mask)
	if err != nil {
		if n, err = maskLen(mask, a); err != nil {
			return AddrRange{}, err
		}
	}
	p, err := a.Prefix(n)
	if err != nil {
		return AddrRange{}, fmt.Errorf("no prefix: %s", s)
	}
	return PrefixRange(p), nil
}

// maskLen is the length of a mask written as an address.
func maskLen(mask string, of netip.Addr) (int, error) {
	m, err := netip.ParseAddr(mask)
	if err != nil || m.BitLen() != of.BitLen() {
		return 0, fmt.Errorf("no mask: %s", mask)
	}
	n, ended := 0, false
	for _, b := range m.AsSlice() {
		ones := bits.LeadingZeros8(^b)
		if ended && b != 0 || b<<ones != 0 {
			return 0, fmt.Errorf("a mask with gaps: %s", mask)
		}
		n, ended = n+ones, ended || ones < 8
	}
	return n, nil
}

// parsePort reads a port or its name.
func parsePort(s string) (uint64, bool) {
	n, ok := lookup(services, s)
	return n, ok && n <= 65535
}

// parsePorts reads "22", "1024:" or ":1023" and the like.
func parsePorts(s string) (Range, bool) {
	a, b, colon := strings.Cut(s, ":")
	r := Range{0, 65535}
	ok := true
	if a != "" {
		r.Lo, ok = parsePort(a)
	}
	if !colon {
		return Range{r.Lo, r.Lo}, ok && a != ""
	}
	if ok && b != "" {
		r.Hi, ok = parsePort(b)
	}
	return r, ok && r.Lo <= r.Hi
}

// parseMasked reads "0x1/0xff" or "1"; mask is 0 without one.
func parseMasked(s string) (value, mask uint64, ok bool) {
	a, b, slash := strings.Cut(s, "/")
	value, err := strconv.ParseUint(a, 0, 32)
	if err == nil && slash {
		if mask, err = strconv.ParseUint(b, 0, 32); err == nil && mask == 0xffffffff {
			mask = 0
		} else if err == nil && mask == 0 {
			return 0, 0, false // compares nothing: too odd to be modelled
		}
	}
	return value, mask, err == nil
}
