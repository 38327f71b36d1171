// Package trial runs a workload with and without changes, interleaved and in
// random order, and says what the difference is and how sure that is.
//
// An Arm is a set of changes: exactly what `apply` would ship. A Workload
// knows nothing of what is varied. A Stand is one place where an arm lives
// while it is tried: a private server (each arm has its own identical copy),
// a scratch folder, or the live machine, on which the arms take turns.
package trial

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"headroom/change"
	"headroom/host"
	"headroom/unit"
)

// Uses says what a workload runs on.
type Uses string

// What a workload can run on.
const (
	Server Uses = "server" // a PostgreSQL server
	Disk   Uses = "disk"   // a folder on a block device
)

// Param is one adjustable figure or word of a workload.
type Param struct {
	Name    string
	Doc     string
	Default string
	// Check says why a value cannot be taken; nil takes anything.
	Check func(value string) error
}

// Measure is one figure that a round yields.
type Measure struct {
	Name   string    `json:"name"` // "rate", "p99"
	Unit   unit.Unit `json:"unit"` // base unit
	Higher bool      `json:"higher_is_better"`
	Noun   string    `json:"noun"` // what it counts, for sentences: "upserts/s"
}

// Workload is a kind of work that can be run again and again.
type Workload struct {
	Name   string // "pg.upsert"; stable
	Doc    string
	Uses   Uses
	Params []Param
	// Measures lists what each round yields; the first is the one that the
	// verdict is about; at an offered rate, the first latency.
	Measures []Measure
	// New checks the parameters (all present, defaults filled in) and returns
	// the work. Its error is a usage error that names the parameter.
	New func(params map[string]string) (Work, error)
}

// Work is a workload with its parameters.
type Work interface {
	// Setup makes the data on a stand. It is called once per origin: the
	// stands of other arms are then copied from it.
	Setup(ctx context.Context, s *Stand, say func(string)) error
	// Open connects to a stand on which Setup was done (there or where it was
	// copied from). Called again after each restart.
	Open(ctx context.Context, s *Stand) (Session, error)
	// Teardown removes what Setup made, on a live stand only; private stands
	// are thrown away.
	Teardown(ctx context.Context, s *Stand) error
}

// Session runs rounds on one stand.
type Session interface {
	// Run works for about d and returns the figures. It must stop promptly
	// and leave nothing running when ctx ends.
	Run(ctx context.Context, d time.Duration, o RoundOptions) (Round, error)
	Close() error
}

// RoundOptions are set by the runner, not by the workload's parameters.
type RoundOptions struct {
	Seed     uint64  // of this round; the same for all arms of a block
	Rate     float64 // operations per second offered; 0: as fast as possible
	Throttle float64 // 0…1: slow the work down by this share, to calibrate
}

// Round is what one run of a workload on one stand yielded.
type Round struct {
	Seconds float64                 // measured
	Done    int64                   // operations that succeeded
	Failed  int64                   // operations that failed
	Why     string                  // the most frequent reason why they failed
	Skipped int64                   // open loop: due but given up
	Figures map[string]float64      // by Measure.Name, in base units
	Latency *hdrhistogram.Histogram // nanoseconds; nil if not measured
}

// Stand is one place that an arm is tried on.
type Stand struct {
	Name string      // "base", "max_wal_size=10GB"
	Host host.Writer // the machine and, for Server, the arm's server
	DSN  string      // Server: how to connect
	Dir  string      // Disk: a scratch folder on the device
	Live bool        // the user's own machine or server
}

// Arm is one variant: the machine as it is with these changes applied.
type Arm struct {
	Name     string        `json:"name"`
	Changes  []change.Spec `json:"changes,omitempty"`
	Throttle float64       `json:"throttle,omitempty"` // calibration only
}
