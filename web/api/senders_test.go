package api

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/metric"
	"headroom/web/auth"
)

// bomb is lines of n series that were never seen before.
func bomb(from, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"name":"x","labels":{"id":"%d"},"value":1}`+"\n", from+i)
	}
	return b.String()
}

// TestOneTokenCannotUseUpTheSeriesOfOthers: a flood of labels with one token
// ends at its budget, is told why and what to do, and neither other tokens nor
// what it had before notice anything.
func TestOneTokenCannotUseUpTheSeriesOfOthers(t *testing.T) {
	var mu sync.Mutex
	var logs []string
	s := serve(t, func(p *Parts) {
		p.Limits.Series = 400
		p.Log = func(l string) { mu.Lock(); defer mu.Unlock(); logs = append(logs, l) }
	})
	rogue := []string{"Test-Token", "rogue", "Test-Series", "100"}
	status, r := s.ingest(t, bomb(0, 120), rogue...)
	if status != 207 || r.Accepted != 100 || r.Rejected != 20 {
		t.Fatalf("%d %+v", status, r)
	}
	has(t, r.Rejects[0].Reason, `x{host="here",id="100"} is new, and token "rogue" has used up its 100 of an hour`)
	has(t, r.Hint, "headroom up token series rogue N")
	for i := range 10 { // it goes on and on
		status, body, h := s.do(t, "POST", "/api/v1/ingest", []byte(bomb(1000*(i+1), 200)), rogue...)
		if r := readReceipt(t, body); status != http.StatusTooManyRequests || r.Accepted != 0 || r.Rejected != 200 || h.Get("Retry-After") == "" || r.Hint == "" {
			t.Fatalf("%d %+v, Retry-After %q", status, r, h.Get("Retry-After"))
		}
		if status, r := s.ingest(t, bomb(100_000+20*i, 20), "Test-Token", "good"); status != 200 || r.Accepted != 20 {
			t.Fatalf("another token beside it: %d %+v", status, r)
		}
		if status, r := s.ingest(t, bomb(0, 100), rogue...); status != 200 || r.Accepted != 100 {
			t.Fatalf("what it had before: %d %+v", status, r)
		}
	}
	if err := s.Take(t.Context(), ownBatch(t)); err != nil {
		t.Errorf("this machine's own series: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(logs) != 1 || !strings.Contains(logs[0], `"rogue"`) || !strings.Contains(logs[0], "headroom up token series rogue N") {
		t.Errorf("the log says %q; want one line that names it and the way out", logs)
	}
	_, text, _ := s.do(t, "GET", "/metrics", nil)
	has(t, string(text), "headroom_ingest_refused_series_total 2020\n")
}

func ownBatch(t *testing.T) *metric.Batch {
	t.Helper()
	s, err := metric.NewSeries("host_own", []metric.Label{{Name: "host", Value: "here"}})
	if err != nil {
		t.Fatal(err)
	}
	return &metric.Batch{ID: metric.NewID(), Origin: "here", Rows: []metric.Row{{Series: s, Points: []metric.Point{{At: time.Now().UnixMilli(), Value: 1}}}}}
}

// steps is a book with a clock of its own, and who brings series to it.
type steps struct {
	*book
	t    *testing.T
	time time.Time
}

func newSteps(t *testing.T, most int) *steps {
	s := &steps{t: t, time: time.Now()}
	s.book = newBook(most, func() time.Time { return s.time })
	return s
}

// enter brings n series and returns how many were refused.
func (s *steps) enter(token string, budget, from, n int) (refused int) {
	s.t.Helper()
	for i := range n {
		err := s.admit(numbered(s.t, from+i), []byte(fmt.Sprint(from+i)), &bringer{id: token, name: token, budget: budget})
		if err != nil {
			refused++
			if !errors.Is(err, errOver) {
				s.t.Error(err)
			}
		}
	}
	return refused
}

func numbered(t *testing.T, i int) *metric.Series {
	t.Helper()
	s, err := metric.NewSeries("x", []metric.Label{{Name: "id", Value: fmt.Sprint(i)}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The limit in all is of a day or two: what came long ago makes room.
func TestOldSeriesMakeRoom(t *testing.T) {
	b := newSteps(t, 10)
	if n := b.enter("a", 100, 0, 20); n != 10 {
		t.Errorf("%d refused, want 10", n)
	}
	b.time = b.time.Add(generationLife + time.Hour)
	if n := b.enter("a", 100, 0, 5); n != 0 || b.size() != 10 { // five come again
		t.Errorf("%d refused, %d known", n, b.size())
	}
	b.time = b.time.Add(generationLife + time.Hour)
	if n := b.enter("a", 100, 100, 10); n != 5 {
		t.Errorf("%d refused, want 5: five old ones have gone", n)
	}
}

// Who fills what all may bring within a day, hour by hour, shuts out itself.
func TestTheLimitInAllIsShared(t *testing.T) {
	b := newSteps(t, 100)
	refused := 0
	for i := range 20 {
		refused += b.enter("hog", 10, 1000*i, 10)
		b.time = b.time.Add(time.Hour)
	}
	if refused != 100 {
		t.Errorf("%d of 200 refused, want 100", refused)
	}
	for i, name := range []string{"a", "b"} {
		if n := b.enter(name, 100, 50_000+1000*i, 30); n != 0 {
			t.Errorf("%d of 30 refused for %s", n, name)
		}
	}
	for i := range 500 {
		b.enter(fmt.Sprint("many", i), 100, 100_000+1000*i, 30)
	}
	if b.size() > 200 {
		t.Errorf("%d series are let in, over twice the limit of 100", b.size())
	}
}

// A budget is earned back evenly.
func TestABudgetIsEarnedBack(t *testing.T) {
	b := newSteps(t, 1_000_000)
	for _, x := range []struct {
		later        time.Duration
		bring, taken int
	}{{0, 70, 60}, {time.Minute, 5, 1}, {10 * time.Minute, 70, 10}, {-24 * time.Hour, 5, 0}, {48 * time.Hour, 70, 60}} {
		b.time = b.time.Add(x.later)
		if n := b.enter("a", 60, int(b.time.UnixMilli()), x.bring); n != x.bring-x.taken {
			t.Errorf("after %s more: %d of %d refused, want %d", x.later, n, x.bring, x.bring-x.taken)
		}
	}
}

// TestARestartGivesNoNewBudget, and takes none: what senders had before may
// come again while the store, which knows it, is away.
func TestARestartGivesNoNewBudget(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.json")
	serveAgain := func() *stand { return serve(t, func(p *Parts) { p.Usage = auth.OpenUsage(path) }) }
	token := []string{"Test-Token", "a", "Test-Series", "100"}
	first := serveAgain()
	if status, r := first.ingest(t, bomb(0, 100), token...); status != 200 {
		t.Fatal(status, r)
	}
	first.Close()
	second := serveAgain()
	if status, r := second.ingest(t, bomb(0, 100), token...); status != 200 {
		t.Errorf("what it had before: %d %+v", status, r)
	}
	if status, r := second.ingest(t, bomb(1000, 100), token...); status == 200 || r.Accepted > 5 { // some are earned meanwhile
		t.Errorf("a new budget by a restart: %d %+v", status, r)
	}
	second.Close()
	third := serveAgain()
	third.Know([]int64{1})
	if status, r := third.ingest(t, bomb(0, 100), token...); status == 200 || r.Accepted > 5 {
		t.Errorf("new to a store that told what it has: %d %+v", status, r)
	}
}
