package postgres

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"headroom/host"
	"headroom/metric"
	"headroom/testkit/need"
)

// grown polls until metrics are as much above an earlier round as they must
// be: sessions pass their counts on with a delay.
func grown(t *testing.T, c *metric.Collector, l host.Reader, before *metric.Out, label string, by map[string]float64) {
	t.Helper()
	var told string
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		after := aRound(t, c, l)
		told = ""
		for name, n := range by {
			a, _ := get(before, name, label)
			if b, ok := get(after, name, label); !ok || b-a != n {
				told += fmt.Sprintf("%s of %s grew by %v, want %v\n", name, label, b-a, n)
			}
		}
		if told == "" {
			return
		}
	}
	t.Error(told)
}

// A session passes its counts on when it ends, at the latest: what is counted
// here was done on connections of its own.
func TestWhatWasDoneIsCounted(t *testing.T) {
	for _, major := range majors() {
		t.Run(strconv.Itoa(major), func(t *testing.T) {
			t.Parallel()
			s := watched(t, major, map[string]string{"autovacuum": "off"})
			d := s.DSN() + " dbname=d"
			run(t, s.DSN(), "create database d")
			run(t, d, "create table t (k int primary key, v text)", "create table other (k int)")
			l, inD := reader(t, s.DSN()), reader(t, d)
			first := aRound(t, tablesCollector, inD)
			inD.Close() // what looking itself does in d is not to be counted
			counts(t, l, d)
			insert := func(i int) string {
				return fmt.Sprintf("insert into t select g, 'x' from generate_series(%d, %d) g", i*10, i*10+9)
			}
			var ten []string
			for i := range 10 {
				ten = append(ten, insert(i))
			}
			run(t, d, append(ten, "begin", "update t set v = 'y' where k < 30", "rollback", "delete from t where k = 5")...)
			inD = reader(t, d)
			grown(t, tablesCollector, inD, first, "table=t", map[string]float64{"postgres_table_inserted_rows_total": 100, "postgres_table_updated_rows_total": 30,
				"postgres_table_deleted_rows_total": 1, "postgres_table_dead_rows": 31, "postgres_table_live_rows": 99, "postgres_table_vacuums_total": 0})
			run(t, d, "set enable_seqscan = off", "set enable_bitmapscan = off", "select * from t where k = 7", "vacuum t")
			grown(t, tablesCollector, inD, first, "table=t", map[string]float64{"postgres_table_vacuums_total": 1, "postgres_table_dead_rows": 0})
			need.Eventually(t, 15*time.Second, "the index scan is counted", func() bool {
				v, ok := get(aRound(t, indexesCollector, inD), "postgres_index_scans_total", "index=t_pkey")
				return ok && v >= 1
			})
		})
	}
}

// counts compares two connections, of which one does ten commits, four
// rollbacks and 100 rows more: beginning and end of a session count as well.
func counts(t *testing.T, l host.Reader, dsn string) {
	t.Helper()
	names := []string{"commits", "rollbacks", "rows_inserted", "rows_updated", "rows_deleted", "temp_files"}
	read := func() (v []float64) {
		out := aRound(t, databasesCollector, l)
		for _, n := range names {
			x, _ := get(out, "postgres_database_"+n+"_total", "database=d")
			v = append(v, x)
		}
		return v
	}
	still := func() (v []float64) {
		since := time.Now()
		need.Eventually(t, 30*time.Second, "counts stand still", func() bool {
			if now := read(); !slices.Equal(now, v) {
				v, since = now, time.Now()
			}
			return time.Since(since) > 1200*time.Millisecond
		})
		return v
	}
	do := func(statements ...string) []float64 {
		before := still()
		run(t, dsn, statements...)
		after := still()
		for i := range after {
			after[i] -= before[i]
		}
		return after
	}
	few := []string{"insert into other select generate_series(1, 10)"}
	many := []string{"insert into other select generate_series(1, 20)", "set work_mem = '64kB'",
		"select count(*) from (select g from generate_series(1, 100000) g order by g desc) s"}
	for range 8 {
		many = append(many, "insert into other select generate_series(1, 10)")
	}
	for range 4 {
		many = append(many, "begin", "update other set k = k", "rollback")
	}
	a, b := do(few...), do(append(many, "delete from other")...)
	want := []float64{11, 4, 90, 4 * 110, 110, 0}
	for i, n := range names {
		switch got := b[i] - a[i]; {
		case n == "temp_files" && got < 1, n != "temp_files" && got != want[i]:
			t.Errorf("%s grew by %v, want %v", n, got, want[i])
		}
	}
	run(t, dsn, "truncate other")
}

func TestWriteAheadLogAndCheckpoints(t *testing.T) {
	for _, major := range majors() {
		t.Run(strconv.Itoa(major), func(t *testing.T) {
			t.Parallel()
			s := watched(t, major, map[string]string{"autovacuum": "off", "bgwriter_lru_maxpages": "0"})
			c, l := connect(t, s.DSN()), reader(t, s.DSN())
			position := func() (n float64) {
				if err := c.QueryRow(t.Context(), "select (pg_current_wal_lsn() - '0/0'::pg_lsn)::float8").Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			a, _ := get(aRound(t, walCollector, l), "postgres_wal_position_bytes_total")
			points := aRound(t, checkpointsCollector, l)
			from := position()
			run(t, s.DSN(), "create table t as select g from generate_series(1, 10000) g", "checkpoint", "update t set g = g + 1")
			to := position()
			grown(t, checkpointsCollector, l, points, "", map[string]float64{"postgres_checkpoints_requested_total": 1, "postgres_checkpoints_timed_total": 0})
			if b, _ := get(aRound(t, walCollector, l), "postgres_wal_position_bytes_total"); a > from || b < to {
				t.Errorf("position went from %v to %v, want at least from %v to %v", a, b, from, to)
			}
			after := aRound(t, checkpointsCollector, l)
			wants(t, after, atLeast(1<<20), "postgres_checkpoint_distance_bytes")
			wants(t, after, func(v float64) bool { return v >= 0 && v < 3600 }, "postgres_checkpoint_age_seconds")
			wants(t, aRound(t, walFilesCollector, l), func(v float64) bool { return v > 0 && int64(v)%(16<<20) == 0 }, "postgres_wal_files_bytes")
			if s.Major < 14 {
				return
			}
			need.Eventually(t, 15*time.Second, "records and page images are counted", func() bool {
				now := aRound(t, walCollector, l)
				records, _ := get(now, "postgres_wal_records_total")
				images, _ := get(now, "postgres_wal_page_images_total")
				bytes, _ := get(now, "postgres_wal_bytes_total")
				return records > 20_000 && images > 30 && bytes > 1<<20
			})
		})
	}
}

func TestSessionsLocksAndTransactions(t *testing.T) {
	for _, major := range majors() {
		t.Run(strconv.Itoa(major), func(t *testing.T) {
			t.Parallel()
			s := watched(t, major, map[string]string{"max_prepared_transactions": "2"})
			holder, waiter, preparer := connect(t, s.DSN()+" application_name=holder"), connect(t, s.DSN()+" application_name=waiter"), connect(t, s.DSN())
			do(t, holder, "create table t (k int, secret text)", "insert into t values (1, 'a')", "begin", "update t set secret = 'hunter2' /* hunter3 */ where k = 1")
			do(t, preparer, "begin", "insert into t values (2, 'b')", "prepare transaction 'one'")
			done := make(chan error, 1)
			go func() {
				_, err := waiter.Exec(t.Context(), "update t set secret = 'hunter2' where k = 1")
				done <- err
			}()
			l := reader(t, s.DSN())
			var out *metric.Out
			need.Eventually(t, 10*time.Second, "a session waits", func() bool {
				out = aRound(t, activityCollector, l)
				v, _ := get(out, "postgres_wait_sessions", "type=Lock")
				return v == 1 // state and wait event: the server reads them one after the other
			})
			wants(t, out, is(1), "postgres_sessions_blocked")
			wants(t, out, is(1), "postgres_connections", "state=idle in transaction")
			wants(t, out, is(1), "postgres_connections", "state=active")
			wants(t, out, is(1), "postgres_connections", "state=idle")
			wants(t, out, is(0), "postgres_connections", "state=disabled")
			wants(t, out, is(4), "postgres_connections_used")
			wants(t, out, is(100), "postgres_connections_limit")
			wants(t, out, is(3), "postgres_connections_reserved")
			wants(t, out, is(1), "postgres_active_sessions", "wait=Lock")
			wants(t, out, is(0), "postgres_active_sessions", "wait=CPU")
			wants(t, out, is(1), "postgres_wait_sessions", "type=Lock", "event=transactionid")
			wants(t, out, is(1), "postgres_prepared_transactions")
			for _, name := range []string{"postgres_oldest_transaction_seconds", "postgres_oldest_statement_seconds",
				"postgres_longest_idle_in_transaction_seconds", "postgres_oldest_prepared_transaction_seconds"} {
				wants(t, out, func(v float64) bool { return v > 0 && v < 600 }, name)
			}
			wants(t, out, atLeast(1), "postgres_xmin_age", "holder=prepared transaction")
			locks := aRound(t, locksCollector, l)
			wants(t, locks, is(1), "postgres_locks_waiting", "mode=ShareLock")
			wants(t, locks, is(0), "postgres_locks_waiting", "mode=AccessExclusiveLock")
			wants(t, locks, is(3), "postgres_locks", "mode=RowExclusiveLock")
			if s.Major >= 14 {
				wants(t, locks, func(v float64) bool { return v > 0 && v < 600 }, "postgres_longest_lock_wait_seconds")
			}
			inTheList(t, l)
			do(t, holder, "rollback")
			do(t, preparer, "rollback prepared 'one'")
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			out = aRound(t, activityCollector, l)
			wants(t, out, is(0), "postgres_sessions_blocked")
			wants(t, out, is(0), "postgres_oldest_transaction_seconds")
			wants(t, out, is(0), "postgres_prepared_transactions")
		})
	}
}

// inTheList checks the live list while one session waits for another.
func inTheList(t *testing.T, l host.Reader) {
	t.Helper()
	list, err := Sessions(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	find := func(app string) Session {
		i := slices.IndexFunc(list, func(s Session) bool { return s.Application == app })
		if i < 0 {
			t.Fatalf("%s is not in the list %+v", app, list)
		}
		return list[i]
	}
	h, w := find("holder"), find("waiter")
	if !slices.Equal(w.BlockedBy, []int32{h.PID}) || w.State != "active" || w.WaitType != "Lock" || w.Wait != "transactionid" || len(h.BlockedBy) != 0 {
		t.Errorf("waiter %+v, holder %+v", w, h)
	}
	if w.Query != "update t set secret = ? where k = ?" || h.Query != "update t set secret = ? where k = ?" || h.State != "idle in transaction" {
		t.Errorf("queries %q and %q", w.Query, h.Query)
	}
	if h.Transaction == nil || *h.Transaction <= 0 || h.Connected == nil || *h.Connected < *h.Transaction || h.Hidden {
		t.Errorf("holder %+v", h)
	}
	if list[0].Application != "waiter" {
		t.Errorf("the active session comes first: %+v", list[0])
	}
	if strings.Contains(fmt.Sprintf("%+v", list), "hunter") {
		t.Error("a literal or comment is in the list")
	}
}
