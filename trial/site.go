package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"headroom/change"
	"headroom/crash"
	"headroom/fail"
	"headroom/host"
	"headroom/pglocal"
)

// site builds the stage that an experiment needs.
type site struct {
	exp  Experiment
	env  Env
	work Work
	say  func(string)
}

// found tells what a killed run left and what became of it.
func (s site) found(text string) { s.say(Found + text) }

func (s site) open(ctx context.Context) (opened, error) {
	o := s.exp.Options
	switch {
	case s.exp.Workload.Uses == Disk:
		return s.openDisk(ctx)
	case o.Live && s.env.Live != nil && s.env.Live.DSN != "":
		return s.openLive(ctx)
	}
	return s.openPrivate(ctx)
}

// openPrivate starts an origin server, fills it, and copies it for each arm.
// If an arm changes the machine itself, the origin is the one stand of all.
func (s site) openPrivate(ctx context.Context) (_ opened, err error) {
	o := s.exp.Options
	s.say("starting a private PostgreSQL server")
	origin, err := pglocal.Start(ctx, pglocal.Options{Major: o.Major, Settings: o.With, Parent: s.env.Parent, Name: "headroom trial", Fresh: s.env.Fresh, Progress: s.say, Found: s.found})
	if err != nil {
		return nil, err
	}
	stopOrigin := origin.Stop
	defer func() {
		if stopOrigin != nil {
			err = errors.Join(err, stopOrigin())
		}
	}()
	crash.At("trial.origin-started")
	h := origin.Host()
	defer func() {
		if stopOrigin != nil {
			h.Close()
		}
	}()
	turns, err := s.planAll(ctx, h)
	if err != nil {
		return nil, err
	}
	if o.Live && !turns {
		return nil, fail.With(fail.Hint(errors.New("try it live: no server is named, and nothing here changes the machine itself"),
			"name the server: --db DSN, or PG* variables; or leave out --live for private ones"), fail.Usage)
	}
	stands := len(s.exp.Arms)
	if turns {
		stands = 0
	}
	if err := s.room(h, origin.DataDir, stands); err != nil {
		return nil, err
	}
	if turns {
		if err := s.onDisk(ctx, h, origin.DataDir); err != nil {
			return nil, err
		}
	}
	first := &Stand{Name: "origin", Host: h, DSN: origin.DSN()}
	if err := s.work.Setup(ctx, first, s.say); err != nil {
		return nil, err
	}
	crash.At("trial.set-up")
	where := "private PostgreSQL " + origin.Version
	if turns {
		stopOrigin = nil
		return s.openTurns(ctx, first, where+", arms in turns", origin.PID, func() error { h.Close(); return origin.Stop() })
	}
	return s.openClones(ctx, origin, where)
}

// planAll plans every arm once on the first stand, so that what is wrong with
// a change is said before any work is done. It reports whether the arms have
// to take turns, because one changes the machine, and checks the consent.
func (s site) planAll(ctx context.Context, h host.Reader) (turns bool, err error) {
	for _, a := range s.exp.Arms {
		cs, err := s.env.changes(ctx, h, a)
		if err != nil {
			return false, err
		}
		for _, c := range cs {
			if !onMachine(c) {
				continue
			}
			turns = true
			if err := s.consent(c); err != nil {
				return false, err
			}
		}
		if len(cs) > 0 {
			if _, err := change.Prepare(ctx, h, cs...); err != nil {
				return false, err
			}
		}
	}
	return turns, nil
}

// consent checks that a change to something that is not private is allowed.
func (s site) consent(c change.Change) error {
	if !s.exp.Options.Live {
		return fail.With(fail.Hint(fmt.Errorf("try %s: it changes %s itself, not a private server", c.Spec, c.Subject),
			"with --live the arms take turns there and everything is put back afterwards"), fail.Usage)
	}
	if s.env.Refuse != nil {
		if err := s.env.Refuse(c); err != nil {
			return fmt.Errorf("try %s: %w", c.Spec, err)
		}
	}
	return nil
}

// openLive has the arms take turns on the user's own server.
func (s site) openLive(ctx context.Context) (opened, error) {
	live := s.env.Live
	for _, a := range s.exp.Arms {
		cs, err := s.env.changes(ctx, live.Host, a)
		if err != nil {
			return nil, err
		}
		for _, c := range cs {
			if err := s.consent(c); err != nil {
				return nil, err
			}
			if c.Restart && !slices.Contains(s.exp.Options.Accept, change.AcceptRestart) {
				return nil, fail.With(fail.Hint(fmt.Errorf("try %s: it restarts the live server at every turn, which cuts all connections", a.Name),
					"accept that with --accept restart"), fail.Usage)
			}
		}
	}
	if err := s.work.Setup(ctx, live, s.say); err != nil {
		return nil, errors.Join(err, s.teardown(live))
	}
	pid := func() int { return 0 }
	if l, ok := live.Host.(*host.Local); ok {
		pid = func() int {
			run, err := l.PGRunning(context.WithoutCancel(ctx))
			if err != nil {
				return 0
			}
			return run.PID
		}
	}
	return s.openTurns(ctx, live, "the live server, arms in turns", pid, func() error { return s.teardown(live) })
}

// openDisk has the arms take turns on a scratch folder.
func (s site) openDisk(ctx context.Context) (opened, error) {
	var live Stand
	if s.env.Live != nil {
		live = *s.env.Live
	}
	if live.Host == nil {
		live.Host = host.Open(host.Options{})
	}
	if _, err := s.planAll(ctx, live.Host); err != nil {
		return nil, fail.Hint(err, "%s works on files, without a private server: a server's settings show on one of the pg. workloads", s.exp.Workload.Name)
	}
	dir, remove, err := Scratch(live.Dir, s.env.Dirs, s.found)
	if err != nil {
		return nil, err
	}
	if err := s.onDisk(ctx, live.Host, dir); err != nil {
		return nil, errors.Join(err, remove())
	}
	stand := &Stand{Name: "scratch", Host: live.Host, Dir: dir, Live: true}
	if err := s.work.Setup(ctx, stand, s.say); err != nil {
		return nil, errors.Join(err, remove())
	}
	return s.openTurns(ctx, stand, "a scratch folder in "+dir+", arms in turns", func() int { return 0 },
		func() error { return errors.Join(s.teardown(stand), remove()) })
}

// teardown works whatever became of the run's context.
func (s site) teardown(stand *Stand) error {
	ctx, stop := context.WithTimeout(context.Background(), teardownLimit)
	defer stop()
	return s.work.Teardown(ctx, stand)
}
