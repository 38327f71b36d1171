package watch

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/change"
	"headroom/store"
	"headroom/testkit/need"
	"headroom/web/auth"
)

// TestRootLeavesNothingThatTheServiceCannotRead: root makes links and tokens
// for a service that runs as an account of its own.
func TestRootLeavesNothingThatTheServiceCannotRead(t *testing.T) {
	need.Have(t, "root")
	const service = 65534
	d := testDirs(t)
	if err := os.Mkdir(d.State, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(d.State, service, service); err != nil {
		t.Fatal(err)
	}
	tokens, err := Tokens(d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Create("web1", auth.Write); err != nil {
		t.Fatal(err)
	}
	if _, err := upPlace(d).link(running{URL: "http://x"}); err != nil {
		t.Fatal(err)
	}
	err = filepath.Walk(d.State, func(path string, fi os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		if st := fi.Sys().(*syscall.Stat_t); st.Uid != service || fi.Mode().Perm()&0o077 != 0 && path != d.State {
			t.Errorf("%s: of user %d, %s", path, st.Uid, fi.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What the service's account puts there does not get it a file of root's.
func TestGivingFollowsNoLink(t *testing.T) {
	need.Have(t, "root")
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	for name, link := range map[string]func(string, string) error{"symlink.json": os.Symlink, "hard.json": os.Link} {
		path := filepath.Join(dir, name)
		if err := link(secret, path+".lock"); err != nil {
			t.Fatal(err)
		}
		_, _ = auth.OpenTokens(path).Create("x", auth.Read) // refused or not: the secret stays root's
	}
	fi, err := os.Stat(secret)
	if err != nil {
		t.Fatal(err)
	}
	if st := fi.Sys().(*syscall.Stat_t); st.Uid != 0 {
		t.Errorf("it belongs to %d now", st.Uid)
	}
}

// What may not be read is named on the page, with the way out.
func TestAJournalThatMayNotBeReadIsAGap(t *testing.T) {
	d := testDirs(t)
	m := newMarker("h", change.OpenJournal(d), filepath.Join(d.State, "results"), func(string) {})
	m.keep = func(context.Context, []store.Mark) error { return nil }
	if err := m.round(t.Context()); err != nil || m.gaps() != nil {
		t.Errorf("with nothing there: %v, %v", err, m.gaps())
	}
	if err := os.MkdirAll(d.State, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.State, "results"), nil, 0o600); err != nil { // no folder: root, too, cannot list it
		t.Fatal(err)
	}
	if err := m.round(t.Context()); err == nil || len(m.gaps()) != 1 || m.gaps()[0].Hint != "" {
		t.Errorf("%v, %+v", err, m.gaps())
	}
	m.unread = fmt.Errorf("list journal: %w", fs.ErrPermission)
	if g := m.gaps(); len(g) != 1 || !strings.Contains(g[0].Hint, "chgrp -R") {
		t.Errorf("%+v", g)
	}
}

// TestALockThatOutlivesItsProcess: one that was killed while it started
// another has its lock for a moment longer; one that lives is named at once.
func TestALockThatOutlivesItsProcess(t *testing.T) {
	p := place{t.TempDir()}
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(p.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := writeAt(f, fmt.Sprintln(dead.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	go func() { time.Sleep(200 * time.Millisecond); _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }()
	release, err := p.hold()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	began := time.Now()
	if _, err := p.hold(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d has it", os.Getpid())) || time.Since(began) >= goneFor {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}
