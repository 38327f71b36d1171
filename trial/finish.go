package trial

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"headroom/stats"
	"headroom/unit"
)

// walPerOp is measured beside the workload's own figures on a server.
var walPerOp = Measure{Name: "wal_per_op", Unit: unit.Byte, Noun: "bytes of write-ahead log per operation"}

// finish draws the conclusions from the rounds and reads the facts again.
func (r *run) finish(ctx context.Context) error {
	r.addWALMeasure()
	for i := range r.res.Arms {
		if err := r.summarize(i); err != nil {
			return err
		}
	}
	for i := 1; i < len(r.res.Arms); i++ {
		v, err := r.versus(i)
		if err != nil {
			return err
		}
		r.res.Versus = append(r.res.Versus, v)
	}
	r.warnings()
	// After an interruption there is little time; the facts are still worth it.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	after, still, err := r.stage.facts(ctx)
	if err != nil {
		r.warnf("the facts could not be read again: %v", err)
		return nil
	}
	r.res.After = after
	r.res.Moved = moved(r.still, still)
	for _, m := range r.res.Moved {
		r.warnf("%s moved during the trial, from %s to %s, and no arm changed it", m.Fact, m.Before, m.After)
	}
	return nil
}

func (r *run) addWALMeasure() {
	for _, x := range r.res.Rounds {
		if _, ok := x.Figures[walPerOp.Name]; ok {
			r.res.Measures = append(r.res.Measures, walPerOp)
			return
		}
	}
}

// summarize fills in one arm's figures.
func (r *run) summarize(i int) error {
	a := &r.res.Arms[i]
	for _, m := range r.res.Measures {
		v := r.res.Counted(i, m.Name)
		if len(v) == 0 {
			continue
		}
		s, err := stats.Summarize(v, 1-r.opt.Alpha)
		if err != nil {
			return fmt.Errorf("summarize %s of arm %s: %w", m.Name, a.Name, err)
		}
		a.Figures[m.Name] = s
	}
	if a.Done > 0 {
		a.WALPerOp = float64(r.wal[i]) / float64(a.Done)
	}
	if h := r.hist[i]; h != nil && h.TotalCount() > 0 {
		l, err := latencyOf(h)
		if err != nil {
			return fmt.Errorf("summarize latencies of arm %s: %w", a.Name, err)
		}
		a.Latency = l
	}
	return nil
}

func latencyOf(h *hdrhistogram.Histogram) (*Latency, error) {
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e9 }
	raw, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, err
	}
	return &Latency{N: h.TotalCount(), P50: at(50), P90: at(90), P99: at(99), P999: at(99.9),
		Max: float64(h.Max()) / 1e9, Histogram: string(raw)}, nil
}

// versus compares one arm with the base by the plan.
func (r *run) versus(i int) (Versus, error) {
	pairs := r.pairs[i]
	decide := r.res.Plan.Decide
	if r.res.Ended == BudgetSpent {
		decide = r.res.Plan.Close
	}
	if len(r.res.Plan.Looks) == 0 { // interrupted before there was a plan
		return Versus{Arm: r.exp.Arms[i].Name, Decision: stats.Decision{Verdict: stats.NeedsMore, More: stats.MinPairs, Reason: "no block was run"}, P: 1}, nil
	}
	d, err := decide(pairs)
	if err != nil {
		return Versus{}, err
	}
	v := Versus{Arm: r.exp.Arms[i].Name, Decision: d, P: 1, Taken: pairs}
	if n := d.Pairs; n > 1 {
		c, err := stats.Compare(pairs[:n], d.Ratio.Level)
		if err != nil {
			return Versus{}, err
		}
		v.P = c.P
	}
	for _, m := range r.res.Measures[1:] {
		if s, ok := r.secondary(m, i, d); ok {
			v.Others = append(v.Others, s)
		}
	}
	return v, nil
}

// secondary compares a measure that does not decide, at the look where the
// primary one stopped. One that is not above zero everywhere has no ratio.
func (r *run) secondary(m Measure, arm int, d stats.Decision) (Secondary, bool) {
	base, mine := r.res.Counted(0, m.Name), r.res.Counted(arm, m.Name)
	n := d.Pairs
	if n < 2 || len(base) < n || len(mine) < n {
		return Secondary{}, false
	}
	pairs := make([]stats.Pair, n)
	for i := range pairs {
		pairs[i] = stats.Pair{Base: base[i], Changed: mine[i]}
	}
	c, err := stats.Compare(pairs, d.Ratio.Level)
	if d.Look > 0 && d.Look <= len(r.res.Plan.Looks) && r.res.Plan.Looks[d.Look-1] == n {
		c, err = r.res.Plan.At(d.Look-1, pairs)
	}
	return Secondary{Measure: m.Name, Ratio: c.Ratio, P: c.P}, err == nil
}

// warnings says what a reader must know before believing the figures.
func (r *run) warnings() {
	for _, v := range r.res.Versus {
		for _, w := range v.Warnings {
			r.warnf("%s: %s", v.Arm, w.Text)
		}
	}
	if r.spoilt > 0 {
		r.warnf("%d of the blocks that count were disturbed; no re-runs were left", r.spoilt)
	}
	base := r.res.Arms[0]
	for i, a := range r.res.Arms[1:] {
		if base.Checkpoints > 0 && a.Checkpoints == 0 {
			r.warnf("%s: no checkpoint fell into its %s of work (base: %d); what its rarer checkpoints cost is not in these figures",
				a.Name, unit.Seconds(r.worked(i+1)), base.Checkpoints)
		}
	}
	if r.opt.Rate > 0 {
		for _, a := range r.res.Arms {
			if a.Skipped > 0 {
				r.warnf("%s: could not keep up with %s: %d operations were skipped", a.Name, unit.Format(r.opt.Rate, unit.PerSecond), a.Skipped)
			}
		}
	}
}

func (r *run) worked(arm int) float64 {
	s := 0.0
	for _, x := range r.res.Rounds {
		if x.Arm == arm && x.Counts {
			s += x.Seconds
		}
	}
	return s
}

// moved lists the facts whose text is not the same, by name.
func moved(before, after map[string]string) []Moved {
	var out []Moved
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if now, ok := after[name]; ok && now != before[name] {
			out = append(out, Moved{Fact: name, Before: before[name], After: now})
		}
	}
	return out
}
