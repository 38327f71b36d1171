package trial

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"headroom/change"
	"headroom/unit"
)

// fakeStage is a stage of make-believe stands. Its sessions sleep for as long
// as they are told, in the test's own clock.
type fakeStage struct {
	noise    float64 // sd of a round's log rate
	effect   []float64
	turns    bool
	changed  bool
	trace    []int // arms in the order they ran, in blocks
	switches int
	at       int
	marks    func(round, arm int) []Mark
	empty    func(round, arm int) bool
	ran      int
	still    []map[string]string
	rng      *rand.Rand
	overhead time.Duration
}

func (f *fakeStage) where() string { return "make-believe" }
func (f *fakeStage) shared() bool  { return f.turns }
func (f *fakeStage) equal() bool   { return !f.changed }
func (f *fakeStage) change(context.Context, func(string)) ([]json.RawMessage, error) {
	f.changed = true
	return []json.RawMessage{nil, json.RawMessage(`{"plan":1}`)}, nil
}

func (f *fakeStage) turn(_ context.Context, arm int) (bool, error) {
	if !f.turns || f.at == arm {
		return false, nil
	}
	f.at = arm
	f.switches++
	return true, nil
}

func (f *fakeStage) session(arm int) Session { return fakeSession{f, arm} }

func (f *fakeStage) watch(_ context.Context, arm int) func(context.Context, Round) seen {
	return func(context.Context, Round) seen {
		f.ran++
		s := seen{wal: 1000}
		if f.marks != nil {
			s.marks = f.marks(f.ran-1, arm)
		}
		return s
	}
}

func (f *fakeStage) facts(context.Context) (json.RawMessage, map[string]string, error) {
	if len(f.still) == 0 {
		return nil, nil, nil
	}
	s := f.still[0]
	if len(f.still) > 1 {
		f.still = f.still[1:]
	}
	return json.RawMessage(`{"facts":1}`), s, nil
}

type fakeSession struct {
	*fakeStage
	arm int
}

func (s fakeSession) Close() error { return nil }

func (s fakeSession) Run(ctx context.Context, d time.Duration, o RoundOptions) (Round, error) {
	s.trace = append(s.trace, s.arm)
	select {
	case <-ctx.Done():
		return Round{}, context.Cause(ctx)
	case <-time.After(d + s.overhead):
	}
	if s.empty != nil && s.empty(s.ran, s.arm) {
		return Round{Seconds: d.Seconds(), Failed: 9, Why: "no such table"}, nil
	}
	rate := 1000 * math.Exp(s.rng.NormFloat64()*s.noise) * (1 - o.Throttle)
	if s.changed && s.arm < len(s.effect) && (!s.turns || s.at == s.arm) {
		rate *= 1 + s.effect[s.arm]
	}
	h := hdrhistogram.New(1, 1e9, 3)
	_ = h.RecordValues(1e6, int64(rate))
	return Round{Seconds: d.Seconds(), Done: int64(rate), Figures: map[string]float64{"rate": rate, "p99": 1 / rate}, Latency: h}, nil
}

var fakeWork = &Workload{
	Name: "fake.work", Uses: Server,
	Params: []Param{{Name: "size", Default: "7", Check: func(v string) error {
		if v == "bad" {
			return errors.New("bad")
		}
		return nil
	}}},
	Measures: []Measure{
		{Name: "rate", Unit: unit.PerSecond, Higher: true, Noun: "ops/s"},
		{Name: "p99", Unit: unit.Second, Noun: "p99"},
	},
}

func fakeExperiment(o Options, arms ...Arm) Experiment {
	if len(arms) == 0 {
		arms = []Arm{ArmOf(change.Spec{ID: "postgres.setting", Args: map[string]string{"work_mem": "8MB"}})}
	}
	return Experiment{Name: "test", Workload: fakeWork, Options: o, Arms: append([]Arm{Base()}, arms...)}
}

func fakeRun(t *testing.T, ctx context.Context, e Experiment, f *fakeStage, tell func(Event)) (*Result, error) {
	t.Helper()
	if f.rng == nil {
		f.rng = rand.New(rand.NewPCG(e.Options.Seed, 99))
	}
	arms := make([]int, len(e.Arms))
	for i := range arms {
		arms[i] = i
	}
	r, err := newRun(e, f, arms, tell)
	if err != nil {
		t.Fatal(err)
	}
	return r.do(ctx)
}
