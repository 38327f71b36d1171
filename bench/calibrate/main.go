// Command calibrate measures how honest trials are, on real servers: how often
// two equal servers are called different (200 trials), and how often a known
// difference of 10 % is found at the budget that the tool itself proposes (50
// trials, one arm slowed down). As for a user, each proposal comes from one run
// before: a pilot of two equal servers, which is one more trial of the first
// kind. Two servers serve all trials of a kind; each trial has a fresh seed,
// warm-up and noise floor of its own.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
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
	Whole   float64        `json:"noise_sd_of_the_whole_run"`
	Reruns  int            `json:"blocks_run_again"`
	Spoilt  int            `json:"disturbed_rounds_that_count"`
	Seconds float64        `json:"seconds"`
	// Proposed is what the pilot before it proposed; nil without a pilot.
	Proposed *trial.Need `json:"proposed,omitempty"`
}

// Kind is a series of trials with the same question.
type Kind struct {
	What     string        `json:"what"`
	Options  trial.Options `json:"options"`
	Rate     Rate          `json:"rate"`
	Coverage Rate          `json:"interval_holds_the_truth"`
	Trials   []One         `json:"trials"`
	// Pilots that found the machine too noisy to propose anything.
	Unproposed int `json:"pilots_without_proposal,omitempty"`

	truth float64 // the true ratio
	hit   func(stats.Verdict) bool
}

// Report is the result file. It is written after each series and each known
// trial, so a series that is broken off is in it as far as it came.
type Report struct {
	Headroom int               `json:"headroom"` // schema
	Made     time.Time         `json:"made"`
	Where    string            `json:"where"`
	Workload string            `json:"workload"`
	Params   map[string]string `json:"params"`
	Equal    Kind              `json:"equal"`
	Pilots   Kind              `json:"pilots"`
	Known    Kind              `json:"known_effect"`
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
	where string
}

func run(ctx context.Context, out string, equal, known int, seed uint64) (err error) {
	start := time.Now()
	dirs, err := host.OwnDirs()
	if err != nil {
		return err
	}
	exp := trial.Experiment{Name: "calibration", Workload: postgres.Upsert,
		// A small table, no checkpoint within a trial and no wait for the disk:
		// what is calibrated is the method, in little time.
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

	rep.Equal = Kind{What: "two equal servers: how often are they called different?", Options: small(), truth: 1, hit: different}
	for i := range equal {
		if _, err = c.add(ctx, &rep.Equal, i, small(), nil, 0, 1); err != nil {
			break
		}
	}
	rep.Where = c.where
	if err = errors.Join(err, save(out, rep)); err != nil {
		return err
	}
	if err = c.known(ctx, &rep, out, known); err != nil && ctx.Err() == nil {
		return err
	}
	rep.Took = time.Since(start).Seconds()
	fmt.Printf("false verdicts:  %s\n  of pilots:     %s\nfound +%.0f %%:     %s\ninterval holds:  %s\ntook %.0f s\n", rep.Equal.Rate, rep.Pilots.Rate, 100*effect,
		rep.Known.Rate, rep.Known.Coverage, rep.Took)
	return save(out, rep)
}

func different(v stats.Verdict) bool { return v == stats.Faster || v == stats.Slower }

// known runs pairs of a pilot and a trial at what the pilot proposed.
func (c *calibrator) known(ctx context.Context, rep *Report, out string, n int) error {
	rep.Pilots = Kind{What: "two equal servers: the pilots of the known effect", Options: small(), truth: 1, hit: different}
	rep.Known = Kind{What: "one server is 1.1 times as fast: how often is it called faster, at the budget that a pilot before each trial proposed?",
		Options: small(), truth: 1 + effect, hit: func(v stats.Verdict) bool { return v == stats.Faster }}
	for i := range n {
		pilot, err := c.add(ctx, &rep.Pilots, i, small(), nil, 0, 1)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(pilot.Noise.Needs, func(n trial.Need) bool { return n.Effect == effect && n.Pairs > 0 })
		if at < 0 {
			rep.Known.Unproposed++
			continue
		}
		need := pilot.Noise.Needs[at]
		o := small()
		o.Budget, o.Round = seconds(need.Seconds), seconds(need.Round)
		if _, err := c.add(ctx, &rep.Known, i, o, &need, 2, 1); err != nil {
			return err
		}
		rep.Where = c.where
		if err := save(out, *rep); err != nil {
			return err
		}
	}
	return nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (r Rate) String() string {
	return fmt.Sprintf("%d of %d = %.1f %% (95 %% interval %.1f-%.1f %%)", r.Hits, r.Of, 100*r.Share, 100*r.Lo, 100*r.Hi)
}

// small are the options of a run of 7 s.
func small() trial.Options {
	return trial.Options{Budget: 7 * time.Second, Round: 200 * time.Millisecond, Warmup: 250 * time.Millisecond, Noise: 6}
}

func (c *calibrator) one(ctx context.Context, o trial.Options, arms ...int) (*trial.Result, error) {
	o.Seed = c.seed
	c.seed++
	return c.stage.Run(ctx, o, nil, arms...)
}

// add runs one more trial of a kind. arms are the stage's, base first.
func (c *calibrator) add(ctx context.Context, k *Kind, i int, o trial.Options, need *trial.Need, arms ...int) (*trial.Result, error) {
	seed, start := c.seed, time.Now()
	r, err := c.one(ctx, o, arms...)
	if err != nil {
		return nil, err
	}
	v := r.Versus[0]
	one := One{Seed: seed, Verdict: v.Verdict, Ratio: v.Ratio, Pairs: v.Pairs, Noise: r.Noise.SD, Whole: r.Noise.Whole.SD, Seconds: time.Since(start).Seconds(), Proposed: need}
	for _, x := range r.Rounds {
		switch {
		case x.Phase == trial.Measuring && !x.Counts && x.Arm == 0:
			one.Reruns++
		case x.Counts && len(x.Marks) > 0:
			one.Spoilt++
		}
	}
	c.where = r.Where
	k.Trials = append(k.Trials, one)
	hits, holds := 0, 0
	for _, t := range k.Trials {
		if k.hit(t.Verdict) {
			hits++
		}
		if t.Ratio.Contains(k.truth) {
			holds++
		}
	}
	k.Rate, k.Coverage = rateOf(hits, len(k.Trials)), rateOf(holds, len(k.Trials))
	fmt.Fprintf(os.Stderr, "%3d %-20s %.3f (%.3f-%.3f) %2d pairs, noise %.1f %%, whole run %.1f %%, %.1f s\n", i+1, v.Verdict, v.Ratio.Center, v.Ratio.Lo, v.Ratio.Hi,
		v.Pairs, 100*r.Noise.SD, 100*r.Noise.Whole.SD, one.Seconds)
	return r, nil
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
