package pool

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/host"
	"headroom/pglocal"
	"headroom/testkit"
	"headroom/testkit/need"
)

// A real PgBouncer before a real server: statements are counted, a client that
// waits is seen, and a restart does not leave us without it.
func TestARealPgBouncer(t *testing.T) {
	need.Have(t, "pgbouncer", "pg", "root")
	s, err := pglocal.Start(t.Context(), pglocal.Options{Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	const port = 6439
	dir, restart := testkit.Bouncer(t, port, fmt.Sprintf("host=%s port=%d user=%s", s.Conn.SocketDir, s.Conn.Port, s.Conn.User),
		"stats_users = watcher\nmax_client_conn = 77\ndefault_pool_size = 1\n")
	r := host.Open(host.Options{DSN: fmt.Sprintf("host=%s port=%d user=watcher", dir, port), WithPG: true})
	defer r.Close()
	need.Eventually(t, 10*time.Second, "pgbouncer answers", func() bool {
		_, err := r.Console(t.Context(), "show version")
		return err == nil
	})
	dsn := fmt.Sprintf("host=%s port=%d user=app dbname=postgres default_query_exec_mode=simple_protocol", dir, port)
	holder := connect(t, dsn)
	if _, err := holder.Exec(t.Context(), "begin; select 1"); err != nil {
		t.Fatal(err)
	}
	waiter := connect(t, dsn)
	answered := make(chan error, 1)
	go func() { _, err := waiter.Exec(t.Context(), "select 2"); answered <- err }()
	var got string
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(got)
		}
	})
	need.Eventually(t, 10*time.Second, "a client is seen waiting", func() bool {
		got = testkit.Read(t, r, Topic.Collectors...)
		return strings.Contains(got, `pgbouncer_clients{database="postgres",state="waiting",user="postgres"} 1`)
	})
	for _, want := range []string{
		`pgbouncer_clients_limit 77`, `pgbouncer_pool_size 1`, `pgbouncer_info{pool_mode="transaction",version="1.`,
		`pgbouncer_servers{database="postgres",state="active",user="postgres"} 1`, `pgbouncer_queries_total{database="postgres"} `,
		`pgbouncer_longest_wait_seconds{database="postgres",user="postgres"} `, `pgbouncer_clients_connected 3`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %s in:\n%s", want, got)
		}
	}
	if strings.Contains(got, `database="pgbouncer"`) {
		t.Errorf("the console itself is among the pools:\n%s", got)
	}
	if _, err := holder.Exec(t.Context(), "commit"); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	restart()
	need.Eventually(t, 10*time.Second, "the console answers after a restart", func() bool {
		_, err := r.Console(t.Context(), "show stats")
		return err == nil
	})
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(t.Context()) })
	return c
}
