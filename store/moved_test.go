package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/host"
	"headroom/metric"
	"headroom/pglocal"
	"headroom/testkit/need"
)

// TestMovedToANewerServer: behind an open store, the server is replaced by one
// of a newer major version that was filled by pg_dump, as in an upgrade. Points
// from before are there, those after are written, each once.
func TestMovedToANewerServer(t *testing.T) {
	need.Have(t, "pg", "embedded")
	old, newer := private(t, pglocal.Options{Major: 13}), private(t, pglocal.Options{Major: 18})
	at := filepath.Join(t.TempDir(), ".s.PGSQL.5432")
	lead := func(s *pglocal.Server) {
		t.Helper()
		next := at + ".new"
		if err := os.Symlink(filepath.Join(s.Conn.SocketDir, fmt.Sprintf(".s.PGSQL.%d", s.Conn.Port)), next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, at); err != nil {
			t.Fatal(err)
		}
	}
	lead(old)
	c := newClock("2026-03-01 10:00:00")
	s := openStore(t, fmt.Sprintf("host=%s port=5432 user=%s dbname=postgres", filepath.Dir(at), old.Conn.User), c)
	x := series("x")
	for range 3 { // the first two hours are packed, the third is not
		write(t, s, batch(row(x, pt(c.now(), 1), pt(c.now().Add(time.Minute), 2))))
		c.add(time.Hour)
		maintain(t, s)
	}
	before := batch(row(x, pt(c.now(), 3)))
	write(t, s, before)
	move(t, old, newer)
	if err := old.Stop(); err != nil {
		t.Fatal(err)
	}
	lead(newer)
	after := batch(row(x, pt(c.now().Add(time.Minute), 4)))
	need.Eventually(t, 60*time.Second, "written to the newer server, an answered batch not again", func() bool {
		return s.Write(context.Background(), []*metric.Batch{before, after}) == nil
	})
	need.Eventually(t, 60*time.Second, "packed on the newer server", func() bool { return s.Maintain(context.Background()) == nil })
	pg := dial(t, newer.DSN())
	if v := one[string](t, pg, "show server_version"); !strings.HasPrefix(v, "18") {
		t.Fatalf("PostgreSQL %s", v)
	}
	if n := one[int64](t, pg, "select count(*) from headroom.point"); n != 8 {
		t.Errorf("%d points, want 8", n)
	}
	c.add(26 * time.Hour)
	write(t, s, batch(row(x, pt(c.now(), 5))))
	maintain(t, s)
	if n := one[int64](t, pg, "select sum(count)::int8 from headroom.hour"); n != 9 {
		t.Errorf("%d points in hours, want 9", n)
	}
}

// move copies all that a server holds to another.
func move(t *testing.T, from, to *pglocal.Server) {
	t.Helper()
	l := host.Open(host.Options{})
	defer l.Close()
	bins, err := l.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(bins) == 0 {
		t.Fatal(err, "no pg_dump")
	}
	bin, file := bins[len(bins)-1], filepath.Join(t.TempDir(), "dump.sql")
	for _, argv := range [][]string{
		{bin + "/pg_dump", "-d", from.DSN(), "-f", file},
		{bin + "/psql", "-qX", "-v", "ON_ERROR_STOP=1", "-d", to.DSN(), "-f", file},
	} {
		if _, err := (host.Cmd{Argv: argv}).Run(t.Context(), 1<<20); err != nil {
			t.Fatal(err)
		}
	}
}

func TestServerTooOld(t *testing.T) {
	for version, told := range map[int]string{120022: "PostgreSQL 12,", 90624: "PostgreSQL 9.6,", 130000: "", 180006: ""} {
		err := tooOld(version)
		if (err == nil) != (told == "") || err != nil && (!strings.Contains(err.Error(), told) || IsPermanent(err)) {
			t.Errorf("%d: %v", version, err)
		}
	}
}
