package stats

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

// sleep holds the differences of Student's sleep data; R's t.test gives the
// figures below.
var sleep = []float64{1.2, 2.4, 1.3, 1.3, 0, 1.0, 1.8, 0.8, 4.6, 1.4}

func TestUntrimmedIsStudent(t *testing.T) {
	s := trim(sleep, 0)
	near(t, "mean", s.mean, 1.58, 1e-12)
	near(t, "p", s.p(), 0.002833, 5e-7)
	near(t, "low bound", s.mean-s.half(0.05), 0.7001142, 5e-8)
	near(t, "high bound", s.mean+s.half(0.05), 2.4598858, 5e-8)
}

func TestTrimmedByHand(t *testing.T) {
	// 2 to 9 remain; winsorized 2 2 3 4 5 6 7 8 9 9 has squares 66.5 about 5.5.
	for _, wild := range []float64{10, 1000} {
		s := trim([]float64{5, 1, wild, 2, 3, 4, 6, 9, 8, 7}, cut(10))
		near(t, "mean", s.mean, 5.5, 1e-12)
		near(t, "standard error", s.se, math.Sqrt(66.5/56), 1e-12)
		near(t, "half", s.half(0.05), 2.364624*s.se, 1e-6)
	}
}

func TestCompareIsMultiplicative(t *testing.T) {
	// log ratios -a, 0, a: mean 0, se = a/√3, t(2 df, 95 %) = 4.302653.
	a := math.Log(1.1)
	c, err := Compare([]Pair{{110, 100}, {70, 70}, {100, 110}}, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "centre", c.Ratio.Center, 1, 1e-12)
	near(t, "hi", c.Ratio.Hi, math.Exp(4.302653*a/math.Sqrt(3)), 1e-6)
	near(t, "lo", c.Ratio.Lo, 1/c.Ratio.Hi, 1e-12)
	near(t, "p", c.P, 1, 1e-12)
	near(t, "sd", c.SD, a, 1e-12)
}

// R: wilcox.test(x, y, conf.int = TRUE) for the data of its own example gives
// p = 0.2544, estimate 0.305, interval -0.15 to 0.76.
func TestUnpairedIsMannWhitney(t *testing.T) {
	x := []float64{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46}
	y := []float64{1.15, 0.88, 0.90, 0.74, 1.21}
	c, err := Unpaired(exps(y), exps(x), 0.95)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "p", c.P, 0.2544, 5e-5)
	near(t, "centre", math.Log(c.Ratio.Center), 0.305, 1e-9)
	near(t, "lo", math.Log(c.Ratio.Lo), -0.15, 1e-9)
	near(t, "hi", math.Log(c.Ratio.Hi), 0.76, 1e-9)
	if len(c.Warnings) != 1 || c.Warnings[0].Doubt != NotPaired {
		t.Errorf("warnings %v, want one that the runs are not paired", c.Warnings)
	}
}

func TestUDist(t *testing.T) {
	p := uDist(5, 5)
	for u, ways := range []float64{1, 1, 2, 3, 5, 7} { // of 252
		near(t, "P(U)", p[u], ways/252, 1e-15)
	}
	// The usual tables: critical U at two-sided 5 %, plus one.
	for _, c := range []struct{ n, m, want int }{{3, 3, 0}, {4, 4, 1}, {5, 5, 3}, {10, 10, 24}, {20, 20, 128}} {
		if got := leaveOut(c.n, c.m, 0.05); got != c.want {
			t.Errorf("leaveOut(%d, %d) = %d, want %d", c.n, c.m, got, c.want)
		}
	}
	exact, normal := leaveOut(50, 50, 0.05), leaveOut(51, 51, 0.05)
	if normal-exact < 40 || normal-exact > 60 {
		t.Errorf("exact %d at 50 and normal %d at 51 do not join", exact, normal)
	}
}

func TestPlanSpendsAlphaBySquare(t *testing.T) {
	p := mustPlan(t, DefaultRule(Higher), 20)
	if want := []int{6, 8, 11, 15, 20}; !slices.Equal(p.Looks, want) {
		t.Fatalf("looks %v, want %v", p.Looks, want)
	}
	near(t, "first look", p.AlphaAt(0), 0.05*0.09, 1e-15)
	near(t, "second look", p.AlphaAt(1), 0.05*(0.16-0.09), 1e-15)
	near(t, "last look", p.AlphaAt(4), 0.05*(1-0.5625), 1e-15)
	q := p.closed(13)
	if want := []int{6, 8, 11, 13}; !slices.Equal(q.Looks, want) {
		t.Errorf("closed looks %v, want %v", q.Looks, want)
	}
	near(t, "closing look", q.AlphaAt(3), 0.05*(1-0.3025), 1e-15)
	near(t, "look before it", q.AlphaAt(2), p.AlphaAt(2), 1e-15)
}

func TestNoiseUpper(t *testing.T) {
	// chi-squared, 5 df, 10 %: 1.610308.
	n, err := NoiseOf([]Pair{{1, 1}, {1, 1.1}, {1, 1}, {1, 1.1}, {1, 1}, {1, 1.1}})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "sd", n.SD, math.Log(1.1)*math.Sqrt(0.3), 1e-12)
	near(t, "upper", n.Upper/n.SD, math.Sqrt(5/1.610308), 1e-6)
	r, err := NoiseOfRounds([]float64{1, 2, 1, 2, 1})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "sd of rounds", r.SD, math.Ln2, 1e-12)
}

func TestPairsForNearTheNormalFormula(t *testing.T) {
	// n = ((z(α/2) + z(0.95)) · sd / effect)² with the last look's α = 0.021875.
	rule := DefaultRule(Higher)
	rule.Margin = 0
	n, err := rule.PairsFor(Noise{SD: 0.1, Upper: 0.1}, math.Expm1(0.02), 0.95)
	if err != nil {
		t.Fatal(err)
	}
	want := math.Pow((2.2926+1.6449)*0.1*trimLoss/0.02, 2)
	near(t, "pairs", float64(n), want, 0.02*want)
}

func TestSummarize(t *testing.T) {
	s, err := Summarize([]float64{6, 1, 5, 2, 4, 3}, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Interval{1, 3.5, 6, 0.96875}); s.Median != want {
		t.Errorf("median %v, want %v", s.Median, want)
	}
	near(t, "q1", s.Q1, 2.25, 1e-15)
	near(t, "q3", s.Q3, 4.75, 1e-15)
	near(t, "spread", s.Spread, 2.5/3.5, 1e-15)
	few, err := Summarize([]float64{1, 2}, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	if !math.IsInf(few.Median.Hi, 1) || len(few.Warnings) != 1 {
		t.Errorf("two figures gave %+v, want an open interval and a warning", few)
	}
}

func TestECDF(t *testing.T) {
	want := []Point{{1, 0.5}, {2, 0.75}, {4, 1}}
	if got := ECDF([]float64{4, 1, 2, 1}); !slices.Equal(got, want) {
		t.Errorf("ECDF = %v, want %v", got, want)
	}
}

func TestIntervalJSON(t *testing.T) {
	for _, c := range []struct {
		in   Interval
		want string
	}{
		{Interval{0.5, 1, 2, 0.95}, `{"lo":0.5,"center":1,"hi":2,"level":0.95}`},
		{Interval{math.Inf(-1), 1, math.Inf(1), 0.95}, `{"lo":null,"center":1,"hi":null,"level":0.95}`},
	} {
		b, err := json.Marshal(c.in)
		if err != nil || string(b) != c.want {
			t.Errorf("wrote %s, %v; want %s", b, err, c.want)
		}
		var back Interval
		if err := json.Unmarshal(b, &back); err != nil || back != c.in {
			t.Errorf("read back %v, %v; want %v", back, err, c.in)
		}
	}
}
