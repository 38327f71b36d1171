package postgres

import (
	"regexp"
	"strings"
)

var listOfLiterals = regexp.MustCompile(`\( ?\?(?: ?, ?\?)+( ?[,)])`)

// Redact takes out of a statement what may be somebody's data or a secret:
// literals become ?, lists of them "(?, …)", comments and line breaks a blank.
// Names, keywords and parameters ($1) stay. Text that ends within a literal,
// as the server cuts long ones, ends in "…", and so does text that could be
// read in two ways, from there on. The result is cut to limit characters.
func Redact(sql string, limit int) string {
	s := scanner{in: sql}
	for s.at < len(s.in) && s.step() {
	}
	text := listOfLiterals.ReplaceAllString(strings.TrimSpace(s.out.String()), "(?, …$1")
	if r := []rune(text); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return text
}

// scanner goes over a statement token by token. It looks at ASCII only, which
// is never part of another character in UTF-8.
type scanner struct {
	in  string
	at  int
	out strings.Builder
}

// step takes one token; false if the rest must not be shown.
func (s *scanner) step() bool {
	c := s.in[s.at]
	switch {
	case c <= ' ':
		s.at++
		s.blank()
	case strings.HasPrefix(s.in[s.at:], "--"):
		s.skipLine()
	case strings.HasPrefix(s.in[s.at:], "/*"):
		return s.skipComment()
	case c == '\'':
		return s.literal(false)
	case c == '"':
		return s.quotedName()
	case c == '$':
		return s.dollar()
	case digit(c), c == '.' && s.at+1 < len(s.in) && digit(s.in[s.at+1]):
		s.number()
	case word(c):
		return s.word()
	default:
		s.out.WriteByte(c)
		s.at++
	}
	return true
}

func (s *scanner) blank() {
	if n := s.out.Len(); n > 0 && s.out.String()[n-1] != ' ' {
		s.out.WriteByte(' ')
	}
}

func (s *scanner) skipLine() {
	if n := strings.IndexAny(s.in[s.at:], "\r\n"); n >= 0 {
		s.at += n
	} else {
		s.at = len(s.in)
	}
	s.blank()
}

// skipComment passes a comment, which may hold others.
func (s *scanner) skipComment() bool {
	depth := 0
	for s.at < len(s.in) {
		switch {
		case strings.HasPrefix(s.in[s.at:], "/*"):
			depth++
			s.at += 2
		case strings.HasPrefix(s.in[s.at:], "*/"):
			depth--
			s.at += 2
		default:
			s.at++
		}
		if depth == 0 {
			s.blank()
			return true
		}
	}
	return s.cut()
}

// cut ends the text where what follows must not be shown.
func (s *scanner) cut() bool {
	s.blank()
	s.out.WriteString("…")
	return false
}

// literal passes a string in quotes. Whether a backslash before the closing
// quote belongs to it depends on a setting of the session, save where the
// string is marked with E: then the rest is not shown.
func (s *scanner) literal(escapes bool) bool {
	backslashes := 0
	for s.at++; s.at < len(s.in); s.at++ {
		switch c := s.in[s.at]; {
		case c == '\\':
			backslashes++
			continue
		case c != '\'':
		case backslashes%2 == 1 && !escapes:
			s.out.WriteString("?")
			return s.cut()
		case backslashes%2 == 1:
		case s.at+1 < len(s.in) && s.in[s.at+1] == '\'':
			s.at++
		default:
			s.at++
			s.out.WriteString("?")
			return true
		}
		backslashes = 0
	}
	s.out.WriteString("?")
	return s.cut()
}

func (s *scanner) quotedName() bool {
	for i := s.at + 1; i < len(s.in); i++ {
		if s.in[i] != '"' {
			continue
		}
		if i+1 < len(s.in) && s.in[i+1] == '"' {
			i++
			continue
		}
		s.out.WriteString(s.in[s.at : i+1])
		s.at = i + 1
		return true
	}
	return s.cut()
}

// dollar passes a parameter ($1) or a string in $tag$ … $tag$.
func (s *scanner) dollar() bool {
	i := s.at + 1
	for i < len(s.in) && (word(s.in[i]) || digit(s.in[i])) {
		i++
	}
	if i == len(s.in) || s.in[i] != '$' || i > s.at+1 && digit(s.in[s.at+1]) {
		s.out.WriteString(s.in[s.at:i])
		s.at = i
		return true
	}
	tag := s.in[s.at : i+1]
	n := strings.Index(s.in[i+1:], tag)
	s.out.WriteString("?")
	if n < 0 {
		return s.cut()
	}
	s.at = i + 1 + n + len(tag)
	return true
}

func (s *scanner) number() {
	for s.at < len(s.in) {
		c := s.in[s.at]
		sign := (c == '+' || c == '-') && (s.in[s.at-1] == 'e' || s.in[s.at-1] == 'E')
		if !sign && !digit(c) && !word(c) && c != '.' {
			break
		}
		s.at++
	}
	s.out.WriteString("?")
}

// word passes a name or keyword, or the mark before a literal: E”, B”, X”,
// N”, U&”.
func (s *scanner) word() bool {
	i := s.at
	for i < len(s.in) && (word(s.in[i]) || digit(s.in[i]) || s.in[i] == '$') {
		i++
	}
	w := s.in[s.at:i]
	rest := s.in[i:]
	switch {
	case len(w) == 1 && strings.ContainsAny(w, "eEbBxXnN") && strings.HasPrefix(rest, "'"):
		s.at = i
		return s.literal(w == "e" || w == "E")
	case (w == "u" || w == "U") && strings.HasPrefix(rest, "&'"):
		s.at = i + 1
		return s.literal(false)
	}
	s.out.WriteString(w)
	s.at = i
	return true
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func word(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
