package pg

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/fact"
	"headroom/host"
	"headroom/testkit/need"
)

// as changes the user of a connection string.
func as(dsn, user string) string { return dsn + " user=" + user }

func TestFewRightsNameTheGrant(t *testing.T) {
	s := start(t, 0, nil)
	sql(t, s.DSN(), `create role "o'look" login`, `grant connect on database postgres to "o'look"`)
	// Another role's session, which the poor one may not see into.
	other, err := pgx.Connect(t.Context(), s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())

	set := gatherAny(t, open(t, as(s.DSN(), `'o\'look'`)), Sources()...)
	if why := set.Why(Folders); !strings.Contains(why, `GRANT pg_monitor TO "o'look"`) {
		t.Errorf("folders: %q must name the GRANT", why)
	}
	c := fact.Get(set, Settings)
	if !strings.Contains(c.Why("shared_preload_libraries"), `GRANT pg_monitor TO "o'look"`) || c.Why("max_wal_size") != "" {
		t.Errorf("hidden settings: %q", c.Why("shared_preload_libraries"))
	}
	if a := fact.Get(set, Activity); a.Used != 1 || a.Idle.OK() || !strings.Contains(a.Idle.Because, "GRANT pg_monitor") {
		t.Errorf("sessions: %+v", a)
	}
	if srv := fact.Get(set, Servers); srv.Superuser || srv.Monitor || srv.User != "o'look" {
		t.Errorf("server: %+v", srv)
	}
	for _, f := range []fact.Any{Checkpoints, WAL, Tables, Databases, Extensions, Statements, Replication} {
		needs := f == fact.Any(WAL) && s.Major == 13 // where the log's folder is read
		if why := set.Why(f); needs != strings.Contains(why, "GRANT pg_monitor") || !needs && why != "" {
			t.Errorf("%s needs no rights, but: %s", f.Key(), why)
		}
	}
	sql(t, s.DSN(), `grant pg_monitor to "o'look"`)
	gather(t, open(t, as(s.DSN(), `'o\'look'`)), Sources()...)
}

func TestStandby(t *testing.T) {
	s := start(t, 0, nil)
	sb, err := s.Standby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Stop()
	set := gather(t, open(t, sb.DSN()), Sources()...)
	if srv := fact.Get(set, Servers); !srv.Recovery {
		t.Error("a standby must be seen as one")
	}
	if c := fact.Get(set, Settings); c.Text("primary_conninfo") != "(set)" {
		t.Errorf("primary_conninfo = %q", c.Text("primary_conninfo"))
	}
	if fact.Get(set, Checkpoints).WALSince.OK() {
		t.Error("a standby writes no write-ahead log of its own")
	}
	rep := fact.Get(gather(t, open(t, s.DSN()), Replication), Replication)
	if len(rep.Standbys) != 1 || len(rep.Slots) != 1 || !rep.Standbys[0].Lag.OK() || !rep.Slots[0].Active {
		t.Errorf("replication seen from the primary: %+v", rep)
	}
}

func TestPoolerIsSeen(t *testing.T) {
	need.Have(t, "pgbouncer", "root")
	s := start(t, 0, nil)
	dir, err := os.MkdirTemp("", "pgb")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	acct, err := host.LookupAccount("postgres")
	if err != nil {
		t.Fatal(err)
	}
	conf := fmt.Sprintf("[databases]\npostgres = host=%s port=%d user=%s\n[pgbouncer]\nlisten_addr=\nunix_socket_dir=%s\nlisten_port=6543\nauth_type=any\npool_mode=transaction\nlogfile=%s/log\npidfile=%s/pid\n",
		s.Conn.SocketDir, s.Conn.Port, s.Conn.User, dir, dir, dir)
	ini := filepath.Join(dir, "ini")
	if err := os.WriteFile(ini, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{dir, ini} {
		if err := os.Chown(p, acct.UID, acct.GID); err != nil {
			t.Fatal(err)
		}
	}
	startAs(t, acct, "pgbouncer", ini)
	dsn := fmt.Sprintf("host=%s port=6543 user=%s dbname=postgres", dir, s.Conn.User)
	need.Eventually(t, 10*time.Second, "pgbouncer answers", func() bool {
		c, err := pgx.Connect(t.Context(), dsn+" default_query_exec_mode=exec")
		if err == nil {
			_ = c.Close(t.Context())
		}
		return err == nil
	})
	set := gather(t, open(t, dsn), Sources()...)
	if !fact.Get(set, Servers).Pooled {
		t.Error("the pooler was not seen")
	}
	check := fact.Get(set, Settings)
	if v, _ := check.Number("max_wal_size"); v != 1<<30 {
		t.Errorf("max_wal_size through the pooler = %v", v)
	}
}

func TestHostileNamesSurvive(t *testing.T) {
	s := start(t, 0, nil)
	names := []string{`a"b`, "line\nbreak", `'; drop table x; --`, strings.Repeat("é", 31), "select", " ", `back\slash`, "🐘🐘", "\x1b[2J\\x", "a\u202eb"}
	for _, n := range names {
		q := pgx.Identifier{n}.Sanitize()
		sql(t, s.DSN(), "create schema "+q, "create table "+q+"."+q+" (k int) with (autovacuum_enabled = off, autovacuum_vacuum_scale_factor = 0.5)",
			"insert into "+q+"."+q+" values (1)")
	}
	seen := map[string]Table{}
	for _, tb := range fact.Get(gather(t, open(t, s.DSN()), Tables), Tables).Tables {
		seen[tb.Name] = tb
	}
	for _, n := range names {
		tb, ok := seen[n]
		if !ok || tb.Schema != n || tb.Auto || tb.Scale != 0.5 {
			t.Errorf("table %q = %+v", n, tb)
			continue
		}
		// What we print must be what SQL takes.
		sql(t, s.DSN(), "select from "+tb.Quoted())
	}
}

func TestSecretsStayOnTheServer(t *testing.T) {
	const canary = "hunter2canary"
	s := start(t, 0, map[string]string{
		"archive_mode": "on", "archive_command": "PGPASSWORD=" + canary + " true",
	})
	l := open(t, s.DSN())
	sql(t, s.DSN(), "create table t (v text)", "insert into t values ('"+canary+"')", "select count(*) from t where v = '"+canary+"'")
	set := gather(t, l, Sources()...)
	var b strings.Builder
	if err := set.Save(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), canary) {
		t.Error("a secret entered the facts")
	}
	c := fact.Get(set, Settings)
	if c.Text("archive_command") != "(set)" || c.Text("restore_command") != "(not set)" {
		t.Errorf("redaction: %q %q", c.Text("archive_command"), c.Text("restore_command"))
	}
	if v := c.Text("password_encryption"); v != "scram-sha-256" && v != "md5" { // md5 up to PostgreSQL 13
		t.Errorf("password_encryption is no secret: %q", v)
	}
}

func TestSecretNames(t *testing.T) {
	f := func(name, vartype, want string) {
		t.Helper()
		if got := finish(name, Setting{Type: vartype, Value: "v", Boot: "v"}); got.Value != want || want == "(set)" && got.Boot != "" {
			t.Errorf("%s (%s) = %+v, want %q", name, vartype, got, want)
		}
	}
	f("primary_conninfo", "string", "(set)")
	f("ssl_passphrase_command", "string", "(set)")
	f("my.Password", "string", "(set)")
	f("app.jwt", "string", "(set)")
	f("auto_explain.log_format", "enum", "v")
	f("pg_stat_statements.track", "string", "v")
	f("log_line_prefix", "string", "v")
	f("ssl_key_file", "string", "v")
}

func TestThousandTablesAreCheap(t *testing.T) {
	s := start(t, 0, map[string]string{"log_min_duration_statement": "500", "max_locks_per_transaction": "512"})
	sql(t, s.DSN(), `do $$ begin for i in 1..1000 loop execute format('create table t%s as select %s as k', i, i); end loop; end $$`)
	l := open(t, s.DSN())
	before := len(s.Log(1000))
	tb := fact.Get(gather(t, l, Sources()...), Tables)
	if tb.Count < 1000 || len(tb.Tables) < 90 || len(tb.Tables) > 200 {
		t.Errorf("%d tables, %d shown", tb.Count, len(tb.Tables))
	}
	for _, line := range s.Log(1000)[before:] {
		if strings.Contains(line, "duration:") {
			t.Errorf("a statement took over 500 ms: %s", line)
		}
	}
	var n int
	err := l.PG(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, "select count(*) from pg_stat_activity where application_name = 'headroom'").Scan(&n)
	})
	if err != nil || n != 1 {
		t.Errorf("%d connections, %v", n, err)
	}
}

func TestCounters(t *testing.T) {
	s := start(t, 0, nil)
	l := open(t, s.DSN())
	before, err := ReadCounters(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	sql(t, s.DSN(), "create table t as select generate_series(1, 1000) as k", "checkpoint")
	var after Counters
	need.Eventually(t, 10*time.Second, "the counters move", func() bool {
		after, err = ReadCounters(t.Context(), l)
		return err == nil && after.Requested > before.Requested && after.Commits > before.Commits && after.Inserted >= before.Inserted+1000
	})
	if after.WALBytes <= before.WALBytes || after.WALImages.OK() != (s.Major > 13) || after.Checkpointing != fact.Known(false) {
		t.Errorf("counters = %+v", after)
	}
}

// startAs runs a program as another account until the test ends.
func startAs(t *testing.T, acct *host.Account, argv ...string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = host.Cmd{Argv: argv, As: acct}.Run(ctx, 1<<20) // killed at the end, so its error tells nothing
	}()
	t.Cleanup(func() { stop(); <-ended })
}

// A database of another encoding: its names come as what they are.
func TestNamesOfAnotherEncoding(t *testing.T) {
	s := start(t, 0, nil)
	sql(t, s.DSN(), `create database old encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0`)
	old := s.DSN() + " dbname=old"
	sql(t, old+" client_encoding=UTF8", "create table café (i int)")
	all := fact.Get(gather(t, open(t, old), Tables), Tables)
	for _, one := range all.Tables {
		if one.Name == "café" {
			return
		}
	}
	t.Errorf("café is not among the %d tables", all.Count)
}
