// Command calibrate measures how honest trials are, on real servers: how often
// two equal servers are called different (200 trials), and how often a known
// difference of 10 % is found at the budget that the tool itself proposes (50
// trials, one arm slowed down). Two servers serve all trials of a kind; each
// trial has a fresh seed, warm-up and noise floor of its own.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"headroom/host"
	"headroom/stats"
	"headroom/topic/postgres"
	"headroom/trial"
)

// effect is the known difference, as a ratio above 1 less 1.
const effect = 0.10

// Rate is a share of trials with its exact (Clopper-Pearson) 95 % interval.
type Rate struct {
	Hits  int     `json:"hits"`
	Of    int     `json:"of"`
	Share float64 `json:"share"`
	Lo    float64 `json:"lo"`
	Hi    float64 `json:"hi"`
}

func rateOf(hits, of int) Rate {
	r := Rate{Hits: hits, Of: of, Share: float64(hits) / float64(of), Hi: 1}
	k, n := float64(hits), float64(of)
	if hits > 0 {
		r.Lo = distuv.Beta{Alpha: k, Beta: n - k + 1}.Quantile(0.025)
	}
	if hits < of {
		r.Hi = distuv.Beta{Alpha: k + 1, Beta: n - k}.Quantile(0.975)
	}
	return r
}

// One is one trial.
type One struct {
	Seed    uint64         `json:"seed"`
	Verdict stats.Verdict  `json:"verdict"`
	Ratio   stats.Interval `json:"ratio"`
	Pairs   int            `json:"pairs"`
	Noise   float64        `json:"noise_sd"`
	Reruns  int            `json:"blocks_run_again"`
	Spoilt  int            `json:"disturbed_rounds_that_count"`
	Seconds float64        `json:"seconds"`
}

// Kind is a series of trials with the same question.
type Kind struct {
	What     string        `json:"what"`
	Options  trial.Options `json:"options"`
	Rate     Rate          `json:"rate"`
	Coverage Rate          `json:"interval_holds_the_truth"`
	Trials   []One         `json:"trials"`
}

// Report is the result file. It is written after each series, and with the
// trials done so far if the second one is broken off.
type Report struct {
	Headroom int               `json:"headroom"` // schema
	Made     time.Time         `json:"made"`
	Where    string            `json:"where"`
	Workload string            `json:"workload"`
	Params   map[string]string `json:"params"`
	Equal    Kind              `json:"equal"`
	Known    Kind              `json:"known_effect"`
	Proposed trial.Need        `json:"proposed"` // for the known effect
	Took     float64           `json:"took_seconds"`
}

func main() {
	out := flag.String("out", "", "result file; none if empty")
	equal := flag.Int("equal", 200, "trials of two equal servers")
	known := flag.Int("known", 50, "trials of a known difference of 10 %")
	seed := flag.Uint64("seed", 20261120, "of the first trial; each has the next")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *out, *equal, *known, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// calibrator runs trials on one stage of three servers: the base, its equal,
// and one more that is slowed down.
type calibrator struct {
	stage *trial.Stage
	seed  uint64
}

func run(ctx context.Context, out string, equal, known int, seed uint64) (err error) {
	start := time.Now()
	dirs, err := host.OwnDirs()
	if err != nil {
		return err
	}
	exp := trial.Experiment{Name: "calibration", Workload: postgres.Upsert,
		// A small table, no checkpoint within a trial and no wait for the disk:
		// what is calibrated
		// is the method, in little time.
		Params:  map[string]string{"keys": "200000", "batch": "1000", "durability": "off"},
		Arms:    []trial.Arm{trial.Base(), {Name: "equal"}, {Name: "slowed", Throttle: 1 - 1/(1+effect)}},
		Options: trial.Options{With: map[string]string{"max_wal_size": "20GB", "checkpoint_timeout": "1h", "autovacuum": "off"}},
	}
	stage, err := trial.Open(ctx, exp, trial.Env{Dirs: dirs, Version: "calibration"}, func(e trial.Event) { fmt.Fprintln(os.Stderr, e.Text) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	c := &calibrator{stage: stage, seed: seed}
	rep := Report{Headroom: trial.Schema, Made: start.UTC(), Workload: exp.Workload.Name, Params: exp.Params}

	pilots, err := c.pilots(ctx)
	if err != nil {
		return err
	}
	rep.Where = pilots[0].Where
	rep.Equal, err = c.series(ctx, "two equal servers: how often are they called different?", equal, small(0), 1,
		func(v stats.Verdict) bool { return v == stats.Faster || v == stats.Slower }, 0, 1)
	if err = errors.Join(err, save(out, rep)); err != nil {
		return err
	}
	if rep.Proposed, err = proposal(pilots); err != nil {
		return err
	}
	o := small(rep.Proposed.Seconds)
	o.Effect = effect
	rep.Known, err = c.series(ctx, "one server is 1.1 times as fast: how often is it called faster, at the proposed budget?", known, o, 1+effect,
		func(v stats.Verdict) bool { return v == stats.Faster }, 2, 1)
	if err != nil && ctx.Err() == nil {
		return err
	}
	rep.Took = time.Since(start).Seconds()
	fmt.Printf("false verdicts:  %s\nfound +%.0f %%:     %s (proposed: %d pairs, %.1f s)\ntook %.0f s\n", rep.Equal.Rate, 100*effect, rep.Known.Rate,
		rep.Proposed.Pairs, rep.Proposed.Seconds, rep.Took)
	return save(out, rep)
}

func (r Rate) String() string {
	return fmt.Sprintf("%d of %d = %.1f %% (95 %% interval %.1f-%.1f %%)", r.Hits, r.Of, 100*r.Share, 100*r.Lo, 100*r.Hi)
}

// small is the budget of the trials, in seconds; 0 is the default of 7 s.
func small(seconds float64) trial.Options {
	if seconds == 0 {
		seconds = 7
	}
	return trial.Options{Budget: time.Duration(seconds * float64(time.Second)), Round: 200 * time.Millisecond, Warmup: 250 * time.Millisecond, Noise: 6}
}

// pilots are trials of equal servers to learn the noise and what budget the
// tool proposes: several, because one of them may fall into a calm moment.
func (c *calibrator) pilots(ctx context.Context) ([]*trial.Result, error) {
	var out []*trial.Result
	for range 5 {
		r, err := c.one(ctx, small(0), 0, 1)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// proposal is the largest budget that the pilots proposed for the known effect.
func proposal(pilots []*trial.Result) (most trial.Need, err error) {
	for _, r := range pilots {
		for _, n := range r.Noise.Needs {
			if n.Effect == effect && n.Pairs > most.Pairs {
				most = n
			}
		}
	}
	if most.Pairs == 0 {
		return most, fmt.Errorf("the machine is too noisy (%.1f %% per pair) to propose a budget for %.0f %%", 100*pilots[0].Noise.SD, 100*effect)
	}
	return most, nil
}

func (c *calibrator) one(ctx context.Context, o trial.Options, arms ...int) (*trial.Result, error) {
	o.Seed = c.seed
	c.seed++
	return c.stage.Run(ctx, o, nil, arms...)
}

// series runs n trials and counts the hits. truth is the true ratio.
func (c *calibrator) series(ctx context.Context, what string, n int, o trial.Options, truth float64, hit func(stats.Verdict) bool, arms ...int) (Kind, error) {
	k := Kind{What: what, Options: o}
	hits, holds := 0, 0
	for i := range n {
		seed, start := c.seed, time.Now()
		r, err := c.one(ctx, o, arms...)
		if err != nil { // what was done before counts, if it was broken off
			k.Rate, k.Coverage = rateOf(hits, len(k.Trials)), rateOf(holds, len(k.Trials))
			return k, err
		}
		v := r.Versus[0]
		one := One{Seed: seed, Verdict: v.Verdict, Ratio: v.Ratio, Pairs: v.Pairs, Noise: r.Noise.SD, Seconds: time.Since(start).Seconds()}
		for _, x := range r.Rounds {
			switch {
			case x.Phase == trial.Measuring && !x.Counts && x.Arm == 0:
				one.Reruns++
			case x.Counts && len(x.Marks) > 0:
				one.Spoilt++
			}
		}
		k.Trials = append(k.Trials, one)
		if hit(v.Verdict) {
			hits++
		}
		if v.Ratio.Contains(truth) {
			holds++
		}
		fmt.Fprintf(os.Stderr, "%3d/%d %-20s %.3f (%.3f-%.3f) %2d pairs, noise %.1f %%, %.1f s\n", i+1, n, v.Verdict, v.Ratio.Center, v.Ratio.Lo, v.Ratio.Hi, v.Pairs, 100*r.Noise.SD, one.Seconds)
	}
	if n > 0 {
		k.Rate, k.Coverage = rateOf(hits, n), rateOf(holds, n)
	}
	return k, nil
}

func save(path string, rep Report) error {
	if path == "" {
		return nil
	}
	b, err := json.MarshalIndent(rep, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
