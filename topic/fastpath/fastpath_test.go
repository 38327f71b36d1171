package fastpath

import (
	"regexp"
	"testing"

	"headroom/lab"
	"headroom/testkit/need"
)

// tiny are parameters with which a lab takes a moment.
var tiny = map[string]map[string]string{
	"upsert":       {"keys": "2000", "batch": "100", "seconds": "0.1", "shared_buffers": "64MB"},
	"bulk-load":    {"rows": "2500", "commit": "300"},
	"hot-row":      {"writers": "4", "rows": "200", "seconds": "0.1"},
	"distinct":     {"rows": "20000", "values": "50", "seconds": "0.05"},
	"value-counts": {"rows": "2000", "values": "30", "seconds": "0.05"},
	"upsert-sizes": {"sizes": "100,5000", "keys": "500", "seconds": "0.1"},
}

// Every arm of every lab does its work on a real server, and its own checks
// hold it to it.
func TestEveryArmWorks(t *testing.T) {
	need.Have(t, "pg")
	for _, l := range Topic.Labs {
		t.Run(l.Name, func(t *testing.T) {
			r, err := lab.Run(t.Context(), l, lab.Options{Rounds: 1, Seed: 5, Params: tiny[l.Name]}, lab.Env{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i, a := range r.Arms {
				for _, m := range r.Measures {
					if v := r.Counted(i, m.Name); len(v) != 1 || v[0] <= 0 && m.Name != lab.WAL.Name {
						t.Errorf("arm %s: %s is %v", a.Name, m.Name, v)
					}
				}
			}
		})
	}
}

func TestDeclarationsAreWhole(t *testing.T) {
	name := regexp.MustCompile(`^[a-z0-9-]+$`)
	seen := map[string]bool{}
	for _, l := range Topic.Labs {
		if !name.MatchString(l.Name) || seen[l.Name] || l.Title == "" || l.Question == "" || l.Doc == "" || l.Source == "" || l.Then == "" {
			t.Errorf("lab %+v: a part is missing, or the name is taken", l)
		}
		seen[l.Name] = true
		e, all, err := l.Plan(nil)
		if err != nil || e.Size == "" || e.Disk == 0 {
			t.Errorf("lab %s: %v, size %q, disk %d", l.Name, err, e.Size, e.Disk)
		}
		for _, p := range l.Params {
			if p.Doc == "" || p.Check != nil && p.Check(all[p.Name]) != nil {
				t.Errorf("lab %s, parameter %s: no text, or its own default is refused", l.Name, p.Name)
			}
			if p.Check != nil && p.Check("'; drop table people") == nil {
				t.Errorf("lab %s, parameter %s takes anything", l.Name, p.Name)
			}
		}
		for _, a := range e.Arms {
			if a.Doc == "" || (a.Then > 0) != (a.As != "") {
				t.Errorf("lab %s, arm %s: no text, or half a figure of then", l.Name, a.Name)
			}
		}
	}
}

func TestParametersThatCannotBe(t *testing.T) {
	for l, p := range map[*lab.Lab]map[string]string{
		Upsert:      {"keys": "1000", "batch": "1000"},
		Distinct:    {"rows": "1000", "values": "2000"},
		UpsertSizes: {"sizes": "100"},
		ValueCounts: {"rows": "many"},
	} {
		if _, _, err := l.Plan(p); err == nil {
			t.Errorf("lab %s takes %v", l.Name, p)
		}
	}
}

// As many rows as the values need more than 31 bits to make.
func TestManyRowsOfFewValues(t *testing.T) {
	need.Have(t, "pg")
	params := map[string]string{"rows": "300000", "values": "3", "seconds": "0.01"}
	if _, err := lab.Run(t.Context(), ValueCounts, lab.Options{Rounds: 1, Params: params}, lab.Env{}, nil); err != nil {
		t.Error(err)
	}
}
