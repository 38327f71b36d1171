package lab

import (
	"fmt"
	"slices"

	"headroom/stats"
	"headroom/trial"
)

// finish draws the conclusions from the turns.
func (r *run) finish() error {
	m := r.res.Primary()
	for i := range r.res.Arms {
		for _, of := range r.res.Measures {
			v := r.res.Counted(i, of.Name)
			if len(v) == 0 {
				continue
			}
			s, err := stats.Summarize(v, 1-alpha)
			if err != nil {
				return fmt.Errorf("summarize %s of arm %q: %w", of.Name, r.res.Arms[i].Name, err)
			}
			r.res.Arms[i].Figures[of.Name] = s
		}
	}
	base := r.exp.Arms[0]
	for _, a := range r.exp.Arms[1:] {
		v, err := r.versus(a.Name, base.Name)
		if err != nil {
			return err
		}
		v.Then = Gain(m, a.Then, base.Then)
		r.res.Versus = append(r.res.Versus, v)
	}
	for _, c := range r.exp.Claims {
		v, err := r.versus(c.Arm, c.Over)
		if err != nil {
			return err
		}
		v.Text, v.Then = c.Text, c.Then
		r.res.Claims = append(r.res.Claims, v)
	}
	r.warn()
	if err := r.conclude(); err != nil || r.lab.Say == nil {
		return err
	}
	r.res.Said = r.lab.Say(r.res)
	return nil
}

// pairs are two arms' figures round by round.
func (r *run) pairs(arm, over string) []stats.Pair {
	a, b := r.res.Counted(r.armAt(over), r.res.Primary().Name), r.res.Counted(r.armAt(arm), r.res.Primary().Name)
	out := make([]stats.Pair, min(len(a), len(b)))
	for i := range out {
		out[i] = stats.Pair{Base: a[i], Changed: b[i]}
	}
	return out
}

func (r *run) armAt(name string) int {
	return slices.IndexFunc(r.exp.Arms, func(a Arm) bool { return a.Name == name })
}

// versus compares two arms by the plan, or, with too few rounds for one, by a
// plain interval without a verdict.
func (r *run) versus(arm, over string) (Versus, error) {
	pairs := r.pairs(arm, over)
	v := Versus{Arm: arm, Over: over, P: 1, Taken: pairs}
	d, err := r.decide(pairs)
	if err != nil {
		return v, fmt.Errorf("compare arm %q with %q: %w", arm, over, err)
	}
	v.Decision = d
	if n := d.Pairs; n > 1 {
		c, err := stats.Compare(pairs[:n], d.Ratio.Level)
		if err != nil {
			return v, fmt.Errorf("compare arm %q with %q: %w", arm, over, err)
		}
		v.P = c.P
	}
	v.Gain = d.Ratio
	if !r.res.Primary().Higher {
		v.Gain = d.Ratio.Inverse()
	}
	return v, nil
}

func (r *run) decide(pairs []stats.Pair) (stats.Decision, error) {
	if len(r.plan.Looks) > 0 && len(pairs) >= stats.MinPairs {
		if r.res.Ended == trial.BudgetSpent {
			return r.plan.Close(pairs)
		}
		return r.plan.Decide(pairs)
	}
	c, err := stats.Compare(pairs, r.rule.Level())
	return stats.Decision{Verdict: stats.NeedsMore, Ratio: c.Ratio, Pairs: len(pairs), More: max(stats.MinPairs-len(pairs), 1),
		Reason: fmt.Sprintf("%d rounds, a verdict needs %d", len(pairs), stats.MinPairs), Warnings: c.Warnings}, err
}

// decided reports whether every comparison has its verdict by now.
func (r *run) decided() (bool, error) {
	ask := func(arm, over string) (bool, error) {
		d, err := r.plan.Decide(r.pairs(arm, over))
		return d.Verdict != stats.NeedsMore, err
	}
	for _, a := range r.exp.Arms[1:] {
		if ok, err := ask(a.Name, r.exp.Arms[0].Name); err != nil || !ok {
			return false, err
		}
	}
	for _, c := range r.exp.Claims {
		if ok, err := ask(c.Arm, c.Over); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// conclude names the best arm, those that are as good for all that is known,
// and what stands the other way round than then.
func (r *run) conclude() error {
	best := 0.0
	for _, v := range r.res.Versus {
		if v.Verdict == stats.Faster && v.Gain.Center > best {
			best, r.res.Best = v.Gain.Center, v.Arm
		}
	}
	for _, a := range r.res.Arms {
		if r.res.Best == "" || a.Name == r.res.Best {
			continue
		}
		c, err := stats.Compare(r.pairs(a.Name, r.res.Best), r.res.Level)
		if err != nil {
			return fmt.Errorf("compare arm %q with the best: %w", a.Name, err)
		}
		if c.Ratio.Contains(1) {
			r.res.AsGood = append(r.res.AsGood, a.Name)
		}
	}
	r.swapped()
	return nil
}

// swapped lists the pairs of arms that stand the other way round than then.
func (r *run) swapped() {
	m := r.res.Primary()
	for i, a := range r.res.Arms {
		for j, b := range r.res.Arms {
			if i == j || Gain(m, b.Then, a.Then) <= 1 {
				continue
			}
			// b beat a then; does a beat b in every round today?
			now := r.pairs(a.Name, b.Name)
			always := len(now) > 0
			for _, p := range now {
				always = always && Gain(m, p.Changed, p.Base) > 1
			}
			if always {
				r.res.Swapped = append(r.res.Swapped, Swap{Better: a.Name, Worse: b.Name})
			}
		}
	}
}

// warn says what a reader must know before believing the figures.
func (r *run) warn() {
	n := len(r.pairs(r.exp.Arms[1].Name, r.exp.Arms[0].Name))
	if n < stats.MinPairs {
		r.res.Warnings = append(r.res.Warnings, r.tooFew(n))
	}
	for _, v := range append(slices.Clone(r.res.Versus), r.res.Claims...) {
		for _, w := range v.Warnings {
			if w.Doubt != stats.TooFew {
				r.res.Warnings = append(r.res.Warnings, fmt.Sprintf("%s against %s: %s", v.Arm, v.Over, w.Text))
			}
		}
	}
}
