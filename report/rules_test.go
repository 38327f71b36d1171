package report

import (
	"strings"
	"testing"
	"time"

	"headroom/change"
)

func rulesPlan() *change.Plan {
	table := func(policy string) string {
		return "table inet mine {\n\tchain input {\n\t\ttype filter hook input priority filter; policy " + policy + ";\n\t}\n}\n"
	}
	s := change.Rules{Tool: "nft", Tables: []string{"inet mine"}, Content: table("drop")}
	before := change.State{Present: true, Stored: map[string]string{"inet mine": table("accept")}, Loads: table("accept")}
	after := change.State{Present: true, Stored: map[string]string{"inet mine": table("drop")}}
	f := change.File{Path: "/etc/nftables.conf", Content: table("drop")}
	return &change.Plan{Made: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), Changes: []change.Planned{{
		Change: change.Change{Spec: change.Spec{ID: "test.rules"}, Subject: "this machine", Risk: change.RiskHigh},
		Steps: []change.PlannedStep{{Step: s, Before: before, After: after, Undo: s.Undo(before)},
			{Step: f, After: change.State{Present: true, Value: f.Content, Mode: 0o644}, Undo: f.Undo(change.State{}), OnConfirm: true}},
		Notes: []string{"ip6 is not saved"},
	}}}
}

func TestPlanOfRules(t *testing.T) {
	got := strings.Join(strings.Fields(render(t, Text, Plan(rulesPlan(), "1234"))), " ")
	for _, want := range []string{"- type filter hook input priority filter; policy accept; + type", "when only once the change is confirmed", "ip6 is not saved",
		"undoes itself after 2 min (--confirm-within) unless confirmed after a new login", "load the present rules again"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}

// A table of rules that moved is told by what differs, not in three columns.
func TestMovedRules(t *testing.T) {
	m := &change.Moved{Verb: "apply test.rules", Titles: [3]string{"planned from", "now", "wanted"},
		Rows: []change.MovedRow{{Name: "inet mine", Values: [3]string{"a\nb\n", "a\nb\nc\n", "a\n"}}}}
	got := render(t, Text, Moved(m))
	if !strings.Contains(got, "planned from → now") || !strings.Contains(got, "+c") || !strings.Contains(got, "now → wanted") || !strings.Contains(got, "-b") {
		t.Error(got)
	}
}

// Somebody's edit that was overwritten is shown where the journal keeps it.
func TestEntryShowsWhatWasOverwritten(t *testing.T) {
	p := rulesPlan()
	found := change.State{Present: true, Stored: map[string]string{}}
	for table, text := range p.Steps()[0].After.Stored {
		found.Stored[table] = text + "by somebody else\n"
	}
	got := render(t, Text, Entry(change.Entry{ID: "20261121-0001", Phase: change.Reverted, Plan: p, Records: []change.Record{{Type: "overwrote", Found: &found}}}))
	if !strings.Contains(got, "as it was found, and overwritten") || !strings.Contains(got, "+by somebody else") {
		t.Error(got)
	}
}
