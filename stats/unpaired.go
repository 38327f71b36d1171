package stats

import (
	"fmt"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
	"gonum.org/v1/gonum/stat/distuv"
)

// Unpaired compares figures of two runs that did not take turns: the
// Mann-Whitney test, as benchstat does, and the interval of the ratio that
// belongs to it (Hodges and Lehmann, on logarithms). Whatever moved between
// the runs counts as effect, which no statistics can take out; a warning
// always says so. Both runs need at least one figure, all finite and above 0.
func Unpaired(base, changed []float64, level float64) (Comparison, error) {
	if len(base) == 0 || len(changed) == 0 {
		return Comparison{}, fmt.Errorf("compare runs: one of them has no figures")
	}
	if err := positive(slices.Concat(base, changed)...); err != nil {
		return Comparison{}, fmt.Errorf("compare runs: %w", err)
	}
	test := benchmath.AssumeNothing.Compare(sample(base), sample(changed))
	c := Comparison{Ratio: shift(base, changed, level), P: min(test.P, 1), N: min(len(base), len(changed))}
	c.Warnings = append(c.Warnings, Warning{Doubt: NotPaired,
		Text: "the two runs did not take turns, so the machine's own drift between them is part of the difference"})
	if math.IsInf(c.Ratio.Hi, 1) {
		c.Warnings = append(c.Warnings, Warning{Doubt: TooFew,
			Text: fmt.Sprintf("%d and %d figures are too few for an interval", len(base), len(changed))})
	}
	return c, nil
}

func sample(values []float64) *benchmath.Sample {
	return benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
}

// shift is the Hodges-Lehmann interval of changed / base.
func shift(base, changed []float64, level float64) Interval {
	all := make([]float64, 0, len(base)*len(changed))
	for _, b := range base {
		for _, c := range changed {
			all = append(all, math.Log(c)-math.Log(b))
		}
	}
	slices.Sort(all)
	k := leaveOut(len(base), len(changed), 1-level)
	i := Interval{0, math.Exp(quantile(all, 0.5)), math.Inf(1), level}
	if k > 0 {
		i.Lo, i.Hi = math.Exp(all[k-1]), math.Exp(all[len(all)-k])
	}
	return i
}

// exactTo is the sample size up to which the distribution of U is counted out,
// as benchstat does; above it is as good as normal.
const exactTo = 50

// leaveOut is the k for which the k-th smallest and k-th largest difference
// bound the shift with error at most alpha; 0 if there is none.
func leaveOut(n, m int, alpha float64) int {
	if n > exactTo || m > exactTo {
		mu := float64(n*m) / 2
		sd := math.Sqrt(float64(n*m*(n+m+1)) / 12)
		return max(0, int(mu+sd*distuv.UnitNormal.Quantile(alpha/2)))
	}
	p, sum := uDist(n, m), 0.0
	for k, v := range p {
		if sum += v; sum > alpha/2 {
			return k
		}
	}
	return 0
}

// uDist is the null distribution of the Mann-Whitney U for sizes n and m
// without ties: the coefficients of the Gaussian binomial (n+m over n),
// divided by their sum.
func uDist(n, m int) []float64 {
	p := make([]float64, n*m+1)
	p[0] = 1
	for i := 1; i <= n; i++ {
		for u := n * m; u >= m+i; u-- {
			p[u] -= p[u-m-i]
		}
		for u := i; u <= n*m; u++ {
			p[u] += p[u-i]
		}
	}
	sum := 0.0
	for _, v := range p {
		sum += v
	}
	for u := range p {
		p[u] /= sum
	}
	return p
}
