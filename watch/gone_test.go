package watch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/fail"
	"headroom/host"
)

// TestDroppedSchemaIsMadeAnew: somebody drops the store's schema while it is
// in use. What comes after that is stored, without a restart.
func TestDroppedSchemaIsMadeAnew(t *testing.T) {
	s := startSite(t, Options{NoCollect: true})
	send := func(value int) {
		t.Helper()
		if code, text := s.send(fmt.Sprintf(`{"name":"a_test_count","labels":{"host":"h"},"value":%d}`+"\n", value)); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
	}
	send(1)
	s.until("a point in the store", 60*time.Second, func() bool { return s.points("a_test_count") == 1 })
	c, err := pgx.Connect(t.Context(), storeDSN(s.dirs))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.WithoutCancel(t.Context()))
	const end = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'headroom'"
	for _, also := range []string{"select 1", end} { // as a dropped and restored database does
		if _, err := c.Exec(t.Context(), "drop schema headroom cascade"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec(t.Context(), also); err != nil {
			t.Fatal(err)
		}
		send(2)
		s.until("the point after the drop", 60*time.Second, func() bool { return s.points("a_test_count") == 1 })
	}
	if !s.heard("its tables are gone") {
		t.Error("nobody said that the tables were gone")
	}
	// A table that is only needed when an hour is packed: samples are taken,
	// and it is not said to be well.
	if _, err := c.Exec(t.Context(), "drop table headroom.store_raw cascade"); err != nil {
		t.Fatal(err)
	}
	s.until("the status that tells of it", 60*time.Second, func() bool {
		var st struct {
			OK    bool
			Wrong []string
		}
		return s.get("status", &st) == nil && !st.OK && strings.Contains(strings.Join(st.Wrong, "\n"), "not in order")
	})
}

func storeDSN(d host.Dirs) string {
	return "host=" + filepath.Join(d.State, "store", "s") + " port=5432 user=postgres dbname=postgres"
}

// What can never work is refused at the start, with the way out and without
// the password.
func TestRefusedAtTheStart(t *testing.T) {
	bad := "postgres://me:hush%zz@127.0.0.1:5432/x"
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inFile := host.Dirs{State: filepath.Join(file, "state")}
	for _, x := range []struct {
		name string
		run  func(context.Context) error
		code int
	}{
		{"store", func(ctx context.Context) error { return Run(ctx, Options{Dirs: testDirs(t), Store: bad}) }, fail.Usage},
		{"server", func(ctx context.Context) error { return Run(ctx, Options{Dirs: testDirs(t), Servers: []string{bad}}) }, fail.Usage},
		{"agent's server", func(ctx context.Context) error {
			return Agent(ctx, AgentOptions{Dirs: testDirs(t), To: "http://127.0.0.1:1", Token: "x", Servers: []string{bad}})
		}, fail.Usage},
		{"empty token file", func(ctx context.Context) error {
			return Agent(ctx, AgentOptions{Dirs: testDirs(t), To: "http://127.0.0.1:1", TokenFile: file})
		}, fail.Failure},
		{"folder", func(ctx context.Context) error { return Run(ctx, Options{Dirs: inFile}) }, fail.Failure},
	} {
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		err := x.run(ctx)
		stop()
		if err == nil || fail.Code(err) != x.code || fail.HintOf(err) == "" {
			t.Errorf("%s: %v (exit %d, hint %q); want exit %d and a hint", x.name, err, fail.Code(err), fail.HintOf(err), x.code)
			continue
		}
		if text := err.Error(); strings.Contains(text, "hush") || strings.Contains(text, "\n") {
			t.Errorf("%s: the error holds the password, or more than a line: %q", x.name, text)
		}
	}
}

// A file of sessions that was damaged does not keep it from starting, and lets
// nobody in.
func TestDamagedSessionsAreSetAside(t *testing.T) {
	d := testDirs(t)
	p := upPlace(d)
	if err := p.make(); err != nil {
		t.Fatal(err)
	}
	for name, junk := range map[string]string{"sessions.json": "\x00\x00{junk", "running.json": "\x01", "lock": "junk"} {
		if err := os.WriteFile(p.path(name), []byte(junk), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := startSite(t, Options{Dirs: d, NoCollect: true})
	if !s.heard("sessions.json.damaged") {
		t.Error("nobody said where the damaged file is")
	}
	if _, err := Link(d); err != nil {
		t.Error(err)
	}
	s.stop()
	if _, err := Link(d); !errors.Is(err, fail.ErrAbsent) {
		t.Errorf("a link to what does not run: %v", err)
	}
}
