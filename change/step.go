package change

import (
	"context"
	"encoding/base64"
	"maps"
	"unicode/utf8"

	"headroom/host"
)

// Step is one reversible alteration of one object. The set of kinds is closed
// (File, Value, Setting, SQL, Unit, Command, Rules) and each is plain data that
// survives JSON.
type Step interface {
	// Kind is the step's name in plans and journals; stable for ever.
	Kind() string
	// Object names what is altered, for people: "/etc/sysctl.d/…",
	// "setting max_wal_size".
	Object() string
	// String says in words, or as the command it amounts to, what applying
	// does: "write 0 into /sys/…".
	String() string
	// Read returns the object's present state. It changes nothing.
	Read(ctx context.Context, r host.Reader) (State, error)
	// Want is the state that Apply shall reach, in the form that Read will
	// give it, or before itself where nothing is left to do. It changes
	// nothing. A state that can be known to be out of reach (no such setting,
	// out of range, no such choice) is an error.
	Want(ctx context.Context, r host.Reader, before State) (State, error)
	// Undo is the step that brings a former state back.
	Undo(before State) Step
	// Apply reaches Want. It may be called again after an interruption at any
	// point of itself, and then reaches Want as well.
	Apply(ctx context.Context, w host.Writer) error
	// Effects tells what applying entails besides the state: "reloads the
	// server", "restarts the server: every connection is cut". Empty if nothing.
	Effects() []string
}

// State is what an object is like at one time, as text that can be shown,
// compared and stored: a file's content, a server's settings. Absent objects
// have a state too.
type State struct {
	Present bool   `json:"present"`
	Value   string `json:"value,omitempty"`
	// Binary says that Value is base64, because the content is not UTF-8.
	Binary bool `json:"binary,omitempty"`
	// Mode is the permission bits of a file; 0 elsewhere.
	Mode uint32 `json:"mode,omitempty"`
	// Stored is the value per name where an object has several: what
	// postgresql.auto.conf holds. A name that is missing is not set there.
	Stored map[string]string `json:"stored,omitempty"`
	// Effective is what follows from Stored: the value that the server works
	// with. It may move without anybody's edit (a restart).
	Effective map[string]string `json:"effective,omitempty"`
	// Loads is the whole of it where Stored holds only what stays as it is
	// unless somebody edits it: packet-filter rules with their counters and
	// what packets put into sets. It is what undoing loads; not compared.
	Loads string `json:"loads,omitempty"`
	// Note tells what the values alone do not, e.g. "restart pending". It is
	// shown, not compared.
	Note string `json:"note,omitempty"`
	// guessed says that Stored was worked out from what is in force, because
	// the files could not be read: a line that was not loaded is not in it.
	guessed bool
}

// Same says whether two states are alike in all that is compared.
func (s State) Same(o State) bool {
	return s.kept(o) && maps.Equal(s.Effective, o.Effective)
}

// kept says whether two states are alike in all that only an edit moves.
func (s State) kept(o State) bool {
	return s.Present == o.Present && s.Value == o.Value && s.Binary == o.Binary && s.Mode == o.Mode &&
		maps.Equal(s.Stored, o.Stored)
}

// reached says whether a state is the wanted one. Of Effective only the names
// in want count: some follow from what cannot be known beforehand.
func (s State) reached(want State) bool {
	for name, v := range want.Effective {
		if got, ok := s.Effective[name]; !ok || got != v {
			return false
		}
	}
	return s.kept(want)
}

// text makes content fit for JSON: itself if it is UTF-8, else base64.
func text(content []byte) (value string, binary bool) {
	if utf8.Valid(content) {
		return string(content), false
	}
	return base64.StdEncoding.EncodeToString(content), true
}
