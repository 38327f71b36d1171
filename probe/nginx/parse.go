package nginx

import (
	"fmt"
	"path"
	"strings"

	"headroom/host"
)

// Directive is one line of the configuration, with what its braces hold.
type Directive struct {
	Name  string
	Args  []string
	Block []Directive
}

// Limits of a configuration; real ones stay far below.
const (
	maxFiles = 2000
	maxDepth = 32
	maxBytes = 16 << 20
)

// reader reads a configuration with all its includes.
type reader struct {
	r     host.Reader
	root  string // includes count from here
	files int
	bytes int
}

// Read reads a configuration file and what it includes.
func Read(r host.Reader, file string) ([]Directive, error) {
	rd := &reader{r: r, root: path.Dir(file)}
	return rd.file(file, 0)
}

func (rd *reader) file(name string, depth int) ([]Directive, error) {
	b, err := rd.r.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if rd.files++; rd.files > maxFiles || rd.bytes+len(b) > maxBytes || depth > maxDepth {
		return nil, fmt.Errorf("read %s: the configuration is larger than any real one (a loop of includes?)", name)
	}
	rd.bytes += len(b)
	p := &parser{words: cut(string(b))}
	ds, err := p.block(0)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return rd.include(ds, depth)
}

// include puts included files in the place of their directive. A file that may
// not be read is an error: it may hold what we look for.
func (rd *reader) include(ds []Directive, depth int) ([]Directive, error) {
	out := make([]Directive, 0, len(ds))
	for _, d := range ds {
		if d.Name != "include" || len(d.Args) != 1 {
			var err error
			if d.Block, err = rd.include(d.Block, depth); err != nil {
				return nil, err
			}
			out = append(out, d)
			continue
		}
		pattern := d.Args[0]
		if !path.IsAbs(pattern) {
			pattern = path.Join(rd.root, pattern)
		}
		files, err := rd.r.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			more, err := rd.file(f, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
	}
	return out, nil
}

// word is a token; bare ones may be ; { or }.
type word struct {
	text   string
	quoted bool
}

// cut makes words of a text: blanks part them, quotes keep them together, #
// begins a comment where a word would begin.
func cut(s string) []word {
	var out []word
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			i++
		case c == '#':
			if n := strings.IndexByte(s[i:], '\n'); n >= 0 {
				i += n
			} else {
				i = len(s)
			}
		case c == ';' || c == '{' || c == '}':
			out = append(out, word{text: s[i : i+1]})
			i++
		case c == '"' || c == '\'':
			text, n := inQuotes(s[i+1:], c)
			out = append(out, word{text, true})
			i += 1 + n
		default:
			n := bare(s[i:])
			out = append(out, word{text: s[i : i+n]})
			i += n
		}
	}
	return out
}

// inQuotes reads up to the closing quote; n counts what it read, that quote
// included. A backslash keeps the quote and itself from meaning anything.
func inQuotes(s string, quote byte) (text string, n int) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == quote:
			return b.String(), i + 1
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == quote || s[i+1] == '\\'):
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), len(s)
}

// bare is the length of a word without quotes; ${name} may be in it.
func bare(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '$':
			if i+1 < len(s) && s[i+1] == '{' {
				if n := strings.IndexByte(s[i:], '}'); n >= 0 {
					i += n
				}
			}
		case ' ', '\t', '\r', '\n', ';', '{', '}':
			return i
		}
	}
	return len(s)
}

type parser struct {
	words []word
	at    int
}

// block reads directives up to the brace that closes it, or the end.
func (p *parser) block(depth int) ([]Directive, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("braces are nested more than %d deep", maxDepth)
	}
	var out []Directive
	var now []string
	for p.at < len(p.words) {
		w := p.words[p.at]
		p.at++
		switch {
		case w.quoted || w.text != ";" && w.text != "{" && w.text != "}":
			now = append(now, w.text)
		case w.text == "}" && depth > 0 && len(now) == 0:
			return out, nil
		case w.text == "}" || len(now) == 0:
			return nil, fmt.Errorf("unexpected %q after %d directives", w.text, len(out))
		default:
			d := Directive{Name: now[0], Args: now[1:]}
			now = nil
			if w.text == "{" {
				var err error
				if d.Block, err = p.block(depth + 1); err != nil {
					return nil, err
				}
			}
			out = append(out, d)
		}
	}
	if depth > 0 || len(now) > 0 {
		return nil, fmt.Errorf("it ends within a directive or block")
	}
	return out, nil
}
