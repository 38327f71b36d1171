package change

import (
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/fail"
	"headroom/host"
	"headroom/testkit/need"
)

// awaitPhase waits for what the guard does, with nobody else at work.
func awaitPhase(t *testing.T, s *stage, want Phase) Entry {
	t.Helper()
	var e Entry
	need.Eventually(t, 10*time.Second, "change is "+string(want), func() bool {
		es := list(t, s.journal())
		if len(es) == 1 {
			e = es[0]
		}
		return e.Phase == want
	})
	return e
}

func TestGuard(t *testing.T) {
	prog := build(t)
	for name, f := range map[string]func(*testing.T, string){
		"not confirmed":    guardNotConfirmed,
		"confirmed":        guardConfirmed,
		"reverted by hand": guardRevertedByHand,
		"parent killed":    guardParentKilled,
		"foreign edit":     guardForeignEdit,
		"cannot start":     guardCannotStart,
		"own session":      guardOutlivesTheTerminal,
	} {
		t.Run(name, func(t *testing.T) { f(t, prog) })
	}
}

func guardNotConfirmed(t *testing.T, prog string) {
	s := folder(false, "KILL_CONFIRM=500ms")(t, prog)
	before := s.state()
	if out, code, _ := s.do("", 0, "apply"); code != 0 || !strings.Contains(out, string(Awaiting)) {
		t.Fatalf("apply: %s", out)
	}
	after := s.state()
	e := awaitPhase(t, s, Reverted)
	if !maps.Equal(s.state(), before) || maps.Equal(before, after) {
		t.Errorf("after the guard: %q", s.state())
	}
	if last := e.Records[len(e.Records)-1]; last.Note != "it was not confirmed in time" {
		t.Errorf("the journal says %q", last.Note)
	}
	if out, code, _ := s.do("", 0, "confirm", e.ID); code == 0 {
		t.Errorf("confirmed too late: %s", out)
	}
}

func guardConfirmed(t *testing.T, prog string) {
	s := folder(false, "KILL_CONFIRM=1s")(t, prog)
	if out, code, _ := s.do("", 0, "apply"); code != 0 {
		t.Fatalf("apply: %s", out)
	}
	after, id := s.state(), onlyID(s)
	if _, err := Apply(ctx, host.Open(host.Options{Root: s.root()}), prepare(t, host.Open(host.Options{Root: s.root()}),
		Change{Steps: Steps{Value{Path: "/proc/sys/vm/swappiness", Value: "11"}}}), Options{Journal: s.journal()}); fail.Code(err) != fail.Locked {
		t.Errorf("another change began before the confirmation: %v", err)
	}
	if out, code, _ := s.do("", 0, "confirm", id); code != 0 {
		t.Fatalf("confirm: %s", out)
	}
	e := awaitPhase(t, s, Applied)
	need.Eventually(t, 5*time.Second, "guard is gone", func() bool { return guardGone(e) })
	time.Sleep(time.Until(e.ConfirmBy))
	if !maps.Equal(s.state(), after) {
		t.Errorf("after the deadline: %q", s.state())
	}
}

func guardRevertedByHand(t *testing.T, prog string) {
	s := folder(false, "KILL_CONFIRM=20s")(t, prog)
	before := s.state()
	s.do("", 0, "apply")
	if out, code, _ := s.do("", 0, "revert", onlyID(s)); code != 0 {
		t.Fatalf("revert: %s", out)
	}
	e := awaitPhase(t, s, Reverted)
	need.Eventually(t, 5*time.Second, "guard is gone", func() bool { return guardGone(e) })
	if !maps.Equal(s.state(), before) {
		t.Errorf("after the revert: %q", s.state())
	}
}

func guardParentKilled(t *testing.T, prog string) {
	s := folder(false, "KILL_CONFIRM=10m")(t, prog)
	before := s.state()
	if _, _, sig := s.do("change.step-recorded:3", syscall.SIGKILL, "apply"); sig != syscall.SIGKILL {
		t.Fatal("not killed")
	}
	awaitPhase(t, s, Reverted) // at once, not after 10 minutes, and without the next start
	if !maps.Equal(s.state(), before) {
		t.Errorf("after the guard: %q", s.state())
	}
}

func guardForeignEdit(t *testing.T, prog string) {
	s := folder(false, "KILL_CONFIRM=500ms")(t, prog)
	before := s.state()
	s.do("", 0, "apply")
	must(t, os.WriteFile(s.root()+"/proc/sys/vm/swappiness", []byte("55\n"), 0o644))
	awaitPhase(t, s, Failed) // told, not overwritten; all else is as before
	want := maps.Clone(before)
	want["/proc/sys/vm/swappiness"] = "55\n"
	if !maps.Equal(s.state(), want) {
		t.Errorf("after the guard: %q", s.state())
	}
	need.Eventually(t, 5*time.Second, "the guard lets go of the lock", func() bool {
		busy, err := s.journal().held()
		must(t, err)
		return !busy
	})
	if out, code, _ := s.do("", 0, "recover"); code == 0 || !strings.Contains(out, "55") {
		t.Errorf("recover: %s", out)
	}
	s.env = append(s.env, "KILL_ACCEPT=foreign-edit")
	if out, code, _ := s.do("", 0, "revert", onlyID(s)); code != 0 || !maps.Equal(s.state(), before) {
		t.Errorf("forced: %s, %q", out, s.state())
	}
}

func guardCannotStart(t *testing.T, _ string) {
	m, j := machine(), newJournal(t)
	before := maps.Clone(m.Files)
	for _, argv := range [][]string{{"/nowhere/guard"}, {"/bin/true"}, {"/bin/echo", "no way"}} {
		_, err := Apply(ctx, m, prepare(t, m, tuning()), Options{Journal: j, ConfirmWithin: time.Second, Guard: &host.Cmd{Argv: argv}})
		if fail.Code(err) != fail.Reverted || !strings.Contains(err.Error(), "start the guard") {
			t.Errorf("%q: %v", argv, err)
		}
		isState(t, "without a guard", m.Files, before)
	}
	if err := Guard(ctx, m, "20261120-0000", Options{Journal: j}); fail.Code(err) != fail.Usage {
		t.Errorf("by hand: %v", err)
	}
}

// A hang-up of the terminal goes to its session: the guard must not be in it.
func guardOutlivesTheTerminal(t *testing.T, prog string) {
	s := folder(false, "KILL_CONFIRM=700ms")(t, prog)
	before := s.state()
	s.do("", 0, "apply")
	for _, r := range list(t, s.journal())[0].Records {
		if r.Type != recArmed {
			continue
		}
		pid, err := strconv.Atoi(strings.TrimPrefix(r.Note, "process "))
		must(t, err)
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		must(t, err)
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')'):]))
		if f[4] != strconv.Itoa(pid) || f[5] != "0" { // session, controlling terminal
			t.Errorf("session %s, terminal %s of guard %d", f[4], f[5], pid)
		}
		must(t, syscall.Kill(pid, syscall.SIGHUP))
	}
	awaitPhase(t, s, Reverted)
	if !maps.Equal(s.state(), before) {
		t.Errorf("after the hang-up: %q", s.state())
	}
}

// A server that was stopped with a setting it cannot start with is brought
// back, wherever the program was killed on the way.
func TestKilledRestart(t *testing.T) {
	prog := build(t)
	stageOne := restarting(t)
	for _, point := range []string{"change.setting-stored", "change.setting-reloaded", "change.undo-before", "change.rescue-stored", "change.undo-done"} {
		s := stageOne(t, prog)
		before := s.state()
		if out, _, sig := s.do(point, syscall.SIGKILL, "apply"); sig != syscall.SIGKILL {
			t.Fatalf("%s: not killed: %s", point, out)
		}
		out, code, _ := s.do("", 0, "recover")
		if code != 0 || !strings.Contains(out, "all is as before") || !maps.Equal(s.state(), before) {
			t.Errorf("%s: recover: %s, %q", point, out, s.state())
		}
	}
}
