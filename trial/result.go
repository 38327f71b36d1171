package trial

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"headroom/stats"
)

// Schema is the version of the saved form of a Result.
const Schema = 1

const resultFormat = "headroom-trial"

// Result is all that a run yielded: enough to draw every conclusion again.
// Figures are in base units.
type Result struct {
	Format   string            `json:"format"` // "headroom-trial"
	Schema   int               `json:"schema"`
	Version  string            `json:"headroom"` // of Headroom
	Name     string            `json:"name"`
	Question string            `json:"question,omitempty"`
	Workload string            `json:"workload"`
	Params   map[string]string `json:"params"`
	Measures []Measure         `json:"measures"` // the first decides
	Options  Options           `json:"options"`  // with all defaults filled in
	Where    string            `json:"where"`    // "private servers, PostgreSQL 15.18", "this machine, in turns"
	Started  time.Time         `json:"started"`
	Setup    float64           `json:"setup_seconds"`
	Took     float64           `json:"took_seconds"` // from the first warm-up to the end
	Ended    Ended             `json:"ended"`
	Plan     stats.Plan        `json:"plan"`
	Order    [][]int           `json:"order"` // planned: arm numbers in each block
	Arms     []ArmResult       `json:"arms"`
	Rounds   []RoundResult     `json:"rounds"` // all, in the order they ran
	Noise    NoiseFloor        `json:"noise"`
	// Versus compares each arm but the base with the base, in their order.
	Versus   []Versus `json:"versus"`
	Warnings []string `json:"warnings,omitempty"`
	// Before and After are the facts as fact.Set.Save writes them; null if
	// none were asked for.
	Before json.RawMessage `json:"facts_before,omitempty"`
	After  json.RawMessage `json:"facts_after,omitempty"`
	// Moved lists still facts that were not the same at the end.
	Moved []Moved `json:"moved,omitempty"`
}

// Ended says why a run ended.
type Ended string

// The reasons to end.
const (
	Sure        Ended = "sure"        // every arm has its verdict
	MaxReached  Ended = "all blocks"  // as many blocks as planned
	BudgetSpent Ended = "budget"      // the time was up before that
	Interrupted Ended = "interrupted" // broken off: verdicts stay at the last planned look
)

// ArmResult is one arm with its figures over all rounds that count.
type ArmResult struct {
	Arm
	// Plans are the change plans exactly as applied.
	Plans json.RawMessage `json:"plans,omitempty"`
	// Figures are the centre and spread of the rounds, by measure name.
	Figures map[string]stats.Summary `json:"figures"`
	Latency *Latency                 `json:"latency,omitempty"`
	Done    int64                    `json:"done"`
	Failed  int64                    `json:"failed"`
	Skipped int64                    `json:"skipped"`
	// WALPerOp is bytes of write-ahead log per operation; 0 if not known.
	WALPerOp float64 `json:"wal_bytes_per_op,omitempty"`
	// Checkpoints counts those that were seen during the rounds that count.
	Checkpoints int64 `json:"checkpoints"`
}

// Latency is the distribution of one arm's operations, in seconds.
type Latency struct {
	N    int64   `json:"n"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
	// Histogram is the HdrHistogram (nanoseconds) in its own V2 compressed
	// and base64 encoded form.
	Histogram string `json:"hdr,omitempty"`
}

// RoundResult is one round of one arm.
type RoundResult struct {
	Phase   Phase              `json:"phase"` // Warming, Noise or Measuring
	Block   int                `json:"block"` // from 0 within the phase
	Try     int                `json:"try"`   // 0, or how often the block was run again
	Arm     int                `json:"arm"`
	At      float64            `json:"at_seconds"` // start, since the run began
	Seconds float64            `json:"seconds"`
	Done    int64              `json:"done"`
	Failed  int64              `json:"failed,omitempty"`
	Skipped int64              `json:"skipped,omitempty"`
	Figures map[string]float64 `json:"figures"`
	// Counts says whether the round is part of the comparison.
	Counts      bool   `json:"counts"`
	Marks       []Mark `json:"marks,omitempty"`
	WAL         int64  `json:"wal_bytes,omitempty"`
	Checkpoints int64  `json:"checkpoints,omitempty"`
}

// Cause is what disturbed a round.
type Cause string

// The causes.
const (
	ByCheckpoint Cause = "checkpoint"
	ByAutovacuum Cause = "autovacuum"
	BySteal      Cause = "steal"     // the hypervisor gave our CPU to others
	ByProcess    Cause = "process"   // another program used a good part of a core
	ByBrief      Cause = "brief"     // programs that began and ended within the round did
	ByFailures   Cause = "failures"  // operations failed
	ByShortfall  Cause = "shortfall" // the round yielded no figure
)

// Mark says that a round was disturbed, and by what.
type Mark struct {
	Cause Cause  `json:"cause"`
	Text  string `json:"text"` // with the figure: "postgres (pid 12) used 0.8 of a core"
}

// NoiseFloor is how much equal stands differ and what a run can see through it.
type NoiseFloor struct {
	stats.Noise
	From string `json:"from"` // "4 blocks of equal stands", "base rounds"
	// Detectable is the smallest effect that the run as planned finds with 95 %
	// probability: a ratio above 1 less 1. 0 if not known.
	Detectable float64 `json:"detectable"`
	// Whole is the noise as the floor and all pairs of the run show it
	// together: far more of them, and from the whole time. Zero without pairs.
	Whole stats.Noise `json:"whole"`
	// Needs lists what other effects would take, by Whole, and by the time
	// that a pair took in this run, blocks run again included.
	Needs []Need `json:"needs"`
}

// Need is what finds an effect with 95 % probability: Options.Budget together
// with Options.Round, because both decide how many pairs there can be.
type Need struct {
	Effect  float64 `json:"effect"`         // ratio above 1 less 1
	Pairs   int     `json:"pairs"`          // 0: more than any run can hold
	Seconds float64 `json:"budget_seconds"` // of Options.Budget
	Round   float64 `json:"round_seconds"`  // of Options.Round
}

// Versus is one arm against the base.
type Versus struct {
	Arm string `json:"arm"`
	stats.Decision
	P float64 `json:"p"` // two-sided, at that look; not corrected for looks
	// Pairs taken are the figures behind it, in order.
	Taken []stats.Pair `json:"pairs_taken"`
	// Others are the other measures at the same look: valid intervals each by
	// itself, without a verdict.
	Others []Secondary `json:"others,omitempty"`
}

// Secondary is a measure that does not decide.
type Secondary struct {
	Measure string         `json:"measure"`
	Ratio   stats.Interval `json:"ratio"`
	P       float64        `json:"p"`
}

// Moved is a fact that changed during the run though no arm changed it.
type Moved struct {
	Fact   string `json:"fact"` // "pg.settings work_mem"
	Before string `json:"before"`
	After  string `json:"after"`
}

// Save writes the result as JSON.
func (r *Result) Save(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("save trial: %w", err)
	}
	return nil
}

const resultLimit = 256 << 20

// Load reads a result that Save wrote. The error says what kind of file it is
// not, or which schema it has.
func Load(r io.Reader) (*Result, error) {
	var out Result
	if err := json.NewDecoder(io.LimitReader(r, resultLimit)).Decode(&out); err != nil {
		return nil, fmt.Errorf("read trial: not a saved trial: %w", err)
	}
	if out.Format != resultFormat || out.Schema != Schema {
		return nil, fmt.Errorf("read trial: format %q, schema %d: this Headroom reads %q, schema %d", out.Format, out.Schema, resultFormat, Schema)
	}
	return &out, out.sound()
}

// sound reports what would make later code stumble.
func (r *Result) sound() error {
	if len(r.Measures) == 0 || len(r.Arms) == 0 || len(r.Versus) > len(r.Arms)-1 {
		return fmt.Errorf("read trial: no measures, or arms that do not fit")
	}
	for _, x := range r.Rounds {
		if x.Arm < 0 || x.Arm >= len(r.Arms) {
			return fmt.Errorf("read trial: a round of arm %d, but there are %d", x.Arm, len(r.Arms))
		}
	}
	return nil
}

// Primary is the measure that the verdict is about.
func (r *Result) Primary() Measure { return r.Measures[0] }

// Counted returns an arm's figures of one measure, in order, from the rounds
// that count.
func (r *Result) Counted(arm int, measure string) []float64 {
	var out []float64
	for _, x := range r.Rounds {
		if v, ok := x.Figures[measure]; ok && x.Arm == arm && x.Counts {
			out = append(out, v)
		}
	}
	return out
}
