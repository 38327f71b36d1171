package script

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"headroom/testkit/need"
)

// tail is what a running program has written so far.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// TestInterruptedTrialLeavesNothing presses Ctrl-C in the middle of a trial and
// of the demo: status 130, no server, no folder.
func TestInterruptedTrialLeavesNothing(t *testing.T) {
	need.Have(t, "pg")
	for _, c := range []struct {
		args  []string
		until string
		left  []string
	}{
		{[]string{"try", "postgres.setting work_mem=8MB", "--on", "pg.upsert", "-p", "keys=20000", "--budget", "60s", "--round", "300ms"}, "measuring", nil},
		{[]string{"demo"}, "filling", []string{"cache/pg/template-*"}},
	} {
		t.Run(c.args[0], func(t *testing.T) {
			state := stateFolder(t)
			cmd, out := begin(t, state, c.args...)
			need.Eventually(t, 90*time.Second, "it is at it", func() bool { return strings.Contains(out.String(), c.until) })
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			err := cmd.Wait()
			var x *exec.ExitError
			if !errors.As(err, &x) || x.ExitCode() != 130 {
				t.Errorf("ended with %v, want exit status 130:\n%s", err, out.String())
			}
			nothingLeft(t, state, c.left...)
		})
	}
}

// TestKilledIsToldByTheNextStart kills a trial and the demo; the next start
// says what it found and removes it.
func TestKilledIsToldByTheNextStart(t *testing.T) {
	need.Have(t, "pg")
	state := stateFolder(t)
	for _, c := range []struct {
		args         []string
		until, found string
	}{
		{[]string{"try", "postgres.setting work_mem=8MB", "--on", "pg.upsert", "-p", "keys=20000", "--budget", "60s", "--round", "300ms"}, "measuring", ""},
		{[]string{"demo"}, "filling", `found: private server "headroom trial" was left by process`},
		{[]string{"demo"}, "filling", "found: scratch folder"},
	} {
		cmd, out := begin(t, state, c.args...)
		need.Eventually(t, 90*time.Second, "it is at it", func() bool { return strings.Contains(out.String(), c.until) })
		if c.found == "" || strings.Contains(c.found, "server") {
			_ = cmd.Process.Kill()
		} else if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if !strings.Contains(out.String(), c.found) {
			t.Errorf("%q does not say %q:\n%s", c.args, c.found, out.String())
		}
	}
	nothingLeft(t, state)
}

// stateFolder is a folder that the server's account can enter.
func stateFolder(t *testing.T) string {
	t.Helper()
	state, err := os.MkdirTemp("", "hr-int-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	if err := os.Chmod(state, 0o711); err != nil {
		t.Fatal(err)
	}
	return state
}

// begin starts the program.
func begin(t *testing.T, state string, args ...string) (*exec.Cmd, *tail) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := &tail{}
	cmd := &exec.Cmd{Path: self, Args: append([]string{"headroom"}, args...), Stdout: out, Stderr: out,
		Env: append(os.Environ(), "HEADROOM_STATE="+state, "TMPDIR="+state, "TERM=dumb")}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

// nothingLeft finds what a run has left; more names what it must not leave
// beside servers and scratch folders.
func nothingLeft(t *testing.T, state string, more ...string) {
	t.Helper()
	for _, pattern := range append([]string{"cache/pg/pg-*", "cache/headroom-scratch-*", "headroom-*"}, more...) {
		if left, _ := filepath.Glob(filepath.Join(state, pattern)); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
	if left := processes(t, state); len(left) > 0 {
		t.Errorf("still running: %q", left)
	}
}

// processes lists the command lines that hold a word.
func processes(t *testing.T, word string) (out []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte(word)) {
			out = append(out, string(bytes.ReplaceAll(b, []byte{0}, []byte{' '})))
		}
	}
	return out
}
