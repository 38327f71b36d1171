package stats

import (
	"fmt"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Summary describes one sample, in the sample's own unit.
type Summary struct {
	N int `json:"n"`
	// Median with the interval that assumes nothing about the noise, as
	// benchstat gives it. Its Level is the level reached, at least the one
	// asked for; with too few figures its bounds are infinite.
	Median Interval `json:"median"`
	Min    float64  `json:"min"`
	Q1     float64  `json:"q1"`
	Q3     float64  `json:"q3"`
	Max    float64  `json:"max"`
	// Spread is (Q3 - Q1) / |median|, a ratio; 0 when the median is 0.
	Spread   float64   `json:"spread"`
	Warnings []Warning `json:"warnings,omitempty"`
}

// Summarize describes values, which may be in any order and are not changed.
// It refuses an empty sample and figures that are not finite.
func Summarize(values []float64, level float64) (Summary, error) {
	if len(values) == 0 {
		return Summary{}, fmt.Errorf("summarize figures: there are none")
	}
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return Summary{}, fmt.Errorf("summarize figures: figure %d is %v", i+1, v)
		}
	}
	x := slices.Sorted(slices.Values(values))
	m := benchmath.AssumeNothing.Summary(benchmath.NewSample(x, &benchmath.DefaultThresholds), level)
	s := Summary{
		N: len(x), Median: Interval{m.Lo, m.Center, m.Hi, m.Confidence},
		Min: x[0], Q1: quantile(x, 0.25), Q3: quantile(x, 0.75), Max: x[len(x)-1],
	}
	if m.Center != 0 {
		s.Spread = (s.Q3 - s.Q1) / math.Abs(m.Center)
	}
	for _, w := range m.Warnings {
		s.Warnings = append(s.Warnings, Warning{Doubt: NoBounds, Text: w.Error()})
	}
	return s, nil
}

// Point is one step of a distribution: the share Y (0 to 1) of the figures is
// at or under X.
type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// ECDF returns the steps of the empirical distribution of values, X rising,
// one for each distinct value; the last Y is 1. No values give no steps.
func ECDF(values []float64) []Point {
	x := slices.Sorted(slices.Values(values))
	var p []Point
	for i, v := range x {
		if i+1 < len(x) && x[i+1] == v {
			continue
		}
		p = append(p, Point{v, float64(i+1) / float64(len(x))})
	}
	return p
}

// Quantile is the value below which the share q (0 to 1) of values lies, by
// straight lines between the sorted values (type 7 of Hyndman and Fan, the
// default of R and NumPy). It is NaN for no values.
func Quantile(values []float64, q float64) float64 {
	return quantile(slices.Sorted(slices.Values(values)), q)
}

func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := min(max(q, 0), 1) * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

func median(values []float64) float64 { return Quantile(values, 0.5) }
