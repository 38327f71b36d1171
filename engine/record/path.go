package record

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"headroom/fail"
)

// ValueKind is the kind of value that a path leads to.
type ValueKind int

// The kinds of JSON values. Missing is not Null: there is no such member.
const (
	Missing ValueKind = iota
	Null
	Bool
	Number
	String
	Object
	Array
)

// String is the kind as a sentence has it.
func (k ValueKind) String() string {
	return [...]string{"missing", "null", "true or false", "a number", "a text", "an object", "a list"}[k]
}

// Path leads to a value inside a JSON document: names of members and places
// in lists.
type Path struct {
	text  string
	steps []step
}

type step struct {
	name  string
	index int // -1: by name
}

// String is the path as it was written.
func (p Path) String() string { return p.text }

// ParsePath reads a path: names with dots between, in double quotes where
// they hold other characters than letters, digits, - and _ (a quote inside is
// doubled), and places in lists from 0: id, meta.id, meta."a.b", tags[0]. The
// error is a usage error.
func ParsePath(s string) (Path, error) {
	p := Path{text: s}
	bad := func(why string) (Path, error) {
		return Path{}, fail.With(fail.Hint(fmt.Errorf("read path %q: %s", s, why), `write it like id, meta.id, meta."a.b" or tags[0]`), fail.Usage)
	}
	rest := s
	for first := true; first || rest != ""; first = false {
		if rest != "" && rest[0] == '[' {
			digits, after, ok := strings.Cut(rest[1:], "]")
			n, err := strconv.ParseUint(digits, 10, 31)
			if !ok || err != nil {
				return bad("[ without a place in a list")
			}
			p.steps, rest = append(p.steps, step{index: int(n)}), after
			continue
		}
		if !first {
			if rest[0] != '.' {
				return bad("a dot or [ should follow a name")
			}
			rest = rest[1:]
		}
		name, after, why := pathName(rest)
		if why != "" {
			return bad(why)
		}
		p.steps, rest = append(p.steps, step{name: name, index: -1}), after
	}
	return p, nil
}

func pathName(s string) (name, rest, why string) {
	if !strings.HasPrefix(s, `"`) {
		n := 0
		for n < len(s) {
			c := s[n]
			if !(c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c >= 0x80) {
				break
			}
			n++
		}
		if n == 0 {
			return "", "", "a name is missing"
		}
		return s[:n], s[n:], ""
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] != '"' {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == '"' {
			b.WriteByte('"')
			i++
			continue
		}
		return b.String(), s[i+1:], ""
	}
	return "", "", "a quote is not closed"
}

// PathOf is the path to one member of the document itself, whatever its name.
func PathOf(name string) Path {
	return Path{text: `"` + strings.ReplaceAll(name, `"`, `""`) + `"`, steps: []step{{name: name, index: -1}}}
}

// Get returns the text of the value that the path leads to: strings
// unescaped, numbers and true or false as written, objects and lists as
// written. Of equal names in an object the last counts, as for jsonb. Null
// and Missing have no text. The text may be part of doc. The error is a
// *JSONError: the document is not JSON as far as it was read.
func (p Path) Get(doc []byte) (text []byte, kind ValueKind, err error) {
	v, err := p.follow(doc)
	if v == nil || err != nil {
		return nil, Missing, err
	}
	return textOf(v)
}

// Raw is Get for what is to stay JSON: the value as written, null as well.
func (p Path) Raw(doc []byte) (text []byte, kind ValueKind, err error) {
	v, err := p.follow(doc)
	if v == nil || err != nil {
		return nil, Missing, err
	}
	_, kind, err = textOf(v)
	return v, kind, err
}

// follow returns the value as written, nil if there is none.
func (p Path) follow(doc []byte) ([]byte, error) {
	at, base := doc, 0
	for _, st := range p.steps {
		s := scanner{b: at}
		s.space()
		from, to, err := s.find(st)
		if e, ok := err.(*JSONError); ok {
			e.Offset += base
		}
		if from < 0 || err != nil {
			return nil, err
		}
		at, base = at[from:to], base+from
	}
	return bytes.Trim(at, " \t\r\n"), nil
}

// find returns where the value of a step lies in the container that s stands
// at; below 0 if there is none.
func (s *scanner) find(st step) (from, to int, err error) {
	from, to = -1, -1
	c := s.peek()
	if c != '{' && c != '[' || (c == '{') != (st.index < 0) {
		return -1, -1, s.value()
	}
	s.i++
	s.space()
	if s.peek() == c+2 {
		return -1, -1, nil
	}
	for n := 0; ; n++ {
		s.space()
		hit := n == st.index
		if c == '{' {
			at := s.i
			if err := s.key(); err != nil {
				return -1, -1, err
			}
			hit = isKey(s.b[at:s.i], st.name)
		}
		s.space()
		at := s.i
		if err := s.value(); err != nil {
			return -1, -1, err
		}
		if hit {
			from, to = at, s.i
		}
		s.space()
		switch s.peek() {
		case ',':
			s.i++
		case c + 2:
			return from, to, nil
		default:
			return -1, -1, s.unexpected("a comma or the end")
		}
	}
}

// isKey says whether a key as written, with what follows it up to the colon,
// means name.
func isKey(written []byte, name string) bool {
	if bytes.IndexByte(written, '\\') < 0 {
		return len(written) >= len(name)+2 && written[len(name)+1] == '"' && string(written[1:len(name)+1]) == name && bytes.IndexByte(written[1:], '"') == len(name)
	}
	end := bytes.LastIndexByte(written, '"')
	return string(unquote(written[1:end])) == name
}

// textOf reads one whole value.
func textOf(v []byte) ([]byte, ValueKind, error) {
	if len(v) == 0 {
		return nil, Missing, &JSONError{0, "not JSON: nothing"}
	}
	switch v[0] {
	case '{':
		return v, Object, nil
	case '[':
		return v, Array, nil
	case '"':
		if len(v) < 2 {
			return nil, Missing, &JSONError{0, "not JSON: it ends inside a string"}
		}
		in := v[1 : len(v)-1]
		if bytes.IndexByte(in, '\\') < 0 {
			return in, String, nil
		}
		return unquote(in), String, nil
	case 't', 'f':
		return v, Bool, nil
	case 'n':
		return nil, Null, nil
	}
	return v, Number, nil
}

// unquote unescapes the inside of a string that the scanner has passed.
func unquote(in []byte) []byte {
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); i++ {
		if in[i] != '\\' || i+1 >= len(in) {
			out = append(out, in[i])
			continue
		}
		i++
		switch in[i] {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := rune(hex4(in[i+1:]))
			i += 4
			if r >= 0xd800 && r < 0xdc00 && i+6 < len(in) {
				r = 0x10000 + (r-0xd800)<<10 + rune(hex4(in[i+3:])) - 0xdc00
				i += 6
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, in[i])
		}
	}
	return out
}
