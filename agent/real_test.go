package agent

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/host"
	"headroom/metric"
	"headroom/pglocal"
	"headroom/testkit"
	"headroom/testkit/need"
	"headroom/topic/nginx"
	pooltopic "headroom/topic/pool"
)

// latest keeps the last sample of each series.
type latest struct {
	mu sync.Mutex
	of map[string]float64
	at map[string]time.Time // by server: when its last batch came
}

func (l *latest) put(_ context.Context, b *metric.Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range b.Rows {
		l.of[r.Series.Key()] = r.Points[len(r.Points)-1].Value
		l.at[r.Series.Get("server")] = time.Now()
	}
	return nil
}

func (l *latest) get(key string) (float64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.of[key]
	return v, ok
}

func (l *latest) since(server string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.at[server])
}

// sessions is a small collector of PostgreSQL, so that this test does not hang
// on the real ones.
var sessions = &metric.Collector{Name: "test.sessions", Doc: "x", Of: metric.Postgres, Defs: []*metric.Def{value}, Collect: func(ctx context.Context, r host.Reader, out *metric.Out) error {
	return r.PG(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var n float64
		err := tx.QueryRow(ctx, "select pg_catalog.pg_backend_pid()::float8").Scan(&n)
		out.Add(value, n)
		return err
	})
}}

// everything is what really runs on a machine: a server that answers, one that
// takes the connection and never answers, one that lets nobody in, PgBouncer,
// nginx.
type everything struct {
	server      *pglocal.Server
	deaf        string // DSN
	closed      *pglocal.Server
	pool, nginx string // names
	restartPool func()
	found       *Finder
}

func startEverything(t *testing.T) *everything {
	t.Helper()
	e := &everything{}
	var err error
	if e.server, err = pglocal.Start(t.Context(), pglocal.Options{Name: "open"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.server.Stop() })
	if e.closed, err = pglocal.Start(t.Context(), pglocal.Options{Name: "closed"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.closed.Stop() })
	conn, err := pgx.Connect(t.Context(), e.closed.DSN())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{"create role boss superuser login", "alter role postgres nologin"} {
		if _, err := conn.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	_ = conn.Close(t.Context())
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
		}
	}()
	e.deaf = fmt.Sprintf("host=127.0.0.1 port=%d user=x dbname=x sslmode=disable", l.Addr().(*net.TCPAddr).Port)
	const port = 6441
	dir, restart := testkit.Bouncer(t, port, fmt.Sprintf("host=%s port=%d user=%s", e.server.Conn.SocketDir, e.server.Conn.Port, e.server.Conn.User), "stats_users = watcher")
	e.pool, e.restartPool = fmt.Sprintf("%s:%d", dir, port), restart
	_, e.nginx = testkit.Nginx(t, "$status $request_time $upstream_addr $upstream_response_time", "127.0.0.1:1")
	e.found = &Finder{Reader: host.Open(host.Options{}), All: true, DSNs: []string{e.deaf}}
	return e
}

func name(s *pglocal.Server) string { return fmt.Sprintf("%s:%d", s.Conn.SocketDir, s.Conn.Port) }

// only leaves the targets of this test: the machine may run more.
func (e *everything) only(ctx context.Context) []Target {
	mine := []string{name(e.server), name(e.closed), e.pool, e.nginx}
	var out []Target
	for _, x := range e.found.Find(ctx) {
		if slices.Contains(mine, x.Name) || x.Found == "named by --db" {
			out = append(out, x)
		}
	}
	return out
}

func TestRealServers(t *testing.T) {
	need.Have(t, "pg", "root", "pgbouncer", "nginx")
	e := startEverything(t)
	var found []Target
	need.Eventually(t, 15*time.Second, "all five are found", func() bool { found = e.only(t.Context()); return len(found) == 5 })
	l := &latest{of: map[string]float64{}, at: map[string]time.Time{}}
	r := New(Options{
		Reader: host.Open(host.Options{}), Host: "h", Sink: l.put, Find: e.only,
		Collectors: append(append([]*metric.Collector{sessions, reading("test.host", metric.Host, nil)}, nginx.Topic.Collectors...), pooltopic.Topic.Collectors...),
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	defer func() { stop(); <-ended }()

	key := func(metric, server string) string { return fmt.Sprintf(`%s{host="h",server=%q}`, metric, server) }
	for _, k := range []string{key("test_value", name(e.server)), key("nginx_requests_total", e.nginx), key("pgbouncer_clients_limit", e.pool), `test_value{host="h"}`} {
		need.Eventually(t, 5*time.Second, "first sample of "+k, func() bool { _, ok := l.get(k); return ok })
	}
	var gaps string
	need.Eventually(t, 15*time.Second, "the two others are gaps with their reasons", func() bool {
		gaps = ""
		for _, g := range r.Gaps() {
			gaps += fmt.Sprintf("%s %s: %s | %s\n", g.Collector, g.Server, g.Because, g.Hint)
		}
		return strings.Contains(gaps, "no answer within 5s") && strings.Contains(gaps, "cannot log in") && strings.Contains(gaps, "GRANT pg_monitor TO")
	})
	before, _ := l.get(key("test_value", name(e.server)))
	if err := e.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.restartPool()
	need.Eventually(t, 25*time.Second, "rounds go on over a restart, by another session", func() bool {
		now, _ := l.get(key("test_value", name(e.server)))
		return now != before && l.since(e.pool) < 11*time.Second && len(r.Gaps()) > 0
	})
	for _, g := range r.Gaps() {
		if g.Server == name(e.server) {
			t.Errorf("after the restart: %+v", g)
		}
	}
	conn, err := pgx.Connect(t.Context(), e.closed.DSN()+" user=boss")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "alter role postgres login"); err != nil {
		t.Error(err)
	}
	_ = conn.Close(t.Context())
	e.found.mu.Lock()
	e.found.tried = nil // minutes later
	e.found.mu.Unlock()
	r.find(ctx)
	need.Eventually(t, 10*time.Second, "the way out was taken, and it is read", func() bool { _, ok := l.get(key("test_value", name(e.closed))); return ok })
}
