package trial

import (
	"context"
	"fmt"
	"math"
	"time"

	"headroom/stats"
)

// steady is how near the last two slices of a warm-up must be to each other
// and to the one before, as a ratio, to be called steady.
const steady = 0.1

// warm lets the arms work in turn, slice by slice, until each is steady or has
// worked for Options.Warmup. It is in the result, and counts for nothing else.
func (r *run) warm(ctx context.Context, block int, arms ...int) error {
	slice := min(max(r.opt.Warmup/4, 100*time.Millisecond), r.opt.Round)
	rates := map[int][]float64{}
	open := append([]int{}, arms...)
	for n := 0; len(open) > 0; n++ {
		var next []int
		for _, arm := range open {
			if time.Duration(n)*slice >= r.opt.Warmup {
				continue
			}
			x, _, err := r.round(ctx, RoundResult{Phase: Warming, Block: block, Try: n, Arm: arm}, slice, r.rng.Uint64())
			if err != nil {
				return err
			}
			v := x.Figures[r.primary()]
			rates[arm] = append(rates[arm], v)
			r.tell(Event{Phase: Warming, Arm: r.exp.Arms[arm].Name, Figure: v, Left: r.left()})
			if !isSteady(rates[arm]) {
				next = append(next, arm)
			}
		}
		open = next
	}
	return nil
}

func isSteady(v []float64) bool {
	n := len(v)
	if n < 3 {
		return false
	}
	near := func(a, b float64) bool { return a > 0 && b > 0 && math.Abs(math.Log(a/b)) < steady }
	return near(v[n-1], v[n-2]) && near(v[n-2], v[n-3]) && near(v[n-1], v[n-3])
}

func (r *run) primary() string { return r.res.Measures[0].Name }

// noise runs blocks in which all arms are still equal, and keeps how much they
// differ. Where that cannot be had (the arms share one stand, or their changes
// are in force since an earlier run) rounds of the base stand in.
func (r *run) noise(ctx context.Context) error {
	start := time.Now()
	arms := r.everyArm()
	var base []float64
	var pairs []stats.Pair
	blocks := r.opt.Noise
	equal := r.stage.equal() && !r.stage.shared()
	if !equal {
		arms, blocks = []int{0}, max(r.opt.Noise, 3)+1
	}
	for b, order := range stats.Order(r.rng, len(arms), blocks) {
		seed, fig := r.rng.Uint64(), make([]float64, len(arms))
		for _, arm := range order {
			if _, err := r.stage.turn(ctx, r.arms[arm]); err != nil {
				return err
			}
			x, _, err := r.round(ctx, RoundResult{Phase: Noise, Block: b, Arm: arm}, r.opt.Round, seed)
			if err != nil {
				return err
			}
			fig[arm] = x.Figures[r.primary()]
			r.tell(Event{Phase: Noise, Arm: r.exp.Arms[arm].Name, Block: b + 1, Blocks: blocks, Figure: fig[arm], Marks: x.Marks, Left: r.left()})
			if fig[arm] <= 0 {
				return fmt.Errorf("run %s: no operation succeeded: %s", r.exp.Workload.Name, x.Marks[len(x.Marks)-1].Text)
			}
		}
		base = append(base, fig[0])
		for _, f := range fig[1:] {
			pairs = append(pairs, stats.Pair{Base: fig[0], Changed: f})
		}
	}
	r.blockFor = time.Since(start) / time.Duration(blocks) * time.Duration(len(r.arms)) / time.Duration(len(arms))
	r.learnUsual()
	return r.keepNoise(base, pairs, equal)
}

func (r *run) keepNoise(base []float64, pairs []stats.Pair, equal bool) error {
	var err error
	if equal {
		r.res.Noise.Noise, err = stats.NoiseOf(perArm(pairs, len(r.arms)-1))
		r.res.Noise.From = fmt.Sprintf("%d blocks of equal stands", r.opt.Noise)
	} else {
		r.res.Noise.Noise, err = stats.NoiseOfRounds(base)
		r.res.Noise.From = fmt.Sprintf("%d rounds of the base", len(base))
	}
	return err
}

// perArm takes the steady difference between two stands out of the pairs, so
// that what is left is the scatter, pooled over the arms.
func perArm(pairs []stats.Pair, arms int) []stats.Pair {
	out := append([]stats.Pair{}, pairs...)
	for a := range arms {
		sum, n := 0.0, 0
		for i := a; i < len(pairs); i += arms {
			sum += math.Log(pairs[i].Ratio())
			n++
		}
		for i := a; i < len(pairs); i += arms {
			out[i].Changed /= math.Exp(sum / float64(n))
		}
	}
	return out
}

// learnUsual finds what the work itself brings about in equal rounds all the
// time: running blocks again would not help. What comes from outside is never
// usual, however often it comes.
func (r *run) learnUsual() {
	count, n := map[Cause]int{}, 0
	for _, x := range r.res.Rounds {
		if x.Phase != Noise {
			continue
		}
		n++
		for _, m := range x.Marks {
			count[m.Cause]++
		}
	}
	for c, k := range count {
		fromOutside := c == ByProcess || c == BySteal
		if k*3 >= n && !fromOutside {
			r.usual[c] = true
			r.warnf("%s in %d of %d rounds before any change: it is part of what is measured and does not mark rounds as disturbed", c, k, n)
		}
	}
}

func (r *run) warnf(format string, args ...any) {
	r.res.Warnings = append(r.res.Warnings, fmt.Sprintf(format, args...))
}

// plan fixes how many blocks there can be and when to look, before the first
// pair is taken, and what the run can be expected to see.
func (r *run) plan() error {
	per := r.blockFor
	if r.stage.shared() {
		per += time.Duration(len(r.arms)-1) * min(r.opt.Warmup, r.opt.Round)
	}
	most := int(r.left() / max(per, time.Millisecond))
	if r.opt.MaxPairs > 0 {
		most = min(most, r.opt.MaxPairs)
	}
	most = min(max(most, stats.MinPairs), stats.MaxPairs)
	rule := r.rule()
	var err error
	if r.res.Plan, err = rule.Plan(most); err != nil {
		return err
	}
	r.reruns = r.opt.Rerun
	if r.reruns == 0 {
		r.reruns = max(2, most/4)
	}
	r.res.Order = r.order(most)
	n := &r.res.Noise
	if d := rule.Detectable(n.Noise, most, power); !math.IsInf(d, 0) {
		n.Detectable = d
	}
	r.upfront = r.opt.Budget - r.left()
	return nil
}

func (r *run) rule() stats.Rule {
	return r.opt.rule(r.res.Primary().better(), len(r.arms))
}

// order is the order of arms in each block: random and balanced where arms
// stand side by side. Where they take turns each block is the one before
// backwards (A B, B A, A B …): as few switches as can be, and a steady drift
// still falls on all arms alike.
func (r *run) order(blocks int) [][]int {
	if !r.stage.shared() {
		return stats.Order(r.rng, len(r.arms), blocks)
	}
	first := r.rng.Perm(len(r.arms))
	out := make([][]int, blocks)
	for b := range out {
		out[b] = make([]int, len(first))
		for i, arm := range first {
			if b%2 == 1 {
				i = len(first) - 1 - i
			}
			out[b][i] = arm
		}
	}
	return out
}
