package stats

import (
	"fmt"
	"math"
	"sort"
)

// Decision is what a plan says of the pairs so far.
type Decision struct {
	Verdict Verdict `json:"verdict"`
	// Ratio is changed / base as a repeated confidence interval: with
	// confidence Level it holds the true ratio at every look at once, so
	// stopping early does not spoil it. Before the first look it is open.
	Ratio Interval `json:"ratio"`
	// Look counts the looks done (0 before the first) of Looks; Pairs is the
	// number of pairs at that look. Pairs after a deciding look are not used.
	Look  int `json:"look"`
	Looks int `json:"looks"`
	Pairs int `json:"pairs"`
	// More estimates the pairs still needed for a verdict, 0 once there is
	// one. Beyond Max it is the size of a larger plan, not of a longer run:
	// this run's error is spent.
	More     int       `json:"more"`
	Reason   string    `json:"reason"`
	Warnings []Warning `json:"warnings,omitempty"`
}

// Final reports whether the run should stop: a verdict, or the last look.
func (d Decision) Final() bool { return d.Verdict != NeedsMore || d.Look == d.Looks }

// String is the verdict in words.
func (d Decision) String() string {
	switch {
	case d.Verdict == NeedsMore && d.More == 1:
		return "needs 1 more round"
	case d.Verdict == NeedsMore && d.More > 0:
		return fmt.Sprintf("needs %d more rounds", d.More)
	}
	return string(d.Verdict)
}

// Decide replays the looks that the pairs reach and stops at the first with a
// verdict, so the same pairs always give the same answer and later pairs never
// change it. Pairs must be in the order they were taken.
func (p Plan) Decide(pairs []Pair) (Decision, error) {
	if err := p.Rule.Check(); err != nil {
		return Decision{}, err
	}
	d, err := logs(pairs)
	if err != nil {
		return Decision{}, err
	}
	out := p.replay(d)
	used := max(out.Pairs, min(len(d), p.Looks[0]-1))
	out.Warnings = warnings(pairs[:used], d[:used])
	out.More = p.more(out, d)
	out.Reason = p.reason(out)
	return out, nil
}

// replay finds the look that decides the log ratios d, or the last one reached.
func (p Plan) replay(d []float64) Decision {
	out := Decision{Verdict: NeedsMore, Looks: len(p.Looks), Ratio: compare(d, p.Level()).Ratio}
	out.Ratio.Lo, out.Ratio.Hi = 0, math.Inf(1)
	for i, at := range p.Looks {
		if at > len(d) {
			break
		}
		c := compare(d[:at], 1-p.AlphaAt(i))
		out.Ratio, out.Look, out.Pairs = c.Ratio, i+1, at
		out.Ratio.Level = p.Level()
		if out.Verdict = p.Judge(out.Ratio); out.Verdict != NeedsMore {
			break
		}
	}
	return out
}

// Close is Decide for a run that ends before Max because its time is up: the
// last look is moved to the last pair. That is valid only if the end had
// nothing to do with the figures seen; for a run that a person broke off use
// Decide, which stays at the last planned look.
func (p Plan) Close(pairs []Pair) (Decision, error) {
	if n := len(pairs); n >= MinPairs && n < p.Max {
		p = p.closed(n)
	}
	return p.Decide(pairs)
}

// more estimates how many pairs beyond those used would give a verdict, if the
// centre and the noise stay as they are.
func (p Plan) more(out Decision, d []float64) int {
	if out.Verdict != NeedsMore {
		return 0
	}
	if out.Look == 0 {
		return p.Looks[0] - len(d)
	}
	t := estimate(d[:out.Pairs])
	for i := out.Look; i < len(p.Looks); i++ {
		if p.settles(t, p.Looks[i], p.AlphaAt(i)) {
			return p.Looks[i] - len(d)
		}
	}
	last := p.Looks[len(p.Looks)-1]
	n := last + sort.Search(MaxPairs-last, func(i int) bool {
		return p.settles(t, last+i, p.alpha()*lastShare)
	})
	return max(1, n-len(d))
}

// lastShare is the share of the error that the last look of a long plan
// spends: its looks are at 3/4 of the pairs and at all.
const lastShare = 1 - 0.75*0.75

// settles reports whether n pairs with centre and noise t would be judged.
func (p Plan) settles(t trimmed, n int, alpha float64) bool {
	df := float64(n - 2*cut(n) - 1)
	half := critical(alpha, df) * t.sd() / math.Sqrt(float64(n))
	return p.Judge(ratio(t.mean, half, 0)) != NeedsMore
}

func (p Plan) reason(d Decision) string {
	margin := 100 * p.Margin
	switch d.Verdict {
	case Faster, Slower:
		return fmt.Sprintf("the whole interval lies more than %.3g %% from 1, at look %d of %d", margin, d.Look, d.Looks)
	case NoDifference:
		return fmt.Sprintf("less than %.2g %% either way, at look %d of %d", 100*d.Ratio.Bound(), d.Look, d.Looks)
	}
	if d.Look == 0 {
		return fmt.Sprintf("the first look is at %d pairs", p.Looks[0])
	}
	return fmt.Sprintf("after %d pairs up to %.2g %% either way is still possible, want under %.3g %% or an interval clear of %.3g %%",
		d.Pairs, 100*d.Ratio.Bound(), 100*p.Matter, margin)
}
