package postgres

import (
	"strconv"
	"testing"
	"time"

	"headroom/metric"
	"headroom/testkit/need"
)

func TestVacuumAtWork(t *testing.T) {
	for _, major := range majors() {
		t.Run(strconv.Itoa(major), func(t *testing.T) {
			t.Parallel()
			s := watched(t, major, map[string]string{"autovacuum": "off"})
			run(t, s.DSN(), "create database d")
			run(t, s.DSN()+" dbname=d", "create table t as select g as k, repeat('x', 500) as v from generate_series(1, 20000) g", "delete from t")
			c := connect(t, s.DSN()+" dbname=d")
			do(t, c, "set vacuum_cost_delay = 20", "set vacuum_cost_limit = 50")
			done := make(chan error, 1)
			go func() {
				_, err := c.Exec(t.Context(), "vacuum t")
				done <- err
			}()
			here, elsewhere := reader(t, s.DSN()+" dbname=d"), reader(t, s.DSN())
			var out *metric.Out
			need.Eventually(t, 20*time.Second, "vacuum is seen on its way", func() bool {
				out = aRound(t, vacuumCollector, here)
				v, ok := get(out, "postgres_vacuum_progress_ratio", "database=d", "schema=public", "table=t", "phase=scanning heap")
				return ok && v > 0 && v < 1
			})
			wants(t, out, is(1), "postgres_vacuum_workers", "kind=manual")
			wants(t, out, is(0), "postgres_vacuum_workers", "kind=autovacuum")
			wants(t, out, is(3), "postgres_autovacuum_workers_limit")
			wants(t, out, func(v float64) bool { return v > 0 && v < 600 }, "postgres_vacuum_running_seconds", "table=t")
			if v, ok := get(aRound(t, vacuumCollector, elsewhere), "postgres_vacuum_progress_ratio", "database=d"); !ok || v <= 0 {
				t.Errorf("seen from another database: %v, %v", v, ok)
			}
			if err := c.PgConn().CancelRequest(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-done
		})
	}
}
