package postgres

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"headroom/metric"
	"headroom/testkit/need"
)

// A role without rights sees no other session, no standby, no statement: these
// are gaps that name the GRANT, and never zeros.
func TestWithoutRights(t *testing.T) {
	for _, major := range majors() {
		t.Run(strconv.Itoa(major), func(t *testing.T) {
			t.Parallel()
			s := watched(t, major, map[string]string{"shared_preload_libraries": "pg_stat_statements"})
			run(t, s.DSN(), "create extension pg_stat_statements", `create role "o'look" login`, "create role other login", "create database closed",
				"revoke connect on database closed from public")
			busy := connect(t, s.DSN())
			do(t, busy, "begin", "create table t (k int)")
			l := reader(t, s.DSN()+` user='o\'look'`)
			hidden := []string{"postgres_connections", "postgres_connections_used", "postgres_sessions_blocked", "postgres_oldest_transaction_seconds",
				"postgres_oldest_statement_seconds", "postgres_longest_idle_in_transaction_seconds", "postgres_active_sessions", "postgres_wait_sessions",
				"postgres_xmin_age", "postgres_standby_replay_lag_bytes", "postgres_standby_streaming", "postgres_vacuum_workers",
				"postgres_vacuum_progress_ratio", "postgres_wal_files", "postgres_statement_calls_total", "postgres_database_bytes"}
			outs := map[string]*metric.Out{}
			for _, c := range collectors {
				outs[c.Name] = aRound(t, c, l)
			}
			find := func(name string) (v float64, seen bool, g *metric.Gap) {
				for _, out := range outs {
					for _, r := range out.Rows {
						if r.Series.Name == name {
							v, seen = r.Points[0].Value, true
						}
					}
					if x := gapOf(out, name); x != nil {
						g = x
					}
				}
				return v, seen, g
			}
			for _, name := range hidden {
				v, seen, g := find(name)
				if g == nil || !strings.Contains(g.Hint, "GRANT pg_monitor TO") || strings.Contains(g.Hint, "look") && !strings.Contains(g.Hint, `"o'look"`) {
					t.Errorf("%s: gap %+v", name, g)
				}
				if seen && name != "postgres_database_bytes" {
					t.Errorf("%s = %v though it cannot be seen", name, v)
				}
			}
			for _, name := range []string{"postgres_database_commits_total", "postgres_connections_limit", "postgres_prepared_transactions", "postgres_locks",
				"postgres_wal_position_bytes_total", "postgres_checkpoints_timed_total", "postgres_standbys", "postgres_setting_bytes", "postgres_database_xid_age"} {
				if _, seen, g := find(name); !seen || g != nil {
					t.Errorf("%s takes no right: seen %v, gap %+v", name, seen, g)
				}
			}
			list, err := Sessions(t.Context(), l)
			if err != nil || len(list) == 0 || !list[0].Hidden || list[0].Query != "" || list[0].State != "" {
				t.Errorf("sessions %+v, %v", list, err)
			}
			run(t, s.DSN(), `grant pg_monitor to "o'look"`)
			wants(t, aRound(t, activityCollector, l), is(1), "postgres_connections", "state=idle in transaction")
			if out := aRound(t, statementsCollector, l); len(out.Rows) == 0 || gapOf(out, "postgres_statement_calls_total") != nil {
				t.Errorf("statements with pg_monitor: %d rows, gaps %+v", len(out.Rows), out.Gaps)
			}
			if out := aRound(t, sizesCollector, l); len(out.Gaps) > 0 || len(out.Rows) != 4 {
				t.Errorf("sizes with pg_monitor: %d rows, gaps %+v", len(out.Rows), out.Gaps)
			}
		})
	}
}

func TestWhatTheServerDoesNotCountIsAGap(t *testing.T) {
	s := watched(t, 0, map[string]string{"track_counts": "off", "track_activities": "off", "autovacuum": "off"})
	l := reader(t, s.DSN())
	for c, names := range map[*metric.Collector]map[string]string{
		databasesCollector: {"postgres_database_commits_total": "track_counts=on", "postgres_database_checksum_failures_total": "track_counts=on"},
		activityCollector:  {"postgres_connections": "track_activities=on", "postgres_oldest_transaction_seconds": "track_activities=on"},
		tablesCollector:    {"postgres_table_dead_rows": "track_counts=on"},
	} {
		out := aRound(t, c, l)
		for name, hint := range names {
			if g := gapOf(out, name); g == nil || !strings.Contains(g.Hint, hint) {
				t.Errorf("%s: gap %+v, want hint %s", name, g, hint)
			}
			if _, ok := get(out, name); ok {
				t.Errorf("%s has a value", name)
			}
		}
	}
	run(t, s.DSN(), "alter system set track_counts = on", "alter system set track_activities = on", "select pg_reload_conf()")
	need.Eventually(t, 10*time.Second, "the gaps close but for times and checksums", func() bool {
		out := aRound(t, databasesCollector, l)
		_, ok := get(out, "postgres_database_commits_total", "database=postgres")
		g := gapOf(out, "postgres_database_read_seconds_total")
		return ok && g != nil && strings.Contains(g.Hint, "track_io_timing=on")
	})
}

// What the server refuses for one statement costs the others nothing.
func TestOneRefusalCostsOneReading(t *testing.T) {
	s := watched(t, 0, nil)
	run(t, s.DSN(), "create role poor login", "revoke execute on function pg_control_checkpoint() from public", "revoke select on pg_catalog.pg_stat_bgwriter from public",
		"revoke select on pg_catalog.pg_stat_database from public")
	l := reader(t, s.DSN()+" user=poor")
	out := aRound(t, checkpointsCollector, l)
	for _, name := range []string{"postgres_checkpoint_age_seconds", "postgres_checkpoints_timed_total"} {
		if g := gapOf(out, name); g == nil || !strings.Contains(g.Because, "permission denied") || !strings.HasSuffix(g.Hint, "TO poor") {
			t.Errorf("%s: gap %+v", name, g)
		}
	}
	if len(out.Rows) != 0 {
		t.Errorf("%d samples", len(out.Rows))
	}
	out = aRound(t, databasesCollector, l)
	if gapOf(out, "postgres_database_commits_total") == nil {
		t.Error("no gap for pg_stat_database")
	}
	wants(t, out, atLeast(0), "postgres_database_xid_age", "database=postgres")
}

// What looking itself does must not look like trouble of the server's.
func TestLookingRollsNothingBack(t *testing.T) {
	s := watched(t, 0, map[string]string{"shared_preload_libraries": "pg_stat_statements", "autovacuum": "off"})
	run(t, s.DSN(), "create extension pg_stat_statements", "create database d")
	l := reader(t, s.DSN())
	for range 3 {
		for _, c := range collectors {
			aRound(t, c, l)
		}
		if _, err := Sessions(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	l = reader(t, s.DSN()+" dbname=d")
	need.Eventually(t, 15*time.Second, "the rounds are counted", func() bool {
		v, _ := get(aRound(t, databasesCollector, l), "postgres_database_commits_total", "database=postgres")
		return v > 50
	})
	wants(t, aRound(t, databasesCollector, l), is(0), "postgres_database_rollbacks_total", "database=postgres")
}

// A view that cannot be read in time is a gap of its own.
func TestOneLockedViewCostsOneReading(t *testing.T) {
	s := watched(t, 0, nil)
	l := reader(t, s.DSN())
	aRound(t, checkpointsCollector, l)
	holder := connect(t, s.DSN())
	do(t, holder, "begin", "lock table pg_catalog.pg_stat_bgwriter in access exclusive mode")
	out := aRound(t, checkpointsCollector, l)
	if g := gapOf(out, "postgres_checkpoints_timed_total"); g == nil || !strings.Contains(g.Because, "waited for a lock") {
		t.Errorf("gaps %+v", out.Gaps)
	}
	wants(t, out, atLeast(0), "postgres_checkpoint_age_seconds")
	do(t, holder, "rollback")
	wants(t, aRound(t, checkpointsCollector, l), atLeast(0), "postgres_checkpoints_timed_total")
}

// A table that somebody rebuilds holds up nothing, and keeps its figures.
func TestALockedTableHoldsNothingUp(t *testing.T) {
	s := watched(t, 0, nil)
	run(t, s.DSN(), "create table big as select g as k, repeat('x', 500) as v from generate_series(1, 2000) g", "create index big_k on big (k)", "create table other (k int primary key)",
		"vacuum analyze big", "vacuum analyze other")
	l := reader(t, s.DSN())
	open := aRound(t, tablesCollector, l)
	wants(t, open, atLeast(1<<20), "postgres_table_bytes", "table=big")
	wants(t, open, atLeast(8192), "postgres_table_indexes_bytes", "table=big")
	holder := connect(t, s.DSN())
	for _, object := range []string{"table big", "index big_k"} {
		do(t, holder, "begin", "drop "+object)
		out := aRound(t, tablesCollector, l)
		wants(t, out, atLeast(1<<20), "postgres_table_bytes", "table=big")
		wants(t, out, is(8192), "postgres_table_indexes_bytes", "table=other")
		if _, ok := get(out, "postgres_table_indexes_bytes", "table=big"); ok || len(out.Gaps) > 0 {
			t.Errorf("%s locked: gaps %+v", object, out.Gaps)
		}
		wants(t, aRound(t, indexesCollector, l), atLeast(8192), "postgres_index_bytes", "index=big_k")
		do(t, holder, "rollback")
	}
}

func TestManyDatabasesAndTables(t *testing.T) {
	s := watched(t, 0, map[string]string{"autovacuum": "off"})
	c := connect(t, s.DSN())
	for i := range 54 {
		do(t, c, fmt.Sprintf("create database d%03d", i))
	}
	do(t, c, "do $$ begin for i in 1..200 loop execute format('create table t%s (k int primary key)', i); end loop; end $$")
	l := reader(t, s.DSN())
	out := aRound(t, databasesCollector, l)
	n := 0
	for _, r := range out.Rows {
		if r.Series.Name == "postgres_database_commits_total" {
			n++
		}
	}
	if n > 53 {
		t.Errorf("%d series of databases", n)
	}
	wants(t, out, is(0), "postgres_database_commits_total", "database=(others)")
	wants(t, out, atLeast(1), "postgres_database_commits_total", "database=postgres") // sessions count late
	for c, limit := range map[*metric.Collector]int{tablesCollector: 50, indexesCollector: 50, sizesCollector: 50} {
		counts := map[string]int{}
		out := aRound(t, c, l)
		for _, r := range out.Rows {
			counts[r.Series.Name]++
		}
		for name, n := range counts {
			if n > limit {
				t.Errorf("%s has %d series, at most %d are wanted", name, n, limit)
			}
		}
		if name := c.Defs[0].Name; counts[name] != limit && gapOf(out, name) == nil {
			t.Errorf("%s has %d series, want %d", name, counts[name], limit)
		}
	}
}
