//go:build !crash

package crash

import "testing"

// A program as it is shipped must not obey its environment.
func TestNothingHappens(t *testing.T) {
	t.Setenv("HEADROOM_CRASH_AT", "here")
	At("here")
}
