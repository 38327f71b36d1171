package trial_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/change"
	"headroom/fail"
	"headroom/host"
	"headroom/pglocal"
	"headroom/stats"
	"headroom/testkit/need"
	"headroom/trial"
	"headroom/trial/testdata/tiny"
)

// env is a place for one test's servers, journal and scratch files.
func env(t *testing.T) trial.Env {
	t.Helper()
	need.Have(t, "pg")
	dir, err := os.MkdirTemp("", "hr-trial-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return trial.Env{Recipes: tiny.Recipes, Parent: filepath.Join(dir, "pg"), Version: "test",
		Dirs: host.Dirs{State: filepath.Join(dir, "state"), Run: filepath.Join(dir, "run"), Cache: filepath.Join(dir, "cache")}}
}

// nothingLeft checks that no server's folder is left.
func nothingLeft(t *testing.T, e trial.Env) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(e.Parent, "pg-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// slowCommits makes every commit that waits for its flush take 10 ms more, so
// that synchronous_commit=off is faster on any machine, however busy.
var slowCommits = map[string]string{"commit_delay": "10000", "commit_siblings": "0"}

func TestPrivateServersFindARealEffect(t *testing.T) {
	e := env(t)
	exp := tiny.Quick(tiny.Arm("tiny.setting", "", "synchronous_commit", "off"))
	exp.Options.With = slowCommits
	var phases []trial.Phase
	r, err := trial.Run(t.Context(), exp, e, func(ev trial.Event) {
		if len(phases) == 0 || phases[len(phases)-1] != ev.Phase {
			phases = append(phases, ev.Phase)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	v := r.Versus[0]
	if v.Verdict != stats.Faster || v.Arm != "synchronous_commit=off" || r.Noise.SD <= 0 {
		t.Errorf("%s %+v, noise %+v", v.Verdict, v.Ratio, r.Noise)
	}
	want := []trial.Phase{trial.Preparing, trial.Warming, trial.Noise, trial.Changing, trial.Warming, trial.Measuring, trial.Closing}
	if len(phases) != len(want) {
		t.Errorf("phases %v, want %v", phases, want)
	}
	base, arm := r.Arms[0], r.Arms[1]
	if base.Latency == nil || arm.Latency.P50 >= base.Latency.P50 || base.WALPerOp < 30 || len(base.Plans) != 0 {
		t.Errorf("base %+v, arm %+v", base, arm)
	}
	plan, err := change.LoadPlan(bytes.NewReader(arm.Plans))
	if err != nil || plan.Nothing() {
		t.Errorf("the plan kept with the result: %v", err)
	}
	roundTrip(t, r)
	nothingLeft(t, e)
}

// roundTrip saves and loads a result, and checks that nothing is lost.
func roundTrip(t *testing.T, r *trial.Result) {
	t.Helper()
	var a, b bytes.Buffer
	if err := r.Save(&a); err != nil {
		t.Fatal(err)
	}
	first := a.String()
	back, err := trial.Load(&a)
	if err != nil {
		t.Fatal(err)
	}
	if err := back.Save(&b); err != nil || b.String() != first {
		t.Errorf("another result after loading: %v", err)
	}
}

// The other arm's server is restarted with its setting and the base's is not;
// then the same stage runs once more, with the changes in force.
func TestRestartedArmAndASecondRun(t *testing.T) {
	e := env(t)
	exp := tiny.Quick(tiny.Arm("tiny.setting", "", "max_connections", "57", "restart", "yes"))
	exp.Options.With = map[string]string{"max_connections": "31"}
	exp.Options.MaxPairs = 6
	s, err := trial.Open(t.Context(), exp, e, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		r, err := s.Run(t.Context(), exp.Options, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range r.Rounds {
			want := 31.0
			if x.Arm == 1 && (n == 1 || x.Phase == trial.Measuring) {
				want = 57
			}
			if x.Arm == 1 && x.Phase == trial.Warming && n == 0 {
				continue // before and after the change
			}
			if x.Figures["shown"] != want {
				t.Fatalf("run %d, %s: arm %d worked with %v", n, x.Phase, x.Arm, x.Figures["shown"])
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	nothingLeft(t, e)
}

func setting(t *testing.T, h *host.Local, name string) (v string) {
	t.Helper()
	err := h.PG(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, "select current_setting($1)", name).Scan(&v)
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// liveEnv has a server that stands for the user's own.
func liveEnv(t *testing.T) (trial.Env, *host.Local) {
	e := env(t)
	sv, err := pglocal.Start(t.Context(), pglocal.Options{Parent: e.Parent, Name: "live", Settings: slowCommits})
	if err != nil {
		t.Fatal(err)
	}
	h := sv.Host()
	t.Cleanup(func() {
		h.Close()
		if err := sv.Stop(); err != nil {
			t.Error(err)
		}
	})
	e.Live = &trial.Stand{Name: "live", Host: h, DSN: sv.DSN(), Live: true}
	return e, h
}

func TestArmsTakeTurnsOnALiveServer(t *testing.T) {
	e, h := liveEnv(t)
	exp := tiny.Quick(tiny.Arm("tiny.setting", "", "work_mem", "9MB", "synchronous_commit", "off"))
	exp.Options.Live, exp.Options.Budget = true, 20*time.Second
	exp.Params = map[string]string{"show": "work_mem"}
	r, err := trial.Run(t.Context(), exp, e, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Versus[0].Verdict != stats.Faster || !strings.Contains(r.Where, "live server") {
		t.Errorf("%s on %s", r.Versus[0].Verdict, r.Where)
	}
	for _, x := range r.Rounds {
		want := map[int]float64{0: 4096, 1: 9 * 1024}[x.Arm]
		if x.Figures["shown"] != want {
			t.Fatalf("%s: arm %d worked with work_mem = %v kB", x.Phase, x.Arm, x.Figures["shown"])
		}
	}
	if got := setting(t, h, "work_mem"); got != "4MB" {
		t.Errorf("work_mem is left at %s", got)
	}
	var tables int
	if err := h.PG(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, "select count(*) from pg_namespace where nspname = 'tiny'").Scan(&tables)
	}); err != nil || tables != 0 {
		t.Errorf("the workload's tables are left: %v", err)
	}
	todo, err := change.Pending(change.OpenJournal(e.Dirs))
	if err != nil || len(todo) != 0 {
		t.Errorf("the journal has open ends: %+v, %v", todo, err)
	}
}

func TestLiveNeedsItsConsents(t *testing.T) {
	e, h := liveEnv(t)
	restart := tiny.Quick(tiny.Arm("tiny.setting", "", "max_connections", "57", "restart", "yes"))
	restart.Options.Live = true
	if _, err := trial.Run(t.Context(), restart, e, nil); fail.Code(err) != fail.Usage || !strings.Contains(fail.HintOf(err), "--accept restart") {
		t.Errorf("a restart without consent: %v (%s)", err, fail.HintOf(err))
	}
	e.Refuse = func(c change.Change) error { return errors.New(c.Subject + " is protected") }
	if _, err := trial.Run(t.Context(), restart, e, nil); err == nil || !strings.Contains(err.Error(), "protected") {
		t.Errorf("a protected target: %v", err)
	}
	nameless := tiny.Quick(tiny.Arm("tiny.setting", "", "work_mem", "9MB"))
	nameless.Options.Live = true
	if _, err := trial.Run(t.Context(), nameless, env(t), nil); fail.Code(err) != fail.Usage || !strings.Contains(fail.HintOf(err), "--db") {
		t.Errorf("live, and no server named: %v (%s)", err, fail.HintOf(err))
	}
	if got := setting(t, h, "max_connections"); got != "100" {
		t.Errorf("max_connections is %s", got)
	}
}

// A change of the machine itself cannot be tried on private servers side by
// side: the arms take turns, and only with consent.
func TestMachineChangesTakeTurns(t *testing.T) {
	e := env(t)
	path := filepath.Join(t.TempDir(), "knob")
	exp := tiny.Quick(tiny.Arm("tiny.file", path, "content", "on"))
	if _, err := trial.Run(t.Context(), exp, e, nil); fail.Code(err) != fail.Usage || !strings.Contains(fail.HintOf(err), "--live") {
		t.Errorf("without consent: %v", err)
	}
	exp.Options.Live, exp.Options.Budget = true, 15*time.Second
	seen := false
	r, err := trial.Run(t.Context(), exp, e, func(ev trial.Event) {
		_, err := os.Stat(path)
		if ev.Phase == trial.Measuring && (err == nil) != (ev.Arm != "base") {
			t.Errorf("arm %s: %v", ev.Arm, err)
		}
		seen = seen || err == nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) || !seen {
		t.Errorf("the file is left, or was never there: %v", err)
	}
	if v := r.Versus[0].Verdict; v == stats.Faster || v == stats.Slower {
		t.Logf("an idle file made a difference: %+v", r.Versus[0].Ratio)
	}
	nothingLeft(t, e)
}

func TestRefusesWhatDoesNotFit(t *testing.T) {
	e := env(t)
	for _, c := range []struct{ name, value, want string }{
		{"shared_buffers", "400GB", "memory"}, {"max_wal_size", "900TB", "data and WAL"},
	} {
		exp := tiny.Quick(tiny.Arm("tiny.setting", "", c.name, c.value))
		if c.name == "max_wal_size" {
			exp = tiny.Quick(tiny.Arm("tiny.setting", "", c.name, "2097151GB"))
		}
		_, err := trial.Run(t.Context(), exp, e, nil)
		if err == nil || fail.HintOf(err) == "" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v (%s)", c.name, err, fail.HintOf(err))
		}
	}
	for _, exp := range []trial.Experiment{
		tiny.Quick(tiny.Arm("no.such", "")), tiny.Quick(tiny.Arm("tiny.setting", "", "no_such_setting", "1")),
		tiny.Quick(tiny.Arm("tiny.setting", "", "work_mem", "lots")),
	} {
		if _, err := trial.Run(t.Context(), exp, e, nil); err == nil {
			t.Errorf("%s is taken", exp.Arms[1].Name)
		}
	}
	nothingLeft(t, e)
}

// Wherever an interruption falls, nothing is left.
func TestInterruptLeavesNothing(t *testing.T) {
	e := env(t)
	for _, phase := range []trial.Phase{trial.Preparing, trial.Warming, trial.Noise, trial.Changing, trial.Measuring} {
		ctx, stop := context.WithCancelCause(t.Context())
		r, err := trial.Run(ctx, tiny.Quick(tiny.Arm("tiny.setting", "", "work_mem", "8MB")), e, func(ev trial.Event) {
			if ev.Phase == phase {
				stop(errors.New("told to stop"))
			}
		})
		if fail.Code(err) != fail.Interrupted {
			t.Errorf("in %s: %v, status %d", phase, err, fail.Code(err))
		}
		if (r != nil) != (phase != trial.Preparing) || r != nil && r.Ended != trial.Interrupted {
			t.Errorf("in %s: result %v", phase, r != nil)
		}
		nothingLeft(t, e)
	}
}
