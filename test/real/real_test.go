//go:build real

// Package real changes this machine for real (disk queue, sysctl) through the
// program as a user would, and puts everything back. It needs root and runs
// only with the build tag real: make test-real.
package real

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"headroom/testkit/need"
)

// machine is the program with a state folder of its own, and a record of what
// it may alter, which must be the same at the end.
type machine struct {
	t     *testing.T
	bin   string
	state string
}

func open(t *testing.T) *machine {
	t.Helper()
	need.Have(t, "root")
	m := &machine{t: t, bin: filepath.Join(t.TempDir(), "headroom"), state: t.TempDir()}
	if out, err := exec.Command("go", "build", "-o", m.bin, "headroom/cmd/headroom").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	before := snapshot(t)
	t.Cleanup(func() {
		after := snapshot(t)
		if !maps.Equal(before, after) {
			t.Errorf("the machine was not put back:\n%s", difference(before, after))
			restore(t, before, after)
		}
	})
	return m
}

var watched = []string{
	"/sys/block/*/queue/rotational", "/sys/block/*/queue/scheduler", "/sys/block/*/queue/read_ahead_kb", "/sys/block/*/queue/nr_requests",
	"/proc/sys/vm/swappiness", "/proc/sys/vm/dirty_*", "/sys/kernel/mm/transparent_hugepage/enabled",
	"/etc/udev/rules.d/*", "/etc/sysctl.d/*", "/etc/tmpfiles.d/*",
}

func snapshot(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range watched {
		files, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil {
				out[f] = string(b)
			}
		}
	}
	return out
}

func difference(a, b map[string]string) string {
	var out strings.Builder
	for k, v := range a {
		if b[k] != v {
			fmt.Fprintf(&out, "%s: %q, now %q\n", k, v, b[k])
		}
	}
	for k, v := range b {
		if _, ok := a[k]; !ok {
			fmt.Fprintf(&out, "%s: absent, now %q\n", k, v)
		}
	}
	return out.String()
}

// restore is the net below the net: only used after a failure.
func restore(t *testing.T, before, after map[string]string) {
	for k := range after {
		if _, ok := before[k]; !ok {
			t.Logf("removing %s: %v", k, os.Remove(k))
		}
	}
	for k, v := range before {
		if after[k] == v {
			continue
		}
		if m := regexp.MustCompile(`\[(.+?)\]`).FindStringSubmatch(v); m != nil {
			v = m[1]
		}
		t.Logf("restoring %s: %v", k, os.WriteFile(k, []byte(v), 0o644))
	}
}

// run runs the program and wants an exit status.
func (m *machine) run(status int, args ...string) string {
	m.t.Helper()
	cmd := exec.Command(m.bin, args...)
	cmd.Env = append(os.Environ(), "HEADROOM_STATE="+m.state, "PGHOST="+m.state)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	code := 0
	var x *exec.ExitError
	if errors.As(err, &x) {
		code = x.ExitCode()
	}
	if code != status {
		m.t.Fatalf("headroom %s: exit status %d, want %d\n%s%s", strings.Join(args, " "), code, status, out.String(), errOut.String())
	}
	return out.String() + errOut.String()
}

type finding struct {
	Check, Subject, Summary string
	Fixes                   []string
}

// findings runs check with JSON output.
func (m *machine) findings(name string) []finding {
	m.t.Helper()
	file := filepath.Join(m.state, "check.json")
	m.run(0, "check", "disk", "-o", "json="+file)
	raw, err := os.ReadFile(file)
	if err != nil {
		m.t.Fatal(err)
	}
	var all []finding
	collect(m.t, raw, &all)
	var out []finding
	for _, f := range all {
		if f.Check == name {
			out = append(out, f)
		}
	}
	return out
}

// collect finds every object with a "check" and "summary" key in the JSON.
func collect(t *testing.T, raw []byte, out *[]finding) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			if c, ok := v["check"].(string); ok && v["summary"] != nil {
				f := finding{Check: c, Subject: fmt.Sprint(v["subject"]), Summary: fmt.Sprint(v["summary"])}
				raw, _ := json.Marshal(v["fixes"])
				f.Fixes = regexp.MustCompile(`disk\.queue`).FindAllString(string(raw), -1)
				*out = append(*out, f)
				return
			}
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(v)
}

var changeID = regexp.MustCompile(`\b(\d{8}-[0-9a-z]{4,})\b`)

// TestRotationalFlag is the whole loop on this machine's own disk: a disk
// flagged rotational that answers like flash (S6) is found, planned, fixed,
// no longer found, and put back.
func TestRotationalFlag(t *testing.T) {
	m := open(t)
	found := m.findings("disk.rotational-flag")
	if len(found) == 0 {
		need.Without(t, "misflagged-disk", "this machine's disk is flagged as it answers; nothing to fix")
	}
	t.Log(found[0].Summary)
	disk := strings.TrimPrefix(found[0].Subject, "disk ")
	flag := filepath.Join("/sys/block", disk, "queue/rotational")
	if value(t, flag) != "1" || len(found[0].Fixes) == 0 {
		t.Fatalf("%s is %q; finding: %+v", flag, value(t, flag), found[0])
	}
	before := snapshot(t)
	plan := filepath.Join(m.state, "plan.json")
	t.Log(m.run(0, "plan", "disk.queue", disk, "rotational=0", "-o", "text", "-o", "json="+plan))
	if d := difference(before, snapshot(t)); d != "" {
		t.Fatalf("plan changed the machine:\n%s", d)
	}
	applied := m.run(0, "apply", plan)
	t.Log(applied)
	if value(t, flag) != "0" {
		t.Fatalf("after apply %s is %q", flag, value(t, flag))
	}
	rules, _ := filepath.Glob("/etc/udev/rules.d/*headroom*")
	lines, _ := filepath.Glob("/etc/tmpfiles.d/*headroom*")
	// Which of the two boot programs this machine has decides the file.
	ok := len(rules) == 1 && len(lines) == 0 && strings.Contains(read(t, rules[0]), `ATTR{queue/rotational}="0"`) ||
		len(rules) == 0 && len(lines) == 1 && strings.Contains(read(t, lines[0]), "w "+flag+" - - - - 0\n")
	if _, err := exec.LookPath("udevadm"); !ok || (err == nil) != (len(rules) == 1) {
		t.Fatalf("no udev rule, nor a tmpfiles line where there is no udev, keeps it after a reboot: %q %q", rules, lines)
	}
	if again := m.findings("disk.rotational-flag"); len(again) != 0 {
		t.Errorf("still found after the fix: %+v", again)
	}
	m.run(0, "plan", "disk.queue", disk, "rotational=0")
	id := changeID.FindString(applied)
	if !strings.Contains(m.run(0, "journal"), id) {
		t.Errorf("the journal does not know %s", id)
	}
	t.Log(m.run(0, "revert", id))
	if d := difference(before, snapshot(t)); d != "" {
		t.Fatalf("after revert:\n%s", d)
	}
}

// TestUnconfirmedGoesBack applies with a time to confirm, lets it pass, and
// finds the machine as it was.
func TestUnconfirmedGoesBack(t *testing.T) {
	m := open(t)
	before := snapshot(t)
	plan := filepath.Join(m.state, "plan.json")
	m.run(0, "plan", "memory.sysctl", "vm.swappiness=11", "-o", "json="+plan)
	applied := m.run(0, "apply", plan, "--confirm-within", "3s")
	if value(t, "/proc/sys/vm/swappiness") != "11" {
		t.Fatalf("not applied:\n%s", applied)
	}
	need.Eventually(t, 20*time.Second, "the change took itself back", func() bool { return difference(before, snapshot(t)) == "" })
	m.run(0, "plan", "memory.sysctl", "vm.swappiness=12", "-o", "json="+plan)
	applied = m.run(0, "apply", plan, "--confirm-within", "30s")
	id := changeID.FindString(applied)
	m.run(0, "confirm", id)
	time.Sleep(2 * time.Second)
	if value(t, "/proc/sys/vm/swappiness") != "12" {
		t.Errorf("a confirmed change was taken back")
	}
	m.run(0, "revert", id)
}

func value(t *testing.T, path string) string { return strings.TrimSpace(read(t, path)) }

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
