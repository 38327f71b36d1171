package api

import (
	"net/http"
	"net/url"
	"strings"

	"headroom/store"
)

// Bounds of selectors in one request.
const (
	maxSelectors = 16
	maxSelector  = 4 << 10 // bytes
	maxMatches   = 32
)

// parseSelector reads name{label="value",other=~"pattern"}: the name, the
// braces, or both. Values stand in double quotes with the escapes \\ \" \n, or
// in backquotes as they are.
func parseSelector(text string) ([]store.Match, error) {
	bad := func(why string) ([]store.Match, error) {
		return nil, refuse(http.StatusBadRequest, "write it as name{label=\"value\",label=~`pattern`}", "read match %.80q: %s", text, why)
	}
	if len(text) > maxSelector {
		return bad("too long")
	}
	name, rest, braces := strings.Cut(strings.TrimSpace(text), "{")
	var out []store.Match
	if name = strings.TrimSpace(name); name != "" {
		if !wordIs(name, true) {
			return bad("not a metric's name")
		}
		out = append(out, store.Match{Label: "__name__", Op: "=", Value: name})
	}
	for braces {
		rest = strings.TrimLeft(rest, " \t")
		if tail, ok := strings.CutPrefix(rest, "}"); ok {
			if strings.TrimSpace(tail) != "" {
				return bad("text after the closing brace")
			}
			break
		}
		m, tail, why := parseMatch(rest)
		if why != "" {
			return bad(why)
		}
		if out = append(out, m); len(out) > maxMatches {
			return bad("too many conditions")
		}
		rest = strings.TrimLeft(tail, " \t")
		if tail, ok := strings.CutPrefix(rest, ","); ok {
			rest = tail
		} else if !strings.HasPrefix(rest, "}") {
			return bad("want , or } after a condition")
		}
	}
	if len(out) == 0 {
		return bad("it names nothing")
	}
	return out, nil
}

// parseMatch reads one condition and returns what follows it.
func parseMatch(s string) (m store.Match, rest, why string) {
	i := strings.IndexAny(s, "=!")
	if i < 0 {
		return m, "", "a condition has no = != =~ !~"
	}
	m.Label = strings.TrimSpace(s[:i])
	if !wordIs(m.Label, false) {
		return m, "", "not a label's name before the operator"
	}
	for _, op := range []string{"=~", "!~", "!=", "="} {
		if strings.HasPrefix(s[i:], op) {
			m.Op = op
			break
		}
	}
	if m.Op == "" {
		return m, "", "a condition has no = != =~ !~"
	}
	s = strings.TrimLeft(s[i+len(m.Op):], " \t")
	if raw, ok := strings.CutPrefix(s, "`"); ok {
		value, rest, closed := strings.Cut(raw, "`")
		if !closed {
			return m, "", "no closing backquote"
		}
		m.Value = value
		return m, rest, ""
	}
	m.Value, rest, why = unquote(s)
	return m, rest, why
}

func unquote(s string) (value, rest, why string) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", "a value is not in quotes"
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], ""
		case c != '\\':
			b.WriteByte(c)
		case i+1 < len(s) && s[i+1] == 'n':
			b.WriteByte('\n')
			i++
		case i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			b.WriteByte(s[i+1])
			i++
		default:
			return "", "", `unknown escape; write \\ for a backslash, or the value in backquotes`
		}
	}
	return "", "", "no closing quote"
}

// wordIs says whether s is a metric's name (colons allowed) or a label's.
func wordIs(s string, metric bool) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || metric && c == ':'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// selectors reads every match parameter.
func selectors(q url.Values, atLeast int) ([][]store.Match, error) {
	texts := q["match"]
	if len(texts) < atLeast {
		return nil, refuse(http.StatusBadRequest, `e.g. ?match=host_cpu_seconds_total{host="web1"}`, "parameter match is missing")
	}
	if len(texts) > maxSelectors {
		return nil, refuse(http.StatusBadRequest, "", "%d match parameters, at most %d are taken", len(texts), maxSelectors)
	}
	var out [][]store.Match
	for _, t := range texts {
		m, err := parseSelector(t)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}
