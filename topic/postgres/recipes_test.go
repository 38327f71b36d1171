package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/fail"
	"headroom/host"
	"headroom/pglocal"
	"headroom/probe/pg"
	"headroom/testkit/need"
)

func private(t *testing.T, settings map[string]string) *pglocal.Server {
	t.Helper()
	need.Have(t, "pg")
	s, err := pglocal.Start(t.Context(), pglocal.Options{Settings: settings, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func run(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, s := range statements {
		if _, err := c.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func machine(t *testing.T, s *pglocal.Server) *host.Local {
	l := s.Host()
	t.Cleanup(l.Close)
	return l
}

// prepare plans a change as the command line does: facts, recipe, engine.
func prepare(t *testing.T, r host.Reader, words ...string) (*change.Plan, error) {
	t.Helper()
	spec, err := change.ParseSpec(words...)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range Topic.Recipes {
		if rec.ID != spec.ID {
			continue
		}
		set, err := fact.Gather(t.Context(), r, fact.Options{}, rec.Needs...)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range rec.Needs {
			if why := set.Why(n); why != "" {
				t.Fatalf("%s: %s", n.Key(), why)
			}
		}
		c, err := rec.Plan(set, spec)
		if err != nil {
			return nil, err
		}
		return change.Prepare(t.Context(), r, c)
	}
	t.Fatalf("no recipe %s", spec.ID)
	return nil, nil
}

func TestSettingRefusals(t *testing.T) {
	l := machine(t, private(t, nil))
	f := func(words, want, hint string) {
		t.Helper()
		_, err := prepare(t, l, words)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(fail.HintOf(err), hint) {
			t.Errorf("%s:\n error %v\n hint  %s", words, err, fail.HintOf(err))
		}
		if fail.Code(err) != fail.Usage {
			t.Errorf("%s: exit status %d, want %d", words, fail.Code(err), fail.Usage)
		}
	}
	f("postgres.setting max_wal_sise=10GB", `unrecognized configuration parameter "max_wal_sise"`, "did you mean max_wal_size?")
	f("postgres.setting xyzzy.plugh_frotz_rezrov=1", "unrecognized configuration parameter", "pg_settings")
	f("postgres.setting block_size=16kB", `parameter "block_size" cannot be changed`, "")
	f("postgres.setting work_mem=1kB", `is outside the valid range for parameter "work_mem" (64kB .. `, "")
	f("postgres.setting work_mem=12parsecs", `invalid value for parameter "work_mem"`, "")
	f("postgres.setting wal_level=loud", "available values: minimal, replica, logical", "")
	f("postgres.setting fsync=perhaps", `parameter "fsync" requires a Boolean value`, "")
	f("postgres.setting", "takes name=value", "max_wal_size=10GB")
	f("postgres.setting server work_mem=8MB", "takes name=value", "")
	f("postgres.extension", "takes one NAME", "")
	f("postgres.extension no_such_thing", `extension "no_such_thing" is not on the server's disk`, "package")
}

func TestSettingPlans(t *testing.T) {
	l := machine(t, private(t, nil))
	f := func(words string, risk change.Risk, restart, nothing bool, why string) {
		t.Helper()
		p, err := prepare(t, l, words)
		if err != nil {
			t.Errorf("%s: %v", words, err)
			return
		}
		c := p.Changes[0].Change
		if c.Risk != risk || p.Restarts() != restart || p.Nothing() != nothing || !strings.Contains(c.RiskWhy, why) {
			t.Errorf("%s: risk %s (%s), restart %v, nothing %v", words, c.Risk, c.RiskWhy, p.Restarts(), p.Nothing())
		}
	}
	f("postgres.setting max_wal_size=2GB", change.RiskMedium, false, false, "are free there")
	f("postgres.setting max_wal_size=900TB", change.RiskHigh, false, false, "the server stops")
	f("postgres.setting max_wal_size=1024MB", change.RiskMedium, false, true, "")
	f("postgres.setting fsync=off", change.RiskHigh, false, false, "power loss")
	f("postgres.setting fsync=on", change.RiskLow, false, true, "")
	f("postgres.setting SHARED_BUFFERS=256MB work_mem=8MB", change.RiskMedium, true, false, "work_mem")
	f("postgres.setting DateStyle='ISO, DMY'", change.RiskLow, false, false, "")
	f("postgres.setting log_lock_waits=on log_min_duration_statement=1s", change.RiskLow, false, false, "")
}

func TestExtensionIsAppliedAndReverted(t *testing.T) {
	s := private(t, map[string]string{"shared_preload_libraries": "auto_explain"})
	l := machine(t, s)
	p, err := prepare(t, l, "postgres.extension pg_stat_statements")
	if err != nil {
		t.Fatal(err)
	}
	if !p.Restarts() || len(p.Steps()) != 2 {
		t.Fatalf("plan: restarts %v, %d steps", p.Restarts(), len(p.Steps()))
	}

	for _, step := range p.Steps() {
		if err := step.Step.Apply(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	set, err := fact.Gather(t.Context(), l, fact.Options{}, Topic.Facts...)
	if err != nil {
		t.Fatal(err)
	}
	if o := check.Run(set, []*check.Check{statementStatistics}); len(o.Fine) != 1 {
		t.Errorf("after applying: %+v", o)
	}
	steps := p.Steps()
	for i := len(steps) - 1; i >= 0; i-- {
		if err := steps[i].Undo.Apply(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		now, err := steps[i].Undo.Read(t.Context(), l)
		if err != nil || !now.Same(steps[i].Before) {
			t.Errorf("after the undo of %s: %+v, want %+v (%v)", steps[i].Step.Object(), now, steps[i].Before, err)
		}
	}
}

func TestStandbyAndPoolerRefusals(t *testing.T) {
	s := private(t, nil)
	sb, err := s.Standby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Stop()
	l := sb.Host()
	defer l.Close()
	if _, err := prepare(t, l, "postgres.setting max_connections=50"); err == nil || !strings.Contains(err.Error(), "does not start with less than its primary") {
		t.Errorf("fewer connections on a standby: %v", err)
	}
	if _, err := prepare(t, l, "postgres.extension pg_stat_statements"); err == nil || fail.HintOf(err) != "do it on its primary" {
		t.Errorf("an extension on a standby: %v", err)
	}
	p, err := prepare(t, l, "postgres.setting work_mem=8MB")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Steps()[0].Step.Apply(t.Context(), l); err != nil {
		t.Errorf("a setting on a standby: %v", err)
	}

	set, err := fact.Gather(t.Context(), l, fact.Options{}, settingRecipe.Needs...)
	if err != nil {
		t.Fatal(err)
	}
	srv := fact.Get(set, pg.Servers)
	srv.Pooled = true
	_, err = settingRecipe.Plan(fact.Put(set, pg.Servers, srv), change.Spec{ID: settingID, Args: map[string]string{"work_mem": "8MB"}})
	if err == nil || !strings.Contains(err.Error(), "pooler") || fail.HintOf(err) == "" {
		t.Errorf("through a pooler: %v", err)
	}
}

func TestLogFullIsFoundOnARealServer(t *testing.T) {
	s := private(t, map[string]string{"max_wal_size": "64MB", "min_wal_size": "32MB"})
	run(t, s.DSN(), "create table t (k int primary key, doc text) with (fillfactor = 70)",
		"insert into t select g, repeat('x', 200) from generate_series(1, 100000) g")
	for range 4 {
		run(t, s.DSN(), "update t set doc = repeat('y', 200)")
	}
	l := machine(t, s)
	var o check.Outcome
	need.Eventually(t, 30*time.Second, "checkpoints by request are counted and found", func() bool {
		set, err := fact.Gather(t.Context(), l, fact.Options{}, append(Topic.Facts, maxWALSize.Needs...)...)
		if err != nil {
			t.Fatal(err)
		}
		o = check.Run(set, []*check.Check{maxWALSize, walCompression})
		return len(o.Findings) > 0
	})
	f := o.Findings[0]
	if f.Check != "postgres.max-wal-size" || f.Basis != check.Measured || len(f.Fixes) != 1 || f.Try == nil || f.Try.Workload != "pg.upsert" {
		t.Fatalf("finding: %+v", f)
	}
	// What is proposed must be something that the recipe takes.
	if _, err := prepare(t, l, f.Fixes[0].String()); err != nil {
		t.Errorf("%s: %v", f.Fixes[0], err)
	}
}

// What is set for our role is not what the server has: neither is it found
// fault with, nor does it stand for the server's.
func TestSettingsOfOurRoleAreNotJudged(t *testing.T) {
	s := private(t, nil)
	run(t, s.DSN(), "alter role postgres set synchronous_commit = off", "create role looker login", "grant pg_monitor to looker", "alter role looker set synchronous_commit = off")
	f := func(dsn string) check.Outcome {
		l := host.Open(host.Options{DSN: dsn, WithPG: true})
		defer l.Close()
		set, err := fact.Gather(t.Context(), l, fact.Options{}, synchronousCommit.Needs...)
		if err != nil {
			t.Fatal(err)
		}
		return check.Run(set, []*check.Check{synchronousCommit})
	}
	if o := f(s.DSN()); len(o.Findings) > 0 || len(o.NotChecked) > 0 {
		t.Errorf("found %+v, not checked %+v", o.Findings, o.NotChecked)
	}
	if o := f(strings.Replace(s.DSN(), "user=postgres", "user=looker", 1)); len(o.Findings) > 0 || len(o.NotChecked) != 1 {
		t.Errorf("as looker: found %+v, not checked %+v", o.Findings, o.NotChecked)
	}
	run(t, s.DSN(), "alter role postgres set synchronous_commit = on", "alter system set synchronous_commit = off", "select pg_reload_conf()")
	need.Eventually(t, 10*time.Second, "the server's own value is found", func() bool { return len(f(s.DSN()).Findings) == 1 })
}
