package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/pglocal"
	"headroom/testkit/need"
)

// readers are the answers that are made of what the store holds.
var readers = []string{"query?match=jobs_total&from=-2h", "series?match=jobs_total&from=-2h", "labels/host", "marks?from=-2h"}

// answer is what a request got.
type answer struct {
	status int
	text   string
	retry  string
}

// wantAway checks that an answer says 503, why, when to ask again, and the way
// out, on one line each.
func wantAway(t *testing.T, when, path string, a answer) {
	t.Helper()
	if a.status != http.StatusServiceUnavailable || a.retry == "" || !strings.Contains(a.text, "the store is not there now: ") ||
		!strings.Contains(a.text, `"hint":`) || strings.Contains(a.text, `\n`) {
		t.Errorf("%s, %s: %d, Retry-After %q, %s", when, path, a.status, a.retry, a.text)
	}
}

func (s *stand) answer(t *testing.T, path string) answer {
	t.Helper()
	status, text, h := s.do(t, "GET", "/api/v1/"+path, nil)
	return answer{status, string(text), h.Get("Retry-After")}
}

func (s *stand) well(t *testing.T, when string) {
	t.Helper()
	for _, path := range readers {
		var a answer
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if a = s.answer(t, path); a.status == 200 {
				break
			}
			wantAway(t, when, path, a)
		}
		if a.status != 200 {
			t.Fatalf("%s, %s: %d %s", when, path, a.status, a.text)
		}
	}
}

// held takes a lock that questions wait behind, asks them all, calls do when
// each of them waits in the server, and returns what they got.
func (s *stand) held(t *testing.T, srv *pglocal.Server, do func(pids []int)) []answer {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, srv.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, "begin; lock table headroom.series, headroom.mark in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	got := make(chan answer, len(readers))
	for _, path := range readers {
		go func() { got <- s.answer(t, path) }()
	}
	var pids []int
	need.Eventually(t, 4*time.Second, "all questions wait", func() bool { // in less than the lock_timeout
		if _, err := c.Exec(ctx, "select pg_stat_clear_snapshot()"); err != nil {
			return false
		}
		rows, err := c.Query(ctx, "select pid from pg_stat_activity where wait_event_type = 'Lock'")
		if err != nil {
			return false
		}
		pids, err = pgx.CollectRows(rows, pgx.RowTo[int])
		return err == nil && len(pids) == len(readers)
	})
	do(pids)
	var out []answer
	for range readers {
		out = append(out, <-got)
	}
	return out
}

// TestTheStoresServerDies: whatever becomes of the server that the store is
// in, those who ask are told that it is away and when to come again, and are
// answered when it is back.
func TestTheStoresServerDies(t *testing.T) {
	s, _, srv := storedIn(t, map[string]string{"max_connections": "12", "superuser_reserved_connections": "0"})
	s.well(t, "at first")
	kill := func(pid int) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	for _, a := range s.held(t, srv, func(pids []int) { kill(pids[0]) }) {
		wantAway(t, "a back end killed in the middle", "", a)
	}
	s.well(t, "after a back end was killed")
	for _, a := range s.held(t, srv, func(pids []int) {
		kill(srv.PID())
		for _, pid := range pids {
			kill(pid)
		}
	}) {
		wantAway(t, "all killed in the middle", "", a)
	}
	for _, path := range readers {
		wantAway(t, "gone", path, s.answer(t, path))
	}
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.well(t, "after a restart")
	for _, a := range s.held(t, srv, func([]int) {}) { // until the lock_timeout
		wantAway(t, "locked", "", a)
	}
	s.crowded(t, srv)
}

// crowded takes all connections that there are.
func (s *stand) crowded(t *testing.T, srv *pglocal.Server) {
	t.Helper()
	ctx := t.Context()
	var all []*pgx.Conn
	if err := srv.Restart(ctx); err != nil { // the store's own connections are gone, too
		t.Fatal(err)
	}
	for {
		c, err := pgx.Connect(ctx, srv.DSN())
		if err != nil {
			break
		}
		all = append(all, c)
	}
	for _, path := range readers {
		a := s.answer(t, path)
		wantAway(t, fmt.Sprintf("%d connections are taken", len(all)), path, a)
	}
	for _, c := range all {
		_ = c.Close(ctx)
	}
	s.well(t, "when there are connections again")
}

// A server that does not answer at all is not waited for without end, and a
// question that it gives up is no fault of ours.
func TestAStoreThatIsTooSlow(t *testing.T) {
	s, _, srv := storedIn(t, nil)
	s.well(t, "at first")
	s.Limits.Reading = time.Second
	for _, a := range s.held(t, srv, func([]int) {}) {
		wantAway(t, "no answer", "", a)
		has(t, a.text, "did not answer within 1s")
	}
	s.Limits.Reading = readTime
	for _, a := range s.held(t, srv, func(pids []int) {
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGINT); err != nil { // as the server's own time limit does
				t.Error(err)
			}
		}
	}) {
		if a.status != http.StatusGatewayTimeout || !strings.Contains(a.text, "took too long") {
			t.Errorf("%d %s", a.status, a.text)
		}
	}
}
