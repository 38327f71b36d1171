package all

import (
	"regexp"
	"testing"
)

// A lab is called by its name alone, so no two topics share one, and none is
// called as a verb below lab.
func TestLabNamesAreUnique(t *testing.T) {
	name := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	seen := map[string]bool{"data": true, "help": true}
	for _, tp := range Topics() {
		for _, l := range tp.Labs {
			if !name.MatchString(l.Name) || seen[l.Name] {
				t.Errorf("lab %q of topic %s: wrong form, or taken", l.Name, tp.Name)
			}
			seen[l.Name] = true
			if e, _, err := l.Plan(nil); err != nil || len(e.Arms) < 2 || len(l.Measures) == 0 || l.Source == "" {
				t.Errorf("lab %s: %v", l.Name, err)
			}
		}
	}
	if len(seen) < 8 {
		t.Errorf("only these labs: %v", seen)
	}
}
