// Package pgscript runs scripts in pgbench's language as a load on PostgreSQL.
//
// Parse reads a script, TPCB and SelectOnly are built in, and a
// Driver runs any mix of them with counts, retries and latencies. The language
// is that of pgbench 15, with these differences: :name inside comments is left
// alone, and inside quotes it is an error in the protocols extended and prepared
// only if that variable is set; elsewhere a variable that is not set is an error,
// not text; NULL is passed as NULL; \shell and \setshell are refused; permute gives another
// order; random numbers follow the same laws from another generator.
package pgscript

import (
	"fmt"
	"strings"
	"time"
)

// Script is a parsed script. It does not change and may be shared.
type Script struct {
	Name  string
	src   string
	steps []step
	names []string // of its variables; a slot is an index in here
	open  bool     // \gset or \aset can set variables that are not known here
}

type action uint8

const (
	runSQL action = iota
	setVar
	sleep
	jump   // to target
	unless // jump to target if expr is not true
	startPipeline
	endPipeline
)

// store says what happens to the rows of a statement.
type store uint8

const (
	discard store = iota
	storeOne
	storeAny
)

type step struct {
	do     action
	at     int    // offset in the script
	parts  []part // of the SQL
	args   []int  // slots of the variables in parts, in order
	text   string // the SQL with $1, $2 … for the variables
	count  int    // statements in it, more than one if combined with \;
	quotes bool   // some variable may stand inside quotes
	store  store
	prefix string // of the variables that store sets
	slot   int    // of the variable that setVar sets
	expr   *expr  // of setVar and unless; of sleep, in units
	unit   time.Duration
	target int
}

// part is a piece of SQL and the variable behind it; slot -1 is no variable.
type part struct {
	text   string
	slot   int
	quoted bool // the variable stands inside quotes
}

// Error is a fault in a script.
type Error struct {
	Name         string // of the script
	Line, Column int    // from 1; the column counts bytes
	Reason       string
	Allowed      string // what would be right there; may be ""
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s:%d:%d: %s", e.Name, e.Line, e.Column, e.Reason)
	if e.Allowed != "" {
		s += " (allowed: " + e.Allowed + ")"
	}
	return s
}

func (s *Script) position(at int) (line, column int) {
	before := s.src[:min(at, len(s.src))]
	return 1 + strings.Count(before, "\n"), len(before) - strings.LastIndexByte(before, '\n')
}

func (s *Script) errorAt(at int, reason, allowed string) *Error {
	l, c := s.position(at)
	return &Error{s.Name, l, c, reason, allowed}
}

// place is "name:line" for messages at run time.
func (s *Script) place(at int) string {
	l, _ := s.position(at)
	return fmt.Sprintf("%s:%d", s.Name, l)
}
