package record

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// JSONError says why a document is not what jsonb takes, and where.
type JSONError struct {
	Offset int // bytes from the beginning of the document
	Reason string
}

func (e *JSONError) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset) }

// Limits of PostgreSQL's jsonb and numeric.
const (
	maxDepth   = 5_000 // the server's own limit follows from max_stack_depth; at 2 MB it is above this
	maxString  = 1<<28 - 1
	numDigits  = 131_072 // before the decimal point
	numScale   = 16_383  // behind it
	numExpMost = 1<<30 - 1
)

// ValidJSON says whether PostgreSQL's jsonb takes the document: one JSON value
// of valid UTF-8, without \u0000 and lone surrogates, numbers within the range
// of numeric, at most 5,000 levels deep. The error is a *JSONError. It reads
// the document once and allocates nothing.
func ValidJSON(doc []byte) error {
	if !utf8.Valid(doc) {
		at := 0
		for at < len(doc) {
			r, n := utf8.DecodeRune(doc[at:])
			if r == utf8.RuneError && n < 2 {
				break
			}
			at += n
		}
		return &JSONError{at, "not JSON: not valid UTF-8"}
	}
	s := scanner{b: doc}
	if err := s.value(); err != nil {
		return err
	}
	if s.space(); s.i < len(doc) {
		return s.bad("not JSON: more behind the end of the value")
	}
	return nil
}

// scanner walks through one document.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) bad(why string) error { return &JSONError{s.i, why} }

// unexpected is the error of a character that has no place here.
func (s *scanner) unexpected(want string) error {
	if s.i >= len(s.b) {
		return s.bad("not JSON: it ends where " + want + " should follow")
	}
	r, _ := utf8.DecodeRune(s.b[s.i:])
	return s.bad(fmt.Sprintf("not JSON: %q where %s should stand", r, want))
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// peek is the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// value passes over one value of any kind, without recursion.
func (s *scanner) value() error {
	var few [64]byte
	open := few[:0] // '{' and '['
	for {
		s.space()
		if c := s.peek(); c == '{' || c == '[' {
			if len(open) == maxDepth {
				return s.bad(fmt.Sprintf("nested deeper than %d levels", maxDepth))
			}
			open = append(open, c)
			s.i++
			s.space()
			if s.peek() != c+2 { // } and ] come two behind { and [
				if c == '{' {
					if err := s.key(); err != nil {
						return err
					}
				}
				continue
			}
		} else if err := s.scalar(); err != nil {
			return err
		}
		var err error
		if open, err = s.closing(open); err != nil || len(open) == 0 {
			return err
		}
	}
}

// closing passes over what may follow a value: the ends of what is open, and
// the comma (and key) before the next value. A container that has just been
// opened and is empty stands at its end.
func (s *scanner) closing(open []byte) ([]byte, error) {
	for len(open) > 0 {
		s.space()
		in := open[len(open)-1]
		switch c := s.peek(); {
		case c == in+2:
			s.i++
			open = open[:len(open)-1]
		case c == ',':
			s.i++
			if in == '{' {
				s.space()
				return open, s.key()
			}
			return open, nil
		case in == '{':
			return open, s.unexpected("a comma or }")
		default:
			return open, s.unexpected("a comma or ]")
		}
	}
	return open, nil
}

// key passes over a key and its colon.
func (s *scanner) key() error {
	if s.peek() != '"' {
		return s.unexpected("a key in quotes")
	}
	if err := s.str(); err != nil {
		return err
	}
	if s.space(); s.peek() != ':' {
		return s.unexpected("a colon")
	}
	s.i++
	return nil
}

func (s *scanner) scalar() error {
	switch c := s.peek(); {
	case c == '"':
		return s.str()
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	}
	return s.unexpected("a value")
}

func (s *scanner) word(w string) error {
	if !bytes.HasPrefix(s.b[s.i:], []byte(w)) {
		return s.unexpected("a value")
	}
	s.i += len(w)
	if c := s.peek(); c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c >= 0x80 {
		return s.unexpected("the end of " + w)
	}
	return nil
}

// stops are the bytes that need a look inside a string.
var stops = func() (t [256]bool) {
	for c := range 0x20 {
		t[c] = true
	}
	t['"'], t['\\'] = true, true
	return t
}()

// str passes over a string.
func (s *scanner) str() error {
	from := s.i
	s.i++
	for {
		for s.i < len(s.b) && !stops[s.b[s.i]] {
			s.i++
		}
		if s.i >= len(s.b) {
			return s.bad("not JSON: it ends inside a string")
		}
		switch s.b[s.i] {
		case '"':
			s.i++
			if s.i-from-2 > maxString {
				s.i = from
				return s.bad("a string longer than jsonb takes (256 MB)")
			}
			return nil
		case '\\':
			if err := s.escape(); err != nil {
				return err
			}
		case 0:
			return s.bad("NUL in text")
		default:
			return s.bad(fmt.Sprintf("not JSON: a control character (0x%02x) that is not escaped", s.b[s.i]))
		}
	}
}

// escape passes over one escape of a string, a pair of surrogates as one.
func (s *scanner) escape() error {
	if s.i+1 >= len(s.b) {
		s.i++
		return s.bad("not JSON: it ends inside a string")
	}
	switch s.b[s.i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i += 2
		return nil
	case 'u':
	default:
		return s.bad("not JSON: an unknown escape")
	}
	u := hex4(s.b[s.i+2:])
	switch {
	case u < 0:
		return s.bad(`not JSON: \u without four hexadecimal digits`)
	case u == 0:
		return s.bad(`NUL in text (\u0000)`)
	case u >= 0xdc00 && u < 0xe000:
		return s.bad("half of a surrogate pair alone")
	case u < 0xd800 || u >= 0xe000:
		s.i += 6
		return nil
	}
	rest := s.b[s.i+6:]
	if len(rest) < 6 || rest[0] != '\\' || rest[1] != 'u' {
		return s.bad("half of a surrogate pair alone")
	}
	if low := hex4(rest[2:]); low < 0xdc00 || low >= 0xe000 {
		return s.bad("half of a surrogate pair alone")
	}
	s.i += 12
	return nil
}

// hex4 is the value of four hexadecimal digits, or -1.
func hex4(b []byte) int {
	if len(b) < 4 {
		return -1
	}
	v := 0
	for _, c := range b[:4] {
		d := hexDigit(c)
		if d < 0 {
			return -1
		}
		v = v<<4 + d
	}
	return v
}

// number passes over a number that numeric can hold.
func (s *scanner) number() error {
	from := s.i
	if s.peek() == '-' {
		s.i++
	}
	whole := s.digits()
	switch {
	case len(whole) == 0:
		return s.unexpected("a digit")
	case len(whole) > 1 && whole[0] == '0':
		return s.bad("not JSON: a number with a leading zero")
	}
	var frac []byte
	if s.peek() == '.' {
		s.i++
		if frac = s.digits(); len(frac) == 0 {
			return s.unexpected("a digit")
		}
	}
	exp := 0
	if s.peek()|0x20 == 'e' {
		s.i++
		neg := s.peek() == '-'
		if neg || s.peek() == '+' {
			s.i++
		}
		digits := s.digits()
		if len(digits) == 0 {
			return s.unexpected("a digit")
		}
		for _, d := range digits {
			exp = min(exp*10+int(d-'0'), numExpMost+1)
		}
		if neg {
			exp = -exp
		}
	}
	if c := s.peek(); c|0x20 >= 'a' && c|0x20 <= 'z' || c == '.' || c == '_' || c == '-' || c == '+' || c >= 0x80 {
		return s.unexpected("the end of the number")
	}
	if !inRange(whole, frac, exp) {
		s.i = from
		return s.bad("number out of range")
	}
	return nil
}

func (s *scanner) digits() []byte {
	from := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.b[from:s.i]
}

// inRange says whether numeric holds the number: its digits behind the point,
// after the exponent moved it, and the place of its first digit.
func inRange(whole, frac []byte, exp int) bool {
	if exp > numExpMost || exp < -numExpMost || len(frac)-exp > numScale {
		return false
	}
	if len(whole)+exp <= numDigits {
		return true
	}
	place := len(whole) + exp
	for _, part := range [][]byte{whole, frac} {
		for _, d := range part {
			if d != '0' {
				return place <= numDigits
			}
			place--
		}
	}
	return true // zero
}
