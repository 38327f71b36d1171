package change

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/engine/netns"
	"headroom/fail"
	"headroom/host"
	"headroom/testkit/need"
)

// site is a machine in a namespace, reached from another over a wire.
type site struct {
	*stage
	t         *testing.T
	far       *netns.Namespace
	localhost *host.Local
}

const (
	nftOpen = "table inet mine {\n\tchain input {\n\t\ttype filter hook input priority filter; policy accept;\n\t}\n}\n"
	nftShut = "table inet mine {\n\tchain input {\n\t\ttype filter hook input priority filter; policy drop;\n\t}\n}\n"
	nftSSH  = "table inet mine {\n\tchain input {\n\t\ttype filter hook input priority filter; policy drop;\n\t\ttcp dport 22 accept\n\t\tiif lo accept\n\t}\n}\n"
	nftOn   = "table inet mine {\n\tchain input {\n\t\ttype filter hook input priority filter; policy drop;\n\t\ttcp dport 22 tcp flags & (syn | ack) != syn accept\n\t}\n}\n"
)

// newSite stages a machine whose table is open, with a port 22 that answers,
// and a plan for other rules.
func newSite(t *testing.T, prog, content string, env ...string) *site {
	t.Helper()
	need.Have(t, "root", "netns", "nft")
	near, err := netns.New()
	must(t, err)
	t.Cleanup(near.Close)
	far, err := netns.New()
	must(t, err)
	t.Cleanup(far.Close)
	must(t, netns.Join(near, far, netns.Between()))
	s := &site{stage: &stage{t: t, prog: prog, dir: ownFolder(t), ns: near}, t: t, far: far, localhost: host.Open(host.Options{})}
	s.stage.state = s.rules
	s.in(func() error {
		_, err := s.localhost.Feed(ctx, []byte(nftOpen), "nft", "-f", "-")
		return err
	})
	s.listen()
	saved := filepath.Join(s.dir, "saved.nft")
	c := Change{Spec: Spec{ID: "test.rules"}, Steps: Steps{Rules{Tool: "nft", Tables: []string{"inet mine"}, Content: content}},
		OnConfirm: Steps{File{Path: saved, Content: content}}}
	var p *Plan
	s.in(func() (err error) {
		p, err = Prepare(ctx, s.localhost, c)
		return err
	})
	s.env = append(env, "KILL_STATE="+s.dir, "KILL_PLAN="+savePlan(t, s.dir, p))
	return s
}

func (s *site) in(f func() error) {
	s.t.Helper()
	must(s.t, s.ns.Do(f))
}

// listen answers on port 22 until the test ends.
func (s *site) listen() {
	s.in(func() error {
		l, err := net.Listen("tcp", ":22")
		if err != nil {
			return err
		}
		s.t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				s.t.Cleanup(func() { _ = c.Close() })
			}
		}()
		return nil
	})
}

// dial comes in from a namespace.
func (s *site) dial(from *netns.Namespace, wait time.Duration) (c net.Conn, err error) {
	err = from.Do(func() error {
		c, err = (&net.Dialer{Timeout: wait}).Dial("tcp", "10.99.0.1:22")
		return err
	})
	return c, err
}

func (s *site) rules() map[string]string {
	out := map[string]string{}
	s.in(func() error {
		b, err := s.localhost.Run(ctx, "nft", "-s", "list", "ruleset")
		out["rules"] = string(b)
		return err
	})
	if b, err := os.ReadFile(filepath.Join(s.dir, "saved.nft")); err == nil {
		out["saved"] = string(b)
	}
	return out
}

// confirmable waits until dialling works again, which is what matters.
func (s *site) reachable() {
	s.t.Helper()
	need.Eventually(s.t, 20*time.Second, "somebody can come in", func() bool {
		c, err := s.dial(s.far, 300*time.Millisecond)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

func TestRulesGuard(t *testing.T) {
	prog := build(t)
	for name, f := range map[string]func(*testing.T, string){
		"locked out":            rulesLockedOut,
		"guard killed":          rulesGuardKilled,
		"new connection":        rulesNewConnection,
		"old connection":        rulesOldConnection,
		"own connection":        rulesOwnConnection,
		"seen and closed":       rulesSeenAndClosed,
		"edited meanwhile":      rulesEditedMeanwhile,
		"file edited meanwhile": rulesFileEdited,
		"killed confirming":     rulesKilledConfirming,
		"reverted later":        rulesRevertedLater,
		"no time given":         rulesNoTimeGiven,
		"restarted meanwhile":   rulesRestartedMeanwhile,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, prog)
		})
	}
}

func rulesLockedOut(t *testing.T, prog string) {
	s := newSite(t, prog, nftShut, "KILL_CONFIRM=1500ms")
	before := s.state()
	if out, code, _ := s.do("", 0, "apply"); code != 0 {
		t.Fatalf("apply: %s", out)
	}
	if c, err := s.dial(s.far, 200*time.Millisecond); err == nil {
		_ = c.Close()
		t.Error("the rules let somebody in: the test shows nothing")
	}
	if out, code, _ := s.do("", 0, "confirm", onlyID(s.stage)); code == 0 || !strings.Contains(out, "wants a new connection from outside to TCP port 22") {
		t.Errorf("confirmed though nobody came in: %s", out)
	}
	awaitPhase(t, s.stage, Reverted)
	s.reachable()
	if !maps.Equal(s.state(), before) {
		t.Errorf("after the guard: %q", s.state())
	}
}

// Two processes stand by: the death of either loses nothing.
func rulesGuardKilled(t *testing.T, prog string) {
	for victim := range 2 {
		s := newSite(t, prog, nftShut, "KILL_CONFIRM=1500ms")
		before := s.state()
		if out, code, _ := s.do("", 0, "apply"); code != 0 {
			t.Fatalf("apply: %s", out)
		}
		var armed []int
		for _, r := range list(t, s.journal())[0].Records {
			if r.Type == recArmed {
				pid, err := strconv.Atoi(strings.TrimPrefix(r.Note, "process "))
				must(t, err)
				armed = append(armed, pid)
			}
		}
		if len(armed) != 2 {
			t.Fatalf("guards: %v", armed)
		}
		must(t, syscall.Kill(armed[victim], syscall.SIGKILL))
		awaitPhase(t, s.stage, Reverted)
		if !maps.Equal(s.state(), before) {
			t.Errorf("after the guard: %q", s.state())
		}
	}
}

func rulesNewConnection(t *testing.T, prog string) {
	s := newSite(t, prog, nftSSH, "KILL_CONFIRM=60s")
	before := s.state()
	if out, code, _ := s.do("", 0, "apply"); code != 0 {
		t.Fatalf("apply: %s", out)
	}
	if _, ok := s.state()["saved"]; ok {
		t.Error("saved for the next boot before it was confirmed")
	}
	c, err := s.dial(s.far, 5*time.Second)
	must(t, err)
	defer c.Close()
	if out, code, _ := s.do("", 0, "confirm", onlyID(s.stage)); code != 0 {
		t.Fatalf("confirm: %s", out)
	}
	if got := s.state(); got["saved"] != nftSSH || got["rules"] == before["rules"] {
		t.Errorf("confirmed: %q", got)
	}
	awaitPhase(t, s.stage, Applied)
}

// What was open before the rules came may go on under them: it proves nothing.
func rulesOldConnection(t *testing.T, prog string) {
	s := newSite(t, prog, nftOn, "KILL_CONFIRM=60s")
	old, err := s.dial(s.far, 5*time.Second)
	must(t, err)
	defer old.Close()
	if out, code, _ := s.do("", 0, "apply"); code != 0 {
		t.Fatalf("apply: %s", out)
	}
	if _, err := old.Write([]byte("still here")); err != nil {
		t.Fatal(err)
	}
	id := onlyID(s.stage)
	if out, code, _ := s.do("", 0, "confirm", id); code == 0 {
		t.Errorf("confirmed by a connection that was there before: %s", out)
	}
	if e, _ := s.journal().Get(id); e.Phase != Awaiting {
		t.Errorf("after the refusal: %s", e.Phase)
	}
	s.env = append(s.env, "KILL_UNSEEN=1")
	if out, code, _ := s.do("", 0, "confirm", id); code != 0 {
		t.Errorf("confirm --confirm-unseen: %s", out)
	}
}

// A connection of the machine to itself passes other rules than one from
// outside, whatever address it goes to.
func rulesOwnConnection(t *testing.T, prog string) {
	s := newSite(t, prog, nftSSH, "KILL_CONFIRM=60s")
	if out, code, _ := s.do("", 0, "apply"); code != 0 {
		t.Fatalf("apply: %s", out)
	}
	own, err := s.dial(s.ns, 5*time.Second)
	must(t, err)
	defer own.Close()
	if out, code, _ := s.do("", 0, "confirm", onlyID(s.stage)); code == 0 {
		t.Errorf("confirmed by a connection of its own: %s", out)
	}
	s.do("", 0, "revert", onlyID(s.stage))
}

func rulesSeenAndClosed(t *testing.T, prog string) {
	s := newSite(t, prog, nftSSH, "KILL_CONFIRM=60s")
	if out, code, _ := s.do("", 0, "apply"); code != 0 {
		t.Fatalf("apply: %s", out)
	}
	c, err := s.dial(s.far, 5*time.Second)
	must(t, err)
	id := onlyID(s.stage)
	need.Eventually(t, 10*time.Second, "the guard saw it", func() bool {
		e, err := s.journal().Get(id)
		must(t, err)
		peer, err := s.journal().Newcomer(e)
		return err == nil && peer == c.LocalAddr().String()
	})
	must(t, c.(*net.TCPConn).SetLinger(0)) // gone at once, on both ends
	must(t, c.Close())
	if out, code, _ := s.do("", 0, "confirm", id); code != 0 {
		t.Errorf("confirm: %s", out)
	}
}

// Who is locked out cannot consent: rules that somebody edited since are taken
// back all the same, and what they were is kept.
func rulesEditedMeanwhile(t *testing.T, prog string) {
	s := newSite(t, prog, nftShut, "KILL_CONFIRM=1500ms")
	before := s.state()
	if out, code, _ := s.do("", 0, "apply"); code != 0 {
		t.Fatalf("apply: %s", out)
	}
	s.in(func() error {
		_, err := s.localhost.Feed(ctx, []byte("add rule inet mine input tcp dport 4711 drop\n"), "nft", "-f", "-")
		return err
	})
	e := awaitPhase(t, s.stage, Reverted)
	if !maps.Equal(s.state(), before) {
		t.Errorf("after the guard: %q", s.state())
	}
	kept := ""
	for _, r := range e.Records {
		if r.Type == recOverwrote {
			kept = r.Found.Stored["inet mine"]
		}
	}
	if !strings.Contains(kept, "4711") {
		t.Errorf("the edit is lost: %q", kept)
	}
}

func rulesFileEdited(t *testing.T, prog string) {
	s := newSite(t, prog, nftSSH, "KILL_CONFIRM=60s", "KILL_UNSEEN=1")
	if out, code, _ := s.do("", 0, "apply"); code != 0 {
		t.Fatalf("apply: %s", out)
	}
	must(t, os.WriteFile(filepath.Join(s.dir, "saved.nft"), []byte("# by hand\n"), 0o644))
	if out, code, _ := s.do("", 0, "confirm", onlyID(s.stage)); code != fail.Drift || !strings.Contains(out, "by hand") {
		t.Errorf("confirm: %d %s", code, out)
	}
	must(t, os.Remove(filepath.Join(s.dir, "saved.nft")))
	if out, code, _ := s.do("", 0, "confirm", onlyID(s.stage)); code != 0 {
		t.Errorf("confirm: %s", out)
	}
}

func rulesKilledConfirming(t *testing.T, prog string) {
	s := newSite(t, prog, nftSSH, "KILL_CONFIRM=60s", "KILL_UNSEEN=1")
	before := s.state()
	if out, code, _ := s.do("", 0, "apply"); code != 0 {
		t.Fatalf("apply: %s", out)
	}
	if out, _, sig := s.do("change.step-applied", syscall.SIGKILL, "confirm", onlyID(s.stage)); sig != syscall.SIGKILL {
		t.Fatalf("not killed: %s", out)
	}
	awaitPhase(t, s.stage, Reverted) // by the guard, at once
	if !maps.Equal(s.state(), before) {
		t.Errorf("after the guard: %q", s.state())
	}
}

func rulesRevertedLater(t *testing.T, prog string) {
	s := newSite(t, prog, nftSSH, "KILL_CONFIRM=60s", "KILL_UNSEEN=1")
	before := s.state()
	s.do("", 0, "apply")
	id := onlyID(s.stage)
	if out, code, _ := s.do("", 0, "confirm", id); code != 0 {
		t.Fatalf("confirm: %s", out)
	}
	s.in(func() error {
		_, err := s.localhost.Feed(ctx, []byte("add rule inet mine input tcp dport 4711 drop\n"), "nft", "-f", "-")
		return err
	})
	if out, code, _ := s.do("", 0, "revert", id); code != fail.Drift {
		t.Errorf("reverted over somebody else's edit: %d %s", code, out)
	}
	s.env = append(s.env, "KILL_ACCEPT=foreign-edit")
	if out, code, _ := s.do("", 0, "revert", id); code != 0 || !maps.Equal(s.state(), before) {
		t.Errorf("revert: %s %q", out, s.state())
	}
}

// Rules are never applied without a guard.
func rulesNoTimeGiven(t *testing.T, prog string) {
	s := newSite(t, prog, nftSSH)
	if out, code, _ := s.do("", 0, "hold"); code != fail.Usage {
		t.Errorf("held: %d %s", code, out)
	}
	if out, code, _ := s.do("", 0, "apply"); code != 0 || !strings.Contains(out, string(Awaiting)) {
		t.Errorf("apply: %s", out)
	}
	if e := list(t, s.journal())[0]; e.Confirm != confirmDefault {
		t.Errorf("to be confirmed within %s", e.Confirm)
	}
	s.do("", 0, "revert", onlyID(s.stage))
}

// A restart of the machine ends the guard and the rules alike: what was loaded
// at boot is nobody's edit, and the rules of before the restart are not loaded
// over it. There is nothing to confirm any more.
func rulesRestartedMeanwhile(t *testing.T, prog string) {
	for _, asked := range []bool{true, false} {
		within := "KILL_CONFIRM=500ms"
		if asked {
			within = "KILL_CONFIRM=60s"
		}
		rulesRestarted(t, newSite(t, prog, nftShut, within, "KILL_UNSEEN=1"), asked)
	}
}

func rulesRestarted(t *testing.T, s *site, asked bool) {
	boot := filepath.Join(s.root(), "proc/sys/kernel/random/boot_id")
	must(t, os.MkdirAll(filepath.Dir(boot), 0o755))
	must(t, os.WriteFile(boot, []byte("first\n"), 0o644))
	var p *Plan
	s.in(func() (err error) {
		p, err = Prepare(ctx, host.Open(host.Options{Root: s.root()}), Change{Steps: Steps{Rules{Tool: "nft", Tables: []string{"inet mine"}, Content: nftShut}}})
		return err
	})
	s.env = append(s.env, "KILL_ROOT="+s.root(), "KILL_PLAN="+savePlan(t, s.dir, p))
	out, code, _ := s.do("change.guard-expired", syscall.SIGKILL, "apply")
	if code != 0 {
		t.Fatalf("apply: %s", out)
	}
	id := onlyID(s.stage)
	if asked {
		endGuards(t, list(t, s.journal())[0])
	} else {
		need.Eventually(t, 20*time.Second, "the guard is gone and the time is over", func() bool {
			e := list(t, s.journal())[0]
			return s.hit() && guardGone(e) && e.unsettled(time.Now()) != ""
		})
	}
	must(t, os.WriteFile(boot, []byte("second\n"), 0o644))
	s.in(func() error {
		_, err := s.localhost.Feed(ctx, []byte("flush ruleset\n"+nftSSH), "nft", "-f", "-")
		return err
	})
	loaded := s.state()
	end := []string{"recover"}
	if asked {
		if out, code, _ := s.do("", 0, "confirm", id); code != fail.Failure || !strings.Contains(out, "started anew") {
			t.Errorf("confirmed though its rules are gone: %d %s", code, out)
		}
		end = []string{"revert", id}
	}
	if out, code, _ := s.do("", 0, end...); code != 0 {
		t.Errorf("%q: %s", end, out)
	}
	if !maps.Equal(s.state(), loaded) || list(t, s.journal())[0].Phase != Reverted {
		t.Errorf("journal says %s, rules %q", list(t, s.journal())[0].Phase, s.state())
	}
}

// endGuards ends the guards of a change, as a restart of the machine does.
func endGuards(t *testing.T, e Entry) {
	t.Helper()
	for _, r := range e.Records {
		if pid, err := strconv.Atoi(strings.TrimPrefix(r.Note, "process ")); r.Type == recArmed && err == nil {
			must(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	need.Eventually(t, 20*time.Second, "the guards are gone", func() bool { return guardGone(e) })
}
