package sqlkit_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"headroom/engine/sqlkit"
	"headroom/pglocal"
	"headroom/testkit/need"
)

// servers are started when a test first wants them and stopped at the end.
var servers struct {
	sync.Mutex
	by map[int]*pglocal.Server
}

func TestMain(m *testing.M) {
	flag.Parse()
	servers.by = map[int]*pglocal.Server{}
	code := m.Run()
	for _, s := range servers.by {
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func server(t *testing.T, major int) *pglocal.Server {
	t.Helper()
	servers.Lock()
	defer servers.Unlock()
	if s := servers.by[major]; s != nil {
		return s
	}
	s, err := pglocal.Start(context.Background(), pglocal.Options{Major: major, NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	servers.by[major] = s
	return s
}

var all = flag.Bool("sqlkit.all", false, "run on every major version that can be fetched")

// each runs a test on the installed PostgreSQL and on the newest that can be
// fetched; with -sqlkit.all on those between, too.
func each(t *testing.T, f func(t *testing.T, major int)) {
	t.Run("installed", func(t *testing.T) {
		need.Have(t, "pg")
		f(t, 0)
	})
	t.Run("newest", func(t *testing.T) {
		need.Have(t, "embedded")
		f(t, 18)
	})
	for _, major := range []int{13, 14, 16, 17} {
		if *all {
			t.Run(fmt.Sprint(major), func(t *testing.T) {
				need.Have(t, "embedded")
				f(t, major)
			})
		}
	}
}

var databases atomic.Int64

// base is a connection to a new database, without the kit.
func base(t *testing.T, major int) *pgx.Conn {
	t.Helper()
	s := server(t, major)
	admin := open(t, s.DSN())
	name := fmt.Sprintf("db%d", databases.Add(1))
	must(t, admin, "create database "+name)
	return open(t, s.DSN()+" dbname="+name)
}

func open(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	c, err := sqlkit.Open(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// kit is a connection to a new database with the kit.
func kit(t *testing.T, major int) *pgx.Conn {
	t.Helper()
	c := base(t, major)
	install(t, c)
	return c
}

func install(t *testing.T, c *pgx.Conn) sqlkit.Done {
	t.Helper()
	d, err := sqlkit.Install(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// again is a second connection to the same database.
func again(t *testing.T, c *pgx.Conn, user string) *pgx.Conn {
	t.Helper()
	dsn := fmt.Sprintf("host=%s port=%d dbname=%s user=%s", c.Config().Host, c.Config().Port, c.Config().Database, user)
	return open(t, dsn)
}

// fataler is what a test and a property have in common.
type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

var _ = []fataler{(*testing.T)(nil), (*rapid.T)(nil)}

func must(t fataler, c *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if len(args) == 0 {
		args = []any{pgx.QueryExecModeSimpleProtocol}
	}
	if _, err := c.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// one returns the text of a query's only value; "-" for NULL.
func one(t fataler, c *pgx.Conn, sql string, args ...any) string {
	t.Helper()
	got, err := value(c, sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return got
}

func value(c *pgx.Conn, sql string, args ...any) (string, error) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	var s *string
	if err := c.QueryRow(ctx, "select ("+sql+")::text", args...).Scan(&s); err != nil {
		return "", err
	}
	if s == nil {
		return "-", nil
	}
	return *s, nil
}

// refused runs a statement that must fail with this SQLSTATE and returns the
// server's error.
func refused(t fataler, c *pgx.Conn, state, sql string, args ...any) *pgconn.PgError {
	t.Helper()
	if len(args) == 0 {
		args = []any{pgx.QueryExecModeSimpleProtocol}
	}
	_, err := c.Exec(context.Background(), sql, args...)
	var pe *pgconn.PgError
	if !errors.As(err, &pe) || pe.Code != state {
		t.Fatalf("%s: %v, want SQLSTATE %s", sql, err, state)
	}
	return pe
}

// hostile are names that break programs which write SQL carelessly.
var hostile = rapid.Map(rapid.OneOf(
	rapid.SampledFrom([]string{"select", "user", "t", "c1", "k", "x", `a"b`, `a'b`, "a b", "a.b", `a\b`, "$1", "%I", "%s", "%1$s", "a;drop table x", "--", "Ünï", "日本語", "été", "ABC", " ", "''", `""`, "$$", "null",
		"sixty-three bytes are what PostgreSQL keeps of a name, not more.", "éééééééééééééééééééééééééééééé"}),
	rapid.StringOfN(rapid.RuneFrom([]rune(`abcXYZ019 "'\.;-$%{}()[]*/,:=日é`)), 1, 20, 63),
), func(s string) string { return strings.ToValidUTF8(s[:min(len(s), 63)], "") })

// t0 is for calls that have their own end.
var t0 = context.Background()

func sorted(in []string) []string {
	slices.Sort(in)
	return in
}

func quote(parts ...string) string { return pgx.Identifier(parts).Sanitize() }
