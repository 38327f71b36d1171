package change

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"headroom/fail"
)

// Row is one thing that a step alters, with its value now and afterwards.
type Row struct {
	Name  string `json:"name"`
	Now   string `json:"now"`
	After string `json:"after"`
}

// NotSet stands in rows for a value that is not there, absent for an object.
const (
	NotSet = "(not set)"
	absent = "(absent)"
)

// titleNow heads the values that were found.
const titleNow = "now"

// Rows lists what the step alters, for people: the object with its content,
// a file's mode, each setting in force and in postgresql.auto.conf.
func (p PlannedStep) Rows() []Row {
	now, after := fields(p.Step, p.Before), fields(p.Step, p.After)
	var out []Row
	for _, n := range names(now, after) {
		a, known := after[n]
		if !known && strings.HasSuffix(n, inForce) {
			continue // cannot be told beforehand
		}
		if !known {
			a = NotSet
		}
		b, known := now[n]
		if !known {
			b = NotSet
		}
		if a != b {
			out = append(out, Row{n, b, a})
		}
	}
	return out
}

const inForce = " (in force)"

// fields takes a state apart into named values.
func fields(s Step, st State) map[string]string {
	out := map[string]string{}
	switch {
	case !st.Present:
		out[s.Object()] = absent
	case s.Kind() == "setting":
		for n, v := range st.Stored {
			out[n+" (postgresql.auto.conf)"] = v
		}
		for n, v := range st.Effective {
			out[n+inForce] = v
		}
		return out
	case s.Kind() == "unit" || s.Kind() == "rules":
	default:
		out[s.Object()] = st.Value
	}
	if st.Mode != 0 {
		out[s.Object()+" (mode)"] = fmt.Sprintf("%04o", st.Mode)
	}
	for n, v := range st.Stored {
		out[n] = v
	}
	return out
}

func names(ms ...map[string]string) []string {
	all := map[string]bool{}
	for _, m := range ms {
		for n := range m {
			all[n] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Moved is the error that an object is not as it was left. Each row holds
// three values, in the order of Titles.
type Moved struct {
	Verb   string // "apply", "revert 20261120-7f3a"
	Titles [3]string
	Rows   []MovedRow
}

// MovedRow is one object that moved.
type MovedRow struct {
	Name   string    `json:"name"`
	Values [3]string `json:"values"`
}

func (m *Moved) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: not as it was left:", m.Verb)
	for _, r := range m.Rows {
		fmt.Fprintf(&b, "\n  %s:", r.Name)
		if edit := m.Edit(r); edit != nil {
			fmt.Fprintf(&b, " edited: %s", strings.Join(edit[:min(len(edit), shownEdit)], "; "))
			if more := len(edit) - shownEdit; more > 0 {
				fmt.Fprintf(&b, "; and %d lines more", more)
			}
			continue
		}
		for i, t := range m.Titles {
			fmt.Fprintf(&b, " %s %s", t, clip(r.Values[i]))
			if i < 2 {
				b.WriteString(",")
			}
		}
	}
	return b.String()
}

// shownEdit is how many lines of an edit an error shows.
const shownEdit = 5

// Edit lists the lines that somebody else put in ("+ …") or took out ("- …") of
// a value of several lines; nil if the row's values are of one line.
func (m *Moved) Edit(r MovedRow) (out []string) {
	now := slices.Index(m.Titles[:], titleNow)
	if now < 1 || !strings.Contains(r.Values[now-1]+r.Values[now], "\n") {
		return nil
	}
	lines := func(v string) (out []string) {
		if v == NotSet || v == absent {
			return nil
		}
		return strings.Split(strings.TrimSuffix(v, "\n"), "\n")
	}
	was, is := lines(r.Values[now-1]), lines(r.Values[now])
	for _, side := range []struct {
		mark        string
		here, there []string
	}{{"- ", was, is}, {"+ ", is, was}} {
		left := map[string]int{}
		for _, l := range side.there {
			left[l]++
		}
		for _, l := range side.here {
			if left[l]--; left[l] < 0 {
				out = append(out, side.mark+strings.TrimSpace(l))
			}
		}
	}
	if out == nil {
		return []string{"its lines stand in another order"}
	}
	return out
}

func clip(s string) string {
	s = fmt.Sprintf("%q", s)
	if len(s) > 60 {
		return s[:56] + `…"`
	}
	return s
}

// movedRows compares three states of a step's object and lists the values of
// which differs(a, b, c) is true.
func movedRows(s Step, a, b, c State, differs func(a, b, c string) bool) []MovedRow {
	fa, fb, fc := fields(s, a), fields(s, b), fields(s, c)
	var out []MovedRow
	for _, n := range names(fa, fb, fc) {
		v := [3]string{}
		for i, m := range []map[string]string{fa, fb, fc} {
			var ok bool
			if v[i], ok = m[n]; !ok {
				v[i] = NotSet
			}
		}
		if !differs(v[0], v[1], v[2]) {
			continue
		}
		if r, ok := s.(Rules); ok {
			n = r.Tool + " table " + n
		}
		out = append(out, MovedRow{n, v})
	}
	return out
}

// drift returns an error that shows what moved since the plan was made.
func drift(p *Plan, now []State) error {
	m := &Moved{Verb: "apply " + p.Title(), Titles: [3]string{"planned from", titleNow, "wanted"}}
	i := 0
	for _, c := range p.Changes {
		for _, s := range c.Steps {
			if !s.Before.Same(now[i]) {
				m.Rows = append(m.Rows, movedRows(s.Step, s.Before, now[i], s.After, func(a, b, _ string) bool { return a != b })...)
			}
			i++
		}
	}
	if len(m.Rows) == 0 {
		return nil
	}
	return fail.With(fail.Hint(m, "look at it, then plan again"), fail.Drift)
}

// foreign lists what is neither as before the step nor as the step leaves it.
func foreign(p PlannedStep, now State) []MovedRow {
	if now.kept(p.After) || now.kept(p.Before) {
		return nil
	}
	return movedRows(p.Step, p.Before, p.After, now, func(before, after, now string) bool { return now != before && now != after })
}

// unreached explains a failed verification.
func unreached(s Step, want, now State) error {
	var out []string
	w, n := fields(s, want), fields(s, now)
	for _, name := range names(w, n) {
		a, ok := w[name]
		if !ok && strings.HasSuffix(name, inForce) {
			continue
		}
		if b := n[name]; a != b {
			out = append(out, fmt.Sprintf("%s: wanted %s, reads %s", name, clip(a), clip(b)))
		}
	}
	if now.Note != "" {
		out = append(out, now.Note)
	}
	return errors.New("verify " + s.Object() + ": " + strings.Join(out, "; "))
}
