package metric

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of one series. What is over them is refused, with the reason.
const (
	MaxName   = 200     // bytes of a metric's name
	MaxLabels = 32      // labels of a series
	MaxValue  = 1 << 10 // bytes of a label's value
	MaxKey    = 4 << 10 // bytes of a series' whole key
)

// Label is a name and its value.
type Label struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Series is one metric of one thing: a name and labels, sorted by name, none
// twice, none empty. Make it with NewSeries or ParseSeries; it never changes
// after that and may be shared.
type Series struct {
	Name   string
	Labels []Label
	key    string
	id     int64
}

// NewSeries checks and sorts. Labels with an empty value are left out, as
// Prometheus does.
func NewSeries(name string, labels []Label) (*Series, error) {
	return newSeries(name, labels, "")
}

// newSeries makes a series; text, if it is the key, is used as that, so that
// both take the room of one.
func newSeries(name string, labels []Label, text string) (*Series, error) {
	if name == "" || len(name) > MaxName || !validName(name) {
		return nil, fmt.Errorf("metric name %.60q: want up to %d of a-z A-Z 0-9 _ :, not a digit first", name, MaxName)
	}
	ls := slices.DeleteFunc(slices.Clone(labels), func(l Label) bool { return l.Value == "" })
	if len(ls) > MaxLabels {
		return nil, fmt.Errorf("metric %s: %d labels, at most %d are taken", name, len(ls), MaxLabels)
	}
	slices.SortFunc(ls, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	for i, l := range ls {
		switch {
		case !labelForm.MatchString(l.Name) || l.Name == "__name__":
			return nil, fmt.Errorf("metric %s: label name %.60q: want a-z A-Z 0-9 _, not a digit first", name, l.Name)
		case i > 0 && ls[i-1].Name == l.Name:
			return nil, fmt.Errorf("metric %s: label %s is given twice", name, l.Name)
		case len(l.Value) > MaxValue:
			return nil, fmt.Errorf("metric %s: label %s has %d bytes, at most %d are taken", name, l.Name, len(l.Value), MaxValue)
		case !utf8.ValidString(l.Value) || strings.ContainsRune(l.Value, 0):
			return nil, fmt.Errorf("metric %s: label %s is not UTF-8 text without NUL", name, l.Name)
		}
	}
	s := &Series{Name: name, Labels: ls}
	var room [512]byte
	if key := appendKey(room[:0], name, ls); string(key) == text {
		s.key = text
	} else {
		s.key = string(key)
	}
	if len(s.key) > MaxKey {
		return nil, fmt.Errorf("metric %s: name and labels have %d bytes, at most %d are taken", name, len(s.key), MaxKey)
	}
	sum := sha256.Sum256([]byte(s.key))
	s.id = int64(binary.BigEndian.Uint64(sum[:8]) >> 1)
	return s, nil
}

// Key is the series as Prometheus writes it, name{a="x",b="y"}; two series are
// the same if their keys are.
func (s *Series) Key() string { return s.key }

// ID is the first 63 bits of the key's SHA-256: the same on every machine, so
// that no number has to be asked for and rows can be dealt out over servers by
// it. That two keys share one is left to who stores them to notice.
func (s *Series) ID() int64 { return s.id }

// Get returns a label's value, "" where it is missing; "__name__" is the name.
func (s *Series) Get(label string) string {
	if label == "__name__" {
		return s.Name
	}
	for _, l := range s.Labels {
		if l.Name == label {
			return l.Value
		}
	}
	return ""
}

func (s *Series) String() string { return s.key }

func validName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == ':'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func appendKey(b []byte, name string, ls []Label) []byte {
	b = append(b, name...)
	for i, l := range ls {
		b = append(b, "{,"[min(i, 1)])
		b = append(b, l.Name...)
		b = append(b, `="`...)
		b = appendEscaped(b, l.Value)
		b = append(b, '"')
	}
	if len(ls) > 0 {
		b = append(b, '}')
	}
	return b
}

func appendEscaped(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\', '"':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		default:
			b = append(b, c)
		}
	}
	return b
}

// ParseSeries reads what Key writes, and what Prometheus' text format writes:
// blanks around names and a comma at the end are taken.
func ParseSeries(text string) (*Series, error) {
	if len(text) > 2*MaxKey {
		return nil, fmt.Errorf("series: %d bytes, at most %d are taken", len(text), MaxKey)
	}
	name, rest, found := strings.Cut(text, "{")
	name = strings.TrimSpace(name)
	if !found {
		return newSeries(name, nil, text)
	}
	var room [8]Label
	ls := room[:0]
	for {
		rest = strings.TrimLeft(rest, " \t")
		if tail, ok := strings.CutPrefix(rest, "}"); ok {
			if strings.TrimSpace(tail) != "" {
				return nil, fmt.Errorf("series %.60q: text after the closing brace", text)
			}
			return newSeries(name, ls, text)
		}
		label, tail, ok := strings.Cut(rest, "=")
		if !ok {
			return nil, fmt.Errorf("series %.60q: label without =", text)
		}
		value, tail, err := quoted(strings.TrimLeft(tail, " \t"))
		if err != nil {
			return nil, fmt.Errorf("series %.60q: label %.60s: %w", text, label, err)
		}
		if ls = append(ls, Label{strings.TrimSpace(label), value}); len(ls) > 4*MaxLabels {
			return nil, fmt.Errorf("series %.60q: more than %d labels", text, MaxLabels)
		}
		rest = strings.TrimLeft(tail, " \t")
		if tail, ok := strings.CutPrefix(rest, ","); ok {
			rest = tail
		} else if !strings.HasPrefix(rest, "}") {
			return nil, fmt.Errorf("series %.60q: want , or } after label %.60s", text, label)
		}
	}
}

// quoted reads a quoted value and returns what follows it.
func quoted(s string) (value, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", fmt.Errorf("value is not in double quotes")
	}
	if end := strings.IndexAny(s[1:], `"\`) + 1; end > 0 && s[end] == '"' {
		return s[1:end], s[end+1:], nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], nil
		case c != '\\':
			b.WriteByte(c)
		case i+1 == len(s):
			return "", "", fmt.Errorf("value ends within an escape")
		default:
			i++
			if s[i] == 'n' {
				b.WriteByte('\n')
			} else if s[i] == '"' || s[i] == '\\' {
				b.WriteByte(s[i])
			} else {
				return "", "", fmt.Errorf(`unknown escape \%c`, s[i])
			}
		}
	}
	return "", "", fmt.Errorf("value has no closing quote")
}
