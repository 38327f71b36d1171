package memory

import (
	"context"
	"errors"
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
	"headroom/unit"
)

func TestStories(t *testing.T) { testkit.Stories(t, Topic) }

func machine() *host.Fake {
	return &host.Fake{Time: time.Unix(1e9, 0), Files: map[string]string{
		"/proc/meminfo":                       "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\nCommitted_AS: 4194304 kB\nHugePages_Total: 0\nHugepagesize: 2048 kB\n",
		"/proc/sys/vm/swappiness":             "60\n",
		"/proc/sys/vm/overcommit_memory":      "0\n",
		"/proc/sys/vm/overcommit_ratio":       "50\n",
		"/proc/sys/vm/dirty_ratio":            "20\n",
		"/proc/sys/vm/dirty_bytes":            "0\n",
		"/proc/sys/vm/dirty_background_ratio": "10\n",
		"/proc/sys/vm/dirty_background_bytes": "0\n",
		"/proc/sys/vm/nr_hugepages":           "0\n",
		"/etc/sysctl.d/99-later.conf":         "vm.swappiness = 60\n",
		"/etc/tmpfiles.d/x.conf":              "",
		thpFolder + "enabled":                 "[always] madvise never\n",
		thpFolder + "defrag":                  "always defer defer+madvise [madvise] never\n",
	}}
}

func plan(t *testing.T, r host.Reader, words string) (change.Change, error) {
	t.Helper()
	spec, err := change.ParseSpec(words)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range Topic.Recipes {
		if rec.ID == spec.ID {
			s, err := fact.Gather(context.Background(), r, fact.Options{}, rec.Needs...)
			if err != nil {
				t.Fatal(err)
			}
			return rec.Plan(s, spec)
		}
	}
	t.Fatalf("no recipe %s", spec.ID)
	return change.Change{}, nil
}

func steps(c change.Change) string {
	var out []string
	for _, s := range c.Steps {
		out = append(out, s.String())
	}
	return strings.Join(out, "; ")
}

func TestSysctlNowAndAtBoot(t *testing.T) {
	c, err := plan(t, machine(), "memory.sysctl vm.swappiness=10")
	if err != nil {
		t.Fatal(err)
	}
	if got := steps(c); got != "write 10 into /proc/sys/vm/swappiness; write /etc/sysctl.d/60-headroom-vm.swappiness.conf (mode 0644)" {
		t.Errorf("steps = %s", got)
	}
	if !strings.Contains(c.RiskWhy, "/etc/sysctl.d/99-later.conf sets vm.swappiness = 60 later at boot") {
		t.Errorf("a file that wins at boot must be named: %s", c.RiskWhy)
	}
	if f := c.Steps[1].(change.File); !strings.HasSuffix(f.Content, "\nvm.swappiness = 10\n") {
		t.Errorf("content = %q", f.Content)
	}
}

func TestSysctlOrderAndPairs(t *testing.T) {
	r := machine()
	c, err := plan(t, r, "memory.sysctl vm.overcommit_memory=2 vm.overcommit_ratio=90")
	if err != nil || !strings.HasPrefix(steps(c), "write 90 into /proc/sys/vm/overcommit_ratio") || c.Risk != change.RiskHigh || c.Confirm == 0 {
		t.Errorf("the ratio must be set first: %s, %+v, %v", steps(c), c, err)
	}
	r.Files[proc.SysctlFile("vm.dirty_ratio")] = "vm.dirty_ratio = 5\n"
	c, err = plan(t, r, "memory.sysctl vm.dirty_bytes=1GB vm.dirty_background_bytes=256MB")
	if err != nil || !strings.Contains(steps(c), "write 1073741824 into /proc/sys/vm/dirty_bytes; remove /etc/sysctl.d/60-headroom-vm.dirty_ratio.conf; ") {
		t.Errorf("steps = %s, %v", steps(c), err)
	}
	for _, s := range c.Steps {
		if v, ok := s.(change.Value); ok && v.Instead == "" {
			t.Errorf("%s cannot be undone: the kernel refuses 0", v)
		}
	}
}

func TestSysctlRefuses(t *testing.T) {
	for words, want := range map[string]string{
		"memory.sysctl":                                               "NAME=VALUE",
		"memory.sysctl x vm.swappiness=1":                             "no object",
		"memory.sysctl net.ipv4.ip_forward=1":                         "known: vm.swappiness",
		"memory.sysctl vm.swappiness=201":                             "from 0 to 200",
		"memory.sysctl vm.swappiness=1.5":                             "whole number",
		"memory.sysctl vm.swappiness=ten":                             "not a number",
		"memory.sysctl vm.swappiness=10MB":                            "from 0 to 200",
		"memory.sysctl vm.dirty_bytes=0":                              "to go back to a percentage, set vm.dirty_ratio",
		"memory.sysctl vm.dirty_ratio=5 vm.dirty_bytes=1GB":           "give one of them",
		"memory.sysctl vm.dirty_background_ratio=20":                  "must be below vm.dirty_ratio (20)",
		"memory.sysctl vm.overcommit_memory=2 vm.overcommit_ratio=20": "allocations would fail at once",
		"memory.sysctl vm.nr_hugepages=4000":                          "of the 8 GB that can be had",
		"memory.thp":                                                  "enabled=",
		"memory.thp enabled=sometimes":                                "always, madvise, never",
		"memory.thp speed=1":                                          "known: enabled, defrag",
	} {
		_, err := plan(t, machine(), words)
		if err == nil || fail.Code(err) != fail.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v (status %d), want %q", words, err, fail.Code(err), want)
		}
	}
	_, err := plan(t, machine(), "memory.sysctl vm.zone_reclaim_mode=0")
	if err == nil || !strings.Contains(err.Error(), "does not show it") {
		t.Errorf("a sysctl that is not there: %v", err)
	}
}

func TestTHPNowAndAtBoot(t *testing.T) {
	c, err := plan(t, machine(), "memory.thp enabled=madvise")
	if err != nil || steps(c) != "write madvise into "+thpFolder+"enabled; write /etc/tmpfiles.d/60-headroom-thp-enabled.conf (mode 0644)" {
		t.Errorf("steps = %s, %v", steps(c), err)
	}
	r := machine()
	delete(r.Files, "/etc/tmpfiles.d/x.conf")
	if c, err = plan(t, r, "memory.thp enabled=madvise"); err != nil || len(c.Steps) != 1 || !strings.Contains(c.RiskWhy, "next boot only") {
		t.Errorf("without tmpfiles.d: %s, %s, %v", steps(c), c.RiskWhy, err)
	}
	delete(r.Files, thpFolder+"enabled")
	if _, err = plan(t, r, "memory.thp enabled=madvise"); err == nil || errors.Is(err, fail.ErrAbsent) {
		t.Errorf("a kernel without huge pages: %v", err)
	}
}

// Every fix that a check proposes must be one that its recipe takes.
func TestFixesCanBePlanned(t *testing.T) {
	r := machine()
	r.Files["/proc/sys/vm/overcommit_memory"] = "0\n"
	s, err := fact.Gather(context.Background(), r, fact.Options{}, Topic.Facts...)
	if err != nil {
		t.Fatal(err)
	}
	m := fact.Get(s, proc.Memories)
	if r := commitRatio(m); r != 95 || commitLimit(m, r) > m.Total {
		t.Errorf("ratio = %d, limit %s", r, unit.Bytes(commitLimit(m, r)))
	}
	n := 0
	for _, f := range check.Run(s, Topic.Checks).Findings {
		for _, fix := range f.Fixes {
			n++
			if _, err := plan(t, r, fix.String()); err != nil {
				t.Errorf("%s: %v", f.Check, err)
			}
		}
	}
	if n < 2 {
		t.Errorf("only %d fixes were proposed", n)
	}
}

func TestThisMachine(t *testing.T) {
	s, err := fact.Gather(context.Background(), host.Open(host.Options{}), fact.Options{Probes: true}, Topic.Facts...)
	if err != nil {
		t.Fatal(err)
	}
	o := check.Run(s, Topic.Checks)
	if len(o.Fine)+len(o.NotChecked)+len(o.Findings) == 0 {
		t.Error("no check answered")
	}
	t.Log("\n" + testkit.Outcome(o))
}
