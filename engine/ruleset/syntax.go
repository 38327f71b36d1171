package ruleset

import (
	"fmt"
	"strings"
)

// SyntaxError says where a dump cannot be read, and why.
type SyntaxError struct {
	Source       string
	Line, Column int // from 1; Column counts bytes
	Reason       string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("read %s: line %d, column %d: %s", e.Source, e.Line, e.Column, e.Reason)
}

// word is one word of a line of iptables-save or ipset save.
type word struct {
	text   string
	col    int // from 1
	quoted bool
}

// option says whether w can begin an option.
func (w word) option() bool { return !w.quoted && len(w.text) > 1 && w.text[0] == '-' }

func (w word) not() bool { return !w.quoted && w.text == "!" }

// split cuts a line into words. Words in double or single quotes may hold
// spaces; a backslash takes the next character as it is. bad is the column of a
// quote that does not end, else 0.
func split(line string) (words []word, bad int) {
	words = make([]word, 0, 20)
	for i := 0; i < len(line); {
		switch line[i] {
		case ' ', '\t', '\r':
			i++
		case '"', '\'':
			text, end := quoted(line, i)
			if end < 0 {
				return nil, i + 1
			}
			words = append(words, word{text, i + 1, true})
			i = end
		default:
			end := i
			for end < len(line) && line[end] != ' ' && line[end] != '\t' && line[end] != '\r' {
				end++
			}
			words = append(words, word{line[i:end], i + 1, false})
			i = end
		}
	}
	return words, 0
}

// quoted reads the text in the quotes that begin at i; end is behind them, or
// negative if they do not close.
func quoted(line string, i int) (text string, end int) {
	mark := line[i]
	var b strings.Builder
	for i++; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && i+1 < len(line):
			i++
			b.WriteByte(line[i])
		case c == mark:
			return b.String(), i + 1
		default:
			b.WriteByte(c)
		}
	}
	return "", -1
}

// quote writes a word so that split and iptables-restore read it as one.
func quote(s string) string {
	plain := s != ""
	for i := range len(s) {
		c := s[i]
		plain = plain && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_-.,:/+@%=*", c) >= 0)
	}
	if plain {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// again writes words as they can be read again.
func again(words []word) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		switch {
		case w.quoted:
			b.WriteString(`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(w.text) + `"`)
		default:
			b.WriteString(w.text)
		}
	}
	return b.String()
}
