// Package tiny is a small workload and two recipes for the tests of trials on
// real servers.
package tiny

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"headroom/change"
	"headroom/engine/loop"
	"headroom/engine/pgwire"
	"headroom/fact"
	"headroom/trial"
	"headroom/unit"
)

// Commits updates one row per transaction on one connection. The figure
// "shown" is the value of the setting named by the parameter show.
var Commits = &trial.Workload{
	Name: "tiny.commits", Uses: trial.Server,
	Params:   []trial.Param{{Name: "show", Default: "max_connections"}},
	Measures: []trial.Measure{{Name: "rate", Unit: unit.PerSecond, Higher: true, Noun: "commits/s"}},
	New:      func(p map[string]string) (trial.Work, error) { return work{p["show"]}, nil },
}

type work struct{ show string }

func exec(ctx context.Context, dsn string, sql ...string) error {
	c, err := pgwire.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	for _, s := range sql {
		if _, err := c.Exec(ctx, s); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", s, err), c.Close())
		}
	}
	return c.Close()
}

func (w work) Setup(ctx context.Context, s *trial.Stand, say func(string)) error {
	say("filling tiny.t")
	return exec(ctx, s.DSN, "drop schema if exists tiny cascade", "create schema tiny", "create table tiny.t (k int primary key, v int)",
		"insert into tiny.t select k, 0 from generate_series(0, 99) k")
}

func (w work) Teardown(ctx context.Context, s *trial.Stand) error {
	return exec(ctx, s.DSN, "drop schema if exists tiny cascade")
}

func (w work) Open(ctx context.Context, s *trial.Stand) (trial.Session, error) {
	c, err := pgwire.Connect(ctx, s.DSN)
	if err != nil {
		return nil, err
	}
	return session{w, c}, nil
}

type session struct {
	work
	*pgwire.Conn
}

func (s session) Run(ctx context.Context, d time.Duration, o trial.RoundOptions) (trial.Round, error) {
	defer s.Watch(ctx)()
	shown := 0.0
	s.Query("select setting from pg_settings where name = '" + s.show + "'")
	_, err := s.Do(&pgwire.Handler{Row: func(_ int, v [][]byte) (err error) {
		shown, err = strconv.ParseFloat(string(v[0]), 64)
		return err
	}})
	if err != nil {
		return trial.Round{}, err
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	r, err := loop.Run(ctx, loop.Options{Clients: 1, Duration: d, Rate: o.Rate, Throttle: o.Throttle}, func(context.Context, int) (int, error) {
		s.Query(fmt.Sprintf("update tiny.t set v = v + 1 where k = %d", rng.IntN(100)))
		_, err := s.Do(nil)
		return 1, err
	})
	if err != nil {
		return trial.Round{}, err
	}
	return trial.Round{Seconds: r.Seconds, Done: r.Done, Failed: r.Failed, Skipped: r.Skipped, Latency: r.Latency,
		Figures: map[string]float64{"rate": r.Rate(), "shown": shown}}, nil
}

// Recipes are "tiny.setting NAME=VALUE…" (restart=yes restarts the server) and
// "tiny.file PATH content=TEXT".
var Recipes = []*change.Recipe{
	{ID: "tiny.setting", Plan: func(_ *fact.Set, s change.Spec) (change.Change, error) {
		values := map[string]string{}
		for n, v := range s.Args {
			if n != "restart" {
				values[n] = v
			}
		}
		restart := s.Args["restart"] == "yes"
		return change.Change{Spec: s, Subject: "the server", Restart: restart, Steps: change.Steps{change.Setting{Values: values, Restart: restart}}}, nil
	}},
	{ID: "tiny.file", Plan: func(_ *fact.Set, s change.Spec) (change.Change, error) {
		return change.Change{Spec: s, Subject: s.Object, Steps: change.Steps{change.File{Path: s.Object, Content: s.Args["content"]}}}, nil
	}},
}

// Arm is an arm with one change.
func Arm(id, object string, args ...string) trial.Arm {
	s := change.Spec{ID: id, Object: object, Args: map[string]string{}}
	for i := 0; i+1 < len(args); i += 2 {
		s.Args[args[i]] = args[i+1]
	}
	return trial.ArmOf(s)
}

// Quick is a trial that takes a few seconds.
func Quick(arms ...trial.Arm) trial.Experiment {
	return trial.Experiment{Name: "quick", Workload: Commits, Arms: append([]trial.Arm{trial.Base()}, arms...),
		Options: trial.Options{Budget: 6 * time.Second, Round: 100 * time.Millisecond, Warmup: 200 * time.Millisecond, Noise: 3, Seed: 7, MaxPairs: 12, Rerun: -1}}
}

// Idle works on a scratch folder, at nothing much.
var Idle = &trial.Workload{
	Name: "tiny.idle", Uses: trial.Disk,
	Measures: []trial.Measure{{Name: "rate", Unit: unit.PerSecond, Higher: true, Noun: "naps/s"}},
	New:      func(map[string]string) (trial.Work, error) { return idle{}, nil },
}

type idle struct{}

func (idle) Setup(_ context.Context, s *trial.Stand, _ func(string)) error {
	return os.WriteFile(filepath.Join(s.Dir, "data"), make([]byte, 1<<16), 0o600)
}

func (idle) Teardown(_ context.Context, s *trial.Stand) error {
	return os.Remove(filepath.Join(s.Dir, "data"))
}

func (idle) Open(context.Context, *trial.Stand) (trial.Session, error) { return idle{}, nil }
func (idle) Close() error                                              { return nil }

func (idle) Run(ctx context.Context, d time.Duration, _ trial.RoundOptions) (trial.Round, error) {
	n := int64(0)
	start := time.Now()
	for ; time.Since(start) < d && ctx.Err() == nil; n++ {
		time.Sleep(time.Millisecond)
	}
	secs := time.Since(start).Seconds()
	return trial.Round{Seconds: secs, Done: n, Figures: map[string]float64{"rate": float64(n) / secs}}, ctx.Err()
}
