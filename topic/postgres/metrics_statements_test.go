package postgres

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"headroom/metric"
)

func TestStatements(t *testing.T) {
	const canary = "hunter2canary"
	for _, major := range majors() {
		t.Run(strconv.Itoa(major), func(t *testing.T) {
			t.Parallel()
			s := watched(t, major, map[string]string{"shared_preload_libraries": "pg_stat_statements"})
			c := connect(t, s.DSN())
			l := reader(t, s.DSN())
			if g := gapOf(aRound(t, statementsCollector, l), "postgres_statement_calls_total"); g == nil || g.Hint != "CREATE EXTENSION pg_stat_statements" {
				t.Fatalf("loaded but not installed: gap %+v", g)
			}
			do(t, c, `create schema "odd ""one"`, `create extension pg_stat_statements schema "odd ""one"`, "create table t (k int, v text)")
			for i := range 7 {
				do(t, c, fmt.Sprintf("insert into t values (%d, '%s'), (0, 'x')", i, canary))
			}
			do(t, c, "create role r password '"+canary+"'", "select count(*) from t where v = '"+canary+"' -- "+canary)
			memory := &metric.Memory{}
			again := func(at time.Time) *metric.Out {
				out := metric.NewOut(statementsCollector, at)
				out.Memory = memory
				if err := statementsCollector.Collect(t.Context(), l, out); err != nil || out.Err() != nil {
					t.Fatal(err, out.Err())
				}
				return out
			}
			now := time.Now()
			out := again(now)
			id := idOf(t, out, "insert into t values (")
			wants(t, out, is(7), "postgres_statement_calls_total", "queryid="+id, "database=postgres")
			wants(t, out, is(14), "postgres_statement_rows_total", "queryid="+id)
			wants(t, out, func(v float64) bool { return v > 0 && v < 60 }, "postgres_statement_seconds_total", "queryid="+id)
			wants(t, out, atLeast(100), "postgres_statement_wal_bytes_total", "queryid="+id)
			for _, r := range out.Rows {
				if strings.Contains(r.Series.Key(), canary) {
					t.Errorf("a literal is in %s", r.Series.Key())
				}
			}
			if g := gapOf(out, "postgres_statement_planning_seconds_total"); g == nil || !strings.Contains(g.Hint, "track_planning=on") {
				t.Errorf("planning: %+v", g)
			}
			// A text that is new is read 5 minutes after the last reading.
			do(t, c, "select pg_sleep(0.02), 'new one'")
			if _, found := textOf(again(now.Add(time.Minute)), "select pg_sleep("); found {
				t.Error("texts were read again after a minute")
			}
			idOf(t, again(now.Add(6*time.Minute)), "select pg_sleep(")
			// Dropped and made elsewhere: one round without, then found again.
			do(t, c, "drop extension pg_stat_statements")
			if g := gapOf(again(now), "postgres_statement_calls_total"); g == nil {
				t.Error("dropped, and no gap")
			}
			do(t, c, "create extension pg_stat_statements")
			if out := again(now); len(out.Rows) == 0 {
				t.Errorf("not found again: %+v", out.Gaps)
			}
		})
	}
}

// textOf returns the queryid of the statement whose text begins so.
func textOf(out *metric.Out, begin string) (id string, found bool) {
	for _, r := range out.Rows {
		if r.Series.Name == statementInfo.Name && strings.HasPrefix(r.Series.Get("query"), begin) {
			return r.Series.Get("queryid"), true
		}
	}
	return "", false
}

func idOf(t *testing.T, out *metric.Out, begin string) string {
	t.Helper()
	id, found := textOf(out, begin)
	if !found {
		for _, r := range out.Rows {
			if r.Series.Name == statementInfo.Name {
				t.Log(r.Series.Key())
			}
		}
		t.Fatalf("no statement begins %q", begin)
	}
	return id
}

func TestStatementsWithoutTheModule(t *testing.T) {
	s := watched(t, 0, nil)
	l := reader(t, s.DSN())
	for _, statement := range []string{"select 1", "create extension pg_stat_statements"} {
		run(t, s.DSN(), statement)
		out := aRound(t, statementsCollector, l)
		g := gapOf(out, "postgres_statement_calls_total")
		if g == nil || !strings.Contains(g.Hint, "shared_preload_libraries") || len(g.Metrics) != len(statementsCollector.Defs) || len(out.Rows) > 0 {
			t.Errorf("after %s: %+v", statement, out.Gaps)
		}
	}
}

// An extension that was not brought up with the server is read as what it is.
func TestAnOlderExtension(t *testing.T) {
	s := watched(t, 0, map[string]string{"shared_preload_libraries": "pg_stat_statements"})
	l := reader(t, s.DSN())
	run(t, s.DSN(), "create extension pg_stat_statements version '1.8'")
	out := aRound(t, statementsCollector, l)
	wants(t, out, atLeast(1), "postgres_statements")
	if gapOf(out, "postgres_statements_evicted_total") == nil {
		t.Errorf("1.8 does not count evictions: %+v", out.Gaps)
	}
	run(t, s.DSN(), "drop extension pg_stat_statements", "create extension pg_stat_statements version '1.7'")
	if g := gapOf(aRound(t, statementsCollector, l), "postgres_statement_calls_total"); g == nil || g.Hint != "ALTER EXTENSION pg_stat_statements UPDATE" {
		t.Errorf("1.7: gap %+v", g)
	}
}
