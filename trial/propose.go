package trial

import (
	"math"
	"time"

	"headroom/stats"
)

// power is the chance to find an effect that budgets are proposed for.
const power = 0.95

// proposed are the effects that a budget is proposed for.
var proposed = []float64{0.05, 0.10, 0.25}

// propose says at the end what other effects would have taken. The noise floor
// alone knows too little for that: a handful of blocks may fall into a calm
// moment. So the scatter of the pairs joins it, and a pair costs the time that
// pairs took here, blocks run again included.
func (r *run) propose(measured time.Duration) error {
	n := &r.res.Noise
	n.Whole = n.Noise
	pairs := 0
	for _, p := range r.pairs[1:] {
		pairs = max(pairs, len(p))
		if len(p) < 3 {
			continue
		}
		more, err := stats.NoiseOf(p)
		if err != nil {
			return err
		}
		n.Whole = n.Whole.And(more)
	}
	per := r.blockFor
	if pairs > 0 {
		per = max(per, measured/time.Duration(pairs))
	}
	rule := r.rule()
	for _, effect := range proposed {
		rule.Matter = math.Max(effect, 2*rule.Margin)
		need := Need{Effect: effect, Round: r.opt.Round.Seconds()}
		if p, err := rule.PairsFor(n.Whole, effect, power); err == nil {
			need.Pairs, need.Seconds = p, r.budgetFor(time.Duration(p)*per).Seconds()
		}
		n.Needs = append(n.Needs, need)
	}
	return nil
}

// budgetFor is the budget that leaves so much time for blocks: what came before
// them stays as long as it was, but a warm-up by default grows with the budget.
func (r *run) budgetFor(blocks time.Duration) time.Duration {
	whole := r.upfront + blocks
	if r.exp.Options.Warmup > 0 {
		return whole
	}
	arms := len(r.arms)
	for range 20 {
		longer := Options{Budget: whole}.fill(arms).Warmup - r.opt.Warmup
		whole = r.upfront + blocks + 2*time.Duration(arms)*max(longer, 0)
	}
	return whole
}
