package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// trimShare is the share of pairs cut from each end; the package comment says
// why a tenth.
const trimShare = 0.1

// trimmed is a trimmed mean with its standard error: Yuen's one-sample
// interval (Tukey and McLaughlin 1963). With nothing cut it is Student's t.
type trimmed struct {
	mean, se float64
	n        int
	df       float64
}

// cut is how many of n values are cut from each end: none below 10.
func cut(n int) int { return int(trimShare * float64(n)) }

// trim estimates the centre of d after cutting g values from each end. It
// needs n - 2g >= 2; below that the standard error is infinite.
func trim(d []float64, g int) trimmed {
	x := slices.Sorted(slices.Values(d))
	n, h := len(x), len(x)-2*g
	t := trimmed{n: n, df: float64(h - 1), se: math.Inf(1)}
	t.mean = mean(x[g : n-g])
	if h < 2 {
		return t
	}
	for i := range g {
		x[i], x[n-1-i] = x[g], x[n-1-g]
	}
	t.se = math.Sqrt(squares(x) / float64(h*(h-1)))
	return t
}

// sd is the standard deviation of one value that would give this standard
// error: what one more pair brings.
func (t trimmed) sd() float64 { return t.se * math.Sqrt(float64(t.n)) }

// half is half the width of the two-sided interval that misses with
// probability alpha.
func (t trimmed) half(alpha float64) float64 {
	if t.df < 1 {
		return math.Inf(1)
	}
	return critical(alpha, t.df) * t.se
}

// p is the two-sided p value for a centre of zero.
func (t trimmed) p() float64 {
	switch {
	case t.df < 1:
		return 1
	case t.se == 0 && t.mean == 0:
		return 1
	case t.se == 0:
		return 0
	}
	return 2 * student(t.df).CDF(-math.Abs(t.mean)/t.se)
}

func student(df float64) distuv.StudentsT { return distuv.StudentsT{Sigma: 1, Nu: df} }

// critical is the two-sided t value for alpha.
func critical(alpha, df float64) float64 { return -student(df).Quantile(alpha / 2) }

func mean(x []float64) float64 {
	s := 0.0
	for _, v := range x {
		s += v
	}
	return s / float64(len(x))
}

// squares is the sum of squared distances from the mean.
func squares(x []float64) float64 {
	m, s := mean(x), 0.0
	for _, v := range x {
		s += (v - m) * (v - m)
	}
	return s
}
