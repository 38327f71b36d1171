package api

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
	"unsafe"
)

// scan walks over one line of JSON without copying it. It knows as much JSON
// as a sample needs.
type scan struct {
	b []byte
	i int
}

func (s *scan) blanks() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return
		}
	}
}

// take moves over c, blanks before it too.
func (s *scan) take(c byte) bool {
	s.blanks()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

func (s *scan) peek() byte {
	s.blanks()
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// str moves over a string and returns it with its quotes; nil if there is none.
func (s *scan) str() []byte {
	if !s.take('"') {
		return nil
	}
	from := s.i - 1
	for {
		n := bytes.IndexByte(s.b[s.i:], '"')
		if n < 0 {
			s.i = len(s.b)
			return nil
		}
		s.i += n + 1
		back := 0
		for s.i-2-back > from && s.b[s.i-2-back] == '\\' {
			back++
		}
		if back%2 == 0 {
			return s.b[from:s.i]
		}
	}
}

// flat moves over an object of strings, {"a":"b"}, and returns it whole; nil
// if it is none.
func (s *scan) flat() []byte {
	if !s.take('{') {
		return nil
	}
	from := s.i - 1
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case '"':
			if s.str() == nil {
				return nil
			}
		case '}':
			s.i++
			return s.b[from:s.i]
		case '{', '[':
			return nil
		default:
			s.i++
		}
	}
	return nil
}

// array moves over an array of arrays and returns it whole; nil if it is none.
func (s *scan) array() []byte {
	if !s.take('[') {
		return nil
	}
	from, depth := s.i-1, 1
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case '"':
			if s.str() == nil {
				return nil
			}
			continue
		case '[':
			depth++
		case ']':
			depth--
		}
		s.i++
		switch {
		case depth == 0:
			return s.b[from:s.i]
		case depth > 2:
			return nil
		}
	}
	return nil
}

// word moves over anything up to the next comma, bracket or blank.
func (s *scan) word() []byte {
	s.blanks()
	from := s.i
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ',', ']', '}', ' ', '\t', '\r', '\n', ':', '"', '{', '[':
			return s.b[from:s.i]
		}
		s.i++
	}
	return s.b[from:s.i]
}

// value reads a number; why says why it is none that is taken.
func (s *scan) value() (v float64, why string) {
	w := s.word()
	if len(w) == 0 {
		if s.peek() == '"' {
			return 0, "the value is text, not a number"
		}
		return 0, "the value is missing"
	}
	if v, ok := simpleNumber(w); ok {
		return v, ""
	}
	switch c := w[0]; {
	case string(w) == "null":
		return 0, "the value is null"
	case c == 'N' || c == 'n':
		return 0, "not a number"
	case c == 'I' || c == 'i' || len(w) > 1 && (w[1] == 'I' || w[1] == 'i'):
		return 0, "infinite"
	case c != '-' && (c < '0' || c > '9') || bytes.ContainsAny(w, "xX_pPnN"):
		return 0, "the value is not a number in JSON"
	}
	v, err := strconv.ParseFloat(unsafe.String(&w[0], len(w)), 64)
	if err != nil && math.IsInf(v, 0) {
		return 0, "infinite"
	}
	if err != nil {
		return 0, "the value is not a number in JSON"
	}
	return v, ""
}

// powers of ten that a float64 holds exactly.
var powers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// simpleNumber reads [-]digits[.digits] of at most 15 digits: both parts are
// exact in a float64, so the one division rounds right.
func simpleNumber(w []byte) (float64, bool) {
	i, neg := 0, w[0] == '-'
	if neg {
		i = 1
	}
	if len(w)-i > 16 || i == len(w) {
		return 0, false
	}
	digits, after, point := int64(0), 0, -1
	for k := i; k < len(w); k++ {
		c := w[k]
		switch {
		case c >= '0' && c <= '9':
			digits = digits*10 + int64(c-'0')
			if point >= 0 {
				after++
			}
		case c == '.' && point < 0 && k > i && k+1 < len(w):
			point = k
		default:
			return 0, false
		}
	}
	if len(w)-i == 16 && point < 0 {
		return 0, false
	}
	v := float64(digits) / powers[after]
	if neg {
		v = -v
	}
	return v, true
}

// at reads a time: milliseconds since 1970, or RFC 3339 as text.
func (s *scan) at() (ms int64, why string) {
	if s.peek() == '"' {
		text := s.str()
		if text == nil {
			return 0, "the time has no closing quote"
		}
		t, err := time.Parse(time.RFC3339Nano, string(text[1:len(text)-1]))
		if err != nil || t.Year() < 1970 || t.Year() > 9999 {
			return 0, "the time is not as 2026-11-21T14:00:00Z"
		}
		return t.UnixMilli(), ""
	}
	w := s.word()
	if len(w) == 0 {
		return 0, "the time is missing"
	}
	ms, neg := 0, w[0] == '-'
	for _, c := range w[min(len(w)-1, b2i(neg)):] {
		if c < '0' || c > '9' || ms > maxMillis {
			return 0, "the time is not a whole number of milliseconds since 1970"
		}
		ms = ms*10 + int64(c-'0')
	}
	if neg {
		ms = -ms
	}
	return ms, ""
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// text returns what a JSON string says.
func text(quoted []byte) (string, bool) {
	inner := quoted[1 : len(quoted)-1]
	if !utf8.Valid(inner) {
		return "", false
	}
	plain := true
	for _, c := range inner {
		if c < ' ' {
			return "", false
		}
		plain = plain && c != '\\'
	}
	if plain {
		return string(inner), true
	}
	var out string
	err := json.Unmarshal(quoted, &out)
	return out, err == nil
}
