package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"headroom/metric"
)

// TestAConnectionThatDiesWhileItIsWrittenTo: what pgx still reads of a COPY
// whose connection broke is neither let go of too early nor taken from the next.
func TestAConnectionThatDiesWhileItIsWrittenTo(t *testing.T) {
	dsn := base(t, 0)
	c := newClock("2026-03-01 12:00:00")
	s := openStore(t, dsn, c)
	var all []*metric.Series
	for i := range 20_000 {
		all = append(all, series(fmt.Sprintf(`m{i="%d"}`, i)))
	}
	const rounds = 25
	killer := dial(t, dsn)
	for n := range rounds {
		b := batch()
		for _, x := range all {
			b.Rows = append(b.Rows, row(x, pt(c.now().Add(time.Duration(n)*time.Second), float64(n))))
		}
		var killing sync.WaitGroup
		killing.Go(func() {
			time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
			_, _ = killer.Exec(context.Background(), "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
		})
		for tries := 0; ; tries++ {
			if err := s.Write(context.Background(), []*metric.Batch{b}); err == nil {
				break
			} else if tries == 50 || IsPermanent(err) {
				t.Fatal(err)
			}
		}
		killing.Wait()
	}
	pg := dial(t, dsn)
	if n := one[int64](t, pg, "select count(*) from headroom.point"); n != rounds*int64(len(all)) {
		t.Errorf("%d points are stored, %d were written", n, rounds*len(all))
	}
	if n := one[int64](t, pg, "select count(*) from headroom.point p join (select series, min(value) as v from headroom.point group by 1) q using (series) where p.value <> extract(epoch from p.at - '2026-03-01 12:00:00+00'::timestamptz)"); n != 0 {
		t.Errorf("%d points have another's value", n)
	}
}
