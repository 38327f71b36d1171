package report

import (
	"fmt"
	"math"

	"headroom/stats"
	"headroom/trial"
	"headroom/unit"
)

// The horizontal room of every picture, in percent; letters at its ends stay inside.
const left, right = 1.5, 97.5

// axis draws a scale along x at height y, with rules upwards to top.
func (c *canvas) axis(s scale, top, y float64, label string, write func(float64) string) {
	for _, t := range s.ticks(4) {
		c.line("rule", s.at(t), top, s.at(t), y)
		class := "tick mid"
		if s.at(t) < left+6 {
			class = "tick"
		} else if s.at(t) > right-6 {
			class = "tick end"
		}
		c.text(class, s.at(t), y+16, write(t))
	}
	c.line("axis", left, y, right, y)
	c.text("tick mid", (left+right)/2, y+34, label)
}

// forest draws each arm's ratio to the base with its interval.
func forest(r *trial.Result) *canvas {
	var known []trial.Versus
	lo, hi := 1/(1+r.Options.Margin), 1+r.Options.Margin
	for _, v := range r.Versus {
		if bounded(v.Ratio) {
			known = append(known, v)
			lo, hi = min(lo, v.Ratio.Lo), max(hi, v.Ratio.Hi)
		}
	}
	if len(known) == 0 {
		return nil
	}
	const row, top = 46, 6
	bottom := float64(top + row*len(known))
	c := &canvas{Title: "Each arm against the base: " + noun(r.Primary()), Height: int(bottom) + 40,
		Note: "Dashed: the same as the base. Grey: so near to it that it is never called a difference."}
	lo, hi = around(lo, hi)
	s := scale{lo: max(lo, 1e-3), hi: hi, a: left, b: right, log: true}
	c.rect("band", s.at(1/(1+r.Options.Margin)), top, s.at(1+r.Options.Margin)-s.at(1/(1+r.Options.Margin)), bottom-top)
	c.axis(s, top, bottom, "× the base's "+noun(r.Primary()), times)
	c.line("one", s.at(1), top, s.at(1), bottom)
	for i, v := range known {
		y := float64(top + row*i)
		arm := armIndex(r, v.Arm)
		c.text("", left, y+16, v.Arm)
		c.text("end", right, y+16, times(v.Ratio.Center)+" ("+span(v.Ratio)+")")
		c.line(armClass(arm)+" bar", s.at(v.Ratio.Lo), y+30, s.at(v.Ratio.Hi), y+30)
		c.point(armClass(arm)+" dot", armPoint(arm), s.at(v.Ratio.Center), y+30)
		c.Desc += fmt.Sprintf("%s: %s, %s interval %s. ", v.Arm, times(v.Ratio.Center), level(v.Ratio.Level), span(v.Ratio))
	}
	return c
}

// distributions draws every round that counts, arm by arm, over a box of the
// middle half and a line at the median.
func distributions(r *trial.Result) *canvas {
	m := r.Primary()
	lo, hi := math.Inf(1), math.Inf(-1)
	for i := range r.Arms {
		for _, v := range r.Counted(i, m.Name) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if math.IsInf(lo, 0) {
		return nil
	}
	const row, top = 58, 6
	bottom := float64(top + row*len(r.Arms))
	c := &canvas{Title: "All rounds: " + noun(m), Height: int(bottom) + 40,
		Note: "One point for each round that counts. Box: the middle half of them. Line: their median."}
	lo, hi = around(lo, hi)
	s := scale{lo: lo, hi: hi, a: left, b: right}
	c.axis(s, top, bottom, noun(m), inUnit(m.Unit))
	for i, a := range r.Arms {
		y := float64(top + row*i)
		c.text("", left, y+16, a.Name)
		if sum, ok := a.Figures[m.Name]; ok {
			c.rect(armClass(i)+" box", s.at(sum.Q1), y+24, s.at(sum.Q3)-s.at(sum.Q1), 26)
			c.line(armClass(i)+" bar", s.at(sum.Median.Center), y+22, s.at(sum.Median.Center), y+52)
		}
		for j, v := range r.Counted(i, m.Name) {
			c.point(armClass(i)+" dot", smallPoint, s.at(v), y+30+float64(j*5%15))
		}
	}
	return c
}

// latencies draws each percentile with one point for each arm, on a
// logarithmic scale.
func latencies(r *trial.Result) *canvas {
	names := []string{"p50", "p90", "p99", "p99.9", "max"}
	rows := make([][]float64, len(r.Arms))
	lo, hi := math.Inf(1), 0.0
	for i, a := range r.Arms {
		if l := a.Latency; l != nil {
			rows[i] = []float64{l.P50, l.P90, l.P99, l.P999, l.Max}
			for _, v := range rows[i] {
				if v > 0 {
					lo, hi = min(lo, v), max(hi, v)
				}
			}
		}
	}
	if hi == 0 {
		return nil
	}
	const row, top = 30, 6
	bottom := float64(top + row*len(names))
	c := &canvas{Title: "Latency of one operation", Height: int(bottom) + 40, Legend: armLegend(r),
		Note: "Each percentile with one point for each arm, on a logarithmic scale. Left is better."}
	s := scale{lo: lo / 1.25, hi: hi * 1.25, a: 14, b: right, log: true}
	c.axis(s, top, bottom, "seconds", inUnit(unit.Second))
	for n, name := range names {
		y := float64(top + row*n + row/2)
		c.text("", left, y+5, name)
		for i := range r.Arms {
			if rows[i] != nil && rows[i][n] > 0 {
				c.point(armClass(i)+" dot", armPoint(i), s.at(rows[i][n]), y+spread(i, len(r.Arms)))
			}
		}
	}
	return c
}

// spread keeps the points of several arms apart where their figures are alike.
func spread(arm, arms int) float64 { return 3 * (float64(arm) - float64(arms-1)/2) }

// overTime draws the rounds in the order they ran, with those disturbed
// ringed and those that do not count faint.
func overTime(r *trial.Result) *canvas {
	m := r.Primary()
	lo, hi, end := math.Inf(1), math.Inf(-1), 0.0
	for _, x := range r.Rounds {
		if v, ok := x.Figures[m.Name]; ok {
			lo, hi, end = min(lo, v), max(hi, v), max(end, x.At)
		}
	}
	if math.IsInf(lo, 0) || end == 0 {
		return nil
	}
	const top, bottom = 20, 230
	c := &canvas{Title: "Rounds over time: " + noun(m), Height: bottom + 40, Legend: armLegend(r),
		Note: "Every round at the time when it began. Faint: does not count."}
	c.Legend = append(c.Legend, legend{"ringed", ringPoint, "disturbed"})
	lo, hi = around(lo, hi)
	x, y := scale{hi: end, a: left + 1, b: right - 1}, scale{lo: lo, hi: hi, a: bottom, b: top}
	c.axis(x, bottom-4, bottom, "seconds since the run began", inUnit(unit.Second))
	c.levels(y, inUnit(m.Unit))
	for _, round := range r.Rounds {
		v, ok := round.Figures[m.Name]
		if !ok {
			continue
		}
		class := " dot"
		if !round.Counts {
			class = " faint"
		}
		c.point(armClass(round.Arm)+class, armPoint(round.Arm), x.at(round.At), y.at(v))
		if len(round.Marks) > 0 {
			c.point("ring", ringPoint, x.at(round.At), y.at(v))
		}
	}
	return c
}

// levels draws a scale along y: rules with their figure above them.
func (c *canvas) levels(y scale, write func(float64) string) {
	for _, t := range y.ticks(4) {
		c.line("rule", left, y.at(t), right, y.at(t))
		c.text("tick", left, y.at(t)-4, write(t))
	}
}

func armLegend(r *trial.Result) []legend {
	var out []legend
	for i, a := range r.Arms {
		out = append(out, legend{armClass(i), armPoint(i), a.Name})
	}
	return out
}

func armIndex(r *trial.Result, name string) int {
	for i, a := range r.Arms {
		if a.Name == name {
			return i
		}
	}
	return 0
}

// bounded says whether an interval can be drawn.
func bounded(i stats.Interval) bool {
	return i.Lo > 0 && i.Center > 0 && !math.IsInf(i.Hi, 0) && !math.IsNaN(i.Hi)
}

func inUnit(u unit.Unit) func(float64) string {
	return func(v float64) string { return unit.Format(v, u) }
}
