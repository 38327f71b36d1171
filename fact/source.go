// Package fact holds what is true of a machine and its server: read once,
// each with its source and time, or with the reason why it could not be told.
//
// A Source declares one fact: its name, what it means and how it is read. Its
// type T is plain data whose numeric and text fields carry the struct tags
//
//	unit:"bytes"  src:"/proc/meminfo MemTotal"  doc:"…"
//
// so that name, unit and origin are said once and serve the tables, the saved
// file and the documents. A field that may be unknown by itself is an Opt.
//
// All doubt ends here: what comes after (checks, plans, reports) is pure and
// works as well on a Set that was saved on another machine.
package fact

import (
	"context"
	"encoding/json"
	"fmt"

	"headroom/host"
)

// Source declares one fact of type T. Its Name ("block.devices") is stable
// for ever. Read may ask for other facts with From.
type Source[T any] struct {
	Name string
	Doc  string
	// Probe marks a fact that is measured by loading the machine a little
	// (bounded, low priority); it is read only if the gatherer allows it.
	Probe bool
	Read  func(ctx context.Context, in *In) (T, error)
}

// Any is a Source of any type.
type Any interface {
	Key() string   // the source's name
	About() string // the source's doc
	IsProbe() bool
	Zero() any // the zero value of T, for documents
	read(ctx context.Context, in *In) (any, error)
	decode(raw json.RawMessage) (any, error)
}

// Key implements Any.
func (s *Source[T]) Key() string { return s.Name }

// About implements Any.
func (s *Source[T]) About() string { return s.Doc }

// IsProbe implements Any.
func (s *Source[T]) IsProbe() bool { return s.Probe }

// Zero implements Any.
func (s *Source[T]) Zero() any { var t T; return t }

func (s *Source[T]) read(ctx context.Context, in *In) (any, error) { return s.Read(ctx, in) }

func (s *Source[T]) decode(raw json.RawMessage) (any, error) {
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, fmt.Errorf("read fact %s: %w", s.Name, err)
	}
	return v, nil
}

// In is what a Source reads from: the machine, and the facts read so far.
type In struct {
	host.Reader
	set    *Set
	probes bool
	busy   map[string]bool
}

// From reads another fact, once: a second call and later checks get the same
// value. The error says why it could not be told.
func From[T any](ctx context.Context, in *In, s *Source[T]) (T, error) {
	e := in.entry(ctx, s)
	if e.Unknown != "" {
		var zero T
		return zero, &unknown{s.Name, e.Unknown, e.err}
	}
	return e.Value.(T), nil
}

// unknown is the error of a fact that could not be told.
type unknown struct {
	name, because string
	cause         error
}

func (u *unknown) Error() string { return u.because }
func (u *unknown) Unwrap() error { return u.cause }

// Opt is a figure that may be unknown by itself, with the reason. In JSON it
// is the bare value or {"unknown": "because"}. T is a number, text or bool.
type Opt[T any] struct {
	Value   T
	Because string // not empty: could not tell, because
}

// Known is an Opt with a value.
func Known[T any](v T) Opt[T] { return Opt[T]{Value: v} }

// Unknown is an Opt without one; because must not be empty.
func Unknown[T any](because string) Opt[T] { return Opt[T]{Because: because} }

// OK says whether the value is known.
func (o Opt[T]) OK() bool { return o.Because == "" }

// MarshalJSON implements json.Marshaler.
func (o Opt[T]) MarshalJSON() ([]byte, error) {
	if !o.OK() {
		return json.Marshal(map[string]string{"unknown": o.Because})
	}
	return json.Marshal(o.Value)
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Opt[T]) UnmarshalJSON(b []byte) error {
	var u struct {
		Unknown string `json:"unknown"`
	}
	if len(b) > 0 && b[0] == '{' {
		if err := json.Unmarshal(b, &u); err != nil {
			return err
		}
		if u.Unknown == "" {
			return fmt.Errorf("unknown value without a reason")
		}
		*o = Unknown[T](u.Unknown)
		return nil
	}
	o.Because = ""
	return json.Unmarshal(b, &o.Value)
}
