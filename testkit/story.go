// Package testkit is what tests of all floors share: it plays a topic's
// stories, holds the rule that a skip must be earned, and compares golden text.
package testkit

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"headroom/check"
	"headroom/fact"
	"headroom/topic"
	"headroom/unit"
)

var update = flag.Bool("update", false, "write golden files instead of comparing with them")

// Updating says whether golden files are being rewritten (-update).
func Updating() bool { return *update }

// Taken is the moment that all stories are set at.
var Taken = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// Stories plays testdata/*.txtar of the topic's folder. A story holds
// facts.json (an object: fact name → value as in a saved file, or
// {"unknown": "why"}) and want (golden text). For the check disk.x there must
// be x.fires.txtar, in which it finds something and nothing else is run, and
// x.silent.txtar, in which it runs and finds nothing. In any other story all
// checks of the topic run.
func Stories(t *testing.T, tp topic.Topic) {
	t.Helper()
	byNoun := map[string]*check.Check{}
	for _, c := range tp.Checks {
		_, noun, _ := strings.Cut(c.Name, ".")
		byNoun[noun] = c
		for _, kind := range []string{".fires", ".silent"} {
			if _, err := os.Stat(filepath.Join("testdata", noun+kind+".txtar")); err != nil {
				t.Errorf("check %s has no story testdata/%s%s.txtar", c.Name, noun, kind)
			}
		}
	}
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".txtar")
		t.Run(name, func(t *testing.T) {
			noun, kind, _ := strings.Cut(name, ".")
			checks := tp.Checks
			if c := byNoun[noun]; c != nil && kind != "" {
				checks = []*check.Check{c}
			} else if kind == "fires" || kind == "silent" {
				t.Fatalf("no check %s.%s", tp.Name, noun)
			}
			play(t, f, kind, checks)
		})
	}
}

func play(t *testing.T, file, kind string, checks []*check.Check) {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	facts, want := part(ar, "facts.json"), part(ar, "want")
	if facts == nil {
		t.Fatal("the story has no facts.json")
	}
	set := LoadStory(t, facts.Data, checks)
	o := check.Run(set, checks)
	switch {
	case kind == "fires" && len(o.Findings) == 0:
		t.Errorf("%s found nothing; not checked: %+v", checks[0].Name, o.NotChecked)
	case kind == "silent" && (len(o.Findings) > 0 || len(o.NotChecked) > 0):
		t.Errorf("%s must look and find nothing:\n%s", checks[0].Name, Outcome(o))
	}
	got := Outcome(o)
	if *update {
		if want == nil {
			ar.Files = append(ar.Files, txtar.File{Name: "want"})
			want = &ar.Files[len(ar.Files)-1]
		}
		want.Data = []byte(got)
		if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want == nil || got != string(want.Data) {
		t.Errorf("outcome differs from want in %s (run with -update to accept):\n%s", file, got)
	}
}

func part(ar *txtar.Archive, name string) *txtar.File {
	for i := range ar.Files {
		if ar.Files[i].Name == name {
			return &ar.Files[i]
		}
	}
	return nil
}

// LoadStory makes a fact set of an object fact name → value. Unknown fact
// names fail the test: a misspelt fact must not look like an absent one.
func LoadStory(t *testing.T, raw []byte, checks []*check.Check) *fact.Set {
	t.Helper()
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		t.Fatalf("facts.json: %v", err)
	}
	entries := map[string]any{}
	for name, v := range values {
		var u struct {
			Unknown string `json:"unknown"`
		}
		if json.Unmarshal(v, &u) == nil && u.Unknown != "" {
			entries[name] = map[string]any{"at": Taken, "unknown": u.Unknown}
			continue
		}
		entries[name] = map[string]any{"at": Taken, "value": v}
	}
	file, err := json.Marshal(map[string]any{"format": "headroom-facts", "schema": 1, "host": "story", "taken": Taken, "facts": entries})
	if err != nil {
		t.Fatal(err)
	}
	known := []fact.Any{}
	for _, c := range checks {
		known = append(known, c.Needs...)
	}
	set, skipped, err := fact.Load(bytes.NewReader(file), known)
	if err != nil {
		t.Fatal(err)
	}
	if len(checks) == 1 && len(skipped) > 0 {
		t.Fatalf("facts.json holds facts that %s does not need: %q", checks[0].Name, skipped)
	}
	return set
}

// Outcome writes what checks said as plain text, for golden files.
func Outcome(o check.Outcome) string {
	var b strings.Builder
	for _, f := range o.Findings {
		fmt.Fprintf(&b, "%s %s (%s, %s, worth %.2g)\n  %s\n", f.Check, f.Subject, f.Severity, f.Basis, f.Worth, f.Summary)
		for _, c := range f.Evidence {
			fmt.Fprintf(&b, "  evidence: %s = %s (%s)\n", c.Name, citeValue(c), c.Source)
		}
		if f.Hint != "" {
			fmt.Fprintf(&b, "  hint: %s\n", f.Hint)
		}
		for _, s := range f.Fixes {
			fmt.Fprintf(&b, "  fix: %s\n", s)
		}
		if f.Try != nil {
			fmt.Fprintf(&b, "  try: %s --on %s\n", f.Try.Change, f.Try.Workload)
		}
	}
	for _, f := range o.Quieted {
		fmt.Fprintf(&b, "quiet: %s %s\n", f.Check, f.Subject)
	}
	for _, u := range o.NotChecked {
		fmt.Fprintf(&b, "not checked: %s %s: %s\n", u.Check, u.Subject, u.Because)
	}
	for _, n := range o.Fine {
		fmt.Fprintf(&b, "fine: %s\n", n)
	}
	return b.String()
}

func citeValue(c check.Cite) string {
	switch v := c.Value.(type) {
	case float64:
		return unit.Format(v, c.Unit)
	case int64:
		return unit.Format(float64(v), c.Unit)
	case int:
		return unit.Format(float64(v), c.Unit)
	}
	return fmt.Sprint(c.Value)
}
