package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"headroom/change"
	"headroom/check"
	"headroom/peer"
	"headroom/unit"
)

// findingsData is the page of findings.
type findingsData struct{ *view }

func (p *pages) findings(v *view) (string, bool, any) { return "findings", false, findingsData{v} }

// finding is one finding and where it was made.
type finding struct {
	check.Finding
	Server string
}

// ID names a finding on its page.
func (f finding) ID() string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '/' || r == '.' {
			return '-'
		}
		return r
	}, f.Check+"-"+f.Subject+"-"+f.Server)
}

// Cites is the evidence in words.
func (f finding) Cites() (out []cite) {
	for _, c := range f.Evidence {
		text := fmt.Sprint(c.Value)
		switch x := c.Value.(type) {
		case float64:
			text = unit.Format(x, c.Unit)
		case int64:
			text = unit.Format(float64(x), cmp.Or(c.Unit, unit.Count))
		case int:
			text = unit.Format(float64(x), cmp.Or(c.Unit, unit.Count))
		case uint64:
			text = unit.Format(float64(x), cmp.Or(c.Unit, unit.Count))
		}
		out = append(out, cite{c.Name, text, c.Source})
	}
	return out
}

type cite struct{ Name, Value, Source string }

// Command is what shows the fix on a command line.
func (f finding) Command(s change.Spec) string { return "headroom plan " + s.String() }

// Proof is the command that proves the fix.
func (f finding) Proof() string {
	if f.Try == nil {
		return ""
	}
	return "headroom try '" + strings.ReplaceAll(f.Try.Change.String(), "'", `'\''`) + "' --on " + f.Try.Workload
}

// inspections are the newest answers of the checks, as far as they are known.
func (v *view) inspections() []peer.Inspection {
	list, _, err := v.p.Parts.FindingsOf(v.Host)
	if err != nil {
		return nil // Health and WhyNone say so
	}
	return list
}

// Inspections are the newest answers of the checks.
func (d findingsData) Inspections() []peer.Inspection { return d.inspections() }

// Findings are all of them, the worst first.
func (v *view) Findings() (out []finding) {
	for _, i := range v.inspections() {
		for _, f := range i.Outcome.Findings {
			out = append(out, finding{f, i.Server})
		}
	}
	slices.SortStableFunc(out, func(a, b finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(b.Worth, a.Worth))
	})
	return out
}

// unanswered are questions with the same reason.
type unanswered struct {
	Because string
	Server  string
	Names   string
}

// Unanswered groups the questions that could not be answered by reason.
func (d findingsData) Unanswered() (out []unanswered) {
	names := map[[2]string][]string{}
	for _, i := range d.inspections() {
		for _, u := range i.Outcome.NotChecked {
			name := u.Check
			if u.Subject != "" {
				name += " (" + u.Subject + ")"
			}
			k := [2]string{i.Server, u.Because}
			names[k] = append(names[k], name)
		}
	}
	for k, n := range names {
		out = append(out, unanswered{k[1], k[0], strings.Join(n, ", ")})
	}
	slices.SortFunc(out, func(a, b unanswered) int {
		return cmp.Or(strings.Compare(a.Server, b.Server), strings.Compare(a.Because, b.Because))
	})
	return out
}

// Fine is how many questions were answered: fine.
func (d findingsData) Fine() (n int) {
	for _, i := range d.inspections() {
		n += len(i.Outcome.Fine)
	}
	return n
}
