package pgscript

import (
	"fmt"
	"strings"
)

func isSpace(c byte) bool     { return c == ' ' || c >= '\t' && c <= '\r' }
func isDigit(c byte) bool     { return c >= '0' && c <= '9' }
func isNameStart(c byte) bool { return c == '_' || c|32 >= 'a' && c|32 <= 'z' || c >= 0x80 }

func nameLength(s string) int {
	n := 0
	for n < len(s) && (isNameStart(s[n]) || isDigit(s[n])) {
		n++
	}
	return n
}

// skipBlank moves over white space and comments before a command.
func (p *parser) skipBlank() error {
	for p.pos < len(p.src) {
		switch {
		case isSpace(p.src[p.pos]):
			p.pos++
		case strings.HasPrefix(p.src[p.pos:], "--"), strings.HasPrefix(p.src[p.pos:], "/*"):
			if err := p.skipOpaque(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// sql parses a statement from p.pos to behind its semicolon, or up to a meta
// command or the end. It returns nil for an empty statement.
func (p *parser) sql() (*step, error) {
	st := &step{do: runSQL, at: p.pos, count: 1}
	var lit, numbered strings.Builder
	depth, from := 0, p.pos
	flush := func() { lit.WriteString(p.src[from:p.pos]); numbered.WriteString(p.src[from:p.pos]) }
	variable := func(length int, quoted bool) {
		flush()
		slot := p.slot(p.src[p.pos+1 : p.pos+length])
		st.parts = append(st.parts, part{lit.String(), slot, quoted})
		lit.Reset()
		if st.quotes = st.quotes || quoted; quoted {
			numbered.WriteString(p.src[p.pos : p.pos+length])
		} else {
			st.args = append(st.args, slot)
			fmt.Fprintf(&numbered, "$%d", len(st.args))
		}
		p.pos += length
		from = p.pos
	}
	done := func() *step {
		if lit.Len() > 0 || len(st.parts) == 0 {
			st.parts = append(st.parts, part{trimRight(lit.String()), -1, false})
		}
		if st.text = trimRight(numbered.String()); st.text == "" {
			return nil
		}
		return st
	}
	for p.pos < len(p.src) {
		c := p.src[p.pos]
		rest := p.src[p.pos:]
		switch {
		case c == ';' && depth == 0:
			flush()
			p.pos++
			return done(), nil
		case strings.HasPrefix(rest, `\;`):
			flush()
			p.pos++
			from = p.pos
			p.pos++
			st.count++
		case c == '\\':
			flush()
			return done(), nil
		case c == '(':
			depth++
			p.pos++
		case c == ')':
			depth = max(depth-1, 0)
			p.pos++
		case strings.HasPrefix(rest, "::"), strings.HasPrefix(rest, ":="):
			p.pos += 2
		case c == ':' && len(rest) > 1 && isNameStart(rest[1]):
			variable(1+nameLength(rest[1:]), false)
		case c == 0:
			return nil, p.errorAt(p.pos, "a zero byte", "text")
		default:
			start := p.pos
			if err := p.skipOpaque(); err != nil {
				return nil, err
			}
			if quotes(p.src[start:p.pos]) {
				p.inQuotes(start, variable)
			}
		}
	}
	flush()
	return done(), nil
}

// quotes tells whether what was skipped is a quoted thing.
func quotes(s string) bool {
	return len(s) > 1 && strings.IndexByte(`'"$`, s[len(s)-1]) >= 0 && !strings.HasPrefix(s, "--") && (s[0] != 'e' && s[0] != 'E' || s[1] == '\'')
}

// inQuotes finds the variables in the quoted text from start to p.pos. pgbench
// puts them in there, too.
func (p *parser) inQuotes(start int, variable func(length int, quoted bool)) {
	end := p.pos
	for p.pos = start; p.pos < end; {
		rest := p.src[p.pos:end]
		switch {
		case strings.HasPrefix(rest, "::"):
			p.pos += 2
		case rest[0] == ':' && len(rest) > 1 && isNameStart(rest[1]):
			variable(1+nameLength(rest[1:]), true)
		default:
			p.pos++
		}
	}
}

func trimRight(s string) string { return strings.TrimRight(s, " \t\r\n\f\v") }

// skipOpaque moves over one word, quoted thing, comment or other byte of SQL.
func (p *parser) skipOpaque() error {
	rest := p.src[p.pos:]
	switch c := rest[0]; {
	case strings.HasPrefix(rest, "--"):
		if n := strings.IndexByte(rest, '\n'); n >= 0 {
			p.pos += n
		} else {
			p.pos = len(p.src)
		}
	case strings.HasPrefix(rest, "/*"):
		return p.skipComment()
	case c == '\'' || c == '"':
		return p.skipQuoted(c, false)
	case (c == 'e' || c == 'E') && strings.HasPrefix(rest[1:], "'"):
		p.pos++
		return p.skipQuoted('\'', true)
	case c == '$':
		return p.skipDollar()
	case isNameStart(c) || isDigit(c):
		p.pos++
		for p.pos < len(p.src) && (isNameStart(p.src[p.pos]) || isDigit(p.src[p.pos]) || p.src[p.pos] == '$') {
			p.pos++
		}
	default:
		p.pos++
	}
	return nil
}

func (p *parser) skipComment() error {
	start, depth := p.pos, 0
	for p.pos < len(p.src) {
		switch rest := p.src[p.pos:]; {
		case strings.HasPrefix(rest, "/*"):
			depth++
			p.pos += 2
		case strings.HasPrefix(rest, "*/"):
			depth--
			p.pos += 2
			if depth == 0 {
				return nil
			}
		default:
			p.pos++
		}
	}
	return p.errorAt(start, "the comment /* has no end", "*/")
}

func (p *parser) skipQuoted(quote byte, escapes bool) error {
	start := p.pos
	for p.pos++; p.pos < len(p.src); p.pos++ {
		switch c := p.src[p.pos]; {
		case c == 0:
			return p.errorAt(p.pos, "a zero byte", "text")
		case c == '\\' && escapes:
			p.pos++
		case c == quote: // a doubled quote opens again at once
			p.pos++
			return nil
		}
	}
	return p.errorAt(start, fmt.Sprintf("the quote %c has no end", quote), string(quote))
}

func (p *parser) skipDollar() error {
	start, rest := p.pos, p.src[p.pos:]
	n := 1
	if len(rest) > 1 && isNameStart(rest[1]) {
		n += nameLength(rest[1:])
	}
	if n >= len(rest) || rest[n] != '$' { // a parameter such as $1, or a lone sign
		p.pos++
		return nil
	}
	tag := rest[:n+1]
	end := strings.Index(rest[len(tag):], tag)
	if end < 0 {
		return p.errorAt(start, "the quote "+tag+" has no end", tag)
	}
	if strings.IndexByte(rest[:len(tag)+end], 0) >= 0 {
		return p.errorAt(start, "a zero byte in the quote "+tag, "text")
	}
	p.pos += 2*len(tag) + end
	return nil
}
