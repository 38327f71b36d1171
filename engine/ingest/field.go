package ingest

import (
	"errors"
	"fmt"
	"strings"

	"headroom/fail"
)

// Field is a column of the table and where its value comes from.
type Field struct {
	Name string // of the column
	Type string // for --create; "": guessed
	From string // path in a JSON record, or name of an input column; "": Name
}

// ParseFields reads what --key and --columns take: columns with commas
// between, each NAME [TYPE] [=PATH]; names with other characters than letters,
// digits and _ stand in double quotes. The error is a usage error.
func ParseFields(flag, s string) ([]Field, error) {
	var out []Field
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	for _, part := range splitOutside(s, ',') {
		f, err := parseField(part)
		if err != nil {
			return nil, fail.With(fail.Hint(fmt.Errorf("read %s %q: %w", flag, s, err), "write it like: %s 'id bigint, ts=meta.time'", flag), fail.Usage)
		}
		out = append(out, f)
	}
	return out, nil
}

func parseField(s string) (f Field, err error) {
	s = strings.TrimSpace(s)
	if parts := splitOutside(s, '='); len(parts) > 1 {
		f.From = strings.TrimSpace(strings.Join(parts[1:], "="))
		if f.From == "" {
			return f, errors.New("nothing behind =")
		}
		s = strings.TrimSpace(parts[0])
	}
	if strings.HasPrefix(s, `"`) {
		var rest string
		if f.Name, rest, err = unquoteName(s); err != nil {
			return f, err
		}
		f.Type = strings.TrimSpace(rest)
	} else {
		f.Name, f.Type, _ = strings.Cut(s, " ")
		f.Type = strings.TrimSpace(f.Type)
	}
	if f.Name == "" {
		return f, errors.New("a column has no name")
	}
	return f, nil
}

// unquoteName reads a quoted name at the beginning of s.
func unquoteName(s string) (name, rest string, err error) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] != '"':
			b.WriteByte(s[i])
		case i+1 < len(s) && s[i+1] == '"':
			b.WriteByte('"')
			i++
		default:
			return b.String(), s[i+1:], nil
		}
	}
	return "", "", errors.New("a quote is not closed")
}

// splitOutside splits s at sep where that stands outside quotes and
// parentheses.
func splitOutside(s string, sep byte) (out []string) {
	quoted, depth, from := false, 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == sep && depth <= 0:
			out = append(out, s[from:i])
			from = i + 1
		}
	}
	return append(out, s[from:])
}

// parseTable reads a table's name as a statement does: bare names are in
// lower case.
func parseTable(s string) (schema, name string, err error) {
	var parts []string
	for _, p := range splitOutside(strings.TrimSpace(s), '.') {
		if strings.HasPrefix(p, `"`) {
			n, rest, err := unquoteName(p)
			if err != nil || rest != "" || n == "" {
				return "", "", nameError(s)
			}
			parts = append(parts, n)
			continue
		}
		if p == "" || strings.ContainsAny(p, " \t\n\"'();,") {
			return "", "", nameError(s)
		}
		parts = append(parts, strings.ToLower(p))
	}
	switch len(parts) {
	case 1:
		return "", parts[0], nil
	case 2:
		return parts[0], parts[1], nil
	}
	return "", "", nameError(s)
}

func nameError(s string) error {
	return fail.With(fail.Hint(fmt.Errorf("read table name %q: not a name", s), `write it as in a statement: readings, app.readings or "My Schema"."My Table"`), fail.Usage)
}
