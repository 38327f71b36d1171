package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"headroom/change"
)

// journalJSON is the saved form of Journal and Entry.
type journalJSON struct {
	head
	Changes []entryJSON `json:"changes"`
}

type entryJSON struct {
	ID        string          `json:"id"`
	State     change.Phase    `json:"state"`
	At        time.Time       `json:"at"`
	ConfirmBy *time.Time      `json:"confirm_by,omitempty"`
	Hold      bool            `json:"hold,omitempty"`
	Plan      *change.Plan    `json:"plan,omitempty"`
	Records   []change.Record `json:"records,omitempty"`
	Damage    []string        `json:"damage,omitempty"`
}

// phaseWords say what a state means and what can be done about it.
var phaseWords = map[change.Phase]string{
	change.Begun:      "written down; nothing was done",
	change.Applying:   "being applied, or interrupted while it was",
	change.Applied:    "applied and verified",
	change.Awaiting:   "applied; taken back unless confirmed",
	change.Holding:    "applied for as long as the program runs that did it",
	change.Reverting:  "being taken back, or interrupted while it was",
	change.Reverted:   "taken back: all is as before",
	change.Failed:     "could not be taken back: it needs you",
	change.Abandoned:  "given up: left as it is",
	change.Unreadable: "its plan cannot be read",
}

// Journal lists changes, in the order given.
func Journal(entries []change.Entry) Section {
	sec := Section{title: "Journal", data: journalData(entries, false)}
	sec.sheet.columns = []string{"id", "at", "state", "change", "confirm_by"}
	if len(entries) == 0 {
		sec.blocks = []block{para{Tone: plain, Text: "Nothing was changed yet: the journal is empty."}}
		return sec
	}
	g := grid{Columns: []column{{Name: "id"}, {Name: "when (UTC)"}, {Name: "state"}, {Name: "change"}}}
	for _, e := range entries {
		g.Rows = append(g.Rows, []string{e.ID, shortMoment(e.At), string(e.Phase), planTitle(e.Plan)})
		sec.sheet.rows = append(sec.sheet.rows, []string{e.ID, stamp(e.At), string(e.Phase), planTitle(e.Plan), stamp(e.ConfirmBy)})
	}
	sec.blocks = []block{g}
	last := entries[len(entries)-1]
	for _, e := range entries {
		if len(entryNext(e)) > 0 {
			last = e
		}
	}
	next := append([]field{{Label: "look", Text: "headroom journal " + last.ID, Code: true}}, entryNext(last)...)
	sec.blocks = append(sec.blocks, item{Title: "Next", Fields: next})
	return sec
}

// Entry shows one change: what was planned, what happened when, and how to go
// on from there.
func Entry(e change.Entry) Section {
	sec := Section{title: "Change " + e.ID, data: journalData([]change.Entry{e}, true)}
	sec.sheet.columns = []string{"id", "n", "at", "record", "step", "note"}
	sec.blocks = []block{
		para{Tone: strong, Text: fmt.Sprintf("%s: %s", e.ID, planTitle(e.Plan))},
		para{Tone: plain, Text: fmt.Sprintf("%s: %s", e.Phase, phaseWords[e.Phase])},
	}
	for _, d := range e.Damage {
		sec.blocks = append(sec.blocks, para{Tone: warn, Text: "damaged: " + d})
	}
	if e.Plan != nil {
		for _, c := range e.Plan.Changes {
			sec.blocks = append(sec.blocks, changeItem(c))
			for _, s := range c.Steps {
				sec.blocks = append(sec.blocks, stepItem(s))
			}
		}
	}
	g := grid{Title: "What happened", Columns: []column{{Name: "when (UTC)"}, {Name: "what"}, {Name: "step"}, {Name: "note"}}}
	for _, r := range e.Records {
		step := ""
		if strings.HasPrefix(r.Type, "step") {
			step = stepName(e.Plan, r.Step)
		}
		g.Rows = append(g.Rows, []string{shortMoment(r.At), r.Type, step, r.Note})
		sec.sheet.rows = append(sec.sheet.rows, []string{e.ID, fmt.Sprint(r.N), stamp(r.At), r.Type, step, r.Note})
	}
	sec.blocks = append(sec.blocks, g)
	for _, r := range e.Records {
		if r.Found != nil && e.Plan != nil && r.Step < len(e.Plan.Steps()) {
			sec.blocks = append(sec.blocks, overwritten(e.Plan.Steps()[r.Step], *r.Found))
		}
	}
	if next := entryNext(e); len(next) > 0 {
		sec.blocks = append(sec.blocks, item{Title: "Next", Fields: next})
	}
	return sec
}

// overwritten shows what somebody else had made of a step's object before it was
// taken back all the same.
func overwritten(s change.PlannedStep, found change.State) item {
	it := item{Mark: markChange, Title: s.Step.Object() + ": as the change set it → as it was found, and overwritten"}
	tables := map[string]bool{}
	for _, m := range []map[string]string{s.After.Stored, found.Stored} {
		for t := range m {
			tables[t] = true
		}
	}
	for _, t := range slices.Sorted(maps.Keys(tables)) {
		if s.After.Stored[t] != found.Stored[t] {
			it.Diff = append(it.Diff, textDiff(s.After.Stored[t], found.Stored[t])...)
		}
	}
	return it
}

// entryNext lists the commands that make sense in a state.
func entryNext(e change.Entry) []field {
	undo := field{Label: "undo", Text: "headroom revert " + e.ID, Code: true}
	switch e.Phase {
	case change.Awaiting:
		return []field{{Label: "keep", Text: "headroom confirm " + e.ID, Code: true}, undo,
			{Label: "until", Text: moment(e.ConfirmBy) + ", then it is taken back"}}
	case change.Applied, change.Applying, change.Reverting, change.Failed:
		return []field{undo}
	}
	return nil
}

func journalData(entries []change.Entry, records bool) journalJSON {
	out := journalJSON{head: head{Format: "headroom-journal", Schema: schema}, Changes: []entryJSON{}}
	for _, e := range entries {
		j := entryJSON{ID: e.ID, State: e.Phase, At: e.At, Hold: e.Hold, Plan: e.Plan, Damage: e.Damage}
		if !e.ConfirmBy.IsZero() {
			j.ConfirmBy = &e.ConfirmBy
		}
		if records {
			for _, r := range e.Records {
				r.Plan = nil // it stands beside
				j.Records = append(j.Records, r)
			}
		}
		out.Changes = append(out.Changes, j)
	}
	return out
}

func planTitle(p *change.Plan) string {
	if p == nil {
		return "(cannot be read)"
	}
	return p.Title()
}

func stepName(p *change.Plan, i int) string {
	if p == nil || i < 0 || i >= len(p.Steps()) {
		return fmt.Sprint(i)
	}
	return p.Steps()[i].Step.Object()
}

// stamp is a time for programs; "" for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
