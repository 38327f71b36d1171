package postgres

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"headroom/testkit/need"
)

func TestStandbyAndSlots(t *testing.T) {
	for _, major := range majors() {
		t.Run(strconv.Itoa(major), func(t *testing.T) {
			t.Parallel()
			s := watched(t, major, nil)
			sb, err := s.Standby(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := sb.Stop(); err != nil {
					t.Error(err)
				}
			})
			p, r := reader(t, s.DSN()), reader(t, sb.DSN())
			run(t, s.DSN(), "create table t (k int)", "select pg_create_physical_replication_slot('idle', true)")
			need.Eventually(t, 10*time.Second, "the standby has all", func() bool {
				v, ok := get(aRound(t, replicationCollector, p), "postgres_standby_replay_lag_bytes")
				return ok && v == 0
			})
			out := aRound(t, replicationCollector, p)
			wants(t, out, is(1), "postgres_standbys")
			wants(t, out, is(2), "postgres_slots")
			wants(t, out, is(1), "postgres_standby_streaming", "client=local")
			wants(t, out, is(0), "postgres_standby_synchronous")
			wants(t, out, is(0), "postgres_slot_active", "slot=idle", "kind=physical")
			wants(t, out, is(0), "postgres_slot_lost", "slot=idle")
			wants(t, out, is(1), "postgres_slot_info", "slot=idle", "status=reserved")
			kept, _ := get(out, "postgres_slot_retained_bytes", "slot=idle")
			if _, ok := get(out, "postgres_replay_lag_bytes"); ok {
				t.Error("a primary replays nothing")
			}

			run(t, sb.DSN(), "select pg_wal_replay_pause()")
			need.Eventually(t, 10*time.Second, "replay is paused", func() bool {
				v, _ := get(aRound(t, replicationCollector, r), "postgres_replay_paused")
				return v == 1
			})
			run(t, s.DSN(), "insert into t select generate_series(1, 20000)")
			need.Eventually(t, 10*time.Second, "the lag is seen on both sides", func() bool {
				there, _ := get(aRound(t, replicationCollector, p), "postgres_standby_replay_lag_bytes")
				here := aRound(t, replicationCollector, r)
				bytes, _ := get(here, "postgres_replay_lag_bytes")
				seconds, _ := get(here, "postgres_replay_lag_seconds")
				return there > 1<<20 && bytes > 1<<20 && seconds > 0
			})
			out = aRound(t, replicationCollector, p)
			wants(t, out, atLeast(kept+1<<20), "postgres_slot_retained_bytes", "slot=idle")
			wants(t, out, func(v float64) bool { return v < 1<<20 }, "postgres_standby_write_lag_bytes")
			run(t, sb.DSN(), "select pg_wal_replay_resume()")
			need.Eventually(t, 10*time.Second, "all is replayed", func() bool {
				here := aRound(t, replicationCollector, r)
				seconds, ok := get(here, "postgres_replay_lag_seconds")
				streaming, _ := get(here, "postgres_receiver_streaming")
				behind, got := get(here, "postgres_receive_lag_bytes")
				return ok && seconds == 0 && streaming == 1 && got && behind == 0
			})
			for _, c := range collectors {
				for _, g := range aRound(t, c, r).Gaps {
					if strings.Contains(g.Because, "refuses") || strings.Contains(g.Because, "catalogue") {
						t.Errorf("on a standby: %+v", g)
					}
				}
			}
			run(t, sb.DSN(), "alter system set primary_conninfo = 'host=/nowhere'", "select pg_reload_conf()")
			need.Eventually(t, 10*time.Second, "a standby that is cut off says so", func() bool {
				here := aRound(t, replicationCollector, r)
				streaming, ok := get(here, "postgres_receiver_streaming")
				_, behind := get(here, "postgres_receive_lag_bytes")
				return ok && streaming == 0 && !behind
			})
			need.Eventually(t, 10*time.Second, "the primary has lost its standby", func() bool {
				v, ok := get(aRound(t, replicationCollector, p), "postgres_standbys")
				return ok && v == 0
			})
		})
	}
}
