package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"headroom/fact"
	"headroom/fail"
	"headroom/host"
	"headroom/stats"
	"headroom/trial"
	"headroom/unit"
)

// Options steer a run. A field left zero takes its default.
type Options struct {
	// Rounds is the number of rounds at most, in each of which every arm has
	// one turn. Default: the lab's own. The run ends sooner when every
	// comparison has its answer. Under stats.MinPairs there is none.
	Rounds int `json:"rounds"`
	// Budget is the time for measuring, warm-up included; a round that would
	// not fit any more is not begun. Default: the lab's own.
	Budget time.Duration `json:"budget_ns"`
	// Seed decides the order of the arms and the data.
	Seed uint64 `json:"seed"`
	// Major is the private servers' major version; 0: the newest installed.
	Major int `json:"major,omitempty"`
	// Params are the lab's parameters; those left out take their defaults.
	Params map[string]string `json:"-"`
}

// Env is what a lab needs of the program around it.
type Env struct {
	Facts   []fact.Any // read once the servers run, kept with the result
	Parent  string     // folder for private servers; "" is pglocal's own choice
	Version string     // of Headroom
	Host    string     // name of the machine
}

const (
	defaultRounds = 8
	defaultBudget = 165 * time.Second
)

// The largest chance of a false verdict in a whole run, and what counts as a
// difference (stats.Rule).
const (
	alpha  = 0.05
	margin = 0.01
	matter = 0.05
)

func (o Options) fill(l *Lab) Options {
	if o.Rounds == 0 {
		o.Rounds = l.Rounds
	}
	if o.Rounds == 0 {
		o.Rounds = defaultRounds
	}
	if o.Budget == 0 {
		o.Budget = l.Budget
	}
	if o.Budget == 0 {
		o.Budget = defaultBudget
	}
	return o
}

func (o Options) check() error {
	switch {
	case o.Rounds < 1 || o.Rounds > stats.MaxPairs:
		return fail.With(fmt.Errorf("read options: %d rounds, want 1 to %d", o.Rounds, stats.MaxPairs), fail.Usage)
	case o.Budget < 0:
		return fail.With(errors.New("read options: the budget cannot be negative"), fail.Usage)
	}
	return nil
}

// run is one run of a lab.
type run struct {
	lab   *Lab
	exp   Experiment
	opt   Options
	st    *stands
	tell  func(trial.Event)
	rng   *rand.Rand
	began time.Time
	end   time.Time
	rule  stats.Rule
	plan  stats.Plan // zero with too few rounds for a verdict
	res   *Result
}

// Run runs a lab and returns its result. After an interruption it returns the
// result so far and an error with status fail.Interrupted. Nothing is left
// behind in either case. tell may be nil.
func Run(ctx context.Context, l *Lab, o Options, env Env, tell func(trial.Event)) (*Result, error) {
	if tell == nil {
		tell = func(trial.Event) {}
	}
	o = o.fill(l)
	if err := o.check(); err != nil {
		return nil, err
	}
	exp, params, err := l.Plan(o.Params)
	if err != nil {
		return nil, err
	}
	say := func(s string) { tell(trial.Event{Phase: trial.Preparing, Text: s}) }
	r := &run{lab: l, exp: exp, opt: o, tell: tell, rng: rand.New(rand.NewPCG(o.Seed, 0x6c61_62)),
		st: &stands{lab: l, exp: exp, opt: o, env: env, say: say}}
	r.res = newResult(l, exp, o, params, env)
	if err := r.judgeBy(); err != nil {
		return nil, err
	}
	res, err := r.do(ctx)
	tell(trial.Event{Phase: trial.Closing})
	if cerr := r.st.close(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("clean up after lab %s: %w", l.Name, cerr))
	}
	return res, err
}

// judgeBy sets the rule and, with enough rounds, the plan of looks.
func (r *run) judgeBy() error {
	better := stats.Lower
	if r.lab.Measures[0].Higher {
		better = stats.Higher
	}
	r.rule = stats.Rule{Better: better, Alpha: alpha, Arms: len(r.exp.Arms) - 1 + len(r.exp.Claims), Margin: margin, Matter: matter}
	r.res.Level = r.rule.Level()
	if r.opt.Rounds < stats.MinPairs {
		return r.rule.Check()
	}
	var err error
	r.plan, err = r.rule.Plan(r.opt.Rounds)
	r.res.Plan = r.plan
	return err
}

func (r *run) do(ctx context.Context) (*Result, error) {
	setup := time.Now()
	r.res.Started = setup.UTC()
	err := r.st.open(ctx)
	if err == nil {
		err = r.facts(ctx)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, fail.With(fmt.Errorf("prepare lab %s: %w", r.lab.Name, context.Cause(ctx)), fail.Interrupted)
		}
		return nil, fmt.Errorf("prepare lab %s: %w", r.lab.Name, err)
	}
	if err := r.leaveOut(); err != nil {
		return nil, err
	}
	r.res.Where = r.where()
	r.began = time.Now()
	r.end = r.began.Add(r.opt.Budget)
	r.res.Setup = r.began.Sub(setup).Seconds()
	err = r.measure(ctx)
	switch {
	case ctx.Err() != nil:
		r.res.Ended = trial.Interrupted
		err = fail.With(fmt.Errorf("run lab %s: %w", r.lab.Name, context.Cause(ctx)), fail.Interrupted)
	case err != nil:
		return nil, fmt.Errorf("run lab %s: %w", r.lab.Name, err)
	}
	r.res.Took = time.Since(r.began).Seconds()
	if ferr := r.finish(); ferr != nil {
		return nil, errors.Join(err, ferr)
	}
	return r.res, err
}

func (r *run) where() string {
	if r.lab.Uses == "" {
		return "this machine"
	}
	n := len(r.st.all)
	if n == 1 {
		return "private PostgreSQL " + r.st.all[0].Version()
	}
	return fmt.Sprintf("%d private servers, PostgreSQL %s", n, r.st.all[0].Version())
}

// facts reads what is known of the machine, to be kept with the result.
func (r *run) facts(ctx context.Context) error {
	if len(r.st.env.Facts) == 0 {
		return nil
	}
	h := r.st.all[0].host
	if h == nil {
		h = host.Open(host.Options{})
		defer h.Close()
	}
	set, err := fact.Gather(ctx, h, fact.Options{Host: r.st.env.Host, Version: r.st.env.Version}, r.st.env.Facts...)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := set.Save(&b); err != nil {
		return err
	}
	r.res.Facts = json.RawMessage(b.String())
	return nil
}

// measure goes through the rounds, after a warm-up that does not count: first
// turns make the server's files grow, later ones use them again.
func (r *run) measure(ctx context.Context) error {
	all := make([]int, len(r.exp.Arms))
	for i := range all {
		all[i] = i
	}
	if _, err := r.round(ctx, -1, all); err != nil {
		return err
	}
	for i, order := range stats.Order(r.rng, len(r.exp.Arms), r.opt.Rounds) {
		if i > 0 && time.Now().Add(r.lasted(i-1)).After(r.end) {
			r.res.Ended = trial.BudgetSpent
			return nil
		}
		sure, err := r.round(ctx, i, order)
		if err != nil {
			return err
		}
		if sure {
			r.res.Ended = trial.Sure
			return nil
		}
	}
	r.res.Ended = trial.MaxReached
	return nil
}

// lasted is how long a round took, preparations included.
func (r *run) lasted(round int) time.Duration {
	sum := 0.0
	for _, t := range r.res.Turns {
		if t.Round == round {
			sum += t.Took
		}
	}
	return time.Duration(sum * float64(time.Second))
}

// round gives each arm its turn and reports whether all is decided.
func (r *run) round(ctx context.Context, n int, order []int) (sure bool, err error) {
	seed := mixed(r.opt.Seed, n)
	said := map[string]map[string]string{} // what must be the same, value, arm
	first := len(r.res.Turns)
	for _, i := range order {
		arm := r.exp.Arms[i]
		r.event(n, arm.Name)
		t := &Turn{Stand: r.st.ofArm[i], Round: n, Seed: seed}
		at := time.Now()
		if err := arm.take(ctx, t); err != nil {
			return false, err
		}
		out := TurnResult{Round: n, Arm: i, At: at.Sub(r.began).Seconds(), Took: time.Since(at).Seconds(), Units: t.units, Figures: t.figures, Same: t.same}
		if !(t.figures[r.lab.Measures[0].Name] > 0) {
			return false, fmt.Errorf("run arm %q: it yielded no %s", arm.Name, r.lab.Measures[0].Name)
		}
		r.res.Turns = append(r.res.Turns, out)
		if err := agree(said, arm.Name, t.same); err != nil {
			return false, err
		}
	}
	for i := first; i < len(r.res.Turns); i++ {
		r.res.Turns[i].Counts = n >= 0
	}
	if n < 0 || !slices.Contains(r.plan.Looks, n+1) {
		return false, nil
	}
	return r.decided()
}

// agree files what an arm says and refuses what contradicts another.
func agree(said map[string]map[string]string, arm string, same map[string]string) error {
	for _, what := range slices.Sorted(maps.Keys(same)) {
		v := same[what]
		if said[what] == nil {
			said[what] = map[string]string{v: arm}
		}
		if _, ok := said[what][v]; ok {
			continue
		}
		for other, by := range said[what] {
			return fail.Hint(fmt.Errorf("check %s: arm %q has %s, arm %q has %s: they did not do the same work", what, arm, v, by, other),
				"this is a defect of the lab, its figures mean nothing; please report it")
		}
	}
	return nil
}

func (r *run) event(round int, arm string) {
	e := trial.Event{Phase: trial.Warming, Arm: arm, Text: arm, Left: max(time.Until(r.end), 0)}
	if round >= 0 {
		e.Phase, e.Block, e.Blocks = trial.Measuring, round+1, r.opt.Rounds
	}
	r.tell(e)
}

// mixed is the seed of a round.
func mixed(seed uint64, round int) uint64 {
	return rand.NewPCG(seed, uint64(round+2)).Uint64()
}

// tooFew tells how to get to a verdict.
func (r *run) tooFew(n int) string {
	per := r.res.Took / float64(max(n, 1)+1)
	return fmt.Sprintf("too few rounds for a verdict: %d, and one needs %d: --rounds %d --budget %.0fs (a round took %s)", n, stats.MinPairs,
		max(r.opt.Rounds, stats.MinPairs), max(r.opt.Budget.Seconds(), 10+per*float64(stats.MinPairs+2)), unit.Seconds(per))
}
