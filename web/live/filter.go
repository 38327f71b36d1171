package live

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"headroom/fail"
	"headroom/metric"
	"headroom/store"
)

// Filter is compiled conditions on a series; the zero Filter takes all.
type Filter struct {
	text  string
	tests []test
}

type test struct {
	label string
	want  string
	re    *regexp.Regexp // nil: compare with want
	not   bool
}

// maxPattern bounds what a regular expression may cost.
const maxPattern = 1 << 10

// NewFilter compiles conditions, of which all must hold. Regular expressions
// are RE2 and anchored at both ends. The errors are of usage.
func NewFilter(ms []store.Match) (Filter, error) {
	f := Filter{}
	var names []string
	for _, m := range ms {
		t := test{label: m.Label, want: m.Value, not: strings.HasPrefix(m.Op, "!")}
		switch m.Op {
		case "=", "!=":
		case "=~", "!~":
			if len(m.Value) > maxPattern {
				return Filter{}, fail.With(fmt.Errorf("match %s: a pattern of %d bytes, at most %d are taken", m.Label, len(m.Value), maxPattern), fail.Usage)
			}
			re, err := regexp.Compile("^(?:" + m.Value + ")$")
			if err != nil {
				return Filter{}, fail.With(fmt.Errorf("match %s: %w", m.Label, err), fail.Usage)
			}
			t.re = re
		default:
			return Filter{}, fail.With(fmt.Errorf("match %s: no operator %q; there are = != =~ !~", m.Label, m.Op), fail.Usage)
		}
		f.tests = append(f.tests, t)
		names = append(names, fmt.Sprintf("%s%s%q", m.Label, m.Op, m.Value))
	}
	slices.Sort(names)
	f.text = strings.Join(slices.Compact(names), ",")
	return f, nil
}

// cheap says that no condition is a regular expression.
func (f Filter) cheap() bool {
	return !slices.ContainsFunc(f.tests, func(t test) bool { return t.re != nil })
}

// Takes says whether a series fulfils all conditions. A label that is missing
// is the empty text.
func (f Filter) Takes(s *metric.Series) bool {
	for _, t := range f.tests {
		v := s.Get(t.label)
		if (t.re == nil && v == t.want || t.re != nil && t.re.MatchString(v)) == t.not {
			return false
		}
	}
	return true
}
