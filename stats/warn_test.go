package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func doubts(t *testing.T, pairs []Pair) []Doubt {
	t.Helper()
	c, err := Compare(pairs, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	var d []Doubt
	for _, w := range c.Warnings {
		if w.Text == "" {
			t.Errorf("warning %q says nothing", w.Doubt)
		}
		d = append(d, w.Doubt)
	}
	return d
}

// noisy builds 24 pairs from a log ratio and a common log level per pair, with
// a little normal noise.
func noisy(ratio, level func(i int) float64) []Pair {
	r := rand.New(rand.NewPCG(7, 7))
	p := make([]Pair, 24)
	for i := range p {
		l := level(i)
		p[i] = Pair{100 * math.Exp(l), 100 * math.Exp(l+ratio(i)+0.01*r.NormFloat64())}
	}
	return p
}

func TestEachDoubtIsSeen(t *testing.T) {
	none := func(int) float64 { return 0 }
	for _, c := range []struct {
		want  Doubt
		pairs []Pair
	}{
		{TooFew, steady(5, 1.1, 0.1)},
		{Constant, steady(8, 1.1, 0)},
		{Outliers, noisy(func(i int) float64 { return 0.5 * float64(i/17*(18/(i+1))) }, none)},
		{Drift, noisy(none, func(i int) float64 { return 0.01 * float64(i) })},
		{Drift, noisy(func(i int) float64 { return 0.01 * float64(i) }, none)},
		{Dependent, noisy(func(i int) float64 { return 0.1 * math.Sin(float64(i)/3) }, none)},
		{TwoModes, noisy(func(i int) float64 { return 0.2 * float64(i*7%3%2) }, none)},
		{Skewed, noisy(func(i int) float64 { return 0.0001 * math.Exp(float64(i*5%24)/3) }, none)},
	} {
		if got := doubts(t, c.pairs); !slices.Contains(got, c.want) {
			t.Errorf("want doubt %q, got %q", c.want, got)
		}
	}
	if got := doubts(t, noisy(none, none)); len(got) > 0 {
		t.Errorf("doubts %q about clean pairs", got)
	}
}

func TestOutliersAreNamed(t *testing.T) {
	pairs := noisy(func(int) float64 { return 0 }, func(int) float64 { return 0 })
	pairs[17].Changed *= 2
	c, err := Compare(pairs, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) == 0 || !slices.Equal(c.Warnings[0].Pairs, []int{17}) {
		t.Errorf("warnings %+v, want pair 17 named", c.Warnings)
	}
}

// Pairs that resemble their neighbours widen the interval.
func TestDependenceWidens(t *testing.T) {
	d := make([]float64, 24)
	for i := range d {
		d[i] = math.Sin(float64(i) / 4)
	}
	r, yes := dependent(d)
	if !yes {
		t.Fatal("a slow wave does not count as dependent")
	}
	near(t, "factor", estimate(d).se/trim(d, cut(24)).se, math.Sqrt((1+r)/(1-r)), 1e-12)
}
