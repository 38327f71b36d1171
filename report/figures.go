package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"headroom/stats"
	"headroom/trial"
	"headroom/unit"
)

// noun is what a measure counts, for headings and sentences.
func noun(m trial.Measure) string { return orElse(m.Noun, m.Name) }

func count(n int64) string { return unit.Format(float64(n), unit.Count) }

func budget(seconds float64) string {
	if seconds > 600 {
		seconds = math.Ceil(seconds/60) * 60
	}
	return short(time.Duration(math.Ceil(seconds)) * time.Second)
}

// times writes a ratio: two decimals, and three digits for those far from 1.
func times(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "?"
	}
	if v >= 0.095 && v < 100 {
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// span writes an interval of a ratio; an end that is not known is open.
func span(i stats.Interval) string {
	lo, hi := "…", "…"
	if i.Lo > 0 {
		lo = times(i.Lo)
	}
	if !math.IsInf(i.Hi, 1) && !math.IsNaN(i.Hi) {
		hi = times(i.Hi)
	}
	return lo + "–" + hi
}

func spanIn(i stats.Interval, u unit.Unit) string {
	if math.IsInf(i.Lo, 0) || math.IsInf(i.Hi, 0) {
		return "too few"
	}
	lo, hi := unit.Format(i.Lo, u), unit.Format(i.Hi, u)
	if figure, unit, ok := strings.Cut(lo, " "); ok && strings.HasSuffix(hi, " "+unit) {
		lo = figure // the unit is said once
	}
	return lo + "–" + hi
}

func level(l float64) string { return unit.Format(l, unit.Ratio) }

func pValue(p float64) string {
	if p < 0.001 {
		return "< 0.001"
	}
	return fmt.Sprintf("%.3f", p)
}
