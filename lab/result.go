package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"headroom/stats"
	"headroom/trial"
)

// Schema is the version of the saved form of a Result.
const Schema = 1

const resultFormat = "headroom-lab"

// Result is all that a run yielded: enough to draw every conclusion again.
// Figures are in base units.
type Result struct {
	Format   string            `json:"format"` // "headroom-lab"
	Schema   int               `json:"schema"`
	Version  string            `json:"headroom"` // of Headroom
	Lab      string            `json:"lab"`
	Title    string            `json:"title"`
	Question string            `json:"question"`
	Source   string            `json:"source"`
	Then     string            `json:"then,omitempty"`
	Size     string            `json:"size"`
	Params   map[string]string `json:"params"`
	Ceiling  bool              `json:"ceiling,omitempty"` // the first arm does none of the work: no other can be better
	Measures []trial.Measure   `json:"measures"`          // the first decides
	Options  Options           `json:"options"`           // with all defaults filled in
	Where    string            `json:"where"`
	Host     string            `json:"host,omitempty"`
	Started  time.Time         `json:"started"`
	Setup    float64           `json:"setup_seconds"`
	Took     float64           `json:"took_seconds"` // of the warm-up and all rounds
	Ended    trial.Ended       `json:"ended"`
	Level    float64           `json:"level"` // confidence of each interval
	Plan     stats.Plan        `json:"plan"`  // empty with too few rounds for a verdict
	Arms     []ArmResult       `json:"arms"`
	Turns    []TurnResult      `json:"turns"` // all, in the order they ran
	// Versus compares each arm but the base with the base, in their order.
	Versus []Versus `json:"versus"`
	Claims []Versus `json:"claims,omitempty"`
	// Best is the arm that is best beyond doubt against the base, by its
	// centre; "" if there is none.
	Best string `json:"best,omitempty"`
	// AsGood are the arms that the run cannot tell from Best: an interval of
	// their ratio, at Level, holds 1.
	AsGood []string `json:"as_good,omitempty"`
	// Swapped lists pairs of arms that stand the other way round than in the
	// source; only where both have a figure of then, and are apart today.
	Swapped  []Swap          `json:"swapped,omitempty"`
	Skipped  []Skipped       `json:"skipped,omitempty"` // arms that this machine cannot do
	Said     []string        `json:"said,omitempty"`    // by Lab.Say
	Warnings []string        `json:"warnings,omitempty"`
	Facts    json.RawMessage `json:"facts,omitempty"` // as fact.Set.Save writes them
}

// ArmResult is one arm with its figures over all rounds that count.
type ArmResult struct {
	Name     string            `json:"name"`
	Doc      string            `json:"doc"`
	Settings map[string]string `json:"settings,omitempty"`
	// Then is the source's figure of the first measure; 0 if it has none. As
	// is how the source wrote it.
	Then    float64                  `json:"then,omitempty"`
	As      string                   `json:"as,omitempty"`
	Figures map[string]stats.Summary `json:"figures"`
}

// TurnResult is one turn of one arm.
type TurnResult struct {
	Round   int                `json:"round"` // from 0; the warm-up is -1
	Arm     int                `json:"arm"`
	At      float64            `json:"at_seconds"` // begin, since the run began
	Took    float64            `json:"took_seconds"`
	Units   int64              `json:"units"` // of work in the timed part
	Figures map[string]float64 `json:"figures"`
	// Same is what all arms of a round had to agree on, and did.
	Same map[string]string `json:"same,omitempty"`
	// Counts says whether the turn is part of the comparison: that of a whole
	// round after the warm-up.
	Counts bool `json:"counts"`
}

// Versus is one arm against another.
type Versus struct {
	Text string `json:"text,omitempty"` // of a claim
	Arm  string `json:"arm"`
	Over string `json:"over"`
	stats.Decision
	P float64 `json:"p"` // two-sided, not corrected for looks
	// Gain is the ratio turned so that above 1 is better.
	Gain stats.Interval `json:"gain"`
	// Then is the source's gain; 0 if it has none.
	Then  float64      `json:"then,omitempty"`
	Taken []stats.Pair `json:"pairs_taken"`
}

// Swap says that Better beats Worse today and did not in the source.
type Swap struct {
	Better string `json:"better"`
	Worse  string `json:"worse"`
}

func newResult(l *Lab, e Experiment, o Options, params map[string]string, env Env) *Result {
	r := &Result{Format: resultFormat, Schema: Schema, Version: env.Version, Host: env.Host, Lab: l.Name, Title: l.Title, Question: l.Question,
		Source: l.Source, Then: l.Then, Size: e.Size, Ceiling: e.Ceiling, Params: params, Measures: l.Measures, Options: o}
	for _, a := range e.Arms {
		r.Arms = append(r.Arms, ArmResult{Name: a.Name, Doc: a.Doc, Settings: a.Settings, Then: a.Then, As: a.As, Figures: map[string]stats.Summary{}})
	}
	return r
}

// Save writes the result as JSON.
func (r *Result) Save(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("save lab: %w", err)
	}
	return nil
}

const resultLimit = 64 << 20

// Load reads a result that Save wrote. The error says what kind of file it is
// not, or which schema it has.
func Load(r io.Reader) (*Result, error) {
	var out Result
	if err := json.NewDecoder(io.LimitReader(r, resultLimit)).Decode(&out); err != nil {
		return nil, fmt.Errorf("read lab: not a saved lab: %w", err)
	}
	if out.Format != resultFormat || out.Schema != Schema {
		return nil, fmt.Errorf("read lab: format %q, schema %d: this Headroom reads %q, schema %d", out.Format, out.Schema, resultFormat, Schema)
	}
	if len(out.Measures) == 0 || len(out.Arms) < 2 {
		return nil, fmt.Errorf("read lab: %d measures and %d arms", len(out.Measures), len(out.Arms))
	}
	for _, t := range out.Turns {
		if t.Arm < 0 || t.Arm >= len(out.Arms) {
			return nil, fmt.Errorf("read lab: a turn of arm %d, but there are %d", t.Arm, len(out.Arms))
		}
	}
	return &out, nil
}

// Primary is the measure that the verdicts are about.
func (r *Result) Primary() trial.Measure { return r.Measures[0] }

// Counted returns an arm's figures of one measure, in order, from the rounds
// that count.
func (r *Result) Counted(arm int, measure string) []float64 {
	var out []float64
	for _, t := range r.Turns {
		if v, ok := t.Figures[measure]; ok && t.Arm == arm && t.Counts {
			out = append(out, v)
		}
	}
	return out
}

// Against returns how an arm compares with the base; false for the base.
func (r *Result) Against(arm string) (Versus, bool) {
	for _, v := range r.Versus {
		if v.Arm == arm {
			return v, true
		}
	}
	return Versus{}, false
}
