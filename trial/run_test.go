package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headroom/change"
	"headroom/fail"
	"headroom/stats"
)

func must(t *testing.T, e Experiment, f *fakeStage) *Result {
	t.Helper()
	r, err := fakeRun(t, context.Background(), e, f, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name   string
		effect float64
		noise  float64
		opt    Options
		want   stats.Verdict
		ended  Ended
	}{
		{"a clear gain stops early", 0.5, 0.02, Options{Seed: 1}, stats.Faster, Sure},
		{"a clear loss", -0.3, 0.02, Options{Seed: 2}, stats.Slower, Sure},
		{"equal", 0, 0.005, Options{Seed: 13}, stats.NoDifference, Sure},
		{"within the margin", 0.005, 0.001, Options{Seed: 4}, stats.NoDifference, Sure},
		{"too noisy", 0.05, 0.5, Options{Seed: 5}, stats.NeedsMore, MaxReached},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := must(t, fakeExperiment(c.opt), &fakeStage{noise: c.noise, effect: []float64{0, c.effect}})
				v := r.Versus[0]
				if v.Verdict != c.want || r.Ended != c.ended {
					t.Errorf("verdict %s (%s), ended %s", v.Verdict, v.Reason, r.Ended)
				}
				if c.want == stats.NeedsMore && v.More == 0 {
					t.Error("does not say how many rounds more")
				}
				if r.Took > r.Options.Budget.Seconds() {
					t.Errorf("took %.1f s of %s", r.Took, r.Options.Budget)
				}
				if !(v.Ratio.Lo <= 1+c.effect && 1+c.effect <= v.Ratio.Hi) {
					t.Errorf("the true ratio %v is outside %+v", 1+c.effect, v.Ratio)
				}
			})
		})
	}
}

// The first planned look already decides a clear case, so most of the budget
// is not needed; and no round after a deciding look is run.
func TestStopsAtADecidingLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must(t, fakeExperiment(Options{Seed: 1}), &fakeStage{noise: 0.01, effect: []float64{0, 0.5}})
		if v := r.Versus[0]; v.Look != 1 || len(v.Taken) != r.Plan.Looks[0] || v.Pairs != r.Plan.Looks[0] {
			t.Errorf("look %d with %d pairs of %v", v.Look, len(v.Taken), r.Plan.Looks)
		}
	})
}

func TestNoiseFloorAndProposal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must(t, fakeExperiment(Options{Seed: 6, Noise: 12}), &fakeStage{noise: 0.03, effect: []float64{0, 0.02}})
		n := r.Noise
		if n.SD < 0.02 || n.SD > 0.07 || n.Detectable <= 0.01 || n.From != "12 blocks of equal stands" || len(n.Needs) != 3 {
			t.Fatalf("%+v", n)
		}
		for i, x := range n.Needs[1:] {
			if x.Pairs > n.Needs[i].Pairs || x.Seconds > n.Needs[i].Seconds {
				t.Errorf("a larger effect needs more: %+v", n.Needs)
			}
		}
		if n.Whole.N <= n.N || n.Whole.DF <= n.DF || n.Whole.SD < 0.02 || n.Whole.SD > 0.07 {
			t.Errorf("the pairs are not part of the noise that proposals rest on: %+v", n)
		}
		for _, x := range r.Rounds {
			if x.Phase != Measuring && x.Counts {
				t.Fatal("a round outside of the blocks counts")
			}
		}
	})
}

// A run at the proposed budget and round gets the proposed pairs, whatever the
// default warm-up and the blocks run again take of it.
func TestProposedBudgetHoldsItsPairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must(t, fakeExperiment(Options{Seed: 6, Noise: 12}), &fakeStage{noise: 0.05, effect: []float64{0, 0.005}})
		for _, need := range r.Noise.Needs {
			o := Options{Seed: 7, Budget: time.Duration(need.Seconds * float64(time.Second)), Round: time.Duration(need.Round * float64(time.Second))}
			again := must(t, fakeExperiment(o), &fakeStage{noise: 0.05, effect: []float64{0, 0.005}})
			if again.Plan.Max < need.Pairs || again.Plan.Max > need.Pairs*3/2+8 {
				t.Errorf("%.0f s in rounds of %.1f s hold %d pairs, proposed %d", need.Seconds, need.Round, again.Plan.Max, need.Pairs)
			}
		}
	})
}

func TestOrderIsBalancedAndSeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := func(seed uint64) ([]int, *Result) {
			f := &fakeStage{noise: 0.2, effect: []float64{0, 0}}
			r := must(t, fakeExperiment(Options{Seed: seed}), f)
			return f.trace, r
		}
		a, ra := run(7)
		b, rb := run(7)
		if !slices.Equal(a, b) || fmt.Sprint(ra.Versus) != fmt.Sprint(rb.Versus) {
			t.Error("the same seed gives another run")
		}
		c, _ := run(8)
		if slices.Equal(a, c) {
			t.Error("another seed gives the same order")
		}
		first := 0
		for _, o := range ra.Order {
			first += o[0]
		}
		if n := len(ra.Order); first < n/2-1 || first > n/2+1 {
			t.Errorf("arm 1 comes first in %d of %d blocks", first, n)
		}
	})
}

func TestDisturbedBlocksRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hit := 0
		f := &fakeStage{noise: 0.01, effect: []float64{0, 0.3}, marks: func(_, arm int) []Mark { return nil }}
		f.marks = func(n, arm int) []Mark {
			if f.changed && arm == 1 && hit < 2 {
				hit++
				return []Mark{{ByProcess, "other (pid 1) used 0.9 of a core"}}
			}
			return nil
		}
		// The second warm-up takes the first marks; only blocks are run again.
		r := must(t, fakeExperiment(Options{Seed: 1, Warmup: time.Millisecond}), f)
		var tries, kept int
		for _, x := range r.Rounds {
			if x.Phase == Measuring && len(x.Marks) > 0 {
				kept++
				if x.Counts {
					t.Error("a disturbed round counts though re-runs were left")
				}
			}
			tries = max(tries, x.Try)
		}
		if kept == 0 || tries == 0 {
			t.Errorf("%d disturbed rounds kept, %d tries", kept, tries)
		}
	})
}

func TestRerunsAreLimitedAndSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStage{noise: 0.01, effect: []float64{0, 0.3}}
		f.marks = func(int, int) []Mark {
			if f.changed {
				return []Mark{{BySteal, "7 % stolen"}}
			}
			return nil
		}
		r := must(t, fakeExperiment(Options{Seed: 1, Rerun: 3}), f)
		again := 0
		for _, x := range r.Rounds {
			if x.Phase == Measuring && !x.Counts {
				again++
			}
		}
		if again != 3*2 || r.Versus[0].Verdict != stats.Faster || !strings.Contains(strings.Join(r.Warnings, "\n"), "no re-runs were left") {
			t.Errorf("%d rounds of blocks run again, %s, %q", again, r.Versus[0].Verdict, r.Warnings)
		}
	})
}

// What happens in equal rounds all the time is part of the work: running
// blocks again would only cost time.
func TestUsualDisturbanceIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStage{noise: 0.01, effect: []float64{0, 0.3}, marks: func(int, int) []Mark { return []Mark{{ByCheckpoint, "1 checkpoint"}} }}
		r := must(t, fakeExperiment(Options{Seed: 1}), f)
		for _, x := range r.Rounds {
			if x.Try > 0 && x.Phase == Measuring {
				t.Fatal("a block was run again")
			}
		}
		if !strings.Contains(strings.Join(r.Warnings, "\n"), "part of what is measured") {
			t.Errorf("not said: %q", r.Warnings)
		}
	})
}

func TestArmsAboutCheckpointsAreNotDisturbedByThem(t *testing.T) {
	arm := func(name string) []Arm {
		return []Arm{ArmOf(change.Spec{ID: "postgres.setting", Args: map[string]string{name: "1"}})}
	}
	for name, want := range map[string]bool{"max_wal_size": true, "checkpoint_timeout": true, "wal_compression": true, "work_mem": false, "random_page_cost": false} {
		if got := about(arm(name))[ByCheckpoint]; got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !about(arm("autovacuum_naptime"))[ByAutovacuum] || about(arm("work_mem"))[ByAutovacuum] {
		t.Error("autovacuum")
	}
}

func TestBudgetEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Blocks become slower than the noise floor foretold.
		f := &fakeStage{noise: 0.3, effect: []float64{0, 0.01}}
		e := fakeExperiment(Options{Seed: 9, Budget: time.Minute})
		tell := func(ev Event) {
			if ev.Phase == Measuring {
				f.overhead = 3 * time.Second
			}
		}
		r, err := fakeRun(t, context.Background(), e, f, tell)
		if err != nil {
			t.Fatal(err)
		}
		if r.Ended != BudgetSpent || r.Took > 66 || r.Versus[0].Verdict != stats.NeedsMore || r.Versus[0].More == 0 {
			t.Errorf("ended %s after %.0f s: %+v", r.Ended, r.Took, r.Versus[0].Decision)
		}
	})
}

// The budget that a refusal names is enough for a verdict, warm-ups and all.
func TestTheShortestBudgetHoldsEnoughPairs(t *testing.T) {
	for _, o := range []Options{{Budget: time.Second}, {Budget: time.Second, Warmup: 2 * time.Second}, {Budget: time.Second, Round: 2 * time.Second}} {
		e := fakeExperiment(o)
		o.Budget = o.fill(len(e.Arms)).needs(len(e.Arms))
		e.Options = o
		synctest.Test(t, func(t *testing.T) {
			r := must(t, e, &fakeStage{noise: 0.3})
			if n := len(r.Versus[0].Taken); n < stats.MinPairs {
				t.Errorf("%s: %d pairs", o.Budget, n)
			}
		})
	}
}

// At an offered rate both arms do as much; what differs is how long it takes.
func TestAtAnOfferedRateLatencyDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must(t, fakeExperiment(Options{Rate: 5}), &fakeStage{noise: 0.02, effect: []float64{0, 0.25}})
		if v := r.Versus[0]; r.Primary().Name != "p99" || v.Verdict != stats.Faster || v.Ratio.Center > 0.9 {
			t.Errorf("%s: %+v", r.Primary().Name, v)
		}
	})
}

// soStage is a stage where the second arm's change is there already.
type soStage struct{ *fakeStage }

func (s soStage) change(ctx context.Context, say func(string)) ([]json.RawMessage, error) {
	_, err := s.fakeStage.change(ctx, say)
	return []json.RawMessage{nil, json.RawMessage(`{"format":"headroom-plan","schema":1,"changes":[]}`)}, err
}

func TestAnArmThatIsAlreadySoIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := newRun(fakeExperiment(Options{}), soStage{&fakeStage{noise: 0.02, rng: rand.New(rand.NewPCG(1, 2))}}, []int{0, 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := r.do(t.Context())
		if err != nil || !strings.Contains(strings.Join(res.Warnings, "\n"), "it is already so: this arm and the base are alike") {
			t.Errorf("%v: %q", err, res.Warnings)
		}
	})
}

func TestRefusesWhatCannotDecide(t *testing.T) {
	for _, o := range []Options{
		{Budget: time.Second}, {Round: time.Minute}, {MaxPairs: 3}, {Noise: 1}, {Margin: 0.1, Effect: 0.05}, {Rate: -1}, {Budget: -1}, {Rate: math.NaN()}, {Rate: math.Inf(1)}, {Round: 1}, {Major: -3},
	} {
		_, err := newRun(fakeExperiment(o), &fakeStage{}, []int{0, 1}, nil)
		if fail.Code(err) != fail.Usage {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, e := range []Experiment{
		{Workload: fakeWork, Arms: []Arm{Base()}}, {Arms: []Arm{Base(), Base()}}, {Workload: fakeWork, Arms: []Arm{Base(), Base()}},
		{Workload: fakeWork, Arms: []Arm{Base(), {Name: "x", Throttle: 1}}},
		{Workload: fakeWork, Params: map[string]string{"sice": "1"}, Arms: []Arm{Base(), {Name: "x"}}},
		{Workload: fakeWork, Params: map[string]string{"size": "bad"}, Arms: []Arm{Base(), {Name: "x"}}},
	} {
		if _, err := newRun(e, &fakeStage{}, []int{0, 1}, nil); fail.Code(err) != fail.Usage {
			t.Errorf("%+v: %v", e, err)
		}
	}
}

func TestInterruptKeepsWhatThereIs(t *testing.T) {
	for _, after := range []time.Duration{0, 5 * time.Second, 25 * time.Second, 70 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			cause := errors.New("told to stop")
			ctx, stop := context.WithCancelCause(context.Background())
			time.AfterFunc(after, func() { stop(cause) })
			f := &fakeStage{noise: 0.4, effect: []float64{0, 0.01}}
			r, err := fakeRun(t, ctx, fakeExperiment(Options{Seed: 3}), f, nil)
			if !errors.Is(err, cause) || fail.Code(err) != fail.Interrupted || r == nil {
				t.Fatalf("after %s: %v, %v", after, r, err)
			}
			if r.Ended != Interrupted || len(r.Versus) != 1 || r.Versus[0].Verdict != stats.NeedsMore {
				t.Errorf("after %s: %+v", after, r.Versus)
			}
			if took := time.Duration(r.Took * float64(time.Second)); took > after+time.Millisecond {
				t.Errorf("stopped %s after the signal", took-after)
			}
		})
	}
}

func TestNoFigureIsAnErrorWithItsReason(t *testing.T) {
	for _, later := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeStage{noise: 0.01, effect: []float64{0, 0}}
			f.empty = func(_, arm int) bool { return arm == 1 && (!later || f.changed) }
			_, err := fakeRun(t, context.Background(), fakeExperiment(Options{Seed: 3}), f, nil)
			if err == nil || !strings.Contains(err.Error(), "no such table") {
				t.Error(err)
			}
		})
	}
}

// On one stand the blocks run A B, B A, A B …, so n blocks need at most n
// switches and one more.
func TestTurnsSwitchAsLittleAsCanBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStage{noise: 0.05, effect: []float64{0, 0.04}, turns: true}
		r := must(t, fakeExperiment(Options{Seed: 4}), f)
		blocks := len(r.Versus[0].Taken)
		if blocks < stats.MinPairs || f.switches > blocks+1 {
			t.Errorf("%d switches for %d blocks", f.switches, blocks)
		}
		if r.Noise.From == "" || !strings.Contains(r.Noise.From, "rounds of the base") {
			t.Errorf("noise from %q", r.Noise.From)
		}
	})
}

func TestSeveralArmsShareTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arms, err := Sweep("postgres.setting", "", "work_mem=4MB,8MB,16MB")
		if err != nil {
			t.Fatal(err)
		}
		r := must(t, fakeExperiment(Options{Seed: 4}, arms...), &fakeStage{noise: 0.01, effect: []float64{0, 0, 0.2, -0.2}})
		got := []stats.Verdict{r.Versus[0].Verdict, r.Versus[1].Verdict, r.Versus[2].Verdict}
		if !slices.Equal(got, []stats.Verdict{stats.NoDifference, stats.Faster, stats.Slower}) || r.Plan.Arms != 3 {
			t.Errorf("%v with %d arms", got, r.Plan.Arms)
		}
		if r.Versus[1].Arm != "work_mem=8MB" {
			t.Errorf("arm %q", r.Versus[1].Arm)
		}
	})
}

func TestLowerIsBetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := *fakeWork
		w.Measures = []Measure{fakeWork.Measures[1], fakeWork.Measures[0]}
		e := fakeExperiment(Options{Seed: 1})
		e.Workload = &w
		r := must(t, e, &fakeStage{noise: 0.01, effect: []float64{0, 0.5}})
		v := r.Versus[0]
		if v.Verdict != stats.Faster || v.Ratio.Center > 0.7 {
			t.Errorf("%s %+v", v.Verdict, v.Ratio)
		}
		if len(v.Others) != 2 || v.Others[0].Measure != "rate" || v.Others[0].Ratio.Center < 1.4 {
			t.Errorf("others %+v", v.Others)
		}
	})
}

func TestMovedFactsAreSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStage{noise: 0.01, effect: []float64{0, 0.3}, still: []map[string]string{
			{"setting work_mem": "4MB", "governor": "performance"}, {"setting work_mem": "64MB", "governor": "performance"}}}
		r := must(t, fakeExperiment(Options{Seed: 1}), f)
		if len(r.Moved) != 1 || r.Moved[0] != (Moved{"setting work_mem", "4MB", "64MB"}) || len(r.Before) == 0 || len(r.After) == 0 {
			t.Errorf("%+v", r.Moved)
		}
	})
}

func TestEventsTellHowFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []Event
		f := &fakeStage{noise: 0.02, effect: []float64{0, 0.3}}
		r, err := fakeRun(t, context.Background(), fakeExperiment(Options{Seed: 1}), f, func(e Event) { seen = append(seen, e) })
		if err != nil {
			t.Fatal(err)
		}
		last := 0
		for _, e := range seen {
			if e.Phase != Measuring {
				continue
			}
			if e.Block < last || e.Blocks != r.Plan.Max || e.Left <= 0 || e.Left > 2*time.Minute || len(e.Estimates) != 1 {
				t.Fatalf("%+v", e)
			}
			last = e.Block
		}
		if last != len(r.Versus[0].Taken) {
			t.Errorf("last block told: %d", last)
		}
	})
}

// Of many runs of equal stands at most one in twenty may end in a difference,
// whatever the noise, with early stopping, closing by time and re-runs in.
func TestEqualStandsAreRarelyCalledDifferent(t *testing.T) {
	const runs = 400
	wrong := 0
	for seed := range uint64(runs) {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeStage{noise: []float64{0.01, 0.03, 0.1}[seed%3], effect: []float64{0, 0}}
			f.marks = func(n, _ int) []Mark {
				if n%17 == 0 {
					return []Mark{{BySteal, "5 % stolen"}}
				}
				return nil
			}
			o := Options{Seed: seed + 1, Budget: time.Minute}
			r, err := fakeRun(t, context.Background(), fakeExperiment(o), f, nil)
			if err != nil {
				t.Fatal(err)
			}
			if v := r.Versus[0].Verdict; v == stats.Faster || v == stats.Slower {
				wrong++
			}
		})
	}
	if wrong > runs/20 {
		t.Errorf("%d of %d runs of equal stands end in a difference", wrong, runs)
	}
	t.Logf("%d of %d", wrong, runs)
}
