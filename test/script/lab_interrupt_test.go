package script

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/testkit/need"
)

// labs are runs that would take minutes, with the phase in which they end.
var labs = []struct {
	args  []string
	until string
}{
	{[]string{"upsert", "-p", "keys=5000", "-p", "batch=100", "-p", "seconds=0.1", "--rounds", "500"}, "measuring"},
	{[]string{"bulk-load", "--rows", "40000"}, "warming up"},
	{[]string{"hot-row", "-p", "seconds=20"}, "warming up"},
	{[]string{"distinct", "--rows", "30000000"}, "making"},
	{[]string{"value-counts", "--rows", "300000"}, "warming up"},
	{[]string{"upsert-sizes", "-p", "keys=500", "-p", "seconds=0.1", "--rounds", "500"}, "measuring"},
}

// startLab runs a lab with a state folder of its own until it has said a word.
func startLab(t *testing.T, state string, args []string, until string) (*exec.Cmd, *tail) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := &tail{}
	cmd := &exec.Cmd{Path: self, Args: append([]string{"headroom", "lab"}, args...), Stdout: out, Stderr: out,
		Env: append(os.Environ(), "HEADROOM_STATE="+state, "TMPDIR="+state, "TERM=dumb")}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, 90*time.Second, "the lab says "+until, func() bool { return strings.Contains(out.String(), until) })
	return cmd, out
}

func labState(t *testing.T) string {
	t.Helper()
	state, err := os.MkdirTemp("", "hr-lab-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	if err := os.Chmod(state, 0o711); err != nil {
		t.Fatal(err)
	}
	return state
}

func leftOfLab(t *testing.T, state string) (left []string) {
	t.Helper()
	for _, pattern := range []string{"cache/pg/pg-*", "headroom-*", "cache/scratch/*"} {
		found, err := filepath.Glob(filepath.Join(state, pattern))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, found...)
	}
	return append(left, processes(t, state)...)
}

// TestInterruptedLabLeavesNothing presses Ctrl-C in the middle of each lab:
// status 130, no server, no folder.
func TestInterruptedLabLeavesNothing(t *testing.T) {
	need.Have(t, "pg")
	state := labState(t)
	for _, l := range labs {
		t.Run(l.args[0], func(t *testing.T) {
			cmd, out := startLab(t, state, l.args, l.until)
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			err := cmd.Wait()
			var x *exec.ExitError
			if !errors.As(err, &x) || x.ExitCode() != 130 {
				t.Errorf("ended with %v, want exit status 130:\n%s", err, out.String())
			}
			if left := leftOfLab(t, state); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// TestKilledLabIsCleanedUpByTheNext kills a lab outright: its servers end with
// it, and the next lab removes their folders.
func TestKilledLabIsCleanedUpByTheNext(t *testing.T) {
	need.Have(t, "pg")
	state := labState(t)
	cmd, _ := startLab(t, state, []string{"upsert", "-p", "keys=5000", "-p", "batch=100", "-p", "seconds=0.1", "--rounds", "500"}, "measuring")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	need.Eventually(t, 20*time.Second, "the servers ended with their owner", func() bool { return len(processes(t, state)) == 0 })
	next, out := startLab(t, state, []string{"value-counts", "--rows", "500", "--rounds", "1"}, "cleaning up")
	if err := next.Wait(); err != nil {
		t.Errorf("the next lab: %v\n%s", err, out.String())
	}
	if left := leftOfLab(t, state); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
