package report

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/stats"
	"headroom/testkit"
	"headroom/trial"
	"headroom/unit"
)

func spec(id, object string, args ...string) change.Spec {
	s := change.Spec{ID: id, Object: object, Args: map[string]string{}}
	for i := 0; i < len(args); i += 2 {
		s.Args[args[i]] = args[i+1]
	}
	return s
}

type disk struct {
	Name       string            `json:"name" src:"/sys/block" doc:"name"`
	Size       int64             `json:"size" unit:"bytes" src:"/sys/block/*/size" doc:"capacity"`
	Rotational bool              `json:"rotational" src:"/sys/block/*/queue/rotational" doc:"a spinning disk"`
	Latency    fact.Opt[float64] `json:"latency" unit:"seconds" src:"measured" doc:"of one read"`
}

var (
	disks  = &fact.Source[[]disk]{Name: "block.devices", Doc: "block devices, by name"}
	load   = &fact.Source[float64]{Name: "proc.load", Doc: "load average"}
	broken = &fact.Source[int]{Name: "pg.server", Doc: "the server"}
)

func someFacts(t *testing.T) *fact.Set {
	t.Helper()
	raw := fmt.Sprintf(`{"block.devices": [{"name":"vda","size":268435456000,"rotational":true,"latency":0.000142},
		{"name":"sdb","size":4000787030016,"rotational":true,"latency":{"unknown":"measuring was refused"}}],
		"proc.load": 0.42, "pg.server": {"unknown":%q}}`, "connect to /run/postgresql: no such file or directory")
	return testkit.LoadStory(t, []byte(raw), []*check.Check{{Needs: []fact.Any{disks, load, broken}}})
}

func someFindings() check.Outcome {
	wal := spec("postgres.setting", "", "max_wal_size", "10GB")
	return check.Outcome{
		Findings: []check.Finding{
			{Check: "postgres.fsync-off", Subject: "server 15 at /run/postgresql:5432", Severity: check.Danger, Basis: check.ByRule,
				Summary:  "fsync is off: after a power failure the whole cluster may be beyond repair.",
				Evidence: []check.Cite{{Name: "fsync", Value: "off", Source: "pg_settings"}},
				Fixes:    []change.Spec{spec("postgres.setting", "", "fsync", "on")}},
			{Check: "postgres.checkpoints-requested", Subject: "server 15 at /run/postgresql:5432", Severity: check.Warning, Basis: check.Measured,
				Summary: "41 of 44 checkpoints (93 %) came because max_wal_size was full, one every 38 s; 71 % of the WAL is page images that rarer checkpoints would save.",
				Evidence: []check.Cite{{Name: "max_wal_size", Value: 1073741824.0, Unit: unit.Byte, Source: "pg_settings"},
					{Name: "checkpoints_req", Value: int64(41), Unit: unit.Count, Source: "pg_stat_bgwriter"},
					{Name: "checkpoints_timed", Value: int64(3), Unit: unit.Count, Source: "pg_stat_bgwriter"},
					{Name: "full-page images", Value: 0.71, Unit: unit.Ratio, Source: "pg_waldump"}},
				Fixes: []change.Spec{wal, spec("postgres.setting", "", "max_wal_size", "4GB")}, Try: &check.Try{Change: wal, Workload: "pg.upsert"}, Worth: 0.3},
			{Check: "disk.rotational-flag", Subject: "disk vda", Severity: check.Advice, Basis: check.Measured,
				Summary: "The kernel takes vda for a spinning disk, but it answers in 142 µs.", Hint: "A hypervisor often sets the flag wrongly.",
				Evidence: []check.Cite{{Name: "rotational", Value: true, Source: "/sys/block/vda/queue/rotational"}, {Name: "p50", Value: 142e-6, Unit: unit.Second, Source: "measured, 512 reads of 4 kB"}},
				Fixes:    []change.Spec{spec("disk.queue", "vda", "rotational", "0")}, Try: &check.Try{Change: spec("disk.queue", "vda", "rotational", "0"), Workload: "disk.randread"}, Worth: 0.1},
			{Check: "postgres.pg-stat-statements", Subject: "server 15 at /run/postgresql:5432", Severity: check.Note, Basis: check.ByRule,
				Summary: "pg_stat_statements is not loaded, so nobody can tell which statements cost the time."},
		},
		Quieted: []check.Finding{{Check: "disk.scheduler", Subject: "disk vda", Summary: "The scheduler mq-deadline is meant for spinning disks."}},
		NotChecked: []check.Unchecked{
			{Check: "disk.read-ahead", Subject: "disk sdb", Because: "measuring was refused"}, {Check: "postgres.checksums", Because: "permission denied for function pg_control_init; GRANT pg_monitor TO app"},
			{Check: "disk.write-cache", Subject: "disk sdb", Because: "measuring was refused"}},
		Fine: []string{"memory.thp", "memory.swappiness", "disk.nearly-full"},
	}
}

func somePlan() *change.Plan {
	rules := "# made by Headroom\nACTION==\"add|change\", KERNEL==\"vda\", ATTR{queue/rotational}=\"0\"\n"
	old := "# made by Headroom\nACTION==\"add|change\", KERNEL==\"vda\", ATTR{queue/rotational}=\"1\"\n"
	set := change.Setting{Values: map[string]string{"max_wal_size": "10GB"}}
	file := change.File{Path: "/etc/udev/rules.d/60-headroom.rules", Content: rules}
	fresh := change.File{Path: "/etc/sysctl.d/60-headroom.conf", Content: "vm.swappiness = 10\n"}
	value := change.Value{Path: "/sys/block/vda/queue/rotational", Value: "0"}
	same := change.Value{Path: "/proc/sys/vm/swappiness", Value: "10"}
	was := change.State{Present: true, Stored: map[string]string{}, Effective: map[string]string{"max_wal_size": "1GB"}}
	present := func(v string, mode uint32) change.State { return change.State{Present: true, Value: v, Mode: mode} }
	return &change.Plan{Format: "headroom-plan", Schema: 1, Made: testkit.Taken, Changes: []change.Planned{
		{Change: change.Change{Spec: spec("postgres.setting", "", "max_wal_size", "10GB"), Subject: "server 15 at /run/postgresql:5432", Why: "Rarer checkpoints write fewer full pages.",
			Risk: change.RiskMedium, RiskWhy: "up to 10 GB more in pg_wal, and a longer recovery after a crash"},
			Steps: []change.PlannedStep{{Step: set, Before: was, After: change.State{Present: true, Stored: map[string]string{"max_wal_size": "10GB"}, Effective: map[string]string{"max_wal_size": "10GB"}}, Undo: set.Undo(was)}}},
		{Change: change.Change{Spec: spec("disk.queue", "vda", "rotational", "0"), Subject: "disk vda", Why: "The disk answers like flash.", Risk: change.RiskLow, Confirm: 2 * time.Minute},
			Steps: []change.PlannedStep{
				{Step: value, Before: present("1", 0), After: present("0", 0), Undo: value.Undo(present("1", 0))},
				{Step: file, Before: present(old, 0o644), After: present(rules, 0o644), Undo: file.Undo(present(old, 0o644))},
				{Step: fresh, After: present("vm.swappiness = 10\n", 0o644), Undo: fresh.Undo(change.State{})},
				{Step: same, Before: present("10", 0), After: present("10", 0), Undo: same.Undo(present("10", 0))}}},
	}}
}

func someJournal() []change.Entry {
	p := somePlan()
	at := func(s int) time.Time { return testkit.Taken.Add(time.Duration(s) * time.Second) }
	return []change.Entry{
		{ID: "20261119-07a1", Phase: change.Reverted, Plan: p, At: at(-86400)},
		{ID: "20261120-8000", Phase: change.Awaiting, Plan: p, At: at(0), ConfirmBy: at(120), Records: []change.Record{
			{At: at(0), Type: "plan", Plan: p}, {N: 1, At: at(0), Type: "step-started"}, {N: 2, At: at(1), Type: "step-done"},
			{N: 3, At: at(1), Type: "step-started", Step: 1}, {N: 4, At: at(1), Type: "step-done", Step: 1}, {N: 5, At: at(2), Type: "applied", Note: "verified"}}},
		{ID: "20261120-8001", Phase: change.Unreadable, At: at(5), Damage: []string{"line 1: its checksum does not match"}},
	}
}

// someTrial is a run made of random but seeded rounds; everything said about
// them comes from package stats.
func someTrial(t *testing.T, workload string, factors map[string]float64, arms ...trial.Arm) *trial.Result {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 7))
	arms = append([]trial.Arm{trial.Base()}, arms...)
	m := trial.Measure{Name: "rate", Unit: unit.PerSecond, Higher: true, Noun: "upserts/s"}
	p99 := trial.Measure{Name: "p99", Unit: unit.Second, Noun: "99th percentile"}
	r := &trial.Result{Format: "headroom-trial", Schema: 1, Version: "v0.1.0", Name: arms[1].Name + " on " + workload, Workload: workload, Question: "Does it pay?",
		Params: map[string]string{"clients": "4"}, Measures: []trial.Measure{m, p99}, Where: "private servers, PostgreSQL 15.18", Started: testkit.Taken,
		Options: trial.Options{Budget: 2 * time.Minute, Round: 2 * time.Second, Alpha: 0.05, Margin: 0.01, Effect: 0.05, Seed: 7}, Took: 96, Ended: trial.Sure}
	rule := stats.Rule{Better: stats.Higher, Alpha: 0.05, Arms: len(arms) - 1, Margin: 0.01, Matter: 0.05}
	plan, err := rule.Plan(16)
	if err != nil {
		t.Fatal(err)
	}
	r.Plan = plan
	const blocks = 16
	at := 6.0
	for b := range blocks {
		for _, i := range rng.Perm(len(arms)) {
			factor := factors[arms[i].Name]
			if i == 0 {
				factor = 1
			}
			v := 12100 * factor * math.Exp(0.03*rng.NormFloat64())
			x := trial.RoundResult{Phase: trial.Measuring, Block: b, Arm: i, At: at, Seconds: 2.001, Done: int64(v * 2), Counts: true,
				Figures: map[string]float64{"rate": v, "p99": 48 / v}}
			if b == 3 && i == 0 {
				v *= 0.8
				x.Figures = map[string]float64{"rate": v, "p99": 60 / v}
				x.Counts, x.Marks = false, []trial.Mark{{Cause: trial.ByProcess, Text: "rsync (pid 812) used 0.9 of a core"}}
				r.Rounds = append(r.Rounds, x)
				x.Figures = map[string]float64{"rate": v / 0.8, "p99": 48 / v}
				x.Counts, x.Marks, x.Try = true, nil, 1
				at += 2
				x.At = at
			}
			r.Rounds = append(r.Rounds, x)
			at += 2
		}
	}
	conclude(t, r, arms)
	return r
}

func conclude(t *testing.T, r *trial.Result, arms []trial.Arm) {
	t.Helper()
	var err error
	for i, a := range arms {
		ar := trial.ArmResult{Arm: a, Figures: map[string]stats.Summary{}, Done: 380000,
			Latency: &trial.Latency{N: 380000, P50: 0.00021, P90: 0.0006, P99: 0.004 / float64(i+1), P999: 0.021 / float64(i+1), Max: 0.19}}
		for _, m := range r.Measures {
			if ar.Figures[m.Name], err = stats.Summarize(r.Counted(i, m.Name), 0.95); err != nil {
				t.Fatal(err)
			}
		}
		r.Arms = append(r.Arms, ar)
	}
	base := r.Counted(0, "rate")
	for i, a := range arms[1:] {
		var pairs []stats.Pair
		for k, v := range r.Counted(i+1, "rate") {
			pairs = append(pairs, stats.Pair{Base: base[k], Changed: v})
		}
		d, err := r.Plan.Decide(pairs)
		if err != nil {
			t.Fatal(err)
		}
		c, err := stats.Compare(pairs[:d.Pairs], 0.95)
		if err != nil {
			t.Fatal(err)
		}
		r.Versus = append(r.Versus, trial.Versus{Arm: a.Name, Decision: d, P: c.P, Taken: pairs,
			Others: []trial.Secondary{{Measure: "p99", Ratio: c.Ratio.Inverse(), P: c.P}}})
	}
	r.Noise = trial.NoiseFloor{Noise: stats.Noise{SD: 0.031, Upper: 0.044, N: 4}, From: "4 blocks of equal stands", Detectable: 0.052, Whole: stats.Noise{SD: 0.035, Upper: 0.043, N: 16},
		Needs: []trial.Need{{Effect: 0.05, Pairs: 18, Seconds: 140, Round: 2.8}, {Effect: 0.01}}}
	r.Warnings = []string{"max_wal_size=10GB: no checkpoint fell into its 32 s of work (base: 3); what its rarer checkpoints cost is not in these figures"}
}

func walTrial(t *testing.T) *trial.Result {
	t.Helper()
	arm := trial.ArmOf(spec("postgres.setting", "", "max_wal_size", "10GB"))
	r := someTrial(t, "pg.upsert", map[string]float64{arm.Name: 1.31}, arm)
	plan := somePlan()
	plan.Changes = plan.Changes[:1]
	raw, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	r.Arms[1].Plans = raw
	return r
}

func sweepTrial(t *testing.T) *trial.Result {
	t.Helper()
	arms, err := trial.Sweep("postgres.setting", "", "shared_buffers=16GB,256MB,1GB,4GB")
	if err != nil {
		t.Fatal(err)
	}
	return someTrial(t, "pg.upsert", map[string]float64{arms[0].Name: 1.18, arms[1].Name: 1.002, arms[2].Name: 1.12, arms[3].Name: 1.24}, arms...)
}

func emptyFacts() *fact.Set { return &fact.Set{Host: "h\x1b[0m<b>", Taken: testkit.Taken} }
