package script

import (
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"headroom/change"
	"headroom/host"
	"headroom/testkit/need"
)

// TestBesideIptablesApply loses the terminal in the middle of a change that
// locks everybody out, once with Debian's iptables-apply, once with ours.
func TestBesideIptablesApply(t *testing.T) {
	need.Have(t, "iptables")
	prog := crashing(t)
	f := filters()[2]
	f.tool, f.tables = "iptables", []string{"filter"} // as iptables-apply does
	f.open, f.shut = strings.SplitAfter(f.open, "COMMIT\n")[1], strings.SplitAfter(f.shut, "COMMIT\n")[1]
	t.Run("iptables-apply", func(t *testing.T) {
		theirs, err := host.FindProgram("iptables-apply")
		if err != nil {
			need.Without(t, "iptables", "no iptables-apply: apt-get install iptables")
		}
		s := newSite(t, prog, f)
		file := s.dir + "/rules"
		s.must(writeFile(file, f.shut))
		c := exec.Command(theirs, "-t", "3", file)
		master := s.terminal(c)
		waitFor(t, master, "Can you establish NEW connections")
		s.must(master.Close())
		_ = c.Wait()
		time.Sleep(4 * time.Second) // its own time is over
		if s.letsIn(500*time.Millisecond) || s.rules() == s.before {
			t.Errorf("iptables-apply brought the old rules back: say so where it is said that it does not:\n%s", s.rules())
		}
	})
	t.Run("headroom apply", func(t *testing.T) {
		s := newSite(t, prog, f)
		c := s.command(nil, "apply", s.plan, "--confirm-within", "3s")
		master := s.terminal(c)
		waitFor(t, master, "taken back at")
		if s.letsIn(200 * time.Millisecond) {
			t.Error("the rules lock nobody out: the test shows nothing")
		}
		s.must(master.Close())
		_ = c.Wait()
		need.Eventually(t, 30*time.Second, "somebody can come in again", func() bool { return s.letsIn(300 * time.Millisecond) })
		need.Eventually(t, 10*time.Second, "the journal says so", func() bool { return s.entries()[0].Phase == change.Reverted })
		if s.rules() != s.before {
			t.Errorf("after the loss of the terminal:\n%s", s.rules())
		}
	})
}

// waitFor reads a terminal until a text has been written there.
func waitFor(t *testing.T, r io.Reader, text string) {
	t.Helper()
	var seen strings.Builder
	found := make(chan bool, 1)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := r.Read(buf)
			seen.Write(buf[:n])
			if strings.Contains(seen.String(), text) {
				found <- true
				return
			}
			if err != nil {
				found <- false
				return
			}
		}
	}()
	select {
	case ok := <-found:
		if !ok {
			t.Fatalf("the terminal says:\n%s", seen.String())
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("after 30 s the terminal does not say %q", text)
	}
}
