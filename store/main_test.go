package store

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/metric"
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

func server(t testing.TB, major int) *pglocal.Server {
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

var all = flag.Bool("store.all", false, "run on every major version that can be fetched")

// each runs a test on the installed PostgreSQL and on the newest and oldest
// that can be fetched; with -store.all on those between, too.
func each(t *testing.T, f func(t *testing.T, major int)) {
	t.Run("installed", func(t *testing.T) {
		need.Have(t, "pg")
		f(t, 0)
	})
	for _, major := range []int{18, 13, 14, 16, 17} {
		if major == 18 || major == 13 || *all {
			t.Run(fmt.Sprint(major), func(t *testing.T) {
				need.Have(t, "embedded")
				f(t, major)
			})
		}
	}
}

var databases atomic.Int64

// base is the connection string of a new database.
func base(t testing.TB, major int) string {
	t.Helper()
	s := server(t, major)
	c := dial(t, s.DSN())
	name := fmt.Sprintf("db%d", databases.Add(1))
	do(t, c, "create database "+name)
	return s.DSN() + " dbname=" + name
}

func dial(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func do(t testing.TB, c *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := c.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func one[T any](t testing.TB, c *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := c.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// clock is a clock that tests move, and the time that passed meanwhile.
type clock struct{ ms, lived atomic.Int64 }

func (c *clock) now() time.Time      { return time.UnixMilli(c.ms.Load()).UTC() }
func (c *clock) set(at time.Time)    { c.add(at.Sub(c.now())) }
func (c *clock) add(d time.Duration) { c.ms.Add(d.Milliseconds()); c.lived.Add(int64(max(d, 0))) }

// jump sets the clock; no time passes.
func (c *clock) jump(d time.Duration) { c.ms.Add(d.Milliseconds()) }

func (c *clock) passed() time.Duration { return time.Duration(c.lived.Load()) }
func at(text string) time.Time         { return must(time.Parse("2006-01-02 15:04:05", text)) }
func newClock(start string) *clock     { c := &clock{}; c.set(at(start)); return c }
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func openStore(t testing.TB, dsn string, c *clock, change ...func(*Options)) *Store {
	t.Helper()
	o := Options{DSN: dsn, Now: c.now, Lived: c.passed, Log: func(line string) { t.Log(line) }}
	for _, f := range change {
		f(&o)
	}
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func series(text string) *metric.Series { return must(metric.ParseSeries(text)) }

func batch(rows ...metric.Row) *metric.Batch {
	return &metric.Batch{ID: metric.NewID(), Origin: "test", Rows: rows}
}

func row(s *metric.Series, ps ...metric.Point) metric.Row { return metric.Row{Series: s, Points: ps} }

func pt(t time.Time, v float64) metric.Point { return metric.Point{At: t.UnixMilli(), Value: v} }

func write(t testing.TB, s *Store, bs ...*metric.Batch) {
	t.Helper()
	if err := s.Write(context.Background(), bs); err != nil {
		t.Fatal(err)
	}
}

func maintain(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Maintain(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func query(t testing.TB, s *Store, q Query) *Frame {
	t.Helper()
	f, err := s.Query(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func named(name string) []Match { return []Match{{"__name__", "=", name}} }
