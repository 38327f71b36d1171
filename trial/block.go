package trial

import (
	"context"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"headroom/stats"
)

// hopeless is how many times in a row a block may yield no figure.
const hopeless = 3

// blocks runs blocks until every arm has its verdict, the plan is done or the
// time is up.
func (r *run) blocks(ctx context.Context) error {
	for b, try := 0, 0; b < r.res.Plan.Max; {
		// The end by time depends on how long rounds take and not on what they
		// show, or closing the plan early would not be valid.
		if time.Until(r.deadline) < r.blockFor*9/10 && b > 0 {
			r.res.Ended = BudgetSpent
			return nil
		}
		took := time.Now()
		rounds, hist, err := r.block(ctx, b, try)
		if err != nil {
			return err
		}
		r.blockFor = time.Since(took)
		again, err := r.again(rounds, try)
		if err != nil {
			return err
		}
		if again {
			try++
			continue
		}
		r.count(rounds, hist)
		if r.sure(b) {
			r.res.Ended = Sure
			return nil
		}
		b, try = b+1, 0
	}
	r.res.Ended = MaxReached
	return nil
}

// block runs one round of each arm; it returns their places in the result.
func (r *run) block(ctx context.Context, b, try int) ([]int, []*hdrhistogram.Histogram, error) {
	seed := r.rng.Uint64()
	places := make([]int, len(r.arms))
	hist := make([]*hdrhistogram.Histogram, len(r.arms))
	for _, arm := range r.res.Order[b] {
		fresh, err := r.stage.turn(ctx, r.arms[arm])
		if err == nil && fresh {
			err = r.warm(ctx, b+2, arm)
		}
		if err != nil {
			return nil, nil, err
		}
		x, h, err := r.round(ctx, RoundResult{Phase: Measuring, Block: b, Try: try, Arm: arm}, r.opt.Round, seed)
		if err != nil {
			return nil, nil, err
		}
		places[arm], hist[arm] = len(r.res.Rounds)-1, h
		r.tell(Event{Phase: Measuring, Arm: r.exp.Arms[arm].Name, Block: b + 1, Blocks: r.res.Plan.Max,
			Figure: x.Figures[r.primary()], Estimates: r.estimates(), Marks: x.Marks, Left: r.left()})
	}
	return places, hist, nil
}

// again decides whether a block is run again. A block without figures cannot
// count; one that was disturbed is run again while re-runs are left.
func (r *run) again(rounds []int, try int) (bool, error) {
	disturbed, empty := false, ""
	for _, i := range rounds {
		for _, m := range r.res.Rounds[i].Marks {
			if m.Cause == ByShortfall {
				empty = m.Text
			}
			disturbed = disturbed || !r.usual[m.Cause] && !r.fixed[m.Cause]
		}
	}
	switch {
	case empty != "" && try+1 >= hopeless:
		return false, fmt.Errorf("run %s: %d times in a row: %s", r.exp.Workload.Name, hopeless, empty)
	case empty != "":
		return true, nil
	case disturbed && r.reruns > 0:
		r.reruns--
		return true, nil
	case disturbed:
		r.spoilt++
	}
	return false, nil
}

// count makes a block part of the comparison.
func (r *run) count(rounds []int, hist []*hdrhistogram.Histogram) {
	base := r.res.Rounds[rounds[0]].Figures[r.primary()]
	for arm, i := range rounds {
		x := &r.res.Rounds[i]
		x.Counts = true
		r.wal[arm] += x.WAL
		a := &r.res.Arms[arm]
		a.Done, a.Failed, a.Skipped, a.Checkpoints = a.Done+x.Done, a.Failed+x.Failed, a.Skipped+x.Skipped, a.Checkpoints+x.Checkpoints
		if arm > 0 {
			r.pairs[arm] = append(r.pairs[arm], stats.Pair{Base: base, Changed: x.Figures[r.primary()]})
		}
		if h := hist[arm]; h != nil && r.hist[arm] == nil {
			r.hist[arm] = h.Clone()
		} else if h != nil {
			r.hist[arm].Merge(h)
		}
	}
}

// sure reports whether every arm is decided after block b. It only looks where
// the plan has a look, so nothing is computed in between.
func (r *run) sure(b int) bool {
	for _, p := range r.pairs[1:] {
		d, err := r.res.Plan.Decide(p)
		if err != nil || d.Verdict == stats.NeedsMore {
			return false
		}
	}
	return true
}

func (r *run) estimates() []Estimate {
	var out []Estimate
	for i, p := range r.pairs[1:] {
		if d, err := r.res.Plan.Decide(p); err == nil {
			out = append(out, Estimate{Arm: r.exp.Arms[i+1].Name, Pairs: len(p), Ratio: d.Ratio, Verdict: d.Verdict})
		}
	}
	return out
}
