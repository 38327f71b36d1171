package pglocal

import (
	"sync"
	"testing"
)

func TestClone(t *testing.T) {
	s := run(t, Options{Settings: map[string]string{"work_mem": "5MB"}})
	ask(t, s.DSN(), "create table a as select g, md5(g::text) from generate_series(1, 10000) g")
	ask(t, s.DSN(), "alter system set random_page_cost = 1.5")
	c, err := s.Clone(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	for _, q := range []string{"select md5(string_agg(a::text, ',' order by g)) from a", "show work_mem", "show random_page_cost",
		"select system_identifier::text from pg_control_system()"} {
		if x, y := ask(t, s.DSN(), q), ask(t, c.DSN(), q); x != y {
			t.Errorf("%s: %s here, %s in the clone", q, x, y)
		}
	}
	ask(t, c.DSN(), "drop table a")
	if got := ask(t, s.DSN(), "select count(*)::text from a"); got != "10000" {
		t.Errorf("the original has %s rows after the clone's were dropped", got)
	}
	if s.PID() == c.PID() || s.DataDir == c.DataDir {
		t.Error("one and the same server")
	}
}

func TestStandbys(t *testing.T) {
	standbys(t, run(t, Options{TCP: true}))
}

// standbys gives s two standbys at once and looks whether they follow.
func standbys(t *testing.T, s *Server) {
	t.Helper()
	ask(t, s.DSN(), "create table a (n int)")
	var wg sync.WaitGroup
	both := make([]*Server, 2)
	for i := range both {
		wg.Go(func() {
			sb, err := s.Standby(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			both[i] = sb
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	ask(t, s.DSN(), "insert into a values (7)")
	for _, sb := range both {
		if got := ask(t, sb.DSN(), "select pg_is_in_recovery()::text"); got != "true" {
			t.Errorf("in recovery = %s", got)
		}
		eventually(t, "the row is on the standby", func() bool {
			return ask(t, sb.DSN(), "select count(*)::text from a") == "1"
		})
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := both[0].Stop(); err != nil {
		t.Error(err)
	}
	if got := ask(t, s.DSN(), "select count(*)::text from pg_replication_slots"); got != "1" {
		t.Errorf("%s slots after one of two standbys was stopped", got)
	}
	if err := both[1].Stop(); err != nil {
		t.Error(err)
	}
}
