package loop

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func mustRun(t *testing.T, o Options, w Work) *Result {
	t.Helper()
	r, err := Run(context.Background(), o, w)
	if err != nil {
		t.Fatal(err)
	}
	identity(t, r)
	return r
}

func identity(t *testing.T, r *Result) {
	t.Helper()
	var coded int64
	for _, n := range r.Failures {
		coded += n
	}
	if r.All != r.Done+r.Failed+r.Skipped || coded != r.Failed || r.Latency.TotalCount() != r.Done {
		t.Fatalf("the counts do not add up: %+v, %d latencies", r, r.Latency.TotalCount())
	}
}

func TestCountsEverything(t *testing.T) {
	var calls [3]int
	r := mustRun(t, Options{Clients: 3, Transactions: 100}, func(_ context.Context, i int) (int, error) {
		calls[i]++
		if calls[i]%4 == 0 {
			return 0, &Failure{Code: "40001", Err: errors.New("conflict")}
		}
		return 2, nil
	})
	if r.All != 300 || r.Done != 225 || r.Units != 450 || r.Failed != 75 || r.Failures["40001"] != 75 || r.First.Error() != "conflict" {
		t.Fatalf("%+v", r)
	}
}

func TestDuration(t *testing.T) {
	r := mustRun(t, Options{Clients: 2, Duration: 100 * time.Millisecond}, func(context.Context, int) (int, error) {
		time.Sleep(10 * time.Millisecond)
		return 1, nil
	})
	if r.Seconds < 0.1 || r.Seconds > r.Wall+1e-9 || r.Done < 4 || r.Done > 22 || r.Quantile(0.5) < 0.01 || r.Max() < r.Mean() {
		t.Fatalf("%+v", r)
	}
}

// One client ends 100 ms after the other: the idle time is not held against
// the rate.
func TestSecondsAreWorkedTime(t *testing.T) {
	r := mustRun(t, Options{Clients: 2, Transactions: 1}, func(_ context.Context, i int) (int, error) {
		time.Sleep(time.Duration(10+100*i) * time.Millisecond)
		return 1, nil
	})
	if r.Wall < 0.11 || r.Seconds > r.Wall-0.02 {
		t.Fatal(r.Seconds, r.Wall)
	}
}

func TestFatalErrorEndsTheRun(t *testing.T) {
	boom := errors.New("boom")
	r, err := Run(context.Background(), Options{Clients: 2, Duration: time.Minute}, func(ctx context.Context, i int) (int, error) {
		if i == 1 {
			return 0, boom
		}
		<-ctx.Done()
		return 0, ctx.Err()
	})
	if !errors.Is(err, boom) || r.All != 0 {
		t.Fatal(err, r)
	}
}

func TestCancel(t *testing.T) {
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer stop()
	for _, rate := range []float64{0, 2} { // 2: the clients wait for a due time
		start := time.Now()
		r, err := Run(ctx, Options{Clients: 4, Duration: time.Hour, Rate: rate}, func(ctx context.Context, _ int) (int, error) {
			<-ctx.Done()
			return 0, &Failure{Code: "57014", Err: ctx.Err()}
		})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > time.Second {
			t.Fatal(err, time.Since(start))
		}
		identity(t, r)
		if r.Failed != 0 {
			t.Fatalf("cut-off work is counted: %+v", r)
		}
	}
}

func TestOpenLoopKeepsItsRate(t *testing.T) {
	for _, even := range []bool{true, false} {
		r := mustRun(t, Options{Clients: 4, Duration: 500 * time.Millisecond, Rate: 400, Even: even, Seed: 7}, func(context.Context, int) (int, error) { return 1, nil })
		if r.All != r.Done+r.Skipped || math.Abs(float64(r.All)-200) > 50 || even && r.All != 199 || r.Seconds < 0.499 {
			t.Fatalf("%+v", r)
		}
	}
}

// A stall of 100 ms in a schedule of 1 ms delays what is due meanwhile; a
// closed loop would have shown one slow transaction only.
func TestLatencyIsFromTheDueTime(t *testing.T) {
	once := atomic.Bool{}
	stall := func(context.Context, int) (int, error) {
		if once.CompareAndSwap(false, true) {
			time.Sleep(100 * time.Millisecond)
		}
		return 1, nil
	}
	r := mustRun(t, Options{Clients: 1, Duration: 200 * time.Millisecond, Rate: 1000, Even: true}, stall)
	if r.Quantile(0.75) < 0.02 {
		t.Fatal(r.Quantile(0.75))
	}
	once.Store(false)
	r = mustRun(t, Options{Clients: 1, Duration: 200 * time.Millisecond, Rate: 1000, Even: true, Limit: 10 * time.Millisecond}, stall)
	if r.Skipped < 50 {
		t.Fatalf("%+v", r)
	}
}

func TestOverloadCountsWhatWasNotReached(t *testing.T) {
	r := mustRun(t, Options{Clients: 1, Duration: 200 * time.Millisecond, Rate: 1000, Even: true}, func(context.Context, int) (int, error) {
		time.Sleep(20 * time.Millisecond)
		return 1, nil
	})
	if r.All != 199 || r.Done > 11 || r.Skipped != 199-r.Done {
		t.Fatalf("%+v", r)
	}
}

func TestDueTimesAreReproducibleAndPoisson(t *testing.T) {
	a, b := newSchedule(1000, false, 3), newSchedule(1000, false, 3)
	var last, sum, square float64
	const n = 20000
	for range n {
		x, _ := a.next(0)
		y, _ := b.next(0)
		if x != y {
			t.Fatal("the same seed gives other due times")
		}
		gap := x.Seconds() - last
		last = x.Seconds()
		sum += gap
		square += gap * gap
	}
	mean := sum / n
	if dev := math.Sqrt(square/n - mean*mean); math.Abs(mean-0.001) > 4e-5 || math.Abs(dev-mean) > 6e-5 {
		t.Fatal(mean, dev)
	}
}

// Each client rests for its share, and all rest together: the time in which any
// of them works shrinks as well. Shares of time hold on a busy machine, too.
func TestThrottleRestsAllClientsTogether(t *testing.T) {
	const clients, throttle = 4, 0.4
	var mu sync.Mutex
	var active int
	var since time.Time
	var union, sum time.Duration
	r := mustRun(t, Options{Clients: clients, Duration: 600 * time.Millisecond, Throttle: throttle}, func(context.Context, int) (int, error) {
		start := time.Now()
		mu.Lock()
		if active++; active == 1 {
			since = start
		}
		mu.Unlock()
		time.Sleep(time.Millisecond)
		mu.Lock()
		end := time.Now()
		if active--; active == 0 {
			union += end.Sub(since)
		}
		sum += end.Sub(start)
		mu.Unlock()
		return 1, nil
	})
	if own := sum.Seconds() / clients / r.Seconds; own < 0.4 || own > 0.65 {
		t.Errorf("a client works %.3f of its time, want 0.6", own)
	}
	if any := union.Seconds() / r.Wall; any > 0.85 {
		t.Errorf("someone works %.3f of the time: the clients rest one at a time", any)
	}
	r = mustRun(t, Options{Clients: 2, Duration: 250 * time.Millisecond, Rate: 400, Even: true, Throttle: 0.5}, func(context.Context, int) (int, error) { return 1, nil })
	if r.All != 49 {
		t.Fatalf("%+v", r)
	}
}

func TestRefusesBadOptions(t *testing.T) {
	for _, o := range []Options{
		{}, {Clients: 1}, {Clients: 1, Duration: 1, Rate: -1}, {Clients: 1, Duration: 1, Rate: math.NaN()}, {Clients: 1, Duration: 1, Throttle: 1},
		{Clients: 1, Duration: 1, Limit: 1}, {Clients: 1, Duration: -1},
	} {
		if _, err := Run(context.Background(), o, nil); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

func TestAdd(t *testing.T) {
	w := func(context.Context, int) (int, error) { return 1, nil }
	a, b := mustRun(t, Options{Clients: 1, Transactions: 5}, w), mustRun(t, Options{Clients: 2, Transactions: 5}, w)
	s := a.Seconds + b.Seconds
	a.Add(b)
	if a.Done != 15 || a.Seconds != s {
		t.Fatalf("%+v", a)
	}
	identity(t, a)
}
