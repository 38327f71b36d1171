package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/stats"
	"headroom/testkit"
	"headroom/topic"
	"headroom/trial"
	"headroom/unit"
)

func render(t *testing.T, f Format, s ...Section) string {
	t.Helper()
	var b bytes.Buffer
	if err := Render(&b, f, Terminal{Width: 100, UTF8: true}, "", s...); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestSettingIsToldInOneLine(t *testing.T) {
	for name, c := range map[string]struct {
		rows []change.Row
		want string
	}{
		"set":           {[]change.Row{{Name: "x (in force)", Now: "1GB", After: "10GB"}, {Name: "x (postgresql.auto.conf)", Now: "(not set)", After: "10GB"}}, "x: 1GB → 10GB"},
		"reset":         {[]change.Row{{Name: "x (in force)", Now: "10GB", After: "1GB"}, {Name: "x (postgresql.auto.conf)", Now: "10GB", After: "(not set)"}}, "x: 10GB → 1GB"},
		"pending":       {[]change.Row{{Name: "x (postgresql.auto.conf)", Now: "(not set)", After: "1GB"}}, "x: (not set) → 1GB in postgresql.auto.conf"},
		"stored before": {[]change.Row{{Name: "x (in force)", Now: "1GB", After: "10GB"}, {Name: "x (postgresql.auto.conf)", Now: "2GB", After: "10GB"}}, "x: 1GB → 10GB; in postgresql.auto.conf 2GB → 10GB"},
		"in force only": {[]change.Row{{Name: "x (in force)", Now: "1GB", After: "10GB"}}, "x: 1GB → 10GB"},
		"value":         {[]change.Row{{Name: "/sys/x", Now: "1", After: "0"}}, "/sys/x: 1 → 0"},
	} {
		got := shownRows(c.rows)
		if len(got) != 1 || got[0].Label+": "+got[0].Text != c.want {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}

func TestPlanWithNothingToDo(t *testing.T) {
	p := somePlan()
	p.Changes = p.Changes[1:]
	p.Changes[0].Steps = p.Changes[0].Steps[3:]
	if got := render(t, Text, Plan(p, "x")); !strings.Contains(got, "Nothing to do: all is already so.") || strings.Contains(got, "headroom apply") {
		t.Error(got)
	}
}

func TestPlanThatRestarts(t *testing.T) {
	p := somePlan()
	s := &p.Changes[0].Steps[0]
	s.Step = change.Setting{Values: map[string]string{"max_wal_size": "10GB"}, Restart: true}
	got := render(t, Text, Plan(p, "my plan"))
	for _, want := range []string{"The server is restarted: every connection is cut.", "headroom apply 'my plan' --accept restart\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}

func TestNoFindingsAndEmptyJournal(t *testing.T) {
	o := check.Run(emptyFacts(), nil)
	o.Fine = []string{"a.b"}
	if got := render(t, Text, Findings(o, emptyFacts())); !strings.HasPrefix(got, "No findings; 1 check fine, 0 could not tell\n") {
		t.Error(got)
	}
	if got := render(t, Text, Journal(nil)); !strings.Contains(got, "the journal is empty") {
		t.Error(got)
	}
}

func TestTopFindingsKeepTheBest(t *testing.T) {
	o := someFindings()
	got := render(t, Text, TopFindings(o, someFacts(t), 1, o.Findings[2]))
	for want, there := range map[string]bool{"fsync is off": true, "disk vda": true, "41 of 44": false, "and 2 more findings; headroom check shows all": true} {
		if strings.Contains(got, want) != there {
			t.Errorf("%q: want %v in:\n%s", want, there, got)
		}
	}
}

// TestInterruptedTrial holds that a run with hardly any figures still prints.
// A name that was given to an arm is in its verdict.
func TestVerdictNamesTheArm(t *testing.T) {
	r := walTrial(t)
	if got := Sentence(r, r.Versus[0]); !strings.HasPrefix(got, "max_wal_size 1GB → 10GB: 1.29 ×") {
		t.Error(got)
	}
	r.Arms[1].Name, r.Versus[0].Arm = "roomy", "roomy"
	if got := Sentence(r, r.Versus[0]); !strings.HasPrefix(got, "roomy (max_wal_size 1GB → 10GB): 1.29 ×") {
		t.Error(got)
	}
}

func TestInterruptedTrial(t *testing.T) {
	open := stats.Interval{Lo: math.Inf(-1), Center: math.NaN(), Hi: math.Inf(1), Level: 0.95}
	r := &trial.Result{Name: "x", Measures: []trial.Measure{{Name: "rate", Unit: unit.PerSecond, Noun: "upserts/s"}}, Ended: trial.Interrupted,
		Arms:   []trial.ArmResult{{Arm: trial.Base()}, {Arm: trial.Arm{Name: "big"}}},
		Versus: []trial.Versus{{Arm: "big", P: 1, Decision: stats.Decision{Verdict: stats.NeedsMore, More: 6, Ratio: open, Reason: "no block was run"}}}}
	for _, f := range []Format{Text, JSON, CSV, Markdown, HTML} {
		got := render(t, f, Trial(r))
		if f == Text && !strings.Contains(got, "big: no answer yet: needs 6 more rounds (no block was run)") {
			t.Error(got)
		}
		if strings.Contains(got, "NaN") || strings.Contains(got, "Inf") {
			t.Errorf("%s: %s", f, got)
		}
	}
}

func TestTrialCanBeReadBack(t *testing.T) {
	want := walTrial(t)
	got, err := trial.Load(strings.NewReader(render(t, JSON, Trial(want))))
	if err != nil || got.Name != want.Name || len(got.Rounds) != len(want.Rounds) {
		t.Fatalf("%v, %+v", err, got)
	}
	set, _, err := fact.Load(strings.NewReader(render(t, JSON, Facts(someFacts(t), nil))), []fact.Any{disks, load, broken})
	if err != nil || set.Why(broken) == "" || fact.Get(set, load) != 0.42 {
		t.Fatalf("%v, %+v", err, set)
	}
}

func TestFigure(t *testing.T) {
	for want, got := range map[string]string{
		"12.1 k upserts/s": Figure(12100, trial.Measure{Name: "rate", Unit: unit.PerSecond, Noun: "upserts/s"}),
		"p99 1.2 ms":       Figure(0.0012, trial.Measure{Name: "p99", Unit: unit.Second}),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPagesComeFromDeclarations(t *testing.T) {
	c := &check.Check{Name: "disk.x", Doc: check.Doc{Title: "An <odd> disk", Why: "Because `a*b` is *bold*.", Fix: "Do it.", Sources: []string{"S6"}}, Needs: []fact.Any{disks}, Quiet: []string{"disk.y"}}
	r := &change.Recipe{ID: "disk.queue", Doc: "Sets it. And more.", Object: "DEVICE", Args: []change.Arg{{Name: "read_ahead_kb", Doc: "kB", Eg: "4096"}}}
	w := &trial.Workload{Name: "disk.randread", Doc: "Reads.", Uses: trial.Disk, Params: []trial.Param{{Name: "size", Default: "1GB", Doc: "bytes"}}, Measures: []trial.Measure{{Name: "rate", Unit: unit.PerSecond, Higher: true}}}
	pages := Pages([]topic.Topic{{Name: "disk", Title: "Disks", Checks: []*check.Check{c}, Recipes: []*change.Recipe{r}, Workloads: []*trial.Workload{w}}})
	for name, wants := range map[string][]string{
		"checks/README.md":           {"## disk: Disks", "- [disk.x](disk.x.md): An &lt;odd&gt; disk"},
		"checks/disk.x.md":           {"# disk.x", "## Why\n\nBecause `a*b` is \\*bold\\*.", "## Fix", "- `block.devices`: block devices, by name", "- `disk.y`", "- S6"},
		"changes/README.md":          {"- [disk.queue](disk.queue.md): Sets it."},
		"changes/disk.queue.md":      {"disk.queue DEVICE name=value…", "headroom plan disk.queue DEVICE read_ahead_kb=4096"},
		"workloads/disk.randread.md": {"Runs on a folder on a disk.", "| size | 1GB | bytes |", "| rate | rate | per second | higher |"},
		"facts.md":                   {"## block.devices", "| [].size | bytes | /sys/block/\\*/size | capacity |", "| [].latency | seconds | measured | of one read |"},
	} {
		for _, want := range wants {
			if !strings.Contains(pages[name], strings.ReplaceAll(want, "| [].", "| \\[\\].")) {
				t.Errorf("%s lacks %q:\n%s", name, want, pages[name])
			}
		}
	}
}

func TestUnknownFactsAreNamedByReason(t *testing.T) {
	set := testkit.LoadStory(t, []byte(`{"proc.load": {"unknown":"no /proc"}, "pg.server": {"unknown":"no /proc"}}`), []*check.Check{{Needs: []fact.Any{load, broken}}})
	got := render(t, Text, Facts(set, nil))
	if !strings.Contains(got, "could not tell: no /proc\n    pg.server, proc.load\n") {
		t.Error(got)
	}
}

func TestLongListsAreCutForPeopleOnly(t *testing.T) {
	var many []disk
	for i := range 60 {
		many = append(many, disk{Name: string(rune('a'+i%26)) + strings.Repeat("x", i), Size: int64(i), Latency: fact.Known(1.0)})
	}
	set := fact.Put(someFacts(t), disks, many)
	if got := render(t, Text, Facts(set, nil)); !strings.Contains(got, "and 20 more: -o json or -o csv has all") {
		t.Error(got)
	}
	if got := render(t, CSV, Facts(set, nil)); strings.Count(got, "block.devices,") != 60*4 {
		t.Error(got)
	}
}
