package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/host"
	"headroom/metric"
	"headroom/pglocal"
)

// of lists the targets that lead to a server by its socket or port.
func of(ts []Target, s *pglocal.Server) (out []Target) {
	for _, t := range ts {
		at := t.Found + t.DSN + strings.Join(t.Ways, " ")
		if t.Kind == metric.Postgres && (strings.Contains(at, s.Conn.SocketDir) || strings.Contains(at, fmt.Sprintf("port=%d ", s.Conn.Port))) {
			out = append(out, t)
		}
	}
	return out
}

func run(t *testing.T, s *pglocal.Server, sql ...string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.WithoutCancel(t.Context()))
	for _, q := range sql {
		if _, err := c.Exec(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

func (f *Finder) forgetWhen(match func(id string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, l := range f.tried {
		if match(id) {
			l.again = time.Time{}
		}
	}
}

// One server that is found by its socket and named twice is watched once, by
// the login that sees most; its standby is another server.
func TestOneServerByManyWays(t *testing.T) {
	s, err := pglocal.Start(t.Context(), pglocal.Options{Name: "many ways", TCP: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	standby, err := s.Standby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Stop() })
	run(t, s, "create role poor login password 'hush'", "create role boss superuser login password 'hush'")
	at := fmt.Sprintf("host=127.0.0.1 port=%d dbname=postgres password=hush user=", s.Conn.Port)
	f := &Finder{Reader: host.Open(host.Options{}), All: true, DSNs: []string{at + "poor", at + "boss"}}
	one := func(when string) Target {
		t.Helper()
		ts := f.Find(t.Context())
		got := of(ts, s)
		if len(got) != 1 || len(got[0].Ways) != 3 || got[0].Name != fmt.Sprint(s.Conn.Port) || got[0].DSN != at+"boss" || strings.Contains(fmt.Sprint(got[0].Ways), "hush") {
			t.Fatalf("%s: %d targets: %+v", when, len(got), got)
		}
		if other := of(ts, standby); len(other) != 1 || other[0].Missing != "" || len(other[0].Ways) != 0 {
			t.Fatalf("%s: the standby: %+v", when, other)
		}
		return got[0]
	}
	first := one("at first")
	if !slices.ContainsFunc(first.Ways, func(w string) bool { return strings.Contains(w, "as poor (not in pg_monitor)") }) {
		t.Errorf("ways: %q", first.Ways)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.forgetWhen(func(id string) bool { return strings.Contains(id, "user=boss") })
	one("where one way was asked after a restart, the others before")

	// A socket that lets nobody in is a way to the server that it belongs to.
	run(t, s, "alter role postgres nologin")
	f.mu.Lock()
	f.tried = nil
	f.mu.Unlock()
	if got := one("with a socket that lets nobody in"); !slices.ContainsFunc(got.Ways, func(w string) bool { return strings.HasSuffix(w, "(login refused)") }) {
		t.Errorf("ways: %q", got.Ways)
	}
}

// Two servers that are reached at one address (by pooler, or forwarded ports)
// are two, and keep their names.
func TestTwoServersWithOneAddress(t *testing.T) {
	f := &Finder{Reader: machine(), DSNs: []string{"host=127.0.0.1 port=5432 user=x dbname=a", "host=127.0.0.1 port=5432 user=x dbname=b"}}
	f.Knock = func(_ context.Context, kind metric.Target, dsn string) (Identity, error) {
		switch {
		case kind != metric.Postgres:
			return Identity{}, nil
		case strings.Contains(dsn, "dbname=a"):
			return Identity{System: "7", Started: 1, Port: 5432, Rights: 2}, nil
		case strings.Contains(dsn, "dbname=b"):
			return Identity{System: "7", Started: 2, Port: 5432, Rights: 2}, nil
		case strings.Contains(dsn, "port=5432"):
			return Identity{System: "7", Started: 3, Port: 5432, Rights: 2}, nil
		}
		return Identity{}, nil
	}
	var names []string
	for _, x := range f.Find(t.Context()) {
		if strings.Contains(x.DSN, "port=5432") {
			names = append(names, x.Name+" | "+x.DSN)
		}
	}
	want := []string{"127.0.0.1:5432/a as x | host=127.0.0.1 port=5432 user=x dbname=a", "127.0.0.1:5432/b as x | host=127.0.0.1 port=5432 user=x dbname=b",
		"5432 | host='/var/run/postgresql' port=5432 dbname=postgres"}
	if !slices.Equal(names, want) {
		t.Errorf("got  %q\nwant %q", names, want)
	}
}

// Once it is known that two targets are one, the second is not a gap: it never
// went away.
func TestTargetsThatTurnOutToBeOne(t *testing.T) {
	c := &metric.Collector{Name: "test.x", Of: metric.Postgres, Defs: []*metric.Def{value}, Collect: func(context.Context, host.Reader, *metric.Out) error { return nil }}
	r := New(Options{Reader: machine(), Collectors: []*metric.Collector{c}, Sink: func(context.Context, *metric.Batch) error { return nil }})
	a, b := Target{Kind: metric.Postgres, Name: "a", Missing: "x"}, Target{Kind: metric.Postgres, Name: "b", Missing: "x"}
	r.merge(t.Context(), []Target{a, b})
	a.also = []string{b.key()}
	r.merge(t.Context(), []Target{a})
	if got := r.Targets(); len(got) != 1 || got[0].Name != "a" {
		t.Errorf("%+v", got)
	}
}
