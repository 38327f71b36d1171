package stats

import (
	"fmt"
	"math"
	"slices"
)

// Doubt names what a warning is about. The names are stable.
type Doubt string

// The doubts. Each test fires on about one clean run in a hundred or fewer.
const (
	TooFew    Doubt = "too few"    // under MinPairs pairs
	Constant  Doubt = "constant"   // every pair has the same ratio: rounded figures?
	Outliers  Doubt = "outliers"   // pairs far from the others
	Drift     Doubt = "drift"      // an arm, or the ratio, rises or falls over the run
	Dependent Doubt = "dependent"  // neighbouring pairs resemble each other: the interval is widened, perhaps not enough
	TwoModes  Doubt = "two modes"  // the ratios fall into two groups
	Skewed    Doubt = "skewed"     // the centre is not the mean: rare large differences on one side
	NotPaired Doubt = "not paired" // runs from different times: drift of the machine counts as effect
	NoBounds  Doubt = "no bounds"  // too few figures for an interval at the level asked
)

// Warning is a reason to doubt a comparison. It does not change a verdict;
// only for Dependent has the interval been widened.
type Warning struct {
	Doubt Doubt  `json:"doubt"`
	Text  string `json:"text"`
	// Pairs are the pairs meant, counted from 0; only for Outliers.
	Pairs []int `json:"pairs,omitempty"`
}

// warnings looks for all doubts in pairs and their log ratios d.
func warnings(pairs []Pair, d []float64) []Warning {
	var w []Warning
	if len(d) < MinPairs {
		return []Warning{{Doubt: TooFew, Text: fmt.Sprintf("%d pairs; a verdict needs at least %d", len(d), MinPairs)}}
	}
	x := slices.Sorted(slices.Values(d))
	if x[0] == x[len(x)-1] {
		return []Warning{{Doubt: Constant, Text: "every pair has the same ratio; are the figures rounded?"}}
	}
	if far := outliers(d); len(far) > 0 {
		w = append(w, Warning{Outliers, fmt.Sprintf("%d of %d pairs lie far from the others", len(far), len(d)), far})
	}
	base, changed := halves(pairs)
	for _, s := range []struct {
		name   string
		values []float64
	}{{"base", base}, {"changed", changed}, {"ratio", exps(d)}} {
		if by, yes := drift(s.values); yes {
			w = append(w, Warning{Doubt: Drift, Text: fmt.Sprintf("%s drifts by %+.2g %% over the run", s.name, 100*by)})
		}
	}
	if r, yes := dependent(d); yes {
		w = append(w, Warning{Doubt: Dependent, Text: fmt.Sprintf("neighbouring pairs resemble each other (rank correlation %.2f); the interval is widened, perhaps not enough", r)})
	}
	if twoModes(x) {
		w = append(w, Warning{Doubt: TwoModes, Text: "the ratios fall into two groups; one centre does not describe them"})
	}
	if skewed(x) {
		w = append(w, Warning{Doubt: Skewed, Text: "the ratios are skewed; the trimmed centre differs from the mean"})
	}
	return w
}

func exps(d []float64) []float64 {
	e := make([]float64, len(d))
	for i, v := range d {
		e[i] = math.Exp(v)
	}
	return e
}

// outliers returns the indexes of values more than 7 + 20/n robust standard
// deviations (1.4826 × the median distance) from the median; few values know
// their own spread badly, hence the second term.
func outliers(d []float64) []int {
	m := median(d)
	away := make([]float64, len(d))
	for i, v := range d {
		away[i] = math.Abs(v - m)
	}
	limit := (7 + 20/float64(len(d))) * 1.4826 * median(away)
	var far []int
	for i, a := range away {
		if a > limit && limit > 0 {
			far = append(far, i)
		}
	}
	return far
}

// drift tests for a trend: Mann-Kendall at p < 0.005, and Theil and Sen's
// slope over the whole run at least 2 %. by is that change as a ratio less 1.
func drift(v []float64) (by float64, yes bool) {
	n := len(v)
	s := 0.0
	var slopes []float64
	for i := range v {
		for j := i + 1; j < n; j++ {
			step := math.Log(v[j] / v[i])
			slopes = append(slopes, step/float64(j-i))
			switch {
			case step > 0:
				s++
			case step < 0:
				s--
			}
		}
	}
	f := float64(n)
	z := (math.Abs(s) - 1) / math.Sqrt(f*(f-1)*(2*f+5)/18)
	by = math.Exp(median(slopes)*(f-1)) - 1
	return by, z > 2.81 && math.Abs(by) >= 0.02
}

// dependent tests the rank correlation of neighbours against independence,
// one-sided at about 1 % (Bartels 1982). Equal values are never dependent.
func dependent(d []float64) (r float64, yes bool) {
	if slices.Min(d) == slices.Max(d) {
		return 0, false
	}
	k := ranks(d)
	n := float64(len(d))
	m, top := mean(k), 0.0
	for i := 1; i < len(k); i++ {
		top += (k[i-1] - m) * (k[i] - m)
	}
	r = top / squares(k)
	return r, (r+1/n)*math.Sqrt(n) > 2.33
}

// ranks of the values, equal values sharing their middle rank.
func ranks(d []float64) []float64 {
	x := slices.Sorted(slices.Values(d))
	k := make([]float64, len(d))
	for i, v := range d {
		first, _ := slices.BinarySearch(x, v)
		after, _ := slices.BinarySearch(x, math.Nextafter(v, math.Inf(1)))
		k[i] = float64(first+after-1) / 2
	}
	return k
}

// twoModes reports whether the best cut of the sorted values into two groups,
// each a fifth of them or more, explains more of their spread than it does
// under normal noise: 2/π + 0.9/√n is passed by under 1 % of normal samples.
func twoModes(x []float64) bool {
	n := len(x)
	if n < 10 {
		return false
	}
	all, best := squares(x), 0.0
	for k := (n + 4) / 5; k <= n-(n+4)/5; k++ {
		best = max(best, 1-(squares(x[:k])+squares(x[k:]))/all)
	}
	return best > 2/math.Pi+0.9/math.Sqrt(float64(n))
}

// skewed reports whether the sample skewness is beyond 3.5 of its standard
// errors under normal noise.
func skewed(x []float64) bool {
	n, m := float64(len(x)), mean(x)
	if n < 10 {
		return false
	}
	cubes := 0.0
	for _, v := range x {
		cubes += (v - m) * (v - m) * (v - m)
	}
	g := cubes / n / math.Pow(squares(x)/n, 1.5)
	return math.Abs(g) > 3.5*math.Sqrt(6*(n-2)/((n+1)*(n+3)))
}
