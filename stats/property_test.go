package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func drawPairs(t *rapid.T, least int) []Pair {
	figure := rapid.Float64Range(1e-3, 1e6)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Pair {
		return Pair{figure.Draw(t, "base"), figure.Draw(t, "changed")}
	}), least, 40).Draw(t, "pairs")
}

func close(a, b float64) bool {
	return a == b || math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b))
}

func sameInterval(a, b Interval) bool {
	return close(a.Lo, b.Lo) && close(a.Center, b.Center) && close(a.Hi, b.Hi)
}

func TestSwappingArmsInvertsTheRatio(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pairs := drawPairs(t, 2)
		scale := rapid.Float64Range(1e-3, 1e3).Draw(t, "scale")
		swapped := make([]Pair, len(pairs))
		for i, p := range pairs {
			swapped[i] = Pair{scale * p.Changed, scale * p.Base}
		}
		a, err := Compare(pairs, 0.95)
		b, err2 := Compare(swapped, 0.95)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if !sameInterval(a.Ratio, b.Ratio.Inverse()) || math.Abs(a.P-b.P) > 1e-6 {
			t.Fatalf("%+v is not the inverse of %+v", b, a)
		}
	})
}

func TestPAgreesWithInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		level := rapid.Float64Range(0.5, 0.999).Draw(t, "level")
		c, err := Compare(drawPairs(t, 2), level)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(c.P-(1-level)) < 1e-6 || c.SD == 0 {
			return
		}
		if (c.P < 1-level) == c.Ratio.Contains(1) {
			t.Fatalf("p %v and interval %v disagree at level %v", c.P, c.Ratio, level)
		}
		if !c.Ratio.Contains(c.Ratio.Center) {
			t.Fatalf("centre outside %v", c.Ratio)
		}
	})
}

// What was decided stays decided, whatever comes after.
func TestDecisionStands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		better := rapid.SampledFrom([]Better{Higher, Lower}).Draw(t, "better")
		plan, err := DefaultRule(better).Plan(rapid.IntRange(MinPairs, 60).Draw(t, "max"))
		if err != nil {
			t.Fatal(err)
		}
		pairs := drawPairs(t, 0)
		decided := Decision{Verdict: NeedsMore}
		for n := range len(pairs) + 1 {
			d, err := plan.Decide(pairs[:n])
			if err != nil {
				t.Fatal(err)
			}
			if decided.Verdict != NeedsMore && (d.Verdict != decided.Verdict || d.Ratio != decided.Ratio) {
				t.Fatalf("decided %+v, then %+v", decided, d)
			}
			if d.Verdict != NeedsMore && d.Verdict != plan.Judge(d.Ratio) {
				t.Fatalf("verdict %s does not follow from %v", d.Verdict, d.Ratio)
			}
			decided = d
		}
	})
}

func TestPlanNeverOverspends(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := DefaultRule(Higher)
		rule.Arms = rapid.IntRange(1, 20).Draw(t, "arms")
		plan, err := rule.Plan(rapid.IntRange(MinPairs, MaxPairs).Draw(t, "max"))
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "closed") {
			plan = plan.closed(rapid.IntRange(MinPairs, plan.Max).Draw(t, "at"))
		}
		sum, last := 0.0, MinPairs-1
		for i, at := range plan.Looks {
			if at <= last || plan.AlphaAt(i) <= 0 {
				t.Fatalf("look %d at %d pairs after %d with alpha %v", i, at, last, plan.AlphaAt(i))
			}
			sum, last = sum+plan.AlphaAt(i), at
		}
		if !close(sum*float64(rule.Arms), rule.Alpha) {
			t.Fatalf("%d arms spend %v each, want %v in all", rule.Arms, sum, rule.Alpha)
		}
	})
}

func TestPairsForInvertsDetectable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := DefaultRule(Higher)
		noise := Noise{Upper: rapid.Float64Range(0.001, 0.2).Draw(t, "noise")}
		effect := rapid.Float64Range(0.03, 1).Draw(t, "effect")
		n, err := rule.PairsFor(noise, effect, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		if got := rule.Detectable(noise, n, 0.95); got > effect {
			t.Fatalf("%d pairs detect %v, asked for %v", n, got, effect)
		}
		if got := rule.Detectable(noise, n/2, 0.95); got <= effect {
			t.Fatalf("half of %d pairs would do", n)
		}
	})
}

func TestUnpairedScaling(t *testing.T) {
	figures := rapid.SliceOfN(rapid.Float64Range(0.1, 10), 1, 20)
	rapid.Check(t, func(t *rapid.T) {
		base, by := figures.Draw(t, "base"), rapid.Float64Range(0.1, 10).Draw(t, "by")
		changed := figures.Draw(t, "changed")
		scaled := make([]float64, len(changed))
		for i, v := range changed {
			scaled[i] = by * v
		}
		a, err := Unpaired(base, changed, 0.95)
		b, err2 := Unpaired(base, scaled, 0.95)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		want := Interval{Lo: by * a.Ratio.Lo, Center: by * a.Ratio.Center, Hi: by * a.Ratio.Hi}
		if !sameInterval(b.Ratio, want) {
			t.Fatalf("scaled by %v: %v, want %v", by, b.Ratio, want)
		}
	})
}

func TestOrderIsBalanced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		arms, blocks := rapid.IntRange(1, 7).Draw(t, "arms"), rapid.IntRange(0, 60).Draw(t, "blocks")
		seed := rapid.Uint64().Draw(t, "seed")
		order := Order(rand.New(rand.NewPCG(seed, 1)), arms, blocks)
		if len(order) != blocks {
			t.Fatalf("%d blocks, want %d", len(order), blocks)
		}
		count := make([][]int, arms)
		for i := range count {
			count[i] = make([]int, arms)
		}
		for i, block := range order {
			if s := slices.Sorted(slices.Values(block)); len(s) != arms || s[0] != 0 || len(slices.Compact(s)) != arms {
				t.Fatalf("block %v does not hold each of %d arms once", block, arms)
			}
			for at, arm := range block {
				count[arm][at]++
			}
			if full := (i + 1) % (2 * arms); full == 0 || i+1 == blocks {
				flat := slices.Concat(count...)
				if slices.Max(flat)-slices.Min(flat) > min(full, 1) {
					t.Fatalf("after %d blocks positions are unbalanced: %v", i+1, count)
				}
			}
		}
		again := Order(rand.New(rand.NewPCG(seed, 1)), arms, blocks)
		for i := range order {
			if !slices.Equal(order[i], again[i]) {
				t.Fatal("the same seed gave another order")
			}
		}
	})
}

func TestECDFRises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-5, 5), 1, 50).Draw(t, "values")
		last := Point{math.Inf(-1), 0}
		for _, p := range ECDF(values) {
			if p.X <= last.X || p.Y <= last.Y {
				t.Fatalf("%v after %v", p, last)
			}
			last = p
		}
		if last.Y != 1 || last.X != slices.Max(values) {
			t.Fatalf("ends at %v", last)
		}
	})
}
