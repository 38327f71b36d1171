package report

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"headroom/lab"
	"headroom/stats"
	"headroom/testkit"
	"headroom/topic"
	"headroom/trial"
	"headroom/unit"
)

// declared is a lab that needs no server: each arm yields a figure with a
// little scatter.
func declared(figures ...float64) *lab.Lab {
	names := []string{"INSERT, in place", "COPY, in place", "COPY, all dropped", "load"}
	said := []string{"6:05", "3:11", "0:21", ""}
	then := []float64{600e3 / 365, 600e3 / 191, 600e3 / 21, 0}
	return &lab.Lab{Name: "bulk-load", Title: "Bulk load of a table", Question: "How fast can many rows be loaded?", Doc: "Loads `people`. Checks them.", Source: "S19", Then: "600,000 rows, 60 MB",
		Measures: []trial.Measure{lab.Rate("rows/s"), {Name: "wal_per_op", Unit: unit.Byte, Noun: "write-ahead log per row"}},
		Params:   []trial.Param{{Name: "rows", Doc: "rows to load", Default: "50000"}},
		New: func(map[string]string) (lab.Experiment, error) {
			e := lab.Experiment{Size: "50,000 rows", Claims: []lab.Claim{{Text: "dropping all, against leaving all in place", Arm: "COPY, all dropped", Over: "COPY, in place", Then: 191.0 / 21}}}
			for i, f := range figures {
				e.Arms = append(e.Arms, lab.Arm{Name: names[i], Doc: "Does it.", Then: then[i], As: said[i], Run: func(_ context.Context, t *lab.Turn) error {
					t.Figure("rate", f*(1+0.02*math.Sin(float64(t.Round*5+i))))
					t.Figure("wal_per_op", 500/(1+float64(i)))
					return nil
				}})
			}
			return e, nil
		}}
}

// someLab is a result whose times are always the same.
func someLab(t *testing.T, rounds int) *lab.Result {
	t.Helper()
	r, err := lab.Run(t.Context(), declared(12e3, 90e3, 150e3, 148e3), lab.Options{Rounds: rounds, Seed: 4, Budget: 150 * time.Second}, lab.Env{Version: "test", Host: "somewhere"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Started, r.Setup, r.Took = testkit.Taken, 1.5, 93
	for i := range r.Turns {
		r.Turns[i].At, r.Turns[i].Took = float64(i), 0.9
	}
	for i, w := range r.Warnings {
		if strings.Contains(w, "too few") {
			r.Warnings[i] = "too few rounds for a verdict: 3, and one needs 6: --rounds 6 --budget 150s (a round took 12 s)"
		}
	}
	return r
}

func TestGoldenLab(t *testing.T) {
	for name, s := range map[string]Section{"lab": Lab(someLab(t, 8)), "lab-few": Lab(someLab(t, 3)), "labs": Labs([]*lab.Lab{declared(1, 2, 3)})} {
		for _, f := range []Format{Text, JSON, CSV, Markdown, HTML} {
			t.Run(name+"."+string(f), func(t *testing.T) {
				var b bytes.Buffer
				if err := Render(&b, f, Terminal{Width: 80, UTF8: true}, "Headroom: "+name, s); err != nil {
					t.Fatal(err)
				}
				golden(t, filepath.Join("testdata", name+"."+string(f)), b.Bytes())
			})
		}
	}
}

// What report prints as JSON is what compare and report read.
func TestLabJSONLoads(t *testing.T) {
	r := someLab(t, 8)
	var b bytes.Buffer
	if err := Render(&b, JSON, Terminal{}, "x", Lab(r)); err != nil {
		t.Fatal(err)
	}
	back, err := lab.Load(&b)
	if err != nil || back.Best != r.Best || len(back.Turns) != len(r.Turns) {
		t.Fatalf("%v, %+v", err, back)
	}
	var c bytes.Buffer
	if err := Render(&c, CSV, Terminal{}, "x", Lab(r)); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&c).ReadAll()
	if err != nil || len(rows) != len(r.Turns)+1 {
		t.Errorf("%d rows of CSV for %d turns, %v", len(rows), len(r.Turns), err)
	}
}

func TestLabPageHasEverything(t *testing.T) {
	pages := LabPages([]topic.Topic{{Name: "fastpath", Title: "Fast paths", Labs: []*lab.Lab{declared(1, 2, 3)}}})
	page := pages["labs/bulk-load.md"]
	for _, want := range []string{"headroom lab bulk-load", "COPY, all dropped", "0:21", "S19", "9.1 ×", "| rows | 50000 |", "rows/s"} {
		if !strings.Contains(page, want) && !strings.Contains(page, strings.Replace(want, "9.1", "9.10", 1)) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if !strings.Contains(pages["labs/README.md"], "[bulk-load](bulk-load.md)") {
		t.Errorf("the list lacks it: %s", pages["labs/README.md"])
	}
}

func TestHostileLabsStayText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := func() string { return hostileName.Draw(t, "text") }
		versus := lab.Versus{Text: s(), Arm: s(), Over: s(), Decision: stats.Decision{Verdict: stats.Faster, Pairs: 6, Reason: s()}, Then: 2,
			Gain: stats.Interval{Lo: 1, Center: 2, Hi: 3, Level: 0.95}}
		r := &lab.Result{Format: "headroom-lab", Lab: s(), Title: s(), Question: s(), Source: s(), Then: s(), Size: s(), Where: s(), Host: s(),
			Params: map[string]string{s(): s()}, Measures: []trial.Measure{{Name: "rate", Noun: s()}, {Name: "x", Noun: s()}}, Warnings: []string{s()},
			Arms:   []lab.ArmResult{{Name: s(), Doc: s(), As: s(), Then: 1}, {Name: versus.Arm, Doc: s(), As: s(), Settings: map[string]string{s(): s()}, Then: 2}},
			Versus: []lab.Versus{versus}, Claims: []lab.Versus{versus}, Best: versus.Arm, Swapped: []lab.Swap{{Better: s(), Worse: s()}}}
		for i := range 7 {
			for arm := range 2 {
				r.Turns = append(r.Turns, lab.TurnResult{Round: i, Arm: arm, Counts: true, Figures: map[string]float64{"rate": float64(1 + arm)}})
			}
		}
		for _, f := range []Format{Text, JSON, CSV, Markdown, HTML} {
			for _, term := range []Terminal{{Width: 80, UTF8: true}, {Width: 40}} {
				var b bytes.Buffer
				if err := Render(&b, f, term, s(), Lab(r)); err != nil {
					t.Fatal(err)
				}
				judge(t, f, term, b.String())
				if f == JSON && !json.Valid(b.Bytes()) {
					t.Fatal("not JSON")
				}
			}
		}
	})
}

// A lab of many arms without verdicts names the nearest, not all; one whose
// first arm does none of the work does not ask which arm beats it.
func TestLabOfManyArms(t *testing.T) {
	r := &lab.Result{Source: "S8", Measures: []trial.Measure{{Name: "n", Unit: unit.PerSecond, Higher: true}}, Arms: []lab.ArmResult{{Name: "base"}}}
	for i := range stats.MinPairs {
		r.Turns = append(r.Turns, lab.TurnResult{Round: i + 1, Counts: true, Figures: map[string]float64{"n": 1}})
	}
	for i := range 9 {
		arm := fmt.Sprintf("arm, %d", i)
		r.Arms = append(r.Arms, lab.ArmResult{Name: arm})
		d := stats.Decision{Verdict: stats.NeedsMore, More: 10 - i}
		if i == 8 {
			d = stats.Decision{Verdict: stats.Slower}
		}
		r.Versus = append(r.Versus, lab.Versus{Arm: arm, Over: "base", Decision: d})
	}
	want := "No arm is better than base beyond doubt: slower: arm, 8; not decided: arm, 7 (needs 3 more rounds); arm, 6 (needs 4 more rounds); arm, 5 (needs 5 more rounds); arm, 4 (needs 6 more rounds); and 4 others."
	if got := conclusion(r); len(got) != 1 || got[0] != want {
		t.Errorf("%q\nwant %q", got, want)
	}
	r.Ceiling = true
	if got := conclusion(r); len(got) != 0 {
		t.Errorf("%q", got)
	}
	if text := render(t, Text, Lab(r)); strings.Contains(text, "S8") {
		t.Errorf("without figures of then the source is named:\n%s", text)
	}
}
