package report

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes text from the machine safe to show: what cannot be seen (control
// characters, escape sequences, direction marks, zero-width and private
// characters, bytes that are not UTF-8) is written out as \n, \x1b or \u202e.
func clean(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !hidden(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// hidden says whether a rune shows nothing, or something other than itself.
// Invalid bytes decode to RuneError, which counts.
func hidden(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }

var plainGlyphs = strings.NewReplacer("→", "->", "×", "x", "…", "...", "µ", "u", "–", "-", "—", "-", "·", "-",
	"≤", "<=", "≥", ">=", "≈", "~", "±", "+-", "“", `"`, "”", `"`, "’", "'")

// toASCII writes text for a terminal that shows nothing else.
func toASCII(s string) string {
	s = plainGlyphs.Replace(s)
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// cleanJSON writes what cannot be seen inside JSON strings as \u escapes; the
// data stays the same.
func cleanJSON(raw []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(raw) {
		switch {
		case r == '\n' || r == utf8.RuneError || !hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			hi, lo := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}
