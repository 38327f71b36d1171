//go:build !crash

// Package crash names the points at which a test kills the program, to show
// that it is safe to die there. In a program as it is shipped At does nothing
// and looks at nothing; only one built with `-tags crash` obeys HEADROOM_CRASH_AT.
package crash

// At names a point. Names are "<package>.<what just happened>", each used once.
func At(string) {}
