package fwproof

import (
	"strconv"
	"strings"

	"headroom/engine/ruleset"
)

func numberRange(s string) (ruleset.Range, bool) {
	lo, hi, isRange := strings.Cut(s, "-")
	a, err := strconv.ParseUint(lo, 0, 16)
	b := a
	if err == nil && isRange {
		b, err = strconv.ParseUint(hi, 0, 16)
	}
	return ruleset.Range{Lo: a, Hi: b}, err == nil && a <= b
}
