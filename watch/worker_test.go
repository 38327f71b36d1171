package watch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/metric"
	"headroom/queue"
)

// shelf is a store in memory that can be made to fail: the worker's errors are
// what is tested here; the real store is in run_test.go.
type shelf struct {
	mu    sync.Mutex
	have  map[metric.ID]int
	order []int64
	fail  func([]*metric.Batch) error
}

func (s *shelf) Write(_ context.Context, batches []*metric.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(batches); err != nil {
			return err
		}
	}
	for _, b := range batches {
		s.have[b.ID]++
		s.order = append(s.order, b.Rows[0].Points[0].At)
	}
	return nil
}

func (s *shelf) count() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.have) }

var errBad = errors.New("a value that no store takes")

func testQueue(t *testing.T) queue.Queue {
	t.Helper()
	q, err := queue.Open(t.Context(), queue.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	return q
}

// put queues n batches numbered by their time and returns them.
func put(t *testing.T, q queue.Queue, n int) []*metric.Batch {
	t.Helper()
	s, err := metric.NewSeries("a_test_count", nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []*metric.Batch
	for i := range n {
		b := &metric.Batch{ID: metric.NewID(), Rows: []metric.Row{{Series: s, Points: []metric.Point{{At: int64(i + 1), Value: 1}}}}}
		if err := q.Put(t.Context(), b.Encode(nil)); err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// work runs a worker until done says so, at most 20 s.
func work(t *testing.T, q queue.Queue, s *shelf, done func(*worker) bool) *worker {
	t.Helper()
	w := &worker{decoder: &metric.Decoder{}, queue: q, sink: s, permanent: func(err error) bool { return errors.Is(err, errBad) }, say: func(text string) { t.Log(text) }}
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := w.run(ctx); err != nil {
			t.Error(err)
		}
	})
	for end := time.Now().Add(20 * time.Second); !done(w) && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	if !done(w) {
		t.Errorf("not done in 20 s: %+v", w.State())
	}
	stop()
	ended.Wait()
	return w
}

func empty(t *testing.T, q queue.Queue) bool {
	st, err := q.Status(t.Context())
	return err == nil && st.Messages == 0
}

func TestWorkerStoresInOrderAndEmptiesTheQueue(t *testing.T) {
	q, s := testQueue(t), &shelf{have: map[metric.ID]int{}}
	put(t, q, 100)
	w := work(t, q, s, func(*worker) bool { return s.count() == 100 && empty(t, q) })
	for i, at := range s.order {
		if at != int64(i+1) {
			t.Fatalf("place %d holds batch %d", i, at)
		}
	}
	if st := w.State(); st.Stored != 100 || st.Batches != 100 || st.Trouble != "" || st.Last.IsZero() {
		t.Errorf("state %+v", st)
	}
}

// fromTheFuture is a message that was put before the clock was set back.
type fromTheFuture struct{ queue.Message }

func (m fromTheFuture) Put() time.Time { return m.Message.Put().Add(time.Hour) }

func TestLagOverAClockThatWasSetBack(t *testing.T) {
	q := testQueue(t)
	b := put(t, q, 1)
	got, err := q.Fetch(t.Context(), 1)
	if err != nil || len(got) != 1 {
		t.Fatal(len(got), err)
	}
	w := &worker{queue: q, say: func(string) {}}
	w.done(t.Context(), []taken{{msg: fromTheFuture{got[0]}, batch: b[0]}})
	if lag := w.State().Lag; lag != 0 {
		t.Errorf("a lag of %v s", lag)
	}
}

func TestWorkerWaitsForAStoreThatIsAway(t *testing.T) {
	q, s := testQueue(t), &shelf{have: map[metric.ID]int{}}
	var tries int
	s.fail = func([]*metric.Batch) error {
		if tries++; tries < 4 {
			return errors.New("connection refused")
		}
		return nil
	}
	put(t, q, 50)
	told := false
	w := work(t, q, s, func(w *worker) bool {
		told = told || strings.Contains(w.State().Trouble, "connection refused") && !w.State().Since.IsZero()
		return s.count() == 50 && empty(t, q)
	})
	if !told {
		t.Error("the state never told that the store was away")
	}
	if st := w.State(); st.Trouble != "" || st.Killed != 0 {
		t.Errorf("afterwards: %+v", st)
	}
}

func TestWorkerSetsAsideOnlyWhatIsBad(t *testing.T) {
	q, s := testQueue(t), &shelf{have: map[metric.ID]int{}}
	all := put(t, q, 40)
	bad := map[metric.ID]bool{all[7].ID: true, all[8].ID: true, all[39].ID: true}
	s.fail = func(batches []*metric.Batch) error {
		for _, b := range batches {
			if bad[b.ID] {
				return fmt.Errorf("write: %w", errBad)
			}
		}
		return nil
	}
	if err := q.Put(t.Context(), []byte("no batch at all")); err != nil {
		t.Fatal(err)
	}
	w := work(t, q, s, func(*worker) bool { return s.count() == 37 && empty(t, q) })
	if st := w.State(); st.Killed != 4 {
		t.Errorf("%d set aside, want 3 and the one that is no batch", st.Killed)
	}
	dead, err := q.Dead(t.Context(), "", 10)
	if err != nil || len(dead) != 4 {
		t.Fatalf("%d dead letters, %v", len(dead), err)
	}
	for _, d := range dead {
		if d.Reason == "" {
			t.Error("a dead letter without a reason")
		}
	}
	for id, n := range s.have {
		if n != 1 || bad[id] {
			t.Errorf("batch %s is stored %d times", id, n)
		}
	}
}

// At the end messages go back at once: the next reader need not wait for a
// lease.
func TestWorkerGivesBackWhatItHolds(t *testing.T) {
	q, s := testQueue(t), &shelf{have: map[metric.ID]int{}}
	s.fail = func([]*metric.Batch) error { return errors.New("away") }
	put(t, q, 5)
	work(t, q, s, func(w *worker) bool { return w.State().Trouble != "" })
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	msgs, err := q.Fetch(ctx, 10)
	if err != nil || len(msgs) != 5 {
		t.Fatalf("%d messages at once after the end, %v; want 5", len(msgs), err)
	}
}

func TestRoundsFitTheSizeOfBatches(t *testing.T) {
	q := testQueue(t)
	put(t, q, 3)
	msgs, err := q.Fetch(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	n := roundLeast
	for range 10 {
		next := nextRound(n, msgs)
		if next > 4*n {
			t.Fatalf("from %d to %d at once", n, next)
		}
		n = next
	}
	if n != roundMost {
		t.Errorf("small batches make rounds of %d, want %d", n, roundMost)
	}
}
