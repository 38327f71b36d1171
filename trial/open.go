package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"headroom/fail"
)

// Stage is an experiment made ready: its stands are up, the data is there and
// the sessions are open. It can be run several times; the changes of its arms
// go into force in the first run and stay. Close it.
type Stage struct {
	exp   Experiment
	st    opened
	env   Env
	setup time.Duration
}

// opened is a stage on real stands.
type opened interface {
	stage
	close() error
}

// Open makes an experiment's stands ready: private servers with identical
// data, one for each arm; or one stand on which the arms take turns, where the
// workload needs none, where a change touches the machine itself, or on the
// user's own server. What is live needs Options.Live. On error nothing is left
// behind. The events are Preparing only.
func Open(ctx context.Context, exp Experiment, env Env, tell func(Event)) (*Stage, error) {
	if err := exp.check(); err != nil {
		return nil, err
	}
	params, err := exp.params()
	if err != nil {
		return nil, err
	}
	if err := exp.Options.fill(len(exp.Arms)).check(len(exp.Arms)); err != nil {
		return nil, err
	}
	work, err := exp.Workload.New(params)
	if err != nil {
		return nil, fail.With(err, fail.Usage)
	}
	for _, a := range exp.Arms {
		for _, c := range a.Changes {
			if _, err := env.recipe(c.ID); err != nil {
				return nil, err
			}
		}
	}
	if tell == nil {
		tell = func(Event) {}
	}
	start := time.Now()
	s := site{exp: exp, env: env, work: work, say: func(t string) { tell(Event{Phase: Preparing, Text: t}) }}
	st, err := s.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("prepare the trial: %w", err)
	}
	return &Stage{exp: exp, st: st, env: env, setup: time.Since(start)}, nil
}

// Run runs the experiment once with the given options; those that shape the
// stands (Live, Accept, With, Major) stay as they were at Open. arms picks a
// part of the arms by number, the first as base; none is all. After an
// interruption it returns the result so far and an error with status
// fail.Interrupted.
func (s *Stage) Run(ctx context.Context, o Options, tell func(Event), arms ...int) (*Result, error) {
	exp := s.exp
	o.Live, o.Accept, o.With, o.Major = exp.Options.Live, exp.Options.Accept, exp.Options.With, exp.Options.Major
	exp.Options = o
	if len(arms) == 0 {
		for i := range exp.Arms {
			arms = append(arms, i)
		}
	}
	exp.Arms = nil
	for _, a := range arms {
		if a < 0 || a >= len(s.exp.Arms) {
			return nil, fmt.Errorf("run trial: there is no arm %d", a)
		}
		exp.Arms = append(exp.Arms, s.exp.Arms[a])
	}
	r, err := newRun(exp, s.st, arms, tell)
	if err != nil {
		return nil, err
	}
	r.res.Version = s.env.Version
	r.res.Setup = s.setup.Seconds()
	return r.do(ctx)
}

// Close takes back what is still changed, stops what was started and removes
// what was made. It works after an interruption, too.
func (s *Stage) Close() error { return s.st.close() }

// Run opens a stage, runs the experiment on it and closes it. After an
// interruption it returns the result so far and an error with status
// fail.Interrupted.
func Run(ctx context.Context, exp Experiment, env Env, tell func(Event)) (*Result, error) {
	if tell == nil {
		tell = func(Event) {}
	}
	s, err := Open(ctx, exp, env, tell)
	if err != nil {
		if ctx.Err() != nil {
			err = fail.With(err, fail.Interrupted)
		}
		return nil, err
	}
	res, err := s.Run(ctx, exp.Options, tell)
	tell(Event{Phase: Closing})
	if cerr := s.Close(); cerr != nil {
		err = fail.With(errors.Join(err, cerr), fail.NotReverted)
	}
	return res, err
}
