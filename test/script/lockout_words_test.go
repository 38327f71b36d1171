package script

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"headroom/change"
)

// wants fails the test where a program's answer lacks a text.
func wants(t *testing.T, out string, code, want int, texts ...string) {
	t.Helper()
	if code != want {
		t.Errorf("exit status %d, want %d:\n%s", code, want, out)
	}
	for _, text := range texts {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), text) {
			t.Errorf("no %q in:\n%s", text, out)
		}
	}
}

// TestRulesInWords goes the whole way of a firewall change at the command line.
func TestRulesInWords(t *testing.T) {
	prog := crashing(t)
	f := filters()[0]
	f.shut = strings.Replace(f.shut, "policy drop;\n", "policy drop;\n\t\ttcp dport 22 accept\n", 1) // lets in who knows the door
	s := newSite(t, prog, f)
	feed := func(rules string) {
		s.must(s.near.Do(func() error {
			_, err := s.local.Feed(context.Background(), []byte(rules), "nft", "-f", "-")
			return err
		}))
	}

	feed("add rule inet mine input tcp dport 8080 drop\n")
	out, code := s.run("apply", s.plan)
	wants(t, out, code, 4, "planned from → now", "+ tcp dport 8080 drop", "look at it, then plan again")
	feed(f.reopened())
	if s.rules() != s.before {
		t.Fatalf("the machine is not as it was planned from:\n%s", s.rules())
	}

	out, code = s.run("apply", s.plan, "--confirm-port", "2222")
	wants(t, out, code, 0, "nothing listens on TCP port 2222", "taken back at", "headroom confirm 2")
	out, code = s.run("revert", s.entries()[0].ID)
	wants(t, out, code, 0, "all is as before")

	old, err := s.dial()
	s.must(err)
	defer old.Close()
	out, code = s.run("apply", s.plan, "--confirm-within", "5m")
	wants(t, out, code, 0, "applied and verified", "leave this connection open, log in once more from another machine (a new connection to TCP port 22), and confirm there")
	id := s.entries()[1].ID
	out, code = s.run("confirm", id)
	wants(t, out, code, 1, "it wants a new connection from outside to TCP port 22 since it was applied: none was seen", "--confirm-unseen")
	fresh, err := s.dial()
	s.must(err)
	defer fresh.Close()
	out, code = s.run("confirm", id)
	wants(t, out, code, 0, "seen since: a new connection from 10.99.0.2:", "confirmed: change "+id+" stays")
	out, code = s.run("journal", id)
	wants(t, out, code, 0, "seen since: a new connection from")
	out, code = s.run("revert", id)
	wants(t, out, code, 0, "all is as before")

	c := s.command([]string{"HEADROOM_STATE=."}, "apply", s.plan, "--confirm-within", "5m")
	c.Dir = s.dir // the guard works in another folder, and finds the journal all the same
	out, code = s.end(c)
	wants(t, out, code, 0, "applied and verified")
	id = s.entries()[2].ID
	out, code = s.run("confirm", id, "--confirm-unseen")
	wants(t, out, code, 0, "confirmed without a new connection having been seen")
	out, code = s.run("revert", id)
	wants(t, out, code, 0, "all is as before")
	for _, e := range s.entries() {
		if e.Phase != change.Reverted {
			t.Errorf("change %s is %s", e.ID, e.Phase)
		}
	}
}

// reopened replaces what filters by the rules that let all in.
func (f filter) reopened() string { return "delete table inet mine\n" + f.open }

// dial comes in from outside.
func (s *site) dial() (c net.Conn, err error) {
	err = s.far.Do(func() error {
		c, err = net.DialTimeout("tcp", "10.99.0.1:22", 5*time.Second)
		return err
	})
	return c, err
}
