package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"headroom/fail"
	"headroom/host"
	"headroom/metric"
)

var value = &metric.Def{Name: "test_value", Help: "x", Unit: metric.Count, Kind: metric.Gauge, Source: "x"}

// reading is a collector that adds one sample each round, or does what do says.
func reading(name string, of metric.Target, do func(ctx context.Context, out *metric.Out) error) *metric.Collector {
	return &metric.Collector{Name: name, Doc: "x", Of: of, Defs: []*metric.Def{value}, Collect: func(ctx context.Context, _ host.Reader, out *metric.Out) error {
		if do != nil {
			return do(ctx, out)
		}
		out.Add(value, 1)
		return nil
	}}
}

// sink keeps what a runner brings.
type sink struct {
	mu      sync.Mutex
	batches []*metric.Batch
}

func (s *sink) put(_ context.Context, b *metric.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = append(s.batches, b)
	return nil
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.batches)
}

// times lists the times of the samples of a server ("" for the machine), in
// seconds after the bubble's start.
func (s *sink) times(server string) (out []float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.batches {
		for _, r := range b.Rows {
			if r.Series.Get("server") == server {
				out = append(out, float64(r.Points[0].At)/1000-float64(bubble.Unix()))
			}
		}
	}
	return out
}

// bubble is when synctest's clock starts.
var bubble = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

type fakeLink struct{ *host.Fake }

func (fakeLink) Close() {}

func options(s *sink, cs ...*metric.Collector) Options {
	return Options{
		Reader: &host.Fake{}, Host: "h", Collectors: cs, Sink: s.put, Now: time.Now,
		Open: func(Target) Link { return fakeLink{&host.Fake{}} },
	}
}

// during runs a runner for a while of the bubble's time and does something
// meanwhile.
func during(t *testing.T, o Options, d time.Duration, do func(r *Runner)) *Runner {
	t.Helper()
	r := New(o)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	if do != nil {
		do(r)
	}
	time.Sleep(d)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return r
}

func TestRoundsComeAtMultiples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sink
		time.Sleep(3500 * time.Millisecond)
		slow := reading("test.slow", metric.Host, nil)
		slow.Every = time.Minute
		during(t, options(&s, reading("test.a", metric.Host, nil), reading("test.b", metric.Host, nil), slow), 61*time.Second, nil)
		want := []float64{3, 3, 3, 10, 10, 20, 20, 30, 30, 40, 40, 50, 50, 60, 60, 60}
		if got := s.times(""); !slices.Equal(got, want) {
			t.Errorf("times = %v, want %v", got, want)
		}
		if len(s.batches) != 7 {
			t.Errorf("%d batches, want one for each of the 7 rounds", len(s.batches))
		}
		ids := map[metric.ID]bool{}
		for _, b := range s.batches {
			ids[b.ID] = true
			if b.Origin != "h" || b.Rows[0].Series.Get("host") != "h" {
				t.Errorf("batch without its host: %+v", b)
			}
		}
		if len(ids) != 7 {
			t.Error("two batches have one ID")
		}
	})
}

// A source that hangs costs nobody else a round; its own rounds are skipped and
// counted, and it is a gap meanwhile.
func TestAHangingSourceDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sink
		release := make(chan struct{})
		deaf := reading("test.deaf", metric.Host, func(context.Context, *metric.Out) error { <-release; return nil })
		stuck := reading("test.stuck", metric.Postgres, func(ctx context.Context, out *metric.Out) error {
			if out.Server() == "bad" {
				<-ctx.Done()
				return ctx.Err()
			}
			out.Add(value, 1)
			return nil
		})
		after := reading("test.after", metric.Postgres, nil)
		o := options(&s, reading("test.a", metric.Host, nil), deaf, stuck, after)
		o.Find = func(context.Context) []Target {
			return []Target{{Kind: metric.Postgres, Name: "bad", DSN: "x"}, {Kind: metric.Postgres, Name: "good", DSN: "x"}}
		}
		var r *Runner
		during(t, o, 45*time.Second, func(x *Runner) {
			r = x
			time.Sleep(8 * time.Second)
			var why []string
			for _, g := range r.Gaps() {
				why = append(why, fmt.Sprintf("%s %s %s", g.Collector, g.Server, g.Because))
			}
			want := []string{"test.deaf  no answer within 5s", "test.stuck bad no answer within 5s", "test.after bad no answer within 5s"}
			for i := range want {
				if i >= len(why) || !strings.HasPrefix(why[i], want[i]) {
					t.Fatalf("gaps = %q, want %q", why, want)
				}
			}
		})
		close(release)
		// First round at 0 s; batches of the machine wait at most one second.
		if got := s.times(""); len(got) != 6 {
			t.Errorf("the machine was read at %v", got)
		}
		if got := s.times("good"); len(got) != 12 {
			t.Errorf("the good server was read at %v, want 6 rounds of 2", got)
		}
		if got := s.times("bad"); len(got) != 0 {
			t.Errorf("a server that does not answer brought %v", got)
		}
		for _, rep := range r.reports() {
			if rep.Collector == "test.deaf" && (rep.Skipped != 5 || rep.OK) {
				t.Errorf("report = %+v, want 5 rounds skipped", rep)
			}
		}
	})
}

func TestClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour, 365 * 24 * time.Hour, -365 * 24 * time.Hour, 3 * time.Second, -3 * time.Second, -10 * time.Second} {
		t.Run(jump.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s sink
				var mu sync.Mutex
				var off time.Duration
				var real []time.Duration
				start := time.Now()
				c := reading("test.a", metric.Host, func(_ context.Context, out *metric.Out) error {
					real = append(real, time.Since(start))
					out.Add(value, 1)
					return nil
				})
				o := options(&s, c)
				o.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return time.Now().Add(off) }
				during(t, o, time.Minute, func(*Runner) {
					time.Sleep(25 * time.Second)
					mu.Lock()
					off = jump
					mu.Unlock()
				})
				for i := 1; i < len(real); i++ {
					if d := real[i] - real[i-1]; d > 2*roundEvery-time.Second || d < time.Second {
						t.Errorf("rounds at %v: %s between two", real, d)
					}
				}
				if len(real) < 8 {
					t.Errorf("only %d rounds in 85 s", len(real))
				}
				at := s.times("")
				for i := 1; i < len(at); i++ {
					if at[i] == at[i-1] {
						t.Errorf("time %v comes twice in a row: %v", at[i], at)
					}
				}
				last := time.Duration(at[len(at)-1] * float64(time.Second))
				if now := real[len(real)-1] + jump; last-now > roundEvery || now-last > roundEvery {
					t.Errorf("the last round is called %s, the clock says %s", last, now)
				}
			})
		})
	}
}

func TestWhileSomebodyLooksItRunsEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s, live sink
		quick := reading("test.quick", metric.Host, nil)
		quick.Fast = true
		o := options(&s, quick, reading("test.slow", metric.Host, nil))
		o.Live = func(b *metric.Batch) { _ = live.put(t.Context(), b) }
		during(t, o, 20*time.Second, func(r *Runner) {
			time.Sleep(12500 * time.Millisecond)
			r.Look(time.Now().Add(24 * time.Hour))
			time.Sleep(5 * time.Second)
			r.Look(time.Now())
		})
		if got, want := live.times(""), []float64{12, 13, 14, 15, 16, 17}; !slices.Equal(got, want) {
			t.Errorf("live times = %v, want %v", got, want)
		}
		if got := s.times(""); len(got) != 8 {
			t.Errorf("stored times = %v: looking must not store more", got)
		}
	})
}

func TestSinkIsTriedAgainUnderTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sink
		full := errors.New("full")
		tries := map[metric.ID]int{}
		o := options(&s, reading("test.a", metric.Host, nil))
		o.Final = func(err error) bool { return errors.Is(err, full) }
		o.Sink = func(ctx context.Context, b *metric.Batch) error {
			if at := b.Rows[0].Points[0].At - bubble.UnixMilli(); at == 10_000 {
				return full
			}
			if tries[b.ID]++; tries[b.ID] < 3 {
				return errors.New("away")
			}
			return s.put(ctx, b)
		}
		r := during(t, o, 39*time.Second, nil)
		if got, want := s.times(""), []float64{0, 20, 30}; !slices.Equal(got, want) || r.lost.Load() != 1 {
			t.Errorf("stored %v, lost %d, want %v and 1", got, r.lost.Load(), want)
		}
	})
}

func TestATargetThatVanishesIsAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sink
		var away atomic.Bool
		c := reading("test.a", metric.Postgres, func(_ context.Context, out *metric.Out) error {
			if away.Load() {
				return errors.New("no such socket")
			}
			out.Add(value, 1)
			return nil
		})
		o := options(&s, c)
		o.Find = func(context.Context) []Target {
			if away.Load() {
				return nil
			}
			return []Target{{Kind: metric.Postgres, Name: "5432", DSN: "x", Found: "socket x"}}
		}
		during(t, o, 25*time.Hour, func(r *Runner) {
			time.Sleep(30 * time.Second)
			away.Store(true)
			time.Sleep(time.Minute)
			gaps := r.Gaps()
			if len(gaps) != 1 || !strings.Contains(gaps[0].Because, "not found any more since") || len(gaps[0].Metrics) != 1 || gaps[0].Server != "5432" {
				t.Errorf("gaps = %+v", gaps)
			}
			away.Store(false)
			time.Sleep(time.Minute)
			if g := r.Gaps(); len(g) != 0 {
				t.Errorf("it is back, but gaps = %+v", g)
			}
			away.Store(true)
			time.Sleep(30 * time.Minute)
			if g := r.Gaps(); len(g) != 1 || !strings.Contains(g[0].Because, "not found any more since 2000-01-01T00:0") || !strings.HasSuffix(g[0].Because, "it was there by socket x") {
				t.Errorf("after half an hour: gaps = %+v", g)
			}
			n := s.count()
			away.Store(false)
			time.Sleep(2 * time.Minute)
			if g := r.Gaps(); len(g) != 0 || s.count() <= n {
				t.Errorf("it is back again, but gaps = %+v", g)
			}
			away.Store(true)
			time.Sleep(25 * time.Hour)
			if ts := r.Targets(); len(ts) != 0 {
				t.Errorf("after a day: %+v", ts)
			}
		})
	})
}

// Servers that come and go by the hundred, each under another name, are not
// kept for a day.
func TestPassersByAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sink
		o := options(&s, reading("test.a", metric.Postgres, nil))
		n := 0
		o.Find = func(context.Context) (out []Target) {
			for range 20 {
				n++
				out = append(out, Target{Kind: metric.Postgres, Name: fmt.Sprint(n), DSN: "x"})
			}
			return out
		}
		during(t, o, time.Second, func(r *Runner) {
			time.Sleep(2 * time.Hour)
			if k := len(r.Targets()); k > 2*maxTargets+20 {
				t.Errorf("%d targets after %d that came and went", k, n)
			}
		})
	})
}

func TestWhatIsMissingIsAGapOfEachCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sink
		o := options(&s, reading("test.a", metric.Postgres, nil), reading("test.b", metric.Postgres, nil))
		var missing atomic.Value
		missing.Store("cannot log in")
		o.Find = func(context.Context) []Target {
			return []Target{{Kind: metric.Postgres, Name: "5432", DSN: "x", Missing: missing.Load().(string), Hint: "GRANT"}}
		}
		during(t, o, time.Minute, func(r *Runner) {
			time.Sleep(15 * time.Second)
			if g := r.Gaps(); len(g) != 2 || g[0].Because != "cannot log in" || g[0].Hint != "GRANT" || s.count() != 0 {
				t.Errorf("gaps = %+v, %d batches", g, s.count())
			}
			missing.Store("")
			time.Sleep(time.Minute)
			if g := r.Gaps(); len(g) != 0 || s.count() == 0 {
				t.Errorf("after the way out was taken: gaps = %+v, %d batches", g, s.count())
			}
		})
	})
}

func TestAFaultyCollectorCostsItsRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sink
		other := &metric.Def{Name: "undeclared"}
		o := options(&s, reading("test.panic", metric.Host, func(context.Context, *metric.Out) error { panic("ouch") }),
			reading("test.odd", metric.Host, func(_ context.Context, out *metric.Out) error { out.Add(other, 1); return nil }),
			reading("test.part", metric.Host, func(_ context.Context, out *metric.Out) error { out.Gap("no right", "GRANT x", value); return nil }),
			reading("test.denied", metric.Host, func(context.Context, *metric.Out) error { return fail.Hint(errors.New("no"), "way out") }),
			reading("test.good", metric.Host, nil))
		during(t, o, 15*time.Second, func(r *Runner) {
			time.Sleep(5 * time.Second)
			var got []string
			for _, g := range r.Gaps() {
				first, _, _ := strings.Cut(g.Because, "\n")
				got = append(got, g.Collector+": "+first+" | "+g.Hint)
			}
			want := []string{"test.panic: BUG in collector test.panic: ouch | ", "test.odd: collector test.odd: metric undeclared with 0 labels was not declared | ",
				"test.part: no right | GRANT x", "test.denied: no | way out"}
			if !slices.Equal(got, want) {
				t.Errorf("gaps = %q, want %q", got, want)
			}
		})
		if got := s.times(""); len(got) != 3 {
			t.Errorf("the good one was read at %v", got)
		}
	})
}

// A day of rounds, with somebody looking now and then, a server that hangs and
// one that comes and goes: nothing piles up.
func TestADayLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n, live atomic.Int64
		quick := reading("test.quick", metric.Host, nil)
		quick.Fast = true
		stuck := reading("test.pg", metric.Postgres, func(ctx context.Context, out *metric.Out) error {
			if out.Server() == "hangs" {
				<-ctx.Done()
				return ctx.Err()
			}
			out.Add(value, 1)
			return nil
		})
		o := options(nil, quick, stuck)
		o.Sink = func(context.Context, *metric.Batch) error { n.Add(1); return nil }
		o.Live = func(*metric.Batch) { live.Add(1) }
		finds := 0
		o.Find = func(context.Context) []Target {
			finds++
			ts := []Target{{Kind: metric.Postgres, Name: "hangs", DSN: "x"}}
			if finds%2 == 0 {
				ts = append(ts, Target{Kind: metric.Postgres, Name: "comes and goes", DSN: "x"})
			}
			return ts
		}
		during(t, o, 24*time.Hour, func(r *Runner) {
			time.Sleep(10 * time.Minute)
			r.Look(time.Now().Add(time.Minute))
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			before := runtime.NumGoroutine()
			for range 20 {
				time.Sleep(time.Hour)
				r.Look(time.Now().Add(time.Minute))
				time.Sleep(2 * time.Minute)
			}
			synctest.Wait()
			if now := runtime.NumGoroutine(); now > before+2 {
				t.Errorf("%d goroutines, %d of them 20 hours ago", now, before)
			}
			if len(r.all()) != 3 {
				t.Errorf("%d slots", len(r.all()))
			}
		})
		if n.Load() < 2*8640 || live.Load() < 20*50 || live.Load() > 21*61 {
			t.Errorf("%d batches, %d live ones", n.Load(), live.Load())
		}
	})
}
