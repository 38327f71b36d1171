package cli

import (
	"bytes"
	"strings"
	"testing"
)

// TestWarnOfPasswords: whoever writes a password where all can read it is
// told, and it is not repeated.
func TestWarnOfPasswords(t *testing.T) {
	for dsn, want := range map[string]bool{
		"host=db user=x password=hush":    true,
		"password = 'hush' host=db":       true,
		"postgres://x:hush@db/x":          true,
		"postgres://x@db/x?password=hush": true,
		"postgres://x@db/x":               false,
		"host=db passfile=/x user=x":      false,
		"":                                false,
	} {
		var out bytes.Buffer
		a := &app{err: &out}
		a.warnOfPasswords("host=a", dsn)
		if got := out.Len() > 0; got != want || strings.Contains(out.String(), "hush") {
			t.Errorf("%q: %q", dsn, out.String())
		}
	}
}
