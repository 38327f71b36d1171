package upsert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// role is what a value column does when its key is there already.
type role int

const (
	replaces role = iota
	merges        // a jsonb object
	adds          // a number
	keeps         // replaced unless the new value is NULL
)

// merge appends the fields of one row that does what the rows of same do one
// after the other; false if only they themselves can tell.
func (p *plan) merge(dst []byte, b *batch, same []ref) ([]byte, bool) {
	rest := make([][]byte, len(same))
	for i, r := range same {
		rest[i] = b.fields(r.i)
	}
	cut := func() (values [][]byte) {
		values = make([][]byte, len(same))
		for i := range rest {
			values[i], _, rest[i] = cutField(rest[i])
		}
		return values
	}
	for range p.key {
		dst = appendOrNull(dst, cut()[0]) // whichever: equal keys; the first one inserts
	}
	for i := range p.values {
		values := cut()
		switch p.roles[i] {
		case replaces:
			dst = appendOrNull(dst, values[len(values)-1])
		case keeps:
			kept := lastSet(values)
			for _, v := range values {
				if v != nil && !p.values[i].valid(v) && !bytes.Equal(v, kept) {
					return dst, false // were it refused, so would be the row's documents
				}
			}
			dst = appendOrNull(dst, kept)
		case adds:
			var s sum
			for _, v := range values {
				if !s.add(v) {
					return dst, false
				}
			}
			dst = appendField(dst, s.append(nil))
		case merges:
			doc, ok := mergeDocs(values, p.fields)
			if !ok {
				return dst, false
			}
			if doc == nil {
				dst = appendNull(dst)
				break
			}
			dst = appendField(dst, doc)
		}
	}
	return dst, true
}

func appendOrNull(dst, v []byte) []byte {
	if v == nil {
		return appendNull(dst)
	}
	return appendField(dst, v)
}

func lastSet(values [][]byte) []byte {
	for i := len(values) - 1; i >= 0; i-- {
		if values[i] != nil {
			return values[i]
		}
	}
	return nil
}

// valid says for certain that the server reads a value's text.
func (c *column) valid(text []byte) bool {
	if c.schema == "pg_catalog" && c.base == "text" {
		return utf8.Valid(text) && bytes.IndexByte(text, 0) < 0
	}
	k := keyCodec(c.Column)
	if !k.own || c.base == "bytea" {
		return false
	}
	_, ok := k.wire(nil, text, c)
	return ok
}

// mergeDocs merges jsonb objects (with the version byte before them) from left
// to right, with the named fields added up; nil if all are NULL.
func mergeDocs(docs [][]byte, addFields []string) ([]byte, bool) {
	var names [][]byte // as written
	var last [][]byte
	at := map[string]int{}
	sums := make([]sum, len(addFields))
	any := false
	for _, d := range docs {
		if d == nil {
			continue
		}
		any = true
		if !plainJSON(d[1:]) {
			return nil, false
		}
		own := make([][]byte, len(addFields)) // a name twice in one document: the last counts
		members(d[1:], func(raw, value []byte) {
			name := string(unquote(raw))
			for i, f := range addFields {
				if f == name {
					own[i] = value
				}
			}
			i, known := at[name]
			if !known {
				i = len(names)
				at[name] = i
				names, last = append(names, raw), append(last, nil)
			}
			last[i] = value
		})
		for i, v := range own {
			if v != nil && !sums[i].add(v) {
				return nil, false
			}
		}
	}
	if !any {
		return nil, true
	}
	for i, f := range addFields {
		if j, known := at[f]; known {
			last[j] = sums[i].append(nil)
		}
	}
	out := []byte{1, '{'}
	for i := range names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, names[i]...), ':'), last[i]...)
	}
	return append(out, '}'), true
}

// plainJSON says for certain that the text is a JSON object that jsonb takes:
// no \u0000, no half of a surrogate pair, valid UTF-8, no number of
// extraordinary size.
func plainJSON(doc []byte) bool {
	if !isObject(doc) || !json.Valid(doc) || !utf8.Valid(doc) {
		return false
	}
	for s := doc; ; {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			break
		}
		if s[i+1] != 'u' {
			s = s[i+2:]
			continue
		}
		hex := string(bytes.ToLower(s[i+2 : i+6]))
		s = s[i+6:]
		switch {
		case hex == "0000", hex >= "dc00" && hex < "e000":
			return false
		case hex >= "d800" && hex < "dc00":
			if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
				return false
			}
			if low := string(bytes.ToLower(s[2:6])); low < "dc00" || low >= "e000" {
				return false
			}
			s = s[6:]
		}
	}
	return modest(doc)
}

// modest says that no number in a valid document has over 1,000 digits or an
// exponent of over 3: what is beyond that is left to the server.
func modest(doc []byte) bool {
	text, run, exp := false, 0, -1
	for i := 0; i < len(doc); i++ {
		b := doc[i]
		if text {
			if b == '\\' {
				i++
			} else if b == '"' {
				text = false
			}
			continue
		}
		switch {
		case b >= '0' && b <= '9' || b == '.':
			run++
			if exp >= 0 {
				exp++
			}
		case (b == 'e' || b == 'E') && run > 0:
			exp = 0
		case b == '+' || b == '-':
		default:
			text, run, exp = b == '"', 0, -1
		}
		if run > 1000 || exp > 3 {
			return false
		}
	}
	return true
}

func isObject(doc []byte) bool {
	doc = bytes.TrimLeft(doc, " \t\r\n")
	return len(doc) > 0 && doc[0] == '{'
}

// members calls f for each member of a valid JSON object: the name as written,
// quotes included, and the value as written.
func members(doc []byte, f func(name, value []byte)) {
	i := bytes.IndexByte(doc, '{') + 1
	for {
		i = skipSpace(doc, i)
		if i >= len(doc) || doc[i] == '}' {
			return
		}
		if doc[i] == ',' {
			i++
			continue
		}
		name := i
		i = skipValue(doc, i)
		end := i
		i = skipSpace(doc, skipSpace(doc, i)+1) // the colon
		value := i
		i = skipValue(doc, i)
		f(doc[name:end], doc[value:i])
	}
}

func skipSpace(doc []byte, i int) int {
	for i < len(doc) && (doc[i] == ' ' || doc[i] == '\t' || doc[i] == '\r' || doc[i] == '\n') {
		i++
	}
	return i
}

// skipValue returns the end of the value that begins at i.
func skipValue(doc []byte, i int) int {
	depth := 0
	for ; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			for i++; i < len(doc) && doc[i] != '"'; i++ {
				if doc[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return min(i+1, len(doc))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return len(doc)
}

// unquote is the text of a JSON string.
func unquote(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return raw
	}
	return []byte(s)
}

// withFields checks that the fields to be added up are numbers in a document,
// and puts in those that are missing as 0: what is counted is there.
func withFields(doc []byte, fields []string) ([]byte, error) {
	if !isObject(doc) || !json.Valid(doc) {
		return nil, fmt.Errorf("the document is not a JSON object")
	}
	have := make([][]byte, len(fields))
	empty := true
	members(doc, func(raw, value []byte) {
		empty = false
		name := string(unquote(raw))
		for i, f := range fields {
			if f == name {
				have[i] = value
			}
		}
	})
	out := doc
	for i, f := range fields {
		switch {
		case have[i] != nil && (have[i][0] == '-' || have[i][0] >= '0' && have[i][0] <= '9'):
			if _, ok := parseDigits(have[i]); !ok {
				return nil, fmt.Errorf("field %q is out of range", f)
			}
		case have[i] != nil && string(have[i]) != "null":
			return nil, fmt.Errorf("field %q is not a number", f)
		default: // the last of two members with one name counts
			name, err := json.Marshal(f)
			if err != nil {
				return nil, fmt.Errorf("field %q: %w", f, err)
			}
			out = append([]byte{}, bytes.TrimRight(out, " \t\r\n")...)
			out = out[:len(out)-1]
			if !empty {
				out = append(out, ',')
			}
			out = append(append(append(out, name...), ':'), "0}"...)
			empty = false
		}
	}
	return out, nil
}
