package watch

import (
	"os"
	"runtime/debug"
)

// gcPercent is GOGC where it is not set: a sample leaves little garbage, so
// that collecting twice as often costs little, and the heap may grow by half of
// what lives and not by as much again.
const gcPercent = 50

// thrift sets it until the function returned is called.
func thrift() (back func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(gcPercent)
	return func() { debug.SetGCPercent(before) }
}
