package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"headroom/fail"
	"headroom/stats"
	"headroom/trial"
)

// fake is a lab whose arms yield the given figures, with a little scatter.
func fake(higher bool, figures ...float64) *Lab {
	return &Lab{Name: "fake", Title: "A fake", Question: "Which?", Source: "S0", Measures: []trial.Measure{{Name: "score", Higher: higher, Noun: "points"}},
		Params: []trial.Param{{Name: "n", Doc: "a number", Default: "3", Check: func(v string) error {
			if v == "x" {
				return fmt.Errorf("%q is no number", v)
			}
			return nil
		}}},
		New: func(p map[string]string) (Experiment, error) {
			e := Experiment{Size: p["n"]}
			for i, f := range figures {
				e.Arms = append(e.Arms, Arm{Name: string(rune('a' + i)), Doc: "an arm", Run: func(_ context.Context, t *Turn) error {
					t.Figure("score", f*(1+0.01*math.Sin(float64(t.Round*7+i))))
					t.Same("seed", t.Seed)
					return nil
				}})
			}
			return e, nil
		}}
}

func mustRun(t *testing.T, l *Lab, o Options) *Result {
	t.Helper()
	r, err := Run(t.Context(), l, o, Env{Version: "test", Host: "here"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestVerdictsGainsAndThen(t *testing.T) {
	for _, higher := range []bool{true, false} {
		figures := []float64{10, 20, 5, 10}
		if !higher {
			figures = []float64{10, 5, 20, 10}
		}
		l := fake(higher, figures...)
		inner := l.New
		l.New = func(p map[string]string) (Experiment, error) {
			e, err := inner(p)
			for i, then := range []float64{100, 300, 400, 0} {
				if !higher && then > 0 {
					then = 1 / then
				}
				e.Arms[i].Then = then
			}
			e.Claims = []Claim{{Text: "b over c", Arm: "b", Over: "c", Then: 0.75}}
			return e, err
		}
		r := mustRun(t, l, Options{Rounds: 8})
		want := []stats.Verdict{stats.Faster, stats.Slower, stats.NoDifference}
		for i, v := range r.Versus {
			if v.Verdict != want[i] || v.Over != "a" {
				t.Errorf("higher=%v: arm %s: %s", higher, v.Arm, v.Verdict)
			}
		}
		if g := r.Versus[0].Gain; g.Center < 1.9 || g.Center > 2.1 || g.Lo > g.Center || g.Hi < g.Center {
			t.Errorf("higher=%v: gain %+v", higher, g)
		}
		if got := r.Versus[0].Then; math.Abs(got-3) > 1e-9 || r.Versus[2].Then != 0 {
			t.Errorf("higher=%v: gain of then %v and %v", higher, got, r.Versus[2].Then)
		}
		if r.Best != "b" || len(r.Claims) != 1 || r.Claims[0].Verdict != stats.Faster || r.Claims[0].Then != 0.75 {
			t.Errorf("higher=%v: best %q, claims %+v", higher, r.Best, r.Claims)
		}
		// c beat a and b then, and is beaten by both today.
		if len(r.Swapped) != 2 || r.Swapped[0] != (Swap{"a", "c"}) || r.Swapped[1] != (Swap{"b", "c"}) {
			t.Errorf("higher=%v: swapped %+v", higher, r.Swapped)
		}
		if len(r.AsGood) != 0 {
			t.Errorf("as good as b: %v", r.AsGood)
		}
		if r.Ended != trial.Sure || len(r.Turns) != 4*(6+1) {
			t.Errorf("ended %s after %d turns, want sure at the first look", r.Ended, len(r.Turns))
		}
		if len(r.Warnings) != 0 {
			t.Errorf("warnings: %q", r.Warnings)
		}
	}
}

func TestArmsThatCannotBeToldFromTheBest(t *testing.T) {
	r := mustRun(t, fake(true, 1, 4, 4.001, 2), Options{Rounds: 6})
	if r.Best == "" || len(r.AsGood) != 1 || r.AsGood[0] == r.Best || r.AsGood[0] == "a" || r.AsGood[0] == "d" {
		t.Errorf("best %q, as good %q", r.Best, r.AsGood)
	}
}

func TestEachRoundHasEachArmOnceAndTheWarmUpDoesNotCount(t *testing.T) {
	r := mustRun(t, fake(true, 1, 1.02, 1.01), Options{Rounds: 7, Seed: 3})
	orders := map[string]bool{}
	for round := -1; round < 7; round++ {
		seen, order := map[int]int{}, ""
		for _, x := range r.Turns {
			if x.Round == round {
				seen[x.Arm]++
				order += fmt.Sprint(x.Arm)
				if x.Counts != (round >= 0) {
					t.Errorf("round %d counts: %v", round, x.Counts)
				}
			}
		}
		if len(seen) != 3 || len(order) != 3 {
			t.Errorf("round %d: arms %q", round, order)
		}
		orders[order] = true
	}
	if len(orders) < 3 {
		t.Errorf("the order does not vary: %v", orders)
	}
	if n := len(r.Counted(1, "score")); n != 7 {
		t.Errorf("%d figures, want 7", n)
	}
}

func TestTooFewRoundsGiveNoVerdictAndSayHow(t *testing.T) {
	for _, rounds := range []int{1, 2, 5} {
		r := mustRun(t, fake(true, 1, 50), Options{Rounds: rounds})
		v := r.Versus[0]
		if v.Verdict != stats.NeedsMore || v.Pairs != rounds || r.Best != "" || r.Ended != trial.MaxReached {
			t.Errorf("%d rounds: %s, best %q, %d pairs", rounds, v.Verdict, r.Best, v.Pairs)
		}
		if rounds > 1 && (v.Gain.Lo < 1 || v.Gain.Center < 40) {
			t.Errorf("%d rounds: no interval: %+v", rounds, v.Gain)
		}
		if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "--rounds 6") {
			t.Errorf("%d rounds: %q", rounds, r.Warnings)
		}
	}
}

func TestBudgetEndsTheRun(t *testing.T) {
	l := fake(true, 1, 1.03)
	inner := l.New
	l.New = func(p map[string]string) (Experiment, error) {
		e, err := inner(p)
		for i := range e.Arms {
			run := e.Arms[i].Run
			e.Arms[i].Run = func(ctx context.Context, turn *Turn) error {
				time.Sleep(10 * time.Millisecond)
				return run(ctx, turn)
			}
		}
		return e, err
	}
	r := mustRun(t, l, Options{Rounds: 1000, Budget: 300 * time.Millisecond})
	if r.Ended != trial.BudgetSpent || r.Took > 5 {
		t.Errorf("ended %s after %v s", r.Ended, r.Took)
	}
	if n := len(r.Counted(0, "score")); n < 1 || n > 30 {
		t.Errorf("%d rounds", n)
	}
}

func TestArmsThatDisagreeEndTheLab(t *testing.T) {
	l := fake(true, 1, 2)
	inner := l.New
	l.New = func(p map[string]string) (Experiment, error) {
		e, err := inner(p)
		e.Arms[1].Run = func(_ context.Context, t *Turn) error {
			t.Figure("score", 2)
			t.Same("seed", "another")
			return nil
		}
		return e, err
	}
	_, err := Run(t.Context(), l, Options{}, Env{}, nil)
	if err == nil || !strings.Contains(err.Error(), `arm "b" has another`) || fail.HintOf(err) == "" {
		t.Errorf("error: %v", err)
	}
}

func TestFailingAndIdleArms(t *testing.T) {
	for name, run := range map[string]func(context.Context, *Turn) error{
		"broken":          func(context.Context, *Turn) error { return fmt.Errorf("broken") },
		"timed nothing":   func(context.Context, *Turn) error { return nil },
		"yielded no":      func(_ context.Context, t *Turn) error { t.Figure("score", 0); return nil },
		"yielded no ":     func(_ context.Context, t *Turn) error { t.Figure("other", 1); return nil },
		"yielded no  NaN": func(_ context.Context, t *Turn) error { t.Figure("score", math.NaN()); return nil },
	} {
		l := fake(true, 1, 2)
		inner := l.New
		l.New = func(p map[string]string) (Experiment, error) {
			e, err := inner(p)
			e.Arms[1].Run = run
			return e, err
		}
		_, err := Run(t.Context(), l, Options{}, Env{}, nil)
		want, _, _ := strings.Cut(name, "  ")
		if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) || !strings.Contains(err.Error(), `"b"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInterruptedKeepsWholeRounds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	l := fake(true, 1, 2)
	inner, turns := l.New, 0
	l.New = func(p map[string]string) (Experiment, error) {
		e, err := inner(p)
		for i := range e.Arms {
			run := e.Arms[i].Run
			e.Arms[i].Run = func(ctx context.Context, t *Turn) error {
				if turns++; turns == 2*4+1+1 { // the second turn of round 3
					stop()
				}
				return run(ctx, t)
			}
		}
		return e, err
	}
	r, err := Run(ctx, l, Options{Rounds: 50}, Env{}, nil)
	if fail.Code(err) != fail.Interrupted || r == nil || r.Ended != trial.Interrupted {
		t.Fatalf("%+v, %v", r, err)
	}
	if a, b := len(r.Counted(0, "score")), len(r.Counted(1, "score")); a != 3 || b != 3 {
		t.Errorf("%d and %d figures count, want the 3 whole rounds", a, b)
	}
}

func TestWhatSetupMadeIsTakenAway(t *testing.T) {
	for _, broken := range []bool{false, true} {
		l, log := fake(true, 1, 2), ""
		inner := l.New
		l.New = func(p map[string]string) (Experiment, error) {
			e, err := inner(p)
			e.Setup = func(_ context.Context, s *Stand, _ func(string)) error {
				s.Defer(func() error { log += "first "; return fmt.Errorf("cannot") })
				s.Defer(func() error { log += "last "; return nil })
				if broken {
					return fmt.Errorf("broken")
				}
				return nil
			}
			return e, err
		}
		_, err := Run(t.Context(), l, Options{Rounds: 1}, Env{}, nil)
		if log != "last first " || err == nil || !strings.Contains(err.Error(), "cannot") || broken != strings.Contains(err.Error(), "broken") {
			t.Errorf("broken=%v: %q, %v", broken, log, err)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	l := fake(true, 1, 2)
	for _, o := range []Options{{Rounds: -1}, {Rounds: stats.MaxPairs + 1}, {Budget: -1}, {Params: map[string]string{"n": "x"}}, {Params: map[string]string{"m": "1"}}} {
		if _, err := Run(t.Context(), l, o, Env{}, nil); fail.Code(err) != fail.Usage {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := Find([]*Lab{l}, "nope"); fail.Code(err) != fail.Usage || !strings.Contains(fail.HintOf(err), "fake") {
		t.Errorf("%v", err)
	}
	one := fake(true, 1)
	if _, _, err := one.Plan(nil); fail.Code(err) != fail.Usage {
		t.Errorf("one arm: %v", err)
	}
	wrong := fake(true, 1, 2)
	inner := wrong.New
	wrong.New = func(p map[string]string) (Experiment, error) {
		e, err := inner(p)
		e.Claims = []Claim{{Arm: "a", Over: "z"}}
		return e, err
	}
	if _, _, err := wrong.Plan(nil); fail.Code(err) != fail.Usage {
		t.Errorf("a claim about no arm: %v", err)
	}
}

func TestSaveLoadCompare(t *testing.T) {
	a, b := mustRun(t, fake(true, 1, 2), Options{Seed: 1}), mustRun(t, fake(true, 1, 1), Options{Seed: 2, Params: map[string]string{"n": "4"}})
	var buf bytes.Buffer
	if err := a.Save(&buf); err != nil {
		t.Fatal(err)
	}
	saved := buf.String()
	back, err := Load(strings.NewReader(saved))
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(back)
	if err != nil {
		t.Fatal(err)
	}
	var one, two any
	if json.Unmarshal([]byte(saved), &one) != nil || json.Unmarshal(again, &two) != nil || fmt.Sprint(one) != fmt.Sprint(two) {
		t.Errorf("loaded and saved again it differs:\n%s\n%s", saved, again)
	}
	c, err := Compare(back, b)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Regressed || len(c.Rows) != 2 || c.Rows[1].Verdict != stats.Slower || len(c.Warnings) != 1 {
		t.Errorf("%+v", c)
	}
	other := *b
	other.Lab = "another"
	if _, err := Compare(a, &other); fail.Code(err) != fail.Usage {
		t.Errorf("two labs: %v", err)
	}
	for _, bad := range []string{"", "{}", `{"format":"headroom-trial","schema":1}`, `{"format":"headroom-lab","schema":99}`,
		`{"format":"headroom-lab","schema":1}`, strings.Replace(saved, `"arm": 1`, `"arm": 7`, 1)} {
		if _, err := Load(strings.NewReader(bad)); err == nil {
			t.Errorf("taken: %.60s", bad)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"format":"headroom-lab","schema":1,"measures":[{"name":"x"}],"arms":[{"name":"a"},{"name":"b"}],"turns":[{"arm":1,"counts":true,"figures":{"x":2}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := Load(bytes.NewReader(raw))
		if err != nil {
			return
		}
		for i := range r.Arms {
			r.Counted(i, r.Primary().Name)
		}
		if _, err := Compare(r, r); err != nil {
			return
		}
	})
}

func TestArmsThatTheMachineCannotDoAreLeftOut(t *testing.T) {
	for _, base := range []bool{false, true} {
		l := fake(true, 1, 2, 3)
		l.Say = func(r *Result) []string { return []string{fmt.Sprintf("%d arms", len(r.Arms))} }
		inner := l.New
		l.New = func(p map[string]string) (Experiment, error) {
			e, err := inner(p)
			e.Claims = []Claim{{Text: "gone", Arm: "b", Over: "c"}, {Text: "stays", Arm: "c", Over: "a"}}
			e.Setup = func(_ context.Context, s *Stand, _ func(string)) error {
				s.Skip(map[bool]string{false: "b", true: "a"}[base], "the kernel has none")
				return nil
			}
			return e, err
		}
		r, err := Run(t.Context(), l, Options{Rounds: 7}, Env{}, nil)
		if base {
			if err == nil || !strings.Contains(err.Error(), "the kernel has none") {
				t.Errorf("without its base: %v", err)
			}
			continue
		}
		if err != nil || len(r.Skipped) != 1 || r.Skipped[0].Why != "the kernel has none" || len(r.Arms) != 2 || r.Arms[1].Name != "c" || len(r.Claims) != 1 || r.Claims[0].Text != "stays" {
			t.Fatalf("%+v, %v", r, err)
		}
		if g := r.Versus[0].Gain; g.Center < 2.9 || g.Center > 3.1 || len(r.Said) != 1 || r.Said[0] != "2 arms" {
			t.Errorf("%+v, %q", r.Versus, r.Said)
		}
	}
}
