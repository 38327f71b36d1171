package pglocal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/host"
	"headroom/testkit/need"
)

// TestMain lets the tests run this program again as the owner of a server.
func TestMain(m *testing.M) {
	if os.Getenv("PGLOCAL_TEST_OWNER") == "" {
		os.Exit(m.Run())
	}
	s, err := Start(context.Background(), Options{Name: "child", Parent: os.Getenv("PGLOCAL_TEST_PARENT")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(owned{os.Getuid(), s.PID(), s.dir, s.DSN()})
	_, _ = os.Stdin.Read(make([]byte, 1))
	if err := s.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// owned is what a child tells of its server.
type owned struct {
	UID, Server int
	Dir, DSN    string
}

// owner is this program run again, with a server of its own.
type owner struct {
	said *os.File // what it tells
	hold *os.File // closed: it stops its server and ends
	kill func()   // kill -9
	wait func() error
}

// runOwner runs this program again as acct (nil: as ourselves).
func runOwner(t *testing.T, acct *host.Account, parent string) owner {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if acct != nil { // go test builds below a folder that only we can enter
		b, err := os.ReadFile(exe)
		if err != nil {
			t.Fatal(err)
		}
		exe = filepath.Join(parent, "child")
		if err := os.WriteFile(exe, b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	stdin, hold, err1 := os.Pipe()
	said, stdout, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	x, err := host.Cmd{Argv: []string{exe}, As: acct, Stdin: stdin, Output: stdout, Detach: true,
		Env: []string{"PGLOCAL_TEST_OWNER=1", "PGLOCAL_TEST_PARENT=" + parent}}.Start()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = stdin.Close(), stdout.Close()
	c := owner{said: said, hold: hold, wait: x.Wait}
	c.kill = func() { _ = x.Process.Kill(); _ = x.Wait() }
	t.Cleanup(func() { _ = x.Process.Kill(); _, _ = said.Close(), hold.Close() })
	return c
}

// child is runOwner that waits until the server runs. It returns what was
// told of the server, a way to kill the owner, and a way to end it in peace.
func child(t *testing.T, acct *host.Account, parent string) (o owned, kill func(), end func() error) {
	t.Helper()
	c := runOwner(t, acct, parent)
	if err := json.NewDecoder(c.said).Decode(&o); err != nil {
		t.Fatalf("the child did not start a server: %v", err)
	}
	return o, c.kill, func() error { return errors.Join(c.hold.Close(), c.wait()) }
}

// folder is a folder for servers that any account can enter.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgt-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// servers lists the servers' folders below parent.
func servers(t *testing.T, parent string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(parent, "pg-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// eventually waits up to 15 s for something to come true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so: %s", what)
		}
	}
}

func TestSeveralAtOnce(t *testing.T) {
	parent := folder(t)
	var wg sync.WaitGroup
	all := make([]*Server, 5)
	for i := range all {
		wg.Go(func() {
			s, err := Start(t.Context(), Options{Parent: parent, Settings: map[string]string{"work_mem": fmt.Sprint(1000+i, "kB")}})
			if err != nil {
				t.Error(err)
				return
			}
			all[i] = s
		})
	}
	wg.Wait()
	for i, s := range all {
		if s == nil {
			continue
		}
		if got := ask(t, s.DSN(), "show work_mem"); got != fmt.Sprint(1000+i, "kB") {
			t.Errorf("server %d: work_mem = %s", i, got)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if err := s.Stop(); err != nil {
			t.Errorf("second Stop: %v", err)
		}
	}
	if left := servers(t, parent); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestRestartAfterKilledPostmaster(t *testing.T) {
	s := run(t, Options{Parent: folder(t)})
	ask(t, s.DSN(), "create table kept as select 42 as n")
	busy, err := pgx.Connect(t.Context(), s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close(context.Background()) }()
	go func() { // a back end that does not look whether its postmaster lives
		_, _ = busy.Exec(t.Context(), "do $$ begin loop end loop; end $$")
	}()
	pid := s.PID()
	eventually(t, "the back end is busy", func() bool {
		return ask(t, s.DSN(), "select count(*)::text from pg_stat_activity where query like 'do %'") == "1"
	})
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.PID() == pid {
		t.Error("the same postmaster")
	}
	if got := ask(t, s.DSN(), "select n::text from kept"); got != "42" {
		t.Errorf("committed row = %q", got)
	}
	r, err := readOwner(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if left := inhabitants(s.DataDir, r); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
}

func TestServerEndsWithItsOwner(t *testing.T) {
	parent := folder(t)
	o, kill, _ := child(t, nil, parent)
	if got := ask(t, o.DSN, "select 1::text"); got != "1" {
		t.Fatalf("child's server answers %q", got)
	}
	if swept, err := Sweep(t.Context(), parent); err != nil || len(swept) > 0 {
		t.Fatalf("swept a living server: %v, %v", swept, err)
	}
	kill()
	eventually(t, "the server has ended by itself", func() bool { return startTime(o.Server) == 0 })
	swept, err := Sweep(t.Context(), parent)
	if err != nil || len(swept) != 1 || swept[0].Folder != o.Dir {
		t.Fatalf("swept %v, %v; want %s", swept, err, o.Dir)
	}
	if left := servers(t, parent); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestKilledAtAnyMoment kills owners while they make a data folder, copy it,
// start the server, or have it.
func TestKilledAtAnyMoment(t *testing.T) {
	parent := folder(t)
	for i := range 12 {
		delay := time.Duration(rand.IntN(600)) * time.Millisecond
		c := runOwner(t, nil, parent)
		time.Sleep(delay)
		c.kill()
		eventually(t, "no process lives below the folder", func() bool { return len(below(t, parent)) == 0 })
		if _, err := Sweep(t.Context(), parent); err != nil {
			t.Fatal(err)
		}
		left, err := filepath.Glob(filepath.Join(parent, "*.tmp"))
		if left = append(left, servers(t, parent)...); err != nil || len(left) > 0 {
			t.Errorf("round %d, killed after %v: left behind %v", i, delay, left)
		}
	}
}

// below lists the processes whose working folder is below a folder.
func below(t *testing.T, folder string) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, l := range links {
		if cwd, err := os.Readlink(l); err == nil && strings.HasPrefix(cwd, folder+"/") {
			found = append(found, l)
		}
	}
	return found
}

func TestSweepEndsOrphans(t *testing.T) {
	t.Parallel()
	parent := folder(t)
	o, kill, _ := child(t, nil, parent)
	// A stopped process cannot heed the kernel's signal: a worst case.
	if err := syscall.Kill(o.Server, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r, err := readOwner(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	kill()
	strange := filepath.Join(parent, "pg-database")
	if err := os.MkdirAll(filepath.Join(strange, "precious"), 0o755); err != nil {
		t.Fatal(err)
	}
	var told []string
	s, err := Start(t.Context(), Options{Parent: parent, Found: func(m string) { told = append(told, m) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if startTime(o.Server) != 0 {
		t.Error("the orphan lives on")
	}
	if len(told) == 0 || !strings.Contains(told[0], o.Dir) || !strings.Contains(told[0], "ended") {
		t.Errorf("told %q, want what was ended and removed", told)
	}
	for _, p := range append(r.SharedMem, o.Dir) {
		if _, err := os.Stat(p); err == nil {
			t.Errorf("%s is still there", p)
		}
	}
	if len(r.SharedMem) == 0 {
		t.Error("the record names no shared memory: nothing was tested of its removal")
	}
	if _, err := os.Stat(filepath.Join(strange, "precious")); err != nil {
		t.Errorf("a folder that is not ours is gone: %v", err)
	}
}

func TestSweepWithoutRecord(t *testing.T) {
	t.Parallel()
	parent := folder(t)
	o, kill, _ := child(t, nil, parent)
	if err := os.WriteFile(filepath.Join(o.Dir, "owner.json"), []byte("{torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(o.Server, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	kill()
	unborn := filepath.Join(parent, "pg-aaaaaaaa")
	draft := filepath.Join(parent, "postgresql-18.6.0.tmp")
	for _, dir := range []string{filepath.Join(unborn, "s"), draft} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	swept, err := Sweep(t.Context(), parent)
	if err != nil || len(swept) != 1 || swept[0].Folder != o.Dir || len(swept[0].Stopped) == 0 {
		t.Errorf("swept %v, %v; want %s and its processes", swept, err, o.Dir)
	}
	for _, dir := range []string{o.Dir, unborn, draft} {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is still there", dir)
		}
	}
	if startTime(o.Server) != 0 {
		t.Error("the orphan lives on")
	}
}

func TestTwoUsers(t *testing.T) {
	need.Have(t, "root")
	nobody, err := host.LookupAccount("nobody")
	if err != nil {
		t.Fatal(err)
	}
	ours := run(t, Options{})
	theirs := folder(t)
	if err := os.Chown(theirs, nobody.UID, nobody.GID); err != nil {
		t.Fatal(err)
	}
	o, _, end := child(t, nobody, theirs)
	if o.UID != nobody.UID {
		t.Fatalf("the child runs as %d", o.UID)
	}
	for dsn, want := range map[string]int{ours.DSN(): ours.acct.UID, o.DSN: nobody.UID} {
		dir := ask(t, dsn, "show data_directory")
		if st, err := statT(dir); err != nil || int(st.Uid) != want {
			t.Errorf("%s belongs to %v (%v), want %d", dir, st, err, want)
		}
	}
	if _, err := Sweep(t.Context(), theirs); err != nil {
		t.Errorf("root sweeps another's folder: %v", err)
	}
	if err := end(); err != nil {
		t.Errorf("the other user's server: %v", err)
	}
	if left := servers(t, theirs); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
