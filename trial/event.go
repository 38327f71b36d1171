package trial

import (
	"time"

	"headroom/stats"
)

// Phase is what a run is doing.
type Phase string

// The phases, in their order.
const (
	Preparing Phase = "preparing"   // servers, data, copies
	Warming   Phase = "warming up"  // until the rate is steady
	Noise     Phase = "noise floor" // equal stands against each other
	Changing  Phase = "changing"    // applying the arms' changes
	Measuring Phase = "measuring"   // the blocks that count
	Closing   Phase = "cleaning up"
)

// Found begins a text that says what a killed run left behind and what became
// of it. Whoever shows events keeps such a text in sight.
const Found = "found: "

// Event tells how far a run is. Events come in order, from one goroutine, and
// the receiver must not block for long: rounds wait for it.
type Event struct {
	Phase Phase
	Text  string // what is being done, one line; "" if the figures say it
	Arm   string // whose turn it is
	// Block and Blocks: block k of at most n, from 1, in Noise and Measuring.
	Block, Blocks int
	// Figure is the primary measure of the round just done; 0 if there is none.
	Figure float64
	// Estimates are changed/base so far, one for each arm but the base. They
	// are open until the first look.
	Estimates []Estimate
	// Marks is why the round just done was disturbed.
	Marks []Mark
	// Left is the longest that the run may still take; 0 if not known.
	Left time.Duration
}

// Estimate is how an arm stands against the base so far.
type Estimate struct {
	Arm     string
	Pairs   int
	Ratio   stats.Interval
	Verdict stats.Verdict
}
