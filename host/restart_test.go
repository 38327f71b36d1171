package host_test

import (
	"context"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"headroom/host"
	"headroom/pglocal"
	"headroom/testkit/need"
)

// A server that no unit keeps: after a restart its log goes on where it was,
// and it has the groups of its account.
func TestRestartKeepsLogAndGroups(t *testing.T) {
	need.Have(t, "pg", "root")
	s, err := pglocal.Start(t.Context(), pglocal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := s.Host().PGRunning(t.Context())
	gid := groupOf(t, s.DataDir)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "restart") // a socket's name is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chown(dir, run.Owner, gid); err != nil {
		t.Fatal(err)
	}
	as := &host.Account{Name: strconv.Itoa(run.Owner), UID: run.Owner, GID: gid, Home: "/"}
	program := func(argv ...string) string {
		t.Helper()
		out, err := host.Cmd{Argv: argv, As: as}.Run(t.Context(), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	bin := func(name string) string { return filepath.Join(filepath.Dir(run.Program), name) }
	data, log := filepath.Join(dir, "data"), filepath.Join(dir, "log")
	program(bin("initdb"), "-D", data, "-U", "me", "-A", "trust", "-N")
	program(bin("pg_ctl"), "-D", data, "-l", log, "-w", "-s", "-o", "-k "+dir+" -c listen_addresses= -p 7", "start")
	t.Cleanup(func() {
		_, _ = host.Cmd{Argv: []string{bin("pg_ctl"), "-D", data, "-m", "immediate", "-s", "stop"}, As: as}.Run(context.Background(), 1<<20)
	})
	l := host.Open(host.Options{WithPG: true, DSN: "host=" + dir + " port=7 user=me dbname=postgres"})
	defer l.Close()
	if err := l.PGRestart(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, err := l.PGRunning(t.Context())
	if err != nil || after.Log != log {
		t.Errorf("the log goes to %q, %v, want %q", after.Log, err, log)
	}
	if err := l.PG(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "select 1/0")
		return err
	}); err == nil {
		t.Fatal("1/0 is fine")
	}
	if b, err := os.ReadFile(log); err != nil || !strings.Contains(string(b), "division by zero") {
		t.Errorf("log: %v\n%s", err, b)
	}
	u, err := user.LookupId(strconv.Itoa(run.Owner))
	if err != nil {
		t.Fatal(err)
	}
	want, err := u.GroupIds()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(program("id", "-G"))
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("groups %q, want %q", got, want)
	}
}

func groupOf(t *testing.T, path string) int {
	t.Helper()
	st, err := host.Open(host.Options{}).Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.GID
}
