package change

import (
	"fmt"
	"sort"
	"strings"

	"headroom/fail"
)

// Spec is a change as a person writes it: ID [OBJECT] name=value…, for
// example `postgres.setting max_wal_size=10GB` or
// `disk.queue vda read_ahead_kb=4096`.
type Spec struct {
	ID     string            `json:"id"`
	Object string            `json:"object,omitempty"`
	Args   map[string]string `json:"args,omitempty"`
}

// ParseSpec reads words (each its own, as the shell splits them, or one that
// holds all). The error names the word that is not understood.
func ParseSpec(words ...string) (Spec, error) {
	if len(words) == 1 {
		var err error
		if words, err = splitWords(words[0]); err != nil {
			return Spec{}, fail.With(err, fail.Usage)
		}
	}
	s := Spec{Args: map[string]string{}}
	for i, w := range words {
		name, value, isArg := strings.Cut(w, "=")
		switch {
		case i == 0 && !isArg && strings.Contains(w, "."):
			s.ID = w
		case i == 0:
			return Spec{}, usage(words, fmt.Sprintf("%q is not a change id", w))
		case isArg && name == "":
			return Spec{}, usage(words, fmt.Sprintf("%q has no name before =", w))
		case isArg:
			if _, twice := s.Args[name]; twice {
				return Spec{}, usage(words, fmt.Sprintf("%s is given twice", name))
			}
			s.Args[name] = value
		case s.Object == "" && len(s.Args) == 0:
			s.Object = w
		default:
			return Spec{}, usage(words, fmt.Sprintf("%q is not name=value", w))
		}
	}
	if s.ID == "" {
		return Spec{}, usage(words, "no change named")
	}
	return s, nil
}

func usage(words []string, why string) error {
	return fail.With(fail.Hint(fmt.Errorf("read change %q: %s", strings.Join(words, " "), why),
		"write it as: ID [OBJECT] name=value…, e.g. postgres.setting max_wal_size=10GB"), fail.Usage)
}

// splitWords splits at blanks outside of single or double quotes.
func splitWords(s string) ([]string, error) {
	var out []string
	var cur strings.Builder
	var quote rune
	in := false
	for _, r := range s {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			cur.WriteRune(r)
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if in {
				out = append(out, cur.String())
				cur.Reset()
				in = false
			}
		default:
			cur.WriteRune(r)
			in = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("read change %q: a quote is not closed", s)
	}
	if in {
		out = append(out, cur.String())
	}
	return out, nil
}

// String writes the spec so that ParseSpec reads the same again, arguments
// sorted by name.
func (s Spec) String() string {
	var b strings.Builder
	b.WriteString(s.ID)
	if s.Object != "" {
		b.WriteString(" " + quoteWord(s.Object))
	}
	names := make([]string, 0, len(s.Args))
	for n := range s.Args {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		b.WriteString(" " + n + "=" + quoteWord(s.Args[n]))
	}
	return b.String()
}

func quoteWord(w string) string {
	if w != "" && !strings.ContainsAny(w, " \t\n'\"$`\\!*?[](){}<>|&;#~") {
		return w
	}
	if !strings.Contains(w, "'") {
		return "'" + w + "'"
	}
	return `"` + w + `"`
}
