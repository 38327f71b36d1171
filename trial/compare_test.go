package trial

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/perf/benchfmt"

	"headroom/fail"
	"headroom/stats"
)

// saved is a result of the fake workload, its arm faster by the effect.
func saved(t *testing.T, seed uint64, scale float64) (r *Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStage{noise: 0.01, effect: []float64{0, 0.3}, rng: rand.New(rand.NewPCG(seed, 1))}
		var err error
		if r, err = fakeRun(t, context.Background(), fakeExperiment(Options{Seed: seed, MaxPairs: 12}), f, nil); err != nil {
			t.Fatal(err)
		}
	})
	for _, x := range r.Rounds {
		x.Figures["rate"] *= scale
	}
	return r
}

func TestCompareFindsARegression(t *testing.T) {
	a := saved(t, 1, 1)
	same, err := Compare(a, saved(t, 2, 1))
	if err != nil || same.Regressed || len(same.Rows) != 6 {
		t.Fatalf("%+v, %v", same, err)
	}
	worse, err := Compare(a, saved(t, 3, 0.8))
	if err != nil || !worse.Regressed || worse.Rows[0].Verdict != stats.Slower {
		t.Errorf("%+v, %v", worse.Rows[0], err)
	}
	better, err := Compare(a, saved(t, 4, 1.3))
	if err != nil || better.Regressed || better.Rows[0].Verdict != stats.Faster || better.Rows[0].Arm != "base" {
		t.Errorf("%+v, %v", better.Rows[0], err)
	}
}

func TestCompareRefusesAndWarns(t *testing.T) {
	a, b := saved(t, 1, 1), saved(t, 2, 1)
	b.Workload = "other"
	if _, err := Compare(a, b); fail.Code(err) != fail.Usage {
		t.Errorf("other workloads: %v", err)
	}
	b.Workload = a.Workload
	for i := range b.Arms {
		b.Arms[i].Name += "!"
	}
	if _, err := Compare(a, b); fail.Code(err) != fail.Usage {
		t.Errorf("no arm in common: %v", err)
	}
	b.Arms[0].Name = "base"
	b.Params = map[string]string{"size": "8", "more": "1"}
	b.Where, b.Options.Rate, b.Version = "elsewhere", 5, "9"
	c, err := Compare(a, b)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(c.Warnings, "\n")
	for _, want := range []string{"parameter size: 7 against 8", "parameter more", "elsewhere", "offered rate", "made by", "only in"} {
		if !strings.Contains(all, want) {
			t.Errorf("no warning of %q in:\n%s", want, all)
		}
	}
}

// What Bench writes is read back by the reader that benchstat uses.
func TestBenchIsReadBack(t *testing.T) {
	r := saved(t, 1, 1)
	r.Arms[1].Name = "a b/c=1\n"
	slices.SortStableFunc(r.Rounds, func(a, b RoundResult) int { return b.Arm - a.Arm }) // the base may have run last
	var buf bytes.Buffer
	if err := r.Bench(&buf); err != nil {
		t.Fatal(err)
	}
	in := benchfmt.NewReader(&buf, "trial")
	n := map[string]int{}
	for in.Scan() {
		switch rec := in.Result().(type) {
		case *benchfmt.Result:
			if n[rec.Name.String()]++; len(n) == 1 && rec.Name.String() != "FakeWork/arm=base" {
				t.Fatalf("the first arm, which benchstat compares with, is %s", rec.Name)
			}
			if v, ok := rec.Value("ops/s"); !ok || math.Abs(v-1150) > 300 || rec.GetConfig("param-size") != "7" {
				t.Fatalf("%+v", rec)
			}
		case *benchfmt.SyntaxError:
			t.Fatal(rec)
		}
	}
	pairs := len(r.Versus[0].Taken)
	if n["FakeWork/arm=base"] != pairs || n["FakeWork/arm=a_b_c=1_"] != pairs || len(n) != 2 {
		t.Errorf("%v, want %d each", n, pairs)
	}
}

func TestLoadRefusesWhatIsNoResult(t *testing.T) {
	for _, bad := range []string{"", "{", `{"format":"headroom-facts","schema":1}`, `{"format":"headroom-trial","schema":2}`,
		`{"format":"headroom-trial","schema":1}`, `{"format":"headroom-trial","schema":1,"measures":[{}],"arms":[{}],"rounds":[{"arm":3}]}`} {
		if _, err := Load(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"format":"headroom-trial","schema":1,"measures":[{"name":"rate"}],"arms":[{"name":"base"}],"rounds":[{"arm":0,"figures":{"rate":1},"counts":true}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Load(bytes.NewReader(b))
		if err != nil {
			return
		}
		_ = r.Bench(&bytes.Buffer{})
		_, _ = Compare(r, r)
	})
}
