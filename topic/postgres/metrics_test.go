package postgres

import (
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/host"
	"headroom/metric"
	"headroom/pglocal"
	"headroom/testkit"
	"headroom/testkit/need"
)

// watched is a private server of a major version; 0 is the one that is asked for.
func watched(t *testing.T, major int, settings map[string]string) *pglocal.Server {
	t.Helper()
	need.Have(t, "pg")
	if major != 0 { // where it is not installed it is fetched
		need.Have(t, "embedded")
	}
	s, err := pglocal.Start(t.Context(), pglocal.Options{Major: major, Settings: settings, Name: t.Name(), NoFsync: true})
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

// reader is this machine with a server, as `headroom up` reads it.
func reader(t *testing.T, dsn string) *host.Local {
	t.Helper()
	l := host.Open(host.Options{DSN: dsn, WithPG: true, Retry: true})
	t.Cleanup(l.Close)
	return l
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func do(t *testing.T, c *pgx.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := c.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// round is one round of a collector.
func aRound(t *testing.T, c *metric.Collector, r host.Reader) *metric.Out {
	t.Helper()
	out := metric.NewOut(c, time.Now(), metric.Label{Name: "host", Value: "here"}, metric.Label{Name: "server", Value: "one"})
	if err := c.Collect(t.Context(), r, out); err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	if err := out.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// get returns the only value of a metric with the given labels (name=value).
func get(out *metric.Out, name string, labels ...string) (float64, bool) {
	v, n := 0.0, 0
rows:
	for _, r := range out.Rows {
		if r.Series.Name != name {
			continue
		}
		for _, l := range labels {
			k, want, _ := strings.Cut(l, "=")
			if r.Series.Get(k) != want {
				continue rows
			}
		}
		v, n = r.Points[0].Value, n+1
	}
	return v, n == 1
}

func wants(t *testing.T, out *metric.Out, ok func(float64) bool, name string, labels ...string) {
	t.Helper()
	if v, found := get(out, name, labels...); !found || !ok(v) {
		t.Errorf("%s %q = %v, %v; gaps %+v", name, labels, v, found, out.Gaps)
	}
}

func is(w float64) func(float64) bool      { return func(v float64) bool { return v == w } }
func atLeast(w float64) func(float64) bool { return func(v float64) bool { return v >= w } }

// gapOf returns the gap that names a metric.
func gapOf(out *metric.Out, name string) *metric.Gap {
	for i, g := range out.Gaps {
		if slices.Contains(g.Metrics, name) {
			return &out.Gaps[i]
		}
	}
	return nil
}

// majors are the versions that a test runs on, side by side: all, or one with
// -short or HEADROOM_MAJOR.
func majors() []int {
	if testing.Short() || os.Getenv("HEADROOM_MAJOR") != "" {
		return []int{0}
	}
	return []int{13, 14, 15, 16, 17, 18}
}

func TestDeclarations(t *testing.T) {
	seen := map[string]string{}
	for _, c := range collectors {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		for _, d := range c.Defs {
			if seen[d.Name] != "" {
				t.Errorf("metric %s is declared by %s and %s", d.Name, seen[d.Name], c.Name)
			}
			seen[d.Name] = c.Name
			if len(d.Name) > 63 {
				t.Errorf("metric %s: a column's name has at most 63 bytes", d.Name)
			}
			if !strings.HasSuffix(d.Help, ".") {
				t.Errorf("metric %s: help is a sentence", d.Name)
			}
		}
	}
	files, err := metricSQL.ReadDir("sql")
	if err != nil {
		t.Fatal(err)
	}
	all := ""
	for _, f := range files {
		b, err := metricSQL.ReadFile("sql/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		all += string(b)
		for _, name := range regexp.MustCompile(`as (postgres_\w+)`).FindAllStringSubmatch(string(b), -1) {
			if seen[name[1]] == "" {
				t.Errorf("%s: column %s is no metric", f.Name(), name[1])
			}
		}
	}
	for name := range seen {
		if !strings.Contains(all, " as "+name) && name != databaseSize.Name && name != statementInfo.Name {
			t.Errorf("no statement has the column %s", name)
		}
	}
}

// Every metric of every collector has samples, or a gap says why not, or it
// is of those that need not be there: on a server with a bit of everything.
func TestEveryMetricOnEveryVersion(t *testing.T) {
	for _, major := range majors() {
		t.Run(strconv.Itoa(major), func(t *testing.T) {
			t.Parallel()
			s := watched(t, major, map[string]string{"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track_planning": "on",
				"track_io_timing": "on", "archive_mode": "on", "archive_command": "true", "max_prepared_transactions": "5",
				"max_slot_wal_keep_size": "1GB", "wal_level": "logical"})
			c := connect(t, s.DSN())
			do(t, c, "create extension pg_stat_statements", "create table t as select g as k from generate_series(1, 1000) g", "create index on t (k)",
				"vacuum analyze t", "select pg_create_physical_replication_slot('p', true)", "select pg_create_logical_replication_slot('l', 'pgoutput')",
				"checkpoint", "select pg_switch_wal()")
			l := reader(t, s.DSN())
			need.Eventually(t, 20*time.Second, "a file is archived", func() bool {
				v, ok := get(aRound(t, walCollector, l), "postgres_archive_age_seconds")
				return ok && v < 60
			})
			gaps := ""
			for _, c := range collectors {
				out := aRound(t, c, l)
				gaps += complete(t, c, out)
			}
			golden(t, fmt.Sprintf("testdata/gaps.%d.txt", s.Major), gaps)
		})
	}
}

// rare are metrics that a healthy server alone has none of.
var rare = regexp.MustCompile(`^postgres_(standby_|replay_|receive|wait_sessions|vacuum_(progress|running))`)

// complete checks that nothing is missing without a word, and lists the gaps.
func complete(t *testing.T, c *metric.Collector, out *metric.Out) (gaps string) {
	t.Helper()
	have := map[string]bool{}
	keys := map[string]bool{}
	for _, r := range out.Rows {
		have[r.Series.Name] = true
		if keys[r.Series.Key()] {
			t.Errorf("%s gave two values of %s", c.Name, r.Series.Key())
		}
		keys[r.Series.Key()] = true
		if v := r.Points[0].Value; math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("%s = %v", r.Series.Key(), v)
		}
	}
	for _, d := range c.Defs {
		if !have[d.Name] && gapOf(out, d.Name) == nil && !rare.MatchString(d.Name) {
			t.Errorf("%s: no %s, and no gap", c.Name, d.Name)
		}
	}
	for _, g := range out.Gaps {
		gaps += fmt.Sprintf("%s: %s\n  hint: %s\n  %s\n", g.Collector, g.Because, g.Hint, strings.Join(g.Metrics, "\n  "))
	}
	return gaps
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if testkit.Updating() {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != got {
		t.Errorf("differs from %s (%v; run with -update to accept):\n%s", file, err, got)
	}
}
