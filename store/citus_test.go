package store

import (
	"os"
	"testing"
	"time"

	"headroom/metric"
	"headroom/testkit/need"
)

// TestCitus runs the whole way on a server with Citus: what is dealt out, late
// points, roll-ups, queries, plain SQL. The schema headroom of that database
// is dropped.
func TestCitus(t *testing.T) {
	dsn := os.Getenv("HEADROOM_TEST_CITUS")
	if dsn == "" {
		need.Without(t, "citus", "HEADROOM_TEST_CITUS names no server with Citus")
	}
	pg := dial(t, dsn)
	do(t, pg, "create extension if not exists citus")
	do(t, pg, "drop schema if exists headroom cascade")
	c := newClock("2026-03-01 00:00:00")
	s := openStore(t, dsn, c)
	if got := one[int64](t, pg, "select count(distinct colocation_id) from citus_tables where table_name::text like 'headroom.%' and citus_table_type = 'distributed'"); got != 1 {
		t.Errorf("%d groups of tables that lie together, want 1", got)
	}
	m := model{}
	all := []*metric.Series{series(`a_total{h="1"}`), series(`b{h="2"}`), series(`c{h="3"}`)}
	start := c.now()
	for i := range 60 {
		b := batch()
		for k, x := range all {
			b.Rows = append(b.Rows, row(x, pt(c.now(), float64(i*(k+1))), pt(start.Add(time.Duration(i)*time.Minute), float64(i))))
		}
		write(t, s, b)
		m.write(b)
		c.add(time.Hour)
		maintain(t, s)
		if i%20 == 7 {
			s.Close()
			s = openStore(t, dsn, c)
		}
	}
	asked(t, s, m, start, c.now())
	st := must(s.Status(t.Context()))
	if !st.Citus || st.RolledTo.IsZero() || st.Problem != "" {
		t.Errorf("%+v", st)
	}
	agree(t, pg, m, st.RolledTo)
}
