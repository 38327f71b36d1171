package upsert_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/engine/upsert"
	"headroom/host"
	"headroom/pglocal"
	"headroom/testkit/need"
)

// pooler starts PgBouncer in transaction mode with two server connections, so
// that sessions are shared.
func pooler(t *testing.T, s *pglocal.Server) (dsn string) {
	t.Helper()
	need.Have(t, "pgbouncer", "root")
	dir, err := os.MkdirTemp("", "hr-pgb-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	acct, err := host.LookupAccount("postgres")
	if err != nil {
		t.Fatal(err)
	}
	conf := fmt.Sprintf("[databases]\npostgres = host=%s port=%d user=%s\n[pgbouncer]\nlisten_addr=\nunix_socket_dir=%s\nlisten_port=6543\nauth_type=any\npool_mode=transaction\ndefault_pool_size=2\nlogfile=%s/log\npidfile=%s/pid\n",
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
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = host.Cmd{Argv: []string{"pgbouncer", ini}, As: acct}.Run(ctx, 1<<20) // killed at the end, so its error tells nothing
	}()
	t.Cleanup(func() { stop(); <-ended })
	dsn = fmt.Sprintf("host=%s port=6543 user=%s dbname=postgres", dir, s.Conn.User)
	need.Eventually(t, 10*time.Second, "pgbouncer answers", func() bool {
		c, err := pgx.Connect(t.Context(), dsn+" default_query_exec_mode=exec")
		if err == nil {
			_ = c.Close(t.Context())
		}
		return err == nil
	})
	return dsn
}

// halves hands 600 rows over, to a writer each half; with a source the second
// one gets all of them.
func halves(t *testing.T, o upsert.Options, form string) {
	t.Helper()
	for half := range 2 {
		w, err := upsert.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		w.UseForm(form)
		for i := range 300 * (half + 1) {
			if half == 1 && o.Source == "" && i < 300 {
				continue
			}
			doc := `{"n":1}`
			if i%100 == 99 {
				doc = `{"n":"\u0000"}`
			}
			r := row(fmt.Sprintf("May %d 2024 10:00 UTC", 1+i%20), doc)
			r.Seq = int64(i + 1)
			if err := w.Add(t.Context(), r); err != nil {
				t.Fatal(form, err)
			}
		}
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(form, err)
		}
	}
}

// Through a pooler everything works, and no setting of ours stays behind.
func TestThroughAPooler(t *testing.T) {
	dsn := pooler(t, server)
	c := connect(t)
	for _, mode := range []upsert.Mode{upsert.Replace, upsert.Add} {
		for _, form := range forms() {
			name := table(t, c, "id timestamptz primary key, doc jsonb")
			d, err := upsert.Describe(t.Context(), c, name, []string{"id"}, []string{"doc"})
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex // four lanes speak
			var said []string
			o := upsert.Options{Config: config(t, dsn), Table: d, Mode: mode, Connections: 4, Batch: 30, Say: func(s string) {
				mu.Lock()
				defer mu.Unlock()
				said = append(said, s)
			},
				Reject: func(upsert.Row, error) error { return nil }}
			if mode == upsert.Add {
				o.Adds, o.Source = []string{"n"}, "pooler "+name
			}
			halves(t, o, form)
			want := map[upsert.Mode]string{upsert.Replace: "20 20", upsert.Add: "20 594"}[mode]
			if got := all(t, c, "SELECT count(*) || ' ' || sum((doc->>'n')::int) FROM "+name); got[0] != want {
				t.Errorf("%s by %s: %v", mode, form, got)
			}
			if !strings.Contains(strings.Join(said, "\n"), "pooler") {
				t.Errorf("the pooler goes unsaid: %q", said)
			}
		}
	}
	p, err := pgx.Connect(t.Context(), dsn+" default_query_exec_mode=exec")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.Background())
	for _, s := range []string{"statement_timeout", "lock_timeout", "enable_seqscan", "synchronous_commit", "plan_cache_mode"} {
		var v, reset string
		if err := p.QueryRow(t.Context(), "SELECT setting, reset_val FROM pg_settings WHERE name = $1", s).Scan(&v, &reset); err != nil || v != reset {
			t.Errorf("%s is left at %s, not %s; %v", s, v, reset, err)
		}
	}
}

// With a synchronous standby an acknowledged row is on it; when it takes over,
// the writer goes on there, and nothing is lost.
func TestStandbyTakesOver(t *testing.T) {
	need.Have(t, "pg")
	s := durableServer(t, pglocal.Options{})
	run(t, s.DSN(), "CREATE TABLE r (id bigint PRIMARY KEY, doc jsonb)")
	standby, err := s.Standby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Stop() })
	run(t, s.DSN(), "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
	both := fmt.Sprintf("host=%s,%s port=%d,%d user=%s dbname=postgres", standby.Conn.SocketDir, s.Conn.SocketDir, standby.Conn.Port, s.Conn.Port, s.Conn.User)
	c, err := pgx.Connect(t.Context(), both+" target_session_attrs=read-write")
	if err != nil {
		t.Fatal(err)
	}
	d, err := upsert.Describe(t.Context(), c, "r", []string{"id"}, []string{"doc"})
	c.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var w *upsert.Writer
	need.Eventually(t, 10*time.Second, "the setting is in force", func() bool {
		w, err = upsert.Open(t.Context(), upsert.Options{Config: config(t, both), Table: d, Durability: upsert.Replicated, Connections: 2, Batch: 50, Say: func(s string) { t.Log(s) }})
		return err == nil
	})
	var stop atomic.Bool
	var added int64
	done := make(chan error, 1)
	go func() {
		for !stop.Load() {
			if err := w.Add(context.Background(), row(fmt.Sprint(added), `{}`)); err != nil {
				done <- err
				return
			}
			added++
		}
		done <- w.Close(context.Background())
	}()
	need.Eventually(t, 30*time.Second, "rows are acknowledged", func() bool { return w.Acked() > 2000 })
	acked := w.Acked()
	reader, err := pgx.Connect(t.Context(), standby.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close(context.Background())
	if got := all(t, reader, fmt.Sprintf("SELECT count(*)::text FROM r WHERE id < %d", acked)); got[0] != fmt.Sprint(acked) {
		t.Errorf("%s of %d acknowledged rows are on the standby", got[0], acked)
	}
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	acked = w.Acked()
	run(t, standby.DSN(), "SELECT pg_promote()", "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
	need.Eventually(t, 60*time.Second, "rows are acknowledged by the new primary", func() bool { return w.Acked() > acked+2000 })
	stop.Store(true)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := all(t, reader, "SELECT count(*)::text FROM r"); got[0] != fmt.Sprint(added) {
		t.Errorf("%s of %d rows", got[0], added)
	}
}

// A commit that waits for a standby and is cancelled counts as replicated for
// the server, with a warning. It is acknowledged when it is replicated.
func TestCancelledReplicationIsNotAcknowledged(t *testing.T) {
	need.Have(t, "pg")
	s := durableServer(t, pglocal.Options{})
	run(t, s.DSN(), "CREATE TABLE r (id bigint PRIMARY KEY, doc jsonb, n int)", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SET synchronous_commit = local", "SELECT pg_reload_conf()")
	for _, o := range []upsert.Options{{}, {Mode: upsert.Add, Adds: []string{"n"}}} {
		need.Eventually(t, 10*time.Second, "the setting is in force", func() bool {
			c, err := pgx.Connect(t.Context(), s.DSN())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(context.Background())
			return all(t, c, "SHOW synchronous_standby_names")[0] == "nobody"
		})
		o.Durability, o.Connections = upsert.Replicated, 1
		w := openAt(t, s.DSN(), "r", []string{"doc", "n"}, o)
		if err := w.Add(t.Context(), row("1", "{}", "1")); err != nil {
			t.Fatal(err)
		}
		c, err := pgx.Connect(t.Context(), s.DSN())
		if err != nil {
			t.Fatal(err)
		}
		exec(t, c, "SET synchronous_commit = local")
		for range 2 {
			need.Eventually(t, 10*time.Second, "a commit that waits", func() bool {
				return all(t, c, "SELECT count(pg_cancel_backend(pid))::text FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'headroom'")[0] == "1"
			})
		}
		need.Eventually(t, 10*time.Second, "a commit that waits again", func() bool {
			return all(t, c, "SELECT count(*)::text FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'headroom'")[0] == "1"
		})
		if a := w.Acked(); a != 0 {
			t.Errorf("acknowledged %d, replicated to nobody", a)
		}
		exec(t, c, "ALTER SYSTEM SET synchronous_standby_names = ''")
		exec(t, c, "SELECT pg_reload_conf()")
		if err := w.Close(t.Context()); err != nil || w.Acked() != 1 {
			t.Error(err, w.Acked())
		}
		exec(t, c, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
		exec(t, c, "SELECT pg_reload_conf()")
		c.Close(t.Context())
	}
	c, err := pgx.Connect(t.Context(), s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if got := all(t, c, "SELECT n::text FROM r"); len(got) != 1 || got[0] != "2" {
		t.Error("added more than once:", got)
	}
}
