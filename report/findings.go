package report

import (
	"fmt"
	"strings"
	"time"

	"headroom/check"
	"headroom/fact"
	"headroom/unit"
)

// findingsJSON is the saved form of findings.
type findingsJSON struct {
	head
	Host  string    `json:"host"`
	Taken time.Time `json:"taken"`
	check.Outcome
}

// Findings shows what the checks made of the facts in s: the verdict first,
// then each finding with evidence, fix and proof, then what could not be told.
func Findings(o check.Outcome, s *fact.Set) Section {
	sec := Section{title: "Findings", data: findingsJSON{
		head: head{"headroom-findings", schema, s.Version}, Host: s.Host, Taken: s.Taken, Outcome: o}}
	sec.blocks = append(sec.blocks, para{Tone: strong, Text: verdict(o)},
		para{Tone: dim, Text: fmt.Sprintf("%s, %s", orElse(s.Host, "unnamed host"), moment(s.Taken))})
	for _, f := range o.Findings {
		sec.blocks = append(sec.blocks, findingItem(f))
	}
	if len(o.Quieted) > 0 {
		sec.blocks = append(sec.blocks, quieted(o.Quieted))
	}
	if len(o.NotChecked) > 0 {
		sec.blocks = append(sec.blocks, notChecked(o.NotChecked))
	}
	sec.sheet = findingSheet(o)
	return sec
}

// verdict is the first line: how many of what, and what could not be told.
func verdict(o check.Outcome) string {
	counts := map[check.Severity]int{}
	for _, f := range o.Findings {
		counts[f.Severity]++
	}
	var kinds []string
	for s := check.Danger; s >= check.Note; s-- {
		if n := counts[s]; n > 0 {
			kinds = append(kinds, severityCount(n, s))
		}
	}
	found := "No findings"
	if len(o.Fine) == 0 && len(o.NotChecked) > 0 {
		found = "Nothing could be checked"
	}
	if len(kinds) > 0 {
		found = plural(len(o.Findings), "finding", "findings") + ": " + strings.Join(kinds, ", ")
	}
	unknown := map[string]bool{}
	for _, u := range o.NotChecked {
		unknown[u.Check] = true
	}
	return fmt.Sprintf("%s; %s fine, %d could not tell", found, plural(len(o.Fine), "check", "checks"), len(unknown))
}

func severityCount(n int, s check.Severity) string {
	if s == check.Advice {
		return fmt.Sprintf("%d advice", n)
	}
	return plural(n, s.String(), s.String()+"s")
}

var severityMarks = map[check.Severity]mark{
	check.Danger: markDanger, check.Warning: markWarning, check.Advice: markAdvice, check.Note: markNote,
}

func findingItem(f check.Finding) item {
	it := item{Mark: severityMarks[f.Severity], Word: f.Severity.String(), Title: f.Subject, Body: f.Summary}
	var seen []string
	for _, c := range f.Evidence {
		seen = append(seen, fmt.Sprintf("%s = %s (%s)", c.Name, citeValue(c), c.Source))
	}
	if len(seen) > 0 {
		it.Fields = append(it.Fields, field{Label: "evidence", Parts: seen})
	}
	if f.Hint != "" {
		it.Fields = append(it.Fields, field{Label: "hint", Text: f.Hint})
	}
	for i, c := range f.Fixes {
		label := "fix"
		if i > 0 {
			label = "or"
		}
		it.Fields = append(it.Fields, field{Label: label, Text: planCommand(c), Code: true})
	}
	if f.Try != nil {
		it.Fields = append(it.Fields, field{Label: "proof", Text: tryCommand(f.Try.Change, f.Try.Workload), Code: true})
	}
	it.Fields = append(it.Fields, field{Label: "basis", Text: fmt.Sprintf("%s (%s)", f.Basis, f.Check)})
	return it
}

// quieted names the findings that only follow from those shown.
func quieted(fs []check.Finding) list {
	l := list{Title: plural(len(fs), "consequence", "consequences") + " of the above, not shown"}
	for _, f := range fs {
		l.Entries = append(l.Entries, entry{Text: f.Subject + ": " + f.Summary, More: f.Check})
	}
	return l
}

// notChecked groups the unanswered questions by reason.
func notChecked(us []check.Unchecked) list {
	var r reasons
	for _, u := range us {
		name := u.Check
		if u.Subject != "" {
			name += " (" + u.Subject + ")"
		}
		r.add("not checked: "+u.Because, name)
	}
	return r.list()
}

func findingSheet(o check.Outcome) sheet {
	s := sheet{columns: []string{"state", "check", "subject", "severity", "basis", "summary", "evidence", "fix", "try_change", "try_workload", "worth"}}
	add := func(state string, f check.Finding) {
		var seen, fixes []string
		for _, c := range f.Evidence {
			seen = append(seen, fmt.Sprintf("%s=%v %s", c.Name, c.Value, c.Unit))
		}
		for _, c := range f.Fixes {
			fixes = append(fixes, c.String())
		}
		row := []string{state, f.Check, f.Subject, f.Severity.String(), string(f.Basis), f.Summary,
			strings.Join(seen, "; "), strings.Join(fixes, "; "), "", "", bare(f.Worth)}
		if f.Try != nil {
			row[8], row[9] = f.Try.Change.String(), f.Try.Workload
		}
		s.rows = append(s.rows, row)
	}
	for _, f := range o.Findings {
		add("found", f)
	}
	for _, f := range o.Quieted {
		add("quieted", f)
	}
	for _, u := range o.NotChecked {
		s.rows = append(s.rows, []string{"not checked", u.Check, u.Subject, "", "", u.Because, "", "", "", "", ""})
	}
	for _, n := range o.Fine {
		s.rows = append(s.rows, []string{"fine", n, "", "", "", "", "", "", "", "", ""})
	}
	return s
}

// citeValue writes evidence for a person.
func citeValue(c check.Cite) string {
	switch v := c.Value.(type) {
	case float64:
		return unit.Format(v, c.Unit)
	case int64:
		return unit.Format(float64(v), c.Unit)
	case int:
		return unit.Format(float64(v), c.Unit)
	case uint64:
		return unit.Format(float64(v), c.Unit)
	case bool:
		if v {
			return "yes"
		}
		return "no"
	}
	return fmt.Sprint(c.Value)
}

// TopFindings is Findings cut short: the verdict, the first n findings and
// best, wherever it ranks, and how many more there are.
func TopFindings(o check.Outcome, s *fact.Set, n int, best check.Finding) Section {
	sec := Findings(o, s)
	shown := []block{sec.blocks[0], sec.blocks[1]}
	left := 0
	for i, f := range o.Findings {
		if i < n || f.Check == best.Check && f.Subject == best.Subject {
			shown = append(shown, findingItem(f))
		} else {
			left++
		}
	}
	if left > 0 {
		shown = append(shown, para{Tone: dim, Text: fmt.Sprintf("and %s; headroom check shows all", plural(left, "more finding", "more findings"))})
	}
	sec.blocks = shown
	return sec
}
