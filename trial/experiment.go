package trial

import (
	"fmt"
	"time"

	"headroom/change"
	"headroom/fail"
	"headroom/stats"
)

// Experiment is what to try: a question, the work that answers it and the
// arms. The first arm is the base that the others are compared with.
type Experiment struct {
	Name     string            // "max_wal_size=10GB on pg.upsert"
	Question string            // what the person wants to know, one sentence
	Workload *Workload         //
	Params   map[string]string // of the workload; those left out take defaults
	Arms     []Arm
	Options  Options
}

// Options steer a run. A field left zero takes its default.
type Options struct {
	// Budget is the time for measuring: warm-up, noise floor and blocks.
	// Setting up the stands is not in it. Default 2 min.
	Budget time.Duration `json:"budget_ns"`
	// Round is how long one arm works in one block. Default: so that at least
	// ten blocks fit into the budget, 0.5 s to 4 s.
	Round time.Duration `json:"round_ns"`
	// Warmup is the longest that each arm is warmed up, before the noise floor
	// and again after its changes; it ends sooner once the rate is steady.
	// Default: a twelfth of the budget, shared by the arms.
	Warmup time.Duration `json:"warmup_ns"`
	// Rate is the operations per second offered to each arm; 0 is as many as
	// it takes. With a rate, latency counts from when an operation was due.
	Rate float64 `json:"rate"`
	// Seed decides the order of the arms and the work's random numbers.
	Seed uint64 `json:"seed"`
	// Alpha is the largest chance of a false verdict in the whole experiment.
	// Default 0.05.
	Alpha float64 `json:"alpha"`
	// Margin is the difference that is never called one, a ratio. Default 0.01.
	Margin float64 `json:"margin"`
	// Effect is the smallest difference worth finding, a ratio above Margin.
	// Default 0.05.
	Effect float64 `json:"effect"`
	// MaxPairs bounds the blocks whatever the budget; 0: only the budget does.
	MaxPairs int `json:"max_pairs,omitempty"`
	// Noise is the number of blocks that run before any change is made, to
	// learn how much two equal stands differ. Default 6; at least 3.
	Noise int `json:"noise_blocks"`
	// Rerun is how many disturbed blocks may be run again. Default: a quarter
	// of the blocks, at least 2; negative: none.
	Rerun int `json:"rerun_blocks"`
	// Live is the consent to run on the user's own machine and server, or to
	// change the machine that private servers run on.
	Live bool `json:"live"`
	// Accept names further consents, as in change.Options: "restart".
	Accept []string `json:"accept,omitempty"`
	// With are settings of the private servers, on top of stock.
	With map[string]string `json:"with,omitempty"`
	// Major is the private servers' major version; 0: the newest installed.
	Major int `json:"major,omitempty"`
}

// Shortest and longest round that is chosen by itself.
const (
	shortRound = 500 * time.Millisecond
	longRound  = 4 * time.Second
	wantBlocks = 10
	leastRound = 50 * time.Millisecond // below, the clock ticks of the kernel are what is seen
	maxRate    = 1e9                   // operations per second
)

// fill returns the options with every default in its place, for so many arms.
func (o Options) fill(arms int) Options {
	if o.Budget == 0 {
		o.Budget = 2 * time.Minute
	}
	if o.Warmup == 0 {
		o.Warmup = o.Budget / 12 / time.Duration(arms)
	}
	if o.Alpha == 0 {
		o.Alpha = 0.05
	}
	if o.Margin == 0 {
		o.Margin = 0.01
	}
	if o.Effect == 0 {
		o.Effect = 0.05
	}
	if o.Noise == 0 {
		o.Noise = 6
	}
	if o.Round == 0 {
		left := o.Budget - 2*o.Warmup*time.Duration(arms)
		blocks := time.Duration(arms * (wantBlocks + o.Noise))
		o.Round = min(max(left*9/10/blocks, shortRound), longRound).Round(100 * time.Millisecond)
	}
	return o
}

// check reports the first option that makes no sense, as a usage error.
func (o Options) check(arms int) error {
	var err error
	switch {
	case o.Budget < 0 || o.Round < 0 || o.Warmup < 0 || o.Rate < 0:
		err = fmt.Errorf("read options: budget, round, warm-up and rate cannot be negative")
	case !(o.Rate <= maxRate):
		err = fmt.Errorf("read options: a rate of %v per second, want 0 to %.0e", o.Rate, maxRate)
	case o.Round < leastRound:
		err = fmt.Errorf("read options: rounds of %s, want at least %s", o.Round, leastRound)
	case o.Major < 0:
		err = fmt.Errorf("read options: major version %d", o.Major)
	case o.Noise < 3:
		err = fmt.Errorf("read options: %d noise blocks, want at least 3", o.Noise)
	case o.MaxPairs != 0 && o.MaxPairs < stats.MinPairs:
		err = fmt.Errorf("read options: at most %d pairs, but a verdict needs %d", o.MaxPairs, stats.MinPairs)
	case o.needs(arms) > o.Budget:
		need := o.needs(arms)
		err = fail.Hint(fmt.Errorf("fit the trial into %s: %d arms with rounds of %s need at least %s for a verdict",
			o.Budget, arms, o.Round, need), "give it --budget %s", need)
	default:
		err = o.rule(stats.Higher, arms).Check()
	}
	return fail.With(err, fail.Usage)
}

// needs is the shortest budget with which a verdict can be reached, in whole
// seconds: the rounds, a tenth for what lies between them, and the warm-ups,
// which take a sixth of any budget unless they were given.
func (o Options) needs(arms int) time.Duration {
	need := time.Duration(arms*(stats.MinPairs+o.Noise)) * o.Round * 11 / 10
	if o.Warmup == o.Budget/12/time.Duration(arms) {
		need = need * 6 / 5
	} else {
		need += 2 * time.Duration(arms) * o.Warmup
	}
	return (need + time.Second - 1).Truncate(time.Second)
}

func (o Options) rule(better stats.Better, arms int) stats.Rule {
	return stats.Rule{Better: better, Alpha: o.Alpha, Arms: max(arms-1, 1), Margin: o.Margin, Matter: o.Effect}
}

// check reports what is wrong with an experiment, as a usage error.
func (e Experiment) check() error {
	err := func() error {
		if e.Workload == nil || len(e.Workload.Measures) == 0 {
			return fmt.Errorf("read experiment: no workload named")
		}
		if len(e.Arms) < 2 {
			return fmt.Errorf("read experiment: nothing to compare: %d arms, want the base and at least one more", len(e.Arms))
		}
		seen := map[string]bool{}
		for _, a := range e.Arms {
			if a.Name == "" || seen[a.Name] {
				return fmt.Errorf("read experiment: the arm name %q is empty or given twice", a.Name)
			}
			seen[a.Name] = true
			if a.Throttle < 0 || a.Throttle >= 1 {
				return fmt.Errorf("read experiment: arm %s is slowed by %v, want 0 to under 1", a.Name, a.Throttle)
			}
		}
		return nil
	}()
	return fail.With(err, fail.Usage)
}

// params fills in the defaults and checks each value.
func (e Experiment) params() (map[string]string, error) {
	out := map[string]string{}
	for _, p := range e.Workload.Params {
		v, given := e.Params[p.Name]
		if !given {
			v = p.Default
		}
		if given && p.Check != nil {
			if err := p.Check(v); err != nil {
				return nil, fail.With(fmt.Errorf("read parameter %s of %s: %w", p.Name, e.Workload.Name, err), fail.Usage)
			}
		}
		out[p.Name] = v
	}
	for name := range e.Params {
		if _, known := out[name]; !known {
			return nil, fail.With(fail.Hint(fmt.Errorf("read parameters of %s: there is no %q", e.Workload.Name, name),
				"it has: %s", e.Workload.paramNames()), fail.Usage)
		}
	}
	return out, nil
}

func (w *Workload) paramNames() string {
	s := ""
	for i, p := range w.Params {
		if i > 0 {
			s += ", "
		}
		s += p.Name
	}
	return s
}

// Base is the arm that nothing is changed in.
func Base() Arm { return Arm{Name: "base"} }

// ArmOf names an arm after its changes.
func ArmOf(changes ...change.Spec) Arm {
	a := Arm{Changes: changes}
	for i, c := range changes {
		if i > 0 {
			a.Name += " + "
		}
		a.Name += short(c)
	}
	return a
}
