package stats

import (
	"math"
	"strings"
	"testing"
)

// steady gives n pairs of ratio gain, scattered by ±spread in turn.
func steady(n int, gain, spread float64) []Pair {
	p := make([]Pair, n)
	for i := range p {
		p[i] = Pair{100, 100 * gain * math.Exp(spread*float64(1-2*(i%2)))}
	}
	return p
}

func decide(t *testing.T, p Plan, pairs []Pair) Decision {
	t.Helper()
	d, err := p.Decide(pairs)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDecideVerdicts(t *testing.T) {
	higher, lower := DefaultRule(Higher), DefaultRule(Lower)
	for _, c := range []struct {
		name  string
		rule  Rule
		pairs []Pair
		want  Verdict
		look  int
	}{
		{"clear gain at the first look", higher, steady(20, 1.3, 0.01), Faster, 1},
		{"clear loss", higher, steady(20, 1/1.3, 0.01), Slower, 1},
		{"less time is faster", lower, steady(20, 1/1.3, 0.01), Faster, 1},
		{"more time is slower", lower, steady(20, 1.3, 0.01), Slower, 1},
		{"within the margin, however sure", higher, steady(20, 1.005, 0.0001), NoDifference, 1},
		{"nothing, seen well", higher, steady(20, 1, 0.01), NoDifference, 1},
		{"beyond the margin and below what matters", higher, steady(20, 1.03, 0.001), Faster, 1},
		{"nothing, seen badly", higher, steady(20, 1, 0.3), NeedsMore, 5},
		{"a gain that needs more looks", higher, steady(20, 1.2, 0.15), Faster, 4},
		{"not yet a look", higher, steady(5, 1.3, 0.01), NeedsMore, 0},
		{"no pairs", higher, nil, NeedsMore, 0},
	} {
		d := decide(t, mustPlan(t, c.rule, 20), c.pairs)
		if d.Verdict != c.want || d.Look != c.look {
			t.Errorf("%s: %s at look %d, want %s at %d (%v)", c.name, d.Verdict, d.Look, c.want, c.look, d.Ratio)
		}
		if final := c.want != NeedsMore || c.look == 5; d.Final() != final {
			t.Errorf("%s: final %v, want %v", c.name, d.Final(), final)
		}
		if (d.More > 0) != (c.want == NeedsMore) {
			t.Errorf("%s: %d more pairs with verdict %s", c.name, d.More, d.Verdict)
		}
		if d.Reason == "" || strings.Contains(d.Reason, "NaN") {
			t.Errorf("%s: reason %q", c.name, d.Reason)
		}
	}
}

// The pairs that a decision asks for are enough if the figures go on as they
// were: a plan of that size decides.
func TestMoreIsEnough(t *testing.T) {
	for _, c := range []struct{ gain, spread float64 }{{1, 0.3}, {1.1, 0.3}, {1.02, 0.1}, {0.95, 0.2}} {
		pairs := steady(20, c.gain, c.spread)
		d := decide(t, mustPlan(t, DefaultRule(Higher), 20), pairs)
		if d.Verdict != NeedsMore {
			t.Fatalf("gain %v: %s already", c.gain, d.Verdict)
		}
		total := len(pairs) + d.More
		again := decide(t, mustPlan(t, DefaultRule(Higher), total+total/20+1), steady(total+total/20+1, c.gain, c.spread))
		if again.Verdict == NeedsMore {
			t.Errorf("gain %v, spread %v: asked for %d more, and %d did not do", c.gain, c.spread, d.More, total)
		}
	}
	if got := (Decision{Verdict: NeedsMore, More: 12}).String(); got != "needs 12 more rounds" {
		t.Errorf("in words: %q", got)
	}
}

func TestCloseUsesTheLastPair(t *testing.T) {
	p := mustPlan(t, DefaultRule(Higher), 20)
	pairs := steady(14, 1.2, 0.15)
	if d := decide(t, p, pairs); d.Pairs != 11 || d.Final() {
		t.Fatalf("before closing: %+v", d)
	}
	d, err := p.Close(pairs)
	if err != nil {
		t.Fatal(err)
	}
	if d.Pairs != 14 || !d.Final() || d.Verdict != Faster {
		t.Errorf("closed at 14 pairs: %+v", d)
	}
	if d, err := p.Close(pairs[:5]); err != nil || d.Verdict != NeedsMore || d.More != 1 {
		t.Errorf("closed at 5 pairs: %+v, %v", d, err)
	}
}

func TestRefusals(t *testing.T) {
	good := DefaultRule(Higher)
	for _, bad := range []func(*Rule){
		func(r *Rule) { r.Better = "" },
		func(r *Rule) { r.Alpha = 0 },
		func(r *Rule) { r.Alpha = math.NaN() },
		func(r *Rule) { r.Arms = 0 },
		func(r *Rule) { r.Margin = -1 },
		func(r *Rule) { r.Matter = r.Margin },
	} {
		r := good
		bad(&r)
		if _, err := r.Plan(20); err == nil {
			t.Errorf("rule %+v was accepted", r)
		}
	}
	for _, max := range []int{0, MinPairs - 1, MaxPairs + 1} {
		if _, err := good.Plan(max); err == nil {
			t.Errorf("a plan of %d pairs was accepted", max)
		}
	}
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := Compare([]Pair{{1, 1}, {1, v}}, 0.95); err == nil || !strings.Contains(err.Error(), "pair 2") {
			t.Errorf("figure %v: error %v, want one that names pair 2", v, err)
		}
		if _, err := Unpaired([]float64{1}, []float64{v}, 0.95); err == nil {
			t.Errorf("figure %v was accepted unpaired", v)
		}
	}
	if _, err := good.PairsFor(Noise{Upper: 0.1}, 0.01, 0.95); err == nil {
		t.Error("an effect within the margin was accepted")
	}
	if _, err := good.PairsFor(Noise{Upper: 0.1}, math.NaN(), 0.95); err == nil {
		t.Error("an effect that is not a number was accepted")
	}
	if _, err := good.PairsFor(Noise{Upper: 9}, 0.02, 0.95); err == nil {
		t.Error("a hopeless budget was accepted")
	}
	if _, err := Summarize(nil, 0.95); err == nil {
		t.Error("an empty sample was accepted")
	}
	if _, err := (Plan{}).Decide(nil); err == nil {
		t.Error("an empty plan was accepted")
	}
}
