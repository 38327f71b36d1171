package stats

import "math"

// Comparison is a fixed-size comparison of two arms.
type Comparison struct {
	// Ratio is changed / base: above 1 the figure grew, whatever is better.
	Ratio Interval `json:"ratio"`
	// P is the two-sided p value of "the ratio is 1". It is under 1 - Level
	// exactly when Ratio leaves 1 out, except that ties may blur this for
	// Unpaired.
	P float64 `json:"p"`
	// N is the number of pairs, or the smaller number of figures when unpaired.
	N int `json:"n"`
	// SD is the standard deviation of one pair's log ratio, near enough the
	// relative noise of one pair; 0 when unpaired.
	SD       float64   `json:"sd"`
	Warnings []Warning `json:"warnings,omitempty"`
}

// Compare estimates changed / base from pairs at the given confidence level:
// the 10 % trimmed mean of the log ratios with Yuen's t interval. It may be
// looked at once; to look while a run goes on use Plan. Fewer than two pairs
// give an open interval. The error names the first figure that is not a
// finite number above zero.
func Compare(pairs []Pair, level float64) (Comparison, error) {
	d, err := logs(pairs)
	if err != nil {
		return Comparison{}, err
	}
	c := compare(d, level)
	c.Warnings = warnings(pairs, d)
	return c, nil
}

func compare(d []float64, level float64) Comparison {
	if len(d) < 2 {
		c := Comparison{Ratio: Interval{0, 1, math.Inf(1), level}, P: 1, N: len(d)}
		if len(d) == 1 {
			c.Ratio.Center = math.Exp(d[0])
		}
		return c
	}
	t := estimate(d)
	return Comparison{Ratio: ratio(t.mean, t.half(1-level), level), P: t.p(), N: len(d), SD: t.sd()}
}

// estimate is the trimmed centre of d, which is in the order it was measured.
// If neighbours are plainly dependent the standard error grows as it does for
// first-order autocorrelation.
func estimate(d []float64) trimmed {
	t := trim(d, cut(len(d)))
	if len(d) >= MinPairs {
		if r, yes := dependent(d); yes {
			t.se *= math.Sqrt((1 + r) / (1 - r))
		}
	}
	return t
}
