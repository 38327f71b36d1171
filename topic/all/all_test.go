package all

import (
	"regexp"
	"strings"
	"testing"

	"headroom/fact"
)

func TestIdsAreUniqueAndOfTheirTopic(t *testing.T) {
	id := regexp.MustCompile(`^[a-z]+\.[a-z0-9-]+$`)
	seen := map[string]bool{}
	checks := 0
	for _, tp := range Topics() {
		var ids []string
		for _, c := range tp.Checks {
			ids = append(ids, c.Name)
			checks++
			if d := c.Doc; d.Title == "" || d.Why == "" || d.Evidence == "" || d.Fix == "" || d.Risk == "" || d.Undo == "" || len(d.Sources) == 0 {
				t.Errorf("check %s: its page would have an empty part: %+v", c.Name, d)
			}
			for _, q := range c.Quiet {
				if !hasCheck(strings.TrimSuffix(q, "*")) {
					t.Errorf("check %s is quiet under %s, which does not exist", c.Name, q)
				}
			}
		}
		for _, r := range tp.Recipes {
			ids = append(ids, r.ID)
		}
		for _, n := range ids {
			if !id.MatchString(n) || !strings.HasPrefix(n, tp.Name+".") || seen[n] {
				t.Errorf("id %q of topic %s: wrong form, another topic's, or twice", n, tp.Name)
			}
			seen[n] = true
		}
	}
	if checks < 24 {
		t.Errorf("%d checks, want at least 24", checks)
	}
}

func hasCheck(name string) bool {
	for _, tp := range Topics() {
		for _, c := range tp.Checks {
			if c.Name == name {
				return true
			}
		}
	}
	return false
}

func TestStillFactsExist(t *testing.T) {
	known := map[string]bool{}
	for _, tp := range Topics() {
		var all []fact.Any
		all = append(all, tp.Facts...)
		for _, c := range tp.Checks {
			all = append(all, c.Needs...)
		}
		for _, f := range all {
			known[f.Key()] = true
		}
	}
	for _, n := range Still() {
		if !known[n] {
			t.Errorf("no fact %q", n)
		}
	}
}
