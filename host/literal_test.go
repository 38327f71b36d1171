package host

import "testing"

func TestLiteral(t *testing.T) {
	for in, want := range map[string]string{
		"":            `''`,
		"it's":        `'it''s'`,
		`a\b`:         `E'a\\b'`,
		`\'; drop --`: `E'\\''; drop --'`,
		"two\nlines":  "'two\nlines'",
	} {
		if got := Literal(in); got != want {
			t.Errorf("%q: %s, not %s", in, got, want)
		}
	}
}
