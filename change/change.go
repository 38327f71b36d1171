// Package change is the only one that alters a machine. Topics hand it data (a
// Recipe makes a Change out of facts and arguments); everything that must
// never go wrong is written here once for all of them: dry run, diff, drift
// check, journal, apply, verify, undo, confirm-or-revert and crash recovery.
//
// A Step is an object and the state it shall be in. Its present State is read
// before, kept in the journal as the way back, and read again afterwards: an
// exit status proves nothing.
package change

import (
	"context"
	"time"

	"headroom/host"
)

// State is what an object is like at one time, as text that can be shown,
// compared and stored: a file's content, a setting's value. Absent objects
// have a state too.
type State struct {
	Present bool   `json:"present"`
	Value   string `json:"value,omitempty"`
	// Mode is the permission bits of a file; 0 elsewhere.
	Mode uint32 `json:"mode,omitempty"`
	// Note tells what the value alone does not, e.g. "restart pending". It is
	// shown, not compared.
	Note string `json:"note,omitempty"`
}

// Same says whether two states are alike in all that is compared.
func (s State) Same(o State) bool {
	return s.Present == o.Present && s.Value == o.Value && s.Mode == o.Mode
}

// Step is one reversible alteration of one object. The set of kinds is closed
// (File, Value, Setting, SQL, Unit, Command) and each is plain data that
// survives JSON.
type Step interface {
	// Kind is the step's name in plans and journals; stable for ever.
	Kind() string
	// Object names what is altered, for people: "/etc/sysctl.d/…",
	// "setting max_wal_size".
	Object() string
	// Read returns the object's present state. It changes nothing.
	Read(ctx context.Context, r host.Reader) (State, error)
	// Want is the state that Apply shall reach.
	Want() State
	// Undo is the step that brings a former state back.
	Undo(before State) Step
	// Apply reaches Want. It may be called again after an interruption at any
	// point of itself, and then reaches Want as well.
	Apply(ctx context.Context, w host.Writer) error
	// Effects tells what applying entails besides the state: "reloads the
	// server", "restarts the server: every connection is cut". Empty if nothing.
	Effects() []string
}

// Risk is how much a change can hurt, for the person who decides.
type Risk string

// The risks, in rising order.
const (
	RiskLow    Risk = "low"    // takes effect at once, undone at once
	RiskMedium Risk = "medium" // may slow or fill something down if it does not fit
	RiskHigh   Risk = "high"   // may cut connections or lose data on a crash
)

// Change is a reversible alteration made of steps, applied in order and undone
// in reverse order.
type Change struct {
	Spec    Spec          `json:"spec"`    // what the user asked for
	Subject string        `json:"subject"` // what it is done to: "server 15 at /run/postgresql:5432", "disk vda"
	Why     string        `json:"why"`     // one sentence
	Risk    Risk          `json:"risk"`
	RiskWhy string        `json:"risk_why"`          // one sentence: what could go wrong
	Restart bool          `json:"restart,omitempty"` // needs --accept restart on a live server
	Confirm time.Duration `json:"confirm,omitempty"` // recommended --confirm-within; 0: none
	Steps   []Step        `json:"-"`
}
