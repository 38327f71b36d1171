package pg

import (
	"context"
	"strconv"
	"strings"
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
	if major != 0 {
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

func TestEveryFactOnEveryVersion(t *testing.T) {
	for major := Oldest; major <= Newest; major++ {
		t.Run(strconv.Itoa(major), func(t *testing.T) {
			s := start(t, major, map[string]string{"shared_preload_libraries": "pg_stat_statements"})
			sql(t, s.DSN(), "create table t as select g as k, g::text as v from generate_series(1, 10000) g",
				"vacuum analyze t", "delete from t where k % 2 = 0", "checkpoint")
			l := open(t, s.DSN())
			// Up to 14 a process of its own collects what sessions send.
			need.Eventually(t, 30*time.Second, "the deleted rows are counted", func() bool {
				tb := fact.Get(gather(t, l, Tables), Tables)
				return len(tb.Tables) > 0 && tb.Tables[0].Dead == 5000
			})
			check(t, gather(t, l, Sources()...))
		})
	}
}

func check(t *testing.T, set *fact.Set) {
	t.Helper()
	c := fact.Get(set, Settings)
	if v, ok := c.Number("max_wal_size"); !ok || v != 1<<30 || c.Shown("max_wal_size") != "1 GB" {
		t.Errorf("max_wal_size = %v, %q", v, c.Shown("max_wal_size"))
	}
	if c.Shown("checkpoint_timeout") != "5 min" || c.Shown("random_page_cost") != "4" || c.Hidden != "" || !c.On("fsync") {
		t.Errorf("settings are read wrongly: %q %q", c.Shown("checkpoint_timeout"), c.Shown("random_page_cost"))
	}
	if cp := fact.Get(set, Checkpoints); cp.Requested < 1 || !cp.Last.OK() || !cp.WALSince.OK() || cp.Since <= 0 {
		t.Errorf("checkpoints = %+v", cp)
	}
	if w := fact.Get(set, WAL); w.Bytes < 0 || w.Since <= 0 {
		t.Errorf("wal = %+v", w)
	} else if w.Images.OK() && (w.Bytes < 100_000 || w.Records.Value < 10_000 || w.Rate() <= 0 || !w.Full.OK()) || w.Images.OK() != (fact.Get(set, Servers).Major > 13) {
		t.Errorf("wal = %+v", w)
	}
	tb := fact.Get(set, Tables)
	if len(tb.Tables) == 0 || tb.Tables[0].Name != "t" || tb.Tables[0].Dead != 5000 || tb.Tables[0].VacuumAt != 2050 || !tb.Tables[0].Due() {
		t.Errorf("tables = %+v", tb)
	}
	if db := fact.Get(set, Databases); len(db) != 3 || !db[0].Bytes.OK() || db[0].Bytes.Value < 1<<20 {
		t.Errorf("databases = %+v", db)
	}
	if a := fact.Get(set, Activity); a.Max != 100 || !a.Active.OK() {
		t.Errorf("sessions = %+v", a)
	}
	if st := fact.Get(set, Statements); !st.Loaded.Value || st.Installed || st.Preload.Value != "pg_stat_statements" {
		t.Errorf("statements = %+v", st)
	}
}

func TestLogThatIsNotCounted(t *testing.T) {
	s := start(t, 13, nil)
	l := open(t, s.DSN())
	before := fact.Get(gather(t, l, WAL), WAL).Bytes
	sql(t, s.DSN(), "create table t as select g as k, repeat('x', 1000) as v from generate_series(1, 50000) g")
	set := gather(t, l, WAL, Servers)
	after, up := fact.Get(set, WAL), fact.Get(set, Servers).Uptime
	if wrote := after.Bytes - before; wrote < 50<<20 || wrote > 80<<20 || after.Since < 1 || after.Since > up+5 {
		t.Errorf("50 MB of rows: %d bytes of log in %v s, server up for %v s", wrote, after.Since, up)
	}
	// The checkpoint is now the oldest mark, or a segment that it kept is.
	sql(t, s.DSN(), "checkpoint", "checkpoint")
	if w := fact.Get(gather(t, l, WAL), WAL); w.Bytes < 0 || w.Bytes > after.Bytes+1<<20 {
		t.Errorf("after a checkpoint: %d bytes of log, before it %d", w.Bytes, after.Bytes)
	}
}

// What is set for the role that we connect as says nothing about the server.
func TestSettingsOfOurRoleAreNotTheServers(t *testing.T) {
	s := start(t, 0, map[string]string{"random_page_cost": "1.5", "maintenance_work_mem": "2GB", "log_lock_waits": "yes", "log_min_duration_statement": "1min"})
	sql(t, s.DSN(), "alter role postgres set random_page_cost = 9", "alter role postgres set maintenance_work_mem = '7MB'",
		"alter role postgres set log_lock_waits = off", "alter role postgres set log_min_duration_statement = 0",
		"alter database postgres set work_mem = '1GB'", "create role looker login", "grant pg_monitor to looker", "alter role looker set synchronous_commit = off")
	c := fact.Get(gather(t, open(t, s.DSN()), Settings), Settings)
	for name, want := range map[string]string{"random_page_cost": "1.5", "maintenance_work_mem": "2 GB", "log_lock_waits": "on", "log_min_duration_statement": "60 s", "work_mem": "4 MB"} {
		if got := c.Shown(name); got != want || c.Why(name) != "" {
			t.Errorf("%s = %q, want %q; %s", name, got, want, c.Why(name))
		}
	}
	if at := c.All["random_page_cost"]; at.Line == 0 || !strings.HasSuffix(at.File, "postgresql.conf") || c.Stock("random_page_cost") || !c.Stock("work_mem") {
		t.Errorf("%+v", at)
	}
	low := fact.Get(gather(t, open(t, strings.Replace(s.DSN(), "user=postgres", "user=looker", 1)), Settings), Settings)
	if why := low.Why("work_mem"); !strings.Contains(why, `"1048576"`) || !strings.Contains(why, "ALTER DATABASE") {
		t.Errorf("work_mem: %s", why)
	}
	if _, ok := low.Number("work_mem"); ok || low.Off("synchronous_commit") || low.Why("synchronous_commit") == "" || low.Why("random_page_cost") != "" {
		t.Errorf("%+v %+v", low.All["work_mem"], low.All["synchronous_commit"])
	}
}
