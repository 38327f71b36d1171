// Package change is the only one that alters a machine. Topics hand it data (a
// Recipe makes a Change out of facts and arguments); everything that must
// never go wrong is written here once for all of them: dry run, diff, drift
// check, journal, apply, verify, undo, confirm-or-revert and crash recovery.
//
// A Step is an object and the state it shall be in. Its present State is read
// before, kept in the journal as the way back, and read again afterwards: an
// exit status proves nothing.
//
// The way of a change: Prepare reads and makes a Plan, which changes nothing.
// Apply takes the lock, refuses if anything moved since, writes the plan with
// the way back to the journal, and then each step before it is begun. It ends
// in after, verified, or in before, verified. Killed at any point, it leaves a
// journal from which the next Recover, or the guard started for ConfirmWithin,
// brings everything back. Revert takes it back at any later time. Hold is
// Apply for the life of a process, for trials.
//
// The journal is Dirs.State/journal/<id>.jsonl, lines of
// {"crc":"<CRC32C of rec>","rec":{…}}; see Record. Files are only appended to
// and never removed. The lock is Dirs.Run/apply.lock.
package change

import "time"

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
	// CutsOff says that it may cut off those who come over the network: it
	// takes itself back unless confirmed by who came in anew. Rules always do.
	CutsOff bool     `json:"cuts_off,omitempty"`
	Steps   Steps    `json:"-"` // what is done; a Plan carries them as Planned
	Notes   []string `json:"-"` // worth telling before it is applied; a Plan carries them
	// OnConfirm is done only once the change is confirmed: what makes it last
	// over a reboot. Without ConfirmWithin it is done after Steps.
	OnConfirm Steps `json:"-"`
}
