package check

import (
	"encoding/json"
	"testing"
	"time"

	"headroom/fact"
)

var number = &fact.Source[int]{Name: "t.number"}

func firing(name string, sev Severity, worth float64, quiet ...string) *Check {
	return &Check{Name: name, Needs: []fact.Any{number}, Quiet: quiet, Run: func(s *fact.Set, out *Report) {
		if fact.Get(s, number) > 10 {
			out.Found(Finding{Subject: "x", Severity: sev, Worth: worth})
		}
		if fact.Get(s, number) == 99 {
			out.Unknown("y", "no view")
		}
	}}
}

func with(n int) *fact.Set { return fact.Put(&fact.Set{Taken: time.Unix(1, 0)}, number, n) }

func names(fs []Finding) (out []string) {
	for _, f := range fs {
		out = append(out, f.Check)
	}
	return out
}

func TestRunRanksAndQuiets(t *testing.T) {
	checks := []*Check{
		firing("t.small", Advice, 0.1), firing("t.big", Advice, 0.4), firing("t.grave", Danger, 0),
		firing("t.follows", Warning, 1, "t.big"), firing("t.anywhere", Warning, 1, "t.grave*"), firing("t.apart", Note, 1, "t.other"),
	}
	o := Run(with(11), checks)
	got, _ := json.Marshal(names(o.Findings))
	if string(got) != `["t.grave","t.big","t.small","t.apart"]` {
		t.Errorf("order = %s", got)
	}
	if len(o.Quieted) != 2 {
		t.Errorf("quieted = %v", names(o.Quieted))
	}
	if w, ok := o.Worst(); !ok || w != Danger {
		t.Errorf("worst = %v", w)
	}
}

func TestThreeAnswers(t *testing.T) {
	checks := []*Check{firing("t.a", Advice, 0)}
	if o := Run(with(3), checks); len(o.Fine) != 1 || len(o.NotChecked)+len(o.Findings) != 0 {
		t.Errorf("fine: %+v", o)
	}
	if o := Run(&fact.Set{}, checks); len(o.Fine) != 0 || len(o.NotChecked) != 1 || o.NotChecked[0].Because == "" {
		t.Errorf("an absent need must be named, never a pass: %+v", o)
	}
	if o := Run(with(99), checks); len(o.Fine) != 0 || len(o.NotChecked) != 1 || len(o.Findings) != 1 {
		t.Errorf("partly unknown: %+v", o)
	}
}
