// Package agent collects: it finds what runs on this machine, runs each
// topic's collectors on it at fixed times, hands each round on as one batch,
// and ships batches to another Headroom.
//
// A source that hangs, is slow or is gone delays no other and is never
// silence: what could not be read is listed by Runner.Gaps with the reason and
// the way out.
package agent

import (
	"context"
	"time"

	"headroom/host"
	"headroom/metric"
)

// Target is one thing that collectors look at.
type Target struct {
	Kind    metric.Target `json:"kind"`
	Name    string        `json:"name,omitempty"` // label server; "" for the machine itself
	Found   string        `json:"found"`          // how it was found
	Ways    []string      `json:"ways,omitempty"` // all that lead there, where there are several
	DSN     string        `json:"-"`              // how to connect; may hold a password
	Missing string        `json:"missing,omitempty"`
	Hint    string        `json:"hint,omitempty"` // the way out of what is missing
	Gone    time.Time     `json:"gone,omitzero"`  // since when it is not found any more

	also []string // keys that it has no more since it is known to be one
}

// key tells targets apart.
func (t Target) key() string { return string(t.Kind) + " " + t.Name }

// Link is a Reader that is connected to a target.
type Link interface {
	host.Reader
	Close()
}

// Options says what a Runner does.
type Options struct {
	Reader     host.Reader // the machine
	Host       string      // label host of every series
	Collectors []*metric.Collector
	// Find lists what runs here, at the start and each minute. The machine
	// itself is always there.
	Find func(context.Context) []Target
	// Open connects to a target; nil: this machine, and the server that the
	// target's DSN names. It must not block.
	Open func(Target) Link
	// Sink takes each batch. An error has the batch come again under the same
	// ID, until the next round; then it is given up and counted.
	Sink func(context.Context, *metric.Batch) error
	// Live takes what is read each second while somebody looks; may be nil.
	Live func(*metric.Batch)
	// Final says that an error of Sink is not worth another try; may be nil.
	Final func(error) bool
	// Keep returns where a collector of a server keeps what it must know after
	// a restart; nil: nowhere.
	Keep func(collector, server string) metric.Keeper
	// Now is the wall clock, for tests; nil: the Reader's.
	Now func() time.Time
}

// Times of the runner.
const (
	roundEvery = 10 * time.Second
	liveEvery  = time.Second
	findEvery  = time.Minute
	deadline   = 5 * time.Second  // for a collector that names none
	linger     = time.Second      // how long a batch waits for slow collectors of the machine
	goneFor    = 24 * time.Hour   // how long a target that is gone stays as a gap
	restAfter  = 10 * time.Minute // how long one that is gone is still asked
	stopWait   = 2 * time.Second  // for rounds under way when the runner ends
	loginEvery = 5 * time.Minute  // the longest pause between two tries to log in
	maxTargets = 64
	// several ways may lead to one target
	maxCandidates = 2 * maxTargets
)

func openLocal(t Target) Link {
	return host.Open(host.Options{DSN: t.DSN, WithPG: t.DSN != "", Retry: true})
}
