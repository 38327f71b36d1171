// Package fail gives an error what a person and a script need of it: a hint
// (the way out, added once, by whoever knows it) and an exit status.
//
// An error stays an ordinary error: `verb object: cause`, wrapped with %w and
// returned. Hint and With only add to it; the command line prints
// "error: …" and "hint: …" and exits with Code.
package fail

import (
	"errors"
	"fmt"
)

// Exit statuses of the program. They are documented and stable.
const (
	OK          = 0   // done, or nothing to do
	Failure     = 1   // an error
	Usage       = 2   // the command line cannot be understood
	Findings    = 3   // findings at or above --fail-on, or a regression
	Drift       = 4   // the machine moved since the plan was made
	Locked      = 5   // another change is running
	Reverted    = 6   // the change failed and was undone
	NotReverted = 7   // the change failed and could NOT be undone
	Unchecked   = 8   // partly not checked, with --strict
	Interrupted = 130 // interrupted by a signal, cleaned up
)

// ErrAbsent says that a thing is not there (no such file, view, device, tool),
// as opposed to being there and broken. Test with errors.Is.
var ErrAbsent = errors.New("not there")

// ErrDenied says that the thing is there and we may not look at it.
// Test with errors.Is.
var ErrDenied = errors.New("permission denied")

type hinted struct {
	error
	hint string
}

func (h *hinted) Unwrap() error { return h.error }

// Hint adds the way out to err: one sentence that names the next command or
// the right to be granted. The first hint (the one nearest to the cause) wins.
// Hint of nil is nil.
func Hint(err error, format string, args ...any) error {
	if err == nil || HintOf(err) != "" {
		return err
	}
	return &hinted{err, fmt.Sprintf(format, args...)}
}

// HintOf returns the hint carried by err or anything it wraps, or "".
func HintOf(err error) string {
	var h *hinted
	if errors.As(err, &h) {
		return h.hint
	}
	return ""
}

type coded struct {
	error
	code int
}

func (c *coded) Unwrap() error { return c.error }

// With gives err an exit status. The outermost status wins, so a caller that
// knows more ("failed and was reverted") overrides the cause's own. With of
// nil is nil.
func With(err error, code int) error {
	if err == nil {
		return nil
	}
	return &coded{err, code}
}

// Code is the exit status for err: OK for nil, the outermost status given by
// With, else Failure.
func Code(err error) int {
	if err == nil {
		return OK
	}
	var c *coded
	if errors.As(err, &c) {
		return c.code
	}
	return Failure
}
