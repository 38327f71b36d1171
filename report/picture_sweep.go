package report

import (
	"fmt"
	"slices"

	"headroom/stats"
	"headroom/trial"
	"headroom/unit"
)

// spot is one value of a sweep.
type spot struct {
	value float64
	name  string
	ratio stats.Interval
}

// sweep draws the ratio to the base for each value of one argument, if three
// or more arms differ in nothing but that.
func sweep(r *trial.Result) *canvas {
	arg, spots := swept(r)
	if len(spots) < 3 {
		return nil
	}
	lo, hi := 1.0, 1.0
	for _, s := range spots {
		lo, hi = min(lo, s.ratio.Lo), max(hi, s.ratio.Hi)
	}
	const top, bottom = 20, 220
	lo, hi = around(lo, hi)
	y := scale{lo: lo, hi: hi, a: bottom, b: top}
	c := &canvas{Title: fmt.Sprintf("× the base's %s, by %s", noun(r.Primary()), arg), Height: bottom + 40,
		Note: "Each value against the base (dashed), with its interval."}
	c.levels(y, func(v float64) string { return times(v) + " ×" })
	c.line("one", left, y.at(1), right, y.at(1))
	c.line("axis", left, bottom, right, bottom)
	c.text("tick mid", (left+right)/2, bottom+34, arg)
	x := scale{hi: float64(len(spots) - 1), a: 16, b: 92}
	for i, s := range spots {
		at := x.at(float64(i))
		if i > 0 {
			c.line("c1 thin", x.at(float64(i-1)), y.at(spots[i-1].ratio.Center), at, y.at(s.ratio.Center))
		}
		c.line("c1 bar", at, y.at(s.ratio.Lo), at, y.at(s.ratio.Hi))
		c.point("c1 dot", armPoint(0), at, y.at(s.ratio.Center))
		c.text("tick mid", at, bottom+16, s.name)
		c.Desc += fmt.Sprintf("%s: %s, interval %s. ", s.name, times(s.ratio.Center), span(s.ratio))
	}
	return c
}

// swept finds the one argument in which the arms differ, and their values in
// rising order where they are figures.
func swept(r *trial.Result) (arg string, spots []spot) {
	figures := true
	for _, v := range r.Versus {
		a := r.Arms[armIndex(r, v.Arm)]
		if len(a.Changes) != 1 || len(a.Changes[0].Args) != 1 || !bounded(v.Ratio) {
			return "", nil
		}
		for name, value := range a.Changes[0].Args {
			if arg != "" && arg != name {
				return "", nil
			}
			arg = name
			f, _, err := unit.Parse(value)
			figures = figures && err == nil
			spots = append(spots, spot{f, value, v.Ratio})
		}
	}
	if figures {
		slices.SortStableFunc(spots, func(a, b spot) int {
			switch {
			case a.value < b.value:
				return -1
			case a.value > b.value:
				return 1
			}
			return 0
		})
	}
	return arg, spots
}
