package script

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"headroom/pglocal"
	"headroom/testkit/need"
)

// nobody is an account with no rights.
const nobody = 65534

// as runs the program as an account and returns what it wrote; the program's
// file is a copy that everybody may run.
func as(t *testing.T, uid uint32, self, state string, args ...string) (string, error) {
	t.Helper()
	cmd := &exec.Cmd{Path: self, Args: append([]string{"headroom"}, args...), Env: append(os.Environ(), "HEADROOM_STATE="+state, "HOME=/nonexistent", "TERM=dumb"), Dir: "/",
		SysProcAttr: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func everybodys(t *testing.T, state string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(state, "program")
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestTheServiceReadsWhatRootChanged: root applies a change on a machine that
// is watched by an account of its own. That account sees it, cannot write to
// it, and others do not see it.
func TestTheServiceReadsWhatRootChanged(t *testing.T) {
	need.Have(t, "root", "pg")
	s, err := pglocal.Start(t.Context(), pglocal.Options{Name: "service"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	state := stateFolder(t)
	own := filepath.Join(state, "state")
	if err := os.Mkdir(own, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(own, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	program := everybodys(t, state)
	out, err := as(t, 0, program, state, "plan", "postgres.setting", "work_mem=8MB", "--db", s.DSN())
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	plan := regexp.MustCompile(`apply ([0-9a-f]{8})`).FindStringSubmatch(out)
	if plan == nil {
		t.Fatalf("no plan in:\n%s", out)
	}
	if out, err := as(t, 0, program, state, "apply", plan[1], "--db", s.DSN()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := as(t, nobody, program, state, "journal"); err != nil || !strings.Contains(out, "work_mem") {
		t.Errorf("the service's account: %v\n%s", err, out)
	}
	if out, err := as(t, nobody-1, program, state, "journal"); err == nil {
		t.Errorf("another account reads the journal:\n%s", out)
	}
	err = filepath.Walk(filepath.Join(own, "journal"), func(path string, fi os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		if st := fi.Sys().(*syscall.Stat_t); st.Uid != 0 || fi.Mode().Perm()&0o027 != 0 {
			t.Errorf("%s: of user %d, %s", path, st.Uid, fi.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
