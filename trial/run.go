package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"headroom/change"
	"headroom/crash"
	"headroom/fail"
	"headroom/stats"
	"headroom/unit"
)

// run is one run of an experiment on an open stage. It is the pure part: all
// that touches a machine is behind stage.
type run struct {
	exp   Experiment
	opt   Options // filled
	stage stage
	arms  []int // stage's number of each arm of exp
	tell  func(Event)

	rng      *rand.Rand
	began    time.Time
	deadline time.Time
	changed  bool // the arms' changes (and throttles) are in force
	res      *Result
	hist     []*hdrhistogram.Histogram // by arm, rounds that count
	wal      []int64                   // bytes, by arm, rounds that count
	pairs    [][]stats.Pair            // by arm, the base's are empty
	blockFor time.Duration             // how long a block takes
	upfront  time.Duration             // what came before the first block
	usual    map[Cause]bool            // what disturbs every round is no disturbance
	reruns   int                       // left
	spoilt   int                       // blocks that count though they were disturbed
	still    map[string]string         // facts that must not move
	fixed    map[Cause]bool            // causes that the arms themselves are about
}

// newRun checks the options and prepares a run; arms are the stage's numbers.
func newRun(exp Experiment, st stage, arms []int, tell func(Event)) (*run, error) {
	if err := exp.check(); err != nil {
		return nil, err
	}
	params, err := exp.params()
	if err != nil {
		return nil, err
	}
	opt := exp.Options.fill(len(exp.Arms))
	if err := opt.check(len(exp.Arms)); err != nil {
		return nil, err
	}
	if tell == nil {
		tell = func(Event) {}
	}
	r := &run{exp: exp, opt: opt, stage: st, arms: arms, tell: tell,
		rng: rand.New(rand.NewPCG(opt.Seed, 0x7472_6961_6c)), usual: map[Cause]bool{}, fixed: about(exp.Arms)}
	r.hist = make([]*hdrhistogram.Histogram, len(exp.Arms))
	r.wal = make([]int64, len(exp.Arms))
	r.pairs = make([][]stats.Pair, len(exp.Arms))
	r.res = &Result{Format: resultFormat, Schema: Schema, Name: exp.Name, Question: exp.Question,
		Workload: exp.Workload.Name, Params: params, Measures: deciding(exp.Workload.Measures, opt.Rate), Options: opt, Where: st.where()}
	for _, a := range exp.Arms {
		r.res.Arms = append(r.res.Arms, ArmResult{Arm: a, Figures: map[string]stats.Summary{}})
	}
	return r, nil
}

// deciding puts the measure that decides first. At an offered rate that is the
// first latency: the rate is what was offered, whatever an arm is worth.
func deciding(all []Measure, rate float64) []Measure {
	out := slices.Clone(all)
	i := slices.IndexFunc(out, func(m Measure) bool { return m.Unit == unit.Second && !m.Higher })
	if rate > 0 && i > 0 {
		first := out[i]
		out = slices.Insert(slices.Delete(out, i, i+1), 0, first)
	}
	return out
}

// do runs the experiment. After an interruption both the result so far and the
// error are returned.
func (r *run) do(ctx context.Context) (*Result, error) {
	r.began = time.Now()
	r.res.Started = r.began.UTC()
	var err error
	if r.res.Before, r.still, err = r.stage.facts(ctx); err != nil {
		return nil, err
	}
	r.deadline = time.Now().Add(r.opt.Budget)
	err = r.measure(ctx)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	if ctx.Err() != nil {
		r.res.Ended = Interrupted
		err = fail.With(fmt.Errorf("run trial: %w", context.Cause(ctx)), fail.Interrupted)
	}
	r.res.Took = time.Since(r.began).Seconds()
	return r.res, errors.Join(err, r.finish(ctx))
}

// measure goes through the phases.
func (r *run) measure(ctx context.Context) error {
	if err := r.warm(ctx, 0, r.everyArm()...); err != nil {
		return err
	}
	if err := r.noise(ctx); err != nil {
		return err
	}
	if err := r.change(ctx); err != nil {
		return err
	}
	if err := r.plan(); err != nil {
		return err
	}
	start := time.Now()
	if err := r.blocks(ctx); err != nil {
		return err
	}
	return r.propose(time.Since(start))
}

func (r *run) everyArm() []int {
	if r.stage.shared() {
		return []int{0}
	}
	all := make([]int, len(r.exp.Arms))
	for i := range all {
		all[i] = i
	}
	return all
}

// change puts the arms' changes into force and warms up again.
func (r *run) change(ctx context.Context) error {
	fresh := !r.stage.equal() || anyChange(r.exp.Arms)
	plans, err := r.stage.change(ctx, func(s string) { r.tell(Event{Phase: Changing, Text: s}) })
	if err != nil {
		return err
	}
	for i, a := range r.arms {
		if a < len(plans) {
			r.res.Arms[i].Plans = plans[a]
			var p change.Plan
			if json.Unmarshal(plans[a], &p) == nil && p.Format != "" && p.Nothing() {
				r.warnf("%s: it is already so: this arm and the base are alike", r.exp.Arms[i].Name)
			}
		}
	}
	r.changed = true
	if !fresh || r.stage.shared() {
		return nil
	}
	return r.warm(ctx, 1, r.everyArm()...)
}

func anyChange(arms []Arm) bool {
	for _, a := range arms {
		if len(a.Changes) > 0 {
			return true
		}
	}
	return false
}

// round runs one round of one arm and files it. The caller decides later
// whether it counts.
func (r *run) round(ctx context.Context, x RoundResult, d time.Duration, seed uint64) (*RoundResult, *hdrhistogram.Histogram, error) {
	x.At = time.Since(r.began).Seconds()
	o := RoundOptions{Seed: seed, Rate: r.opt.Rate}
	if r.changed {
		o.Throttle = r.exp.Arms[x.Arm].Throttle
	}
	done := r.stage.watch(ctx, r.arms[x.Arm])
	got, err := r.stage.session(r.arms[x.Arm]).Run(ctx, d, o)
	if err != nil {
		return nil, nil, fmt.Errorf("run %s on arm %s: %w", r.exp.Workload.Name, r.exp.Arms[x.Arm].Name, err)
	}
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	crash.At("trial.round-ran")
	saw := done(ctx, got)
	x.Seconds, x.Done, x.Failed, x.Skipped, x.Figures = got.Seconds, got.Done, got.Failed, got.Skipped, got.Figures
	if x.Figures == nil {
		x.Figures = map[string]float64{}
	}
	if saw.wal >= 0 && got.Done > 0 {
		x.WAL = saw.wal
		x.Figures[walPerOp.Name] = float64(saw.wal) / float64(got.Done)
	}
	x.Checkpoints = saw.checkpoints
	x.Marks = append(x.Marks, saw.marks...)
	if got.Failed > 0 {
		x.Marks = append(x.Marks, Mark{ByFailures, fmt.Sprintf("%d operations failed: %s", got.Failed, got.Why)})
	}
	if !(x.Figures[r.res.Measures[0].Name] > 0) {
		x.Marks = append(x.Marks, Mark{ByShortfall, "the round yielded no " + r.res.Measures[0].Name + " " + got.Why})
	}
	r.res.Rounds = append(r.res.Rounds, x)
	return &r.res.Rounds[len(r.res.Rounds)-1], got.Latency, nil
}

// left is how long the run may still take.
func (r *run) left() time.Duration { return max(time.Until(r.deadline), 0) }
