package metric

import (
	"strings"
	"unicode/utf8"
)

// Clean makes any text fit for a label's value: valid UTF-8, no NUL, at most
// MaxValue bytes, cut at a character.
func Clean(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= MaxValue {
		return s
	}
	cut := MaxValue
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}
