package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"headroom/change"
	"headroom/unit"
)

// Plan shows what a plan will do: each step with now and after, what it
// entails and how it is undone. saved is the name or file that apply takes, for
// the command to run next; "" if there is none. Its JSON is what change.LoadPlan
// reads.
func Plan(p *change.Plan, saved string) Section {
	sec := Section{title: "Plan", data: p}
	sec.sheet = planSheet(p)
	todo, same := 0, 0
	for _, c := range p.Changes {
		sec.blocks = append(sec.blocks, changeItem(c))
		for _, s := range c.Steps {
			if s.Nothing() {
				same++
			} else {
				todo++
			}
			sec.blocks = append(sec.blocks, stepItem(s))
		}
		for _, n := range c.Notes {
			sec.blocks = append(sec.blocks, para{Text: "Note: " + n})
		}
	}
	sum := fmt.Sprintf("Plan: %d to change, %d already so.", todo, same)
	switch {
	case todo == 0:
		sum = "Nothing to do: all is already so."
	case p.Restarts():
		sum += " The server is restarted: every connection is cut."
	default:
		sum += " Nothing is restarted."
	}
	sec.blocks = append(sec.blocks, para{Tone: strong, Text: sum})
	if todo > 0 && saved != "" {
		sec.blocks = append(sec.blocks, nextSteps(p, saved))
	}
	return sec
}

// changeItem heads the steps of one change.
func changeItem(c change.Planned) item {
	it := item{Title: c.Change.Spec.String() + " on " + c.Change.Subject, Body: c.Change.Why}
	it.Fields = append(it.Fields, field{Label: "risk", Text: strings.TrimSuffix(string(c.Change.Risk)+": "+c.Change.RiskWhy, ": ")})
	return it
}

// stepItem shows one step: what is altered, from what to what.
func stepItem(s change.PlannedStep) item {
	it := item{Mark: markChange, Title: s.Step.Object()}
	if s.Nothing() {
		it.Mark = markSame
		it.Title += ": already so"
		return it
	}
	it.Diff = StepDiff(s)
	switch s.Step.Kind() {
	case "file":
		it.Mark = fileMark(s)
	case "rules":
	default:
		rows := shownRows(s.Rows())
		if len(rows) == 1 && strings.HasSuffix(s.Step.Object(), rows[0].Label) {
			it.Title += ": " + rows[0].Text
			break
		}
		it.Fields = append(it.Fields, rows...)
	}
	if s.OnConfirm {
		it.Fields = append(it.Fields, field{Label: "when", Text: "only once the change is confirmed"})
	}
	for _, e := range s.Step.Effects() {
		it.Fields = append(it.Fields, field{Label: "effect", Text: e})
	}
	if s.After.Note != "" {
		it.Fields = append(it.Fields, field{Label: "note", Text: s.After.Note})
	}
	it.Fields = append(it.Fields, field{Label: "undo", Text: undoWords(s)})
	return it
}

// StepDiff is the unified diff of what a step makes of a file or of rules; nil
// for other steps, and where nothing is to be done.
func StepDiff(s change.PlannedStep) []string {
	switch {
	case s.Nothing():
	case s.Step.Kind() == "file":
		return fileDiff(s)
	case s.Step.Kind() == "rules":
		return rulesDiff(s)
	}
	return nil
}

// The names of a setting's two values in change.Row.
const (
	inForce = " (in force)"
	stored  = " (postgresql.auto.conf)"
)

// shownRows says what a step alters in one line for each setting: its value in
// force, and what postgresql.auto.conf holds only where that is another one.
func shownRows(rows []change.Row) []field {
	force := map[string]change.Row{}
	for _, r := range rows {
		if name, ok := strings.CutSuffix(r.Name, inForce); ok {
			force[name] = r
		}
	}
	var out []field
	for _, r := range rows {
		if strings.HasSuffix(r.Name, inForce) {
			continue
		}
		name, isStored := strings.CutSuffix(r.Name, stored)
		f, both := force[name]
		r.Now, r.After, f.Now, f.After = seen(r.Now), seen(r.After), seen(f.Now), seen(f.After)
		delete(force, name)
		text := r.Now + " → " + r.After
		switch {
		case both && (r.After == f.After || strings.HasPrefix(r.After, "(")) && (r.Now == f.Now || strings.HasPrefix(r.Now, "(")):
			text = f.Now + " → " + f.After
		case both:
			text = f.Now + " → " + f.After + "; in postgresql.auto.conf " + text
		case isStored:
			text += " in postgresql.auto.conf"
		}
		out = append(out, field{Label: name, Text: text})
	}
	for _, r := range rows {
		if name, ok := strings.CutSuffix(r.Name, inForce); ok && force[name] == r {
			out = append(out, field{Label: name, Text: seen(r.Now) + " → " + seen(r.After)})
		}
	}
	return out
}

// seen writes a value so that an empty one shows.
func seen(v string) string { return cmp.Or(v, "''") }

// undoWords says how a step is taken back.
func undoWords(s change.PlannedStep) string {
	if s.Step.Kind() == "file" && s.Before.Present {
		return "write the present content and mode back"
	}
	if s.Step.Kind() == "rules" && len(s.Before.Stored) > 0 {
		return "load the present rules again, with their counters, in one go"
	}
	return s.Undo.String()
}

func fileMark(s change.PlannedStep) mark {
	switch {
	case !s.Before.Present:
		return markAdd
	case !s.After.Present:
		return markRemove
	}
	return markChange
}

// fileDiff is the unified diff of a file's content, without the lines that
// repeat its name; a binary file and a mode are told in words.
func fileDiff(s change.PlannedStep) []string {
	var out []string
	switch {
	case !s.Before.Present:
		out = append(out, fmt.Sprintf(" new file, mode %04o", s.After.Mode))
	case s.After.Present && s.Before.Mode != s.After.Mode:
		out = append(out, fmt.Sprintf(" mode %04o → %04o", s.Before.Mode, s.After.Mode))
	}
	if s.Before.Binary || s.After.Binary {
		return append(out, " binary content changes")
	}
	return append(out, textDiff(s.Before.Value, s.After.Value)...)
}

// textDiff is a unified diff without the lines that name its sides. A value
// that is not there has no line.
func textDiff(now, after string) []string {
	var out []string
	for _, v := range []*string{&now, &after} {
		if *v == change.NotSet {
			*v = ""
		}
	}
	text := string(diff.Diff("now", []byte(now), "after", []byte(after)))
	for i, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if i >= 3 && l != "" {
			out = append(out, indented(l))
		}
	}
	return out
}

// indented writes the tabs that a line of a diff begins with as blanks.
func indented(l string) string {
	rest := strings.TrimLeft(l[1:], "\t")
	return l[:1] + strings.Repeat("    ", len(l)-1-len(rest)) + rest
}

// rulesDiff is the unified diff of each table that changes.
func rulesDiff(s change.PlannedStep) []string {
	var out []string
	rows := s.Rows()
	for _, r := range rows {
		if len(rows) > 1 {
			out = append(out, " "+r.Name)
		}
		out = append(out, textDiff(s.Before.Stored[r.Name], s.After.Stored[r.Name])...)
	}
	return out
}

// nextSteps tells how to go on from a plan.
func nextSteps(p *change.Plan, saved string) item {
	it := item{Title: "Next"}
	apply := "headroom apply " + shellWord(saved)
	if p.Restarts() {
		apply += " --accept restart"
	}
	it.Fields = append(it.Fields, field{Label: "apply", Text: apply, Code: true})
	if p.CutsOff() {
		it.Fields = append(it.Fields, field{Label: "", Text: fmt.Sprintf("it may cut you off: undoes itself after %s (--confirm-within) unless confirmed after a new login from outside", unit.Seconds(p.Confirm().Seconds()))})
		return it
	}
	for _, c := range p.Changes {
		if c.Change.Confirm > 0 {
			it.Fields = append(it.Fields, field{Label: "safer", Text: apply + " --confirm-within " + short(c.Change.Confirm), Code: true},
				field{Label: "", Text: fmt.Sprintf("undoes itself after %s unless confirmed", unit.Seconds(c.Change.Confirm.Seconds()))})
			break
		}
	}
	return it
}

// shellWord quotes a word if the shell would not take it as it is.
func shellWord(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n'\"$`\\!*?[](){}<>|&;#~") {
		return s
	}
	return quote(s)
}

func planSheet(p *change.Plan) sheet {
	s := sheet{columns: []string{"change", "subject", "risk", "kind", "object", "name", "now", "after", "nothing_to_do", "do", "undo", "effects"}}
	for _, c := range p.Changes {
		for _, st := range c.Steps {
			rows := st.Rows()
			if len(rows) == 0 {
				rows = []change.Row{{Name: st.Step.Object(), Now: st.Before.Value, After: st.After.Value}}
			}
			for _, r := range rows {
				s.rows = append(s.rows, []string{c.Change.Spec.String(), c.Change.Subject, string(c.Change.Risk), st.Step.Kind(), st.Step.Object(),
					r.Name, r.Now, r.After, fmt.Sprint(st.Nothing()), st.Step.String(), st.Undo.String(), strings.Join(st.Step.Effects(), "; ")})
			}
		}
	}
	return s
}

// movedJSON is the saved form of Moved.
type movedJSON struct {
	head
	Verb   string            `json:"verb"`
	Titles [3]string         `json:"titles"`
	Rows   []change.MovedRow `json:"rows"`
}

// Moved shows what is not as it was left: three values for each object, side
// by side.
func Moved(m *change.Moved) Section {
	blocks := []block{para{Tone: strong, Text: m.Verb + ": not as it was left"}}
	g := grid{Columns: []column{{Name: "what"}, {Name: m.Titles[0]}, {Name: m.Titles[1]}, {Name: m.Titles[2]}}}
	s := sheet{columns: []string{"what", m.Titles[0], m.Titles[1], m.Titles[2]}}
	var long []block
	for _, r := range m.Rows {
		row := append([]string{r.Name}, r.Values[:]...)
		s.rows = append(s.rows, row)
		if strings.Contains(strings.Join(r.Values[:], ""), "\n") {
			long = append(long, longMoved(m, r)...)
			continue
		}
		g.Rows = append(g.Rows, row)
	}
	if len(g.Rows) > 0 {
		blocks = append(blocks, g)
	}
	return Section{title: "Not as it was left", sheet: s,
		blocks: append(blocks, long...),
		data:   movedJSON{head{Format: "headroom-moved", Schema: schema}, m.Verb, m.Titles, m.Rows}}
}

// longMoved shows values of several lines as what differs between them.
func longMoved(m *change.Moved, r change.MovedRow) []block {
	var out []block
	for i := range 2 {
		if r.Values[i] == r.Values[i+1] {
			continue
		}
		out = append(out, item{Mark: markChange, Title: fmt.Sprintf("%s: %s → %s", r.Name, m.Titles[i], m.Titles[i+1]),
			Diff: textDiff(r.Values[i], r.Values[i+1])})
	}
	return out
}
