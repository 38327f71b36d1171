package disk

import (
	"context"
	"strings"
	"testing"
	"time"

	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/fail"
	"headroom/host"
	"headroom/probe/proc"
	"headroom/testkit"
	"headroom/testkit/need"
)

func TestStories(t *testing.T) { testkit.Stories(t, Topic) }

func machine() *host.Fake {
	return &host.Fake{Time: time.Unix(1e9, 0), Files: map[string]string{
		"/sys/block/sda/dev": "8:0\n", "/sys/block/sda/size": "2097152\n",
		"/sys/block/sda/queue/rotational":    "1\n",
		"/sys/block/sda/queue/scheduler":     "none [mq-deadline] bfq\n",
		"/sys/block/sda/queue/read_ahead_kb": "128\n",
		"/sys/block/sda/queue/nr_requests":   "256\n",
		"/sys/block/sda/sda1/partition":      "1\n", "/sys/block/sda/sda1/dev": "8:1\n", "/sys/block/sda/sda1/size": "2048\n",
		"/sys/block/md0/dev": "9:0\n", "/sys/block/md0/size": "2097152\n", "/sys/block/md0/queue/read_ahead_kb": "128\n",
		"/etc/udev/rules.d/70-x.rules": "", "/etc/tmpfiles.d/x.conf": "",
	}}
}

func plan(t *testing.T, r host.Reader, words string) (change.Change, error) {
	t.Helper()
	spec, err := change.ParseSpec(words)
	if err != nil {
		t.Fatal(err)
	}
	s, err := fact.Gather(context.Background(), r, fact.Options{}, queueRecipe.Needs...)
	if err != nil {
		t.Fatal(err)
	}
	return queueRecipe.Plan(s, spec)
}

func steps(c change.Change) string {
	var out []string
	for _, s := range c.Steps {
		out = append(out, s.String())
	}
	return strings.Join(out, "; ")
}

func TestQueueNowAndAtBoot(t *testing.T) {
	r := machine()
	c, err := plan(t, r, "disk.queue /dev/sda rotational=0 scheduler=none")
	if err != nil {
		t.Fatal(err)
	}
	want := "write none into /sys/block/sda/queue/scheduler; write /etc/udev/rules.d/60-headroom-sda-1-scheduler.rules (mode 0644); " +
		"write 0 into /sys/block/sda/queue/rotational; write /etc/udev/rules.d/60-headroom-sda-3-rotational.rules (mode 0644)"
	if got := steps(c); got != want || c.Subject != "disk sda" {
		t.Errorf("steps = %s", got)
	}
	rule := c.Steps[3].(change.File).Content
	if !strings.HasSuffix(rule, "\nACTION==\"add|change\", SUBSYSTEM==\"block\", KERNEL==\"sda\", ATTR{queue/rotational}=\"0\"\n") {
		t.Errorf("rule = %q", rule)
	}
	delete(r.Files, "/etc/udev/rules.d/70-x.rules")
	c, err = plan(t, r, "disk.queue md0 read_ahead_kb=4096")
	if err != nil || steps(c) != "write 4096 into /sys/block/md0/queue/read_ahead_kb; write /etc/tmpfiles.d/60-headroom-md0-4-read_ahead_kb.conf (mode 0644)" ||
		!strings.HasSuffix(c.Steps[1].(change.File).Content, "\nw /sys/block/md0/queue/read_ahead_kb - - - - 4096\n") {
		t.Errorf("without udev: %s, %v", steps(c), err)
	}
	delete(r.Files, "/etc/tmpfiles.d/x.conf")
	c, err = plan(t, r, "disk.queue md0 read_ahead_kb=4096")
	if err != nil || len(c.Steps) != 1 || !strings.Contains(c.RiskWhy, "until the next boot only") {
		t.Errorf("with neither: %s, %s, %v", steps(c), c.RiskWhy, err)
	}
}

func TestQueueRefuses(t *testing.T) {
	for words, want := range map[string]string{
		"disk.queue":                                   "no device named",
		"disk.queue sdz rotational=0":                  "there are: md0, sda",
		"disk.queue sda1 rotational=0":                 "its queue is that of sda",
		"disk.queue sda":                               "nothing to set (it takes scheduler",
		"disk.queue sda speed=9":                       "known: scheduler, nr_requests, rotational, read_ahead_kb",
		"disk.queue sda scheduler=kyber":               "the device offers none, mq-deadline, bfq",
		"disk.queue sda rotational=2":                  "from 0 to 1",
		"disk.queue sda read_ahead_kb=4MB":             "whole number",
		"disk.queue sda read_ahead_kb=0128":            "whole number",
		"disk.queue sda read_ahead_kb=4097":            "multiple of 4",
		"disk.queue sda nr_requests=0":                 "from 4 to 65536",
		"disk.queue sda nr_requests=64 scheduler=none": "two changes",
	} {
		_, err := plan(t, machine(), words)
		if err == nil || fail.Code(err) != fail.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v (status %d), want %q", words, err, fail.Code(err), want)
		}
	}
	if _, err := plan(t, machine(), "disk.queue md0 rotational=0"); err == nil || !strings.Contains(err.Error(), "could not be read") {
		t.Errorf("an attribute that the device lacks: %v", err)
	}
	r := machine()
	name := "/sys/block/x\"y/"
	r.Files[name+"dev"], r.Files[name+"size"], r.Files[name+"queue/rotational"] = "8:32", "2048", "1"
	if _, err := plan(t, r, `disk.queue 'x"y' rotational=0`); err == nil || !strings.Contains(err.Error(), "rule") {
		t.Errorf("a hostile device name: %v", err)
	}
}

// The change is applied to a copy of the machine's files and taken back.
func TestQueueApplyAndUndo(t *testing.T) {
	r, ctx := machine(), context.Background()
	c, err := plan(t, r, "disk.queue sda scheduler=none rotational=0 read_ahead_kb=4096")
	if err != nil {
		t.Fatal(err)
	}
	was := map[string]string{}
	for k, v := range r.Files {
		was[k] = v
	}
	var undo []change.Step
	for _, s := range c.Steps {
		before, err := s.Read(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		undo = append([]change.Step{s.Undo(before)}, undo...)
		if err := s.Apply(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	if r.Files["/sys/block/sda/queue/scheduler"] != "[none] mq-deadline bfq\n" || r.Files[proc.RulesFile("sda", "3-rotational")] == "" {
		t.Errorf("after apply: %v", r.Files)
	}
	for _, s := range undo {
		if err := s.Apply(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	for k, v := range r.Files {
		if was[k] != v {
			t.Errorf("%s = %q after undo, was %q", k, v, was[k])
		}
	}
}

func TestThisMachine(t *testing.T) {
	need.Have(t, "root")
	r := host.Open(host.Options{})
	s, err := fact.Gather(context.Background(), r, fact.Options{Probes: true}, Topic.Facts...)
	if err != nil {
		t.Fatal(err)
	}
	o := check.Run(s, Topic.Checks)
	for _, f := range o.Findings {
		for _, fix := range f.Fixes {
			if _, err := plan(t, r, fix.String()); err != nil {
				t.Errorf("%s proposes what cannot be planned: %v", f.Check, err)
			}
		}
	}
	t.Log("\n" + testkit.Outcome(o))
}
