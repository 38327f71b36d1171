package trial_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/host"
	"headroom/pglocal"
	"headroom/testkit/need"
)

var killResults = flag.String("kill-results", "", "write what became of each killed trial to this file, as JSON")

// killed is one trial that was ended at a named point, and what came of it.
type killed struct {
	Mode   string `json:"mode"`
	Point  string `json:"point"`
	Pass   int    `json:"pass"`
	Signal string `json:"signal"`
	Told   string `json:"told"` // what the next start said
}

var atCall = regexp.MustCompile(`crash\.At\("([^"]+)"\)`)

// points lists every crash.At in this package's source: none can be forgotten.
func points(t *testing.T) []string {
	t.Helper()
	var out []string
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range atCall.FindAllStringSubmatch(string(b), -1) {
			if slices.Contains(out, m[1]) {
				t.Errorf("%s: point %s is used twice", name, m[1])
			}
			out = append(out, m[1])
		}
	}
	return out
}

// killer runs the program to be killed.
type killer struct {
	t    *testing.T
	prog string
	dir  string
	dsn  string
}

func (k killer) do(point string, sig syscall.Signal, args ...string) (out string, ended syscall.Signal, code int) {
	k.t.Helper()
	c := exec.Command(k.prog, args...)
	c.Env = append(os.Environ(), "KILL_DIR="+k.dir, "KILL_DSN="+k.dsn, "HEADROOM_CRASH_AT="+point, fmt.Sprintf("HEADROOM_CRASH_SIGNAL=%d", sig))
	var buf bytes.Buffer
	c.Stdout, c.Stderr, c.WaitDelay = &buf, &buf, time.Second
	if err := c.Run(); c.ProcessState == nil {
		k.t.Fatal(err)
	}
	if ws := c.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		ended = ws.Signal()
	}
	return buf.String(), ended, c.ProcessState.ExitCode()
}

// clean checks that nothing of a trial is left but the live server as it was.
func (k killer) clean(what string, h *host.Local) {
	k.t.Helper()
	if got := setting(k.t, h, "work_mem"); got != "4MB" {
		k.t.Errorf("%s: work_mem is left at %s", what, got)
	}
	if _, err := os.Stat(filepath.Join(k.dir, "knob")); !errors.Is(err, os.ErrNotExist) {
		k.t.Errorf("%s: the changed file is left: %v", what, err)
	}
	for _, pattern := range []string{"pg/pg-*", "cache/*"} {
		if left, _ := filepath.Glob(filepath.Join(k.dir, pattern)); len(left) > 0 {
			k.t.Errorf("%s: left behind: %q", what, left)
		}
	}
	need.Eventually(k.t, 10*time.Second, what+": all servers have ended", func() bool {
		list, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			k.t.Fatal(err)
		}
		for _, f := range list {
			if b, _ := os.ReadFile(f); bytes.Contains(b, []byte(filepath.Join(k.dir, "pg"))) {
				return false
			}
		}
		return true
	})
}

// ways are the kinds of trial, and how many passes of which points each is
// killed at.
var ways = map[string]map[string]int{
	"private": {"trial.origin-started": 1, "trial.set-up": 1, "trial.cloned": 2, "trial.changed": 1, "trial.round-ran": 1},
	"live":    {"trial.held": 2, "trial.released": 2, "trial.round-ran": 8},
	"machine": {"trial.origin-started": 1, "trial.held": 2, "trial.released": 1},
	"disk":    {"trial.scratch-made": 1, "trial.held": 1, "trial.released": 1},
}

// Wherever a trial is killed, by whatever signal, the next start takes back
// what was changed, says so, and nothing is left (P19).
func TestKillPoints(t *testing.T) {
	e := env(t)
	dir := filepath.Dir(e.Parent)
	sv, err := pglocal.Start(t.Context(), pglocal.Options{Parent: filepath.Join(dir, "live"), Name: "live"})
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
	k := killer{t: t, prog: filepath.Join(t.TempDir(), "kill"), dir: dir, dsn: sv.DSN()}
	if out, err := exec.Command("go", "build", "-tags", "crash", "-o", k.prog, "./testdata/kill").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	signals := []syscall.Signal{syscall.SIGKILL}
	if *killResults != "" {
		signals = append(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	}
	reached := map[string]bool{}
	var table []killed
	for mode, passes := range ways {
		for point, passes := range passes {
			for pass := 1; pass <= passes; pass++ {
				for _, sig := range signals {
					row := killed{Mode: mode, Point: point, Pass: pass, Signal: sig.String()}
					row.Told = killOnce(t, k, h, row, sig)
					reached[point] = true
					table = append(table, row)
				}
			}
		}
	}
	for _, p := range points(t) {
		if !reached[p] {
			t.Errorf("point %s was never reached", p)
		}
	}
	if *killResults != "" {
		writeTable(t, table)
	}
}

func killOnce(t *testing.T, k killer, h *host.Local, row killed, sig syscall.Signal) (told string) {
	what := fmt.Sprintf("%s, %s at %s, pass %d", row.Mode, sig, row.Point, row.Pass)
	out, ended, code := k.do(fmt.Sprintf("%s:%d", row.Point, row.Pass), sig, "try", row.Mode)
	if sig == syscall.SIGKILL && ended != sig || sig != syscall.SIGKILL && code != 130 {
		t.Errorf("%s: ended by %v, status %d:\n%s", what, ended, code, out)
	}
	told, _, code = k.do("", 0, "start")
	if code != 0 {
		t.Errorf("%s: the next start failed: %s", what, told)
	}
	if row.Point == "trial.held" && sig == syscall.SIGKILL && !strings.Contains(told, "20") {
		t.Errorf("%s: the next start does not say what it took back: %q", what, told)
	}
	k.clean(what, h)
	return told
}

func writeTable(t *testing.T, table []killed) {
	b, err := json.MarshalIndent(map[string]any{"what": "trials killed at every named point: all put back", "runs": len(table), "rows": table}, "", " ")
	if err == nil {
		err = os.WriteFile(*killResults, append(b, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
