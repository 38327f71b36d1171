// Package lab holds ready-made experiments: a question that somebody once
// answered with figures, several ways to do the same work, and a run that does
// each way in turn, in random order, on private servers, checks that all of
// them did the same, and puts today's figures beside those of then.
//
// A trial (package trial) varies a machine's settings under one workload; its
// arms are changes that could be applied. A lab varies the way in which the
// work is done; its arms are code. The statistics are the same.
package lab

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"headroom/fail"
	"headroom/trial"
	"headroom/unit"
)

// Lab is one ready-made experiment. A topic declares it; nothing else needs to
// know it.
type Lab struct {
	Name     string // "bulk-load"; stable
	Title    string // one line
	Question string
	Doc      string // what is done, on what data, and how it is checked
	Source   string // where the question and the figures of then are from: "S19"
	Then     string // what the source's figures were measured on
	// Uses is trial.Server for labs on private servers; "" for those whose
	// arms make a place of their own.
	Uses trial.Uses
	// Measures lists what a turn yields; the first decides. The runner fills
	// in Seconds, Rate and WAL where they are listed; others come from
	// Turn.Figure.
	Measures []trial.Measure
	Params   []trial.Param
	Rounds   int           // that are run at most, unless asked otherwise; 0 is 8
	Budget   time.Duration // for measuring, unless asked otherwise; 0 is 2 min 45 s
	// New checks the parameters (all present, defaults filled in), sets right
	// those that others rule out, and returns
	// the experiment. Its error is a usage error that names the parameter. It
	// must not touch the machine: pages are made from it, too.
	New func(params map[string]string) (Experiment, error)
	// Say draws the lab's own conclusions, each a sentence; may be nil.
	Say func(r *Result) []string
}

// Measures that the runner can fill in by itself.
var (
	// Seconds is the time of the timed part.
	Seconds = trial.Measure{Name: "seconds", Unit: unit.Second, Noun: "time"}
	// WAL is the write-ahead log that the timed part wrote for each unit of work.
	WAL = trial.Measure{Name: "wal_per_op", Unit: unit.Byte, Noun: "write-ahead log per row"}
)

// Rate is the work done per second, which the noun names: "rows/s".
func Rate(noun string) trial.Measure {
	return trial.Measure{Name: "rate", Unit: unit.PerSecond, Higher: true, Noun: noun}
}

// Experiment is a lab with its parameters.
type Experiment struct {
	Size string // how large it is, and how large the source's was: one sentence
	Arms []Arm  // the first is the base that all others are compared with
	// Ceiling says that the first arm does none of the work, so that no other
	// can be better: which is the best is then no question.
	Ceiling bool
	// Claims are further comparisons between two arms.
	Claims []Claim
	// Settings are those of all private servers, on top of stock.
	Settings map[string]string
	// Disk is the most that the servers take on disk together, in bytes.
	Disk int64
	// Setup makes what all turns share, once on each stand; may be nil.
	Setup func(ctx context.Context, s *Stand, say func(string)) error
}

// Arm is one way to do the work.
type Arm struct {
	Name string // short, for tables
	Doc  string // one sentence
	// Settings of this arm's server, on top of the experiment's. Arms with the
	// same settings share a server.
	Settings map[string]string
	// Then is the source's figure of the first measure, in its base unit; 0 if
	// the source has none. As is that figure as the source wrote it.
	Then float64
	As   string
	// Run does the work once: what comes before Turn.Time is preparation.
	Run func(ctx context.Context, t *Turn) error
}

// Claim compares two arms of which none need be the base.
type Claim struct {
	Text string // "eight indexes"
	Arm  string // is compared with
	Over string // this one
	Then float64
}

// Gain is how many times as good a is as b: above 1 is better, whichever way
// the measure goes; 0 if one of them is 0.
func Gain(m trial.Measure, a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	if m.Higher {
		return a / b
	}
	return b / a
}

// Find returns the lab with a name. The error lists the names there are.
func Find(labs []*Lab, name string) (*Lab, error) {
	var names []string
	for _, l := range labs {
		if l.Name == name {
			return l, nil
		}
		names = append(names, l.Name)
	}
	return nil, fail.With(fail.Hint(fmt.Errorf("find lab %q: there is none of that name", name), "there are: %s", strings.Join(names, ", ")), fail.Usage)
}

// Plan makes the experiment with the given parameters; those left out take
// their defaults. It returns all parameters. Errors are usage errors.
func (l *Lab) Plan(given map[string]string) (Experiment, map[string]string, error) {
	all := map[string]string{}
	var names []string
	for _, p := range l.Params {
		v, ok := given[p.Name]
		if !ok {
			v = p.Default
		}
		if ok && p.Check != nil {
			if err := p.Check(v); err != nil {
				return Experiment{}, nil, fail.With(fmt.Errorf("read parameter %s of lab %s: %w", p.Name, l.Name, err), fail.Usage)
			}
		}
		all[p.Name] = v
		names = append(names, p.Name)
	}
	for name := range given {
		if _, ok := all[name]; !ok {
			return Experiment{}, nil, fail.With(fail.Hint(fmt.Errorf("read parameters of lab %s: there is no %q", l.Name, name), "it has: %s", strings.Join(names, ", ")), fail.Usage)
		}
	}
	e, err := l.New(all)
	if err != nil {
		return e, nil, fail.With(err, fail.Usage)
	}
	return e, all, fail.With(e.check(l), fail.Usage)
}

// check reports what is wrong with a declaration.
func (e Experiment) check(l *Lab) error {
	if len(l.Measures) == 0 || len(e.Arms) < 2 {
		return fmt.Errorf("read lab %s: %d measures and %d arms, want at least 1 and 2", l.Name, len(l.Measures), len(e.Arms))
	}
	var names []string
	for _, a := range e.Arms {
		if a.Name == "" || a.Run == nil || slices.Contains(names, a.Name) {
			return fmt.Errorf("read lab %s: arm %q has no name or no work, or is there twice", l.Name, a.Name)
		}
		names = append(names, a.Name)
	}
	for _, c := range e.Claims {
		if !slices.Contains(names, c.Arm) || !slices.Contains(names, c.Over) || c.Arm == c.Over {
			return fmt.Errorf("read lab %s: %q compares %q with %q, which are not two of its arms", l.Name, c.Text, c.Arm, c.Over)
		}
	}
	return nil
}
