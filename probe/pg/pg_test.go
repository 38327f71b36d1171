package pg

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/fact"
	"headroom/host"
	"headroom/pglocal"
	"headroom/testkit/need"
)

// start is a private server of the given version (0: the newest installed).
func start(t *testing.T, major int, settings map[string]string) *pglocal.Server {
	t.Helper()
	need.Have(t, "pg")
	if major > 15 {
		need.Have(t, "embedded")
	}
	s, err := pglocal.Start(t.Context(), pglocal.Options{Major: major, Settings: settings, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// open is this machine with a server; the test closes it.
func open(t *testing.T, dsn string) *host.Local {
	t.Helper()
	l := host.Open(host.Options{DSN: dsn, WithPG: true})
	t.Cleanup(l.Close)
	return l
}

// sql runs statements on a connection of its own.
func sql(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, s := range statements {
		if _, err := c.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// gather reads facts and fails where one of them cannot be told.
func gather(t *testing.T, r host.Reader, want ...fact.Any) *fact.Set {
	t.Helper()
	set := gatherAny(t, r, want...)
	for _, w := range want {
		if why := set.Why(w); why != "" {
			t.Fatalf("%s: %s", w.Key(), why)
		}
	}
	return set
}

func gatherAny(t *testing.T, r host.Reader, want ...fact.Any) *fact.Set {
	t.Helper()
	set, err := fact.Gather(t.Context(), r, fact.Options{}, want...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestServerAndFolders(t *testing.T) {
	s := start(t, 0, nil)
	set := gather(t, open(t, s.DSN()), Servers, Folders)
	srv, f := fact.Get(set, Servers), fact.Get(set, Folders)
	if int(srv.Major) != s.Major || srv.Recovery || srv.Pooled || !srv.Superuser || !srv.Monitor || !srv.Socket || !srv.Identifier.OK() {
		t.Errorf("server = %+v", srv)
	}
	if srv.Same != fact.Known(true) || srv.Uptime < 0 || srv.Uptime > time.Hour.Seconds() {
		t.Errorf("same machine %+v, uptime %v", srv.Same, srv.Uptime)
	}
	if f.Data != s.DataDir || f.WAL != fact.Known(s.DataDir+"/pg_wal") || f.Log.OK() || len(f.Tablespaces) != 0 {
		t.Errorf("folders = %+v, want data in %s", f, s.DataDir)
	}
}
