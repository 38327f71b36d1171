package trial

import (
	"fmt"
	"maps"
	"slices"

	"headroom/fail"
	"headroom/stats"
)

// Comparison is how two saved results of the same workload differ, measure by
// measure. They did not take turns, so whatever moved on the machine between
// them counts as difference.
type Comparison struct {
	A         string   `json:"a"` // its name and time
	B         string   `json:"b"`
	Workload  string   `json:"workload"`
	Rows      []Row    `json:"rows"`
	Warnings  []string `json:"warnings,omitempty"`
	Regressed bool     `json:"regressed"` // the primary measure of an arm is worse in B beyond doubt and margin
}

// Row compares one measure of one arm.
type Row struct {
	Arm     string           `json:"arm"`
	Measure Measure          `json:"measure"`
	A       stats.Summary    `json:"a"`
	B       stats.Summary    `json:"b"`
	Change  stats.Comparison `json:"change"` // B / A
	// Verdict is Faster, Slower or NoDifference; NeedsMore where there are too
	// few rounds for an interval. It is "" for measures that do not decide.
	Verdict stats.Verdict `json:"verdict,omitempty"`
}

// Compare compares b with a, arm by arm of the same name. It refuses results
// of different workloads or without an arm in common, and warns of whatever
// else is not alike. The level is 1 - a.Options.Alpha, shared by the arms.
func Compare(a, b *Result) (*Comparison, error) {
	if a.Workload != b.Workload {
		return nil, fail.With(fmt.Errorf("compare trials: one is of %s, the other of %s", a.Workload, b.Workload), fail.Usage)
	}
	out := &Comparison{A: a.title(), B: b.title(), Workload: a.Workload}
	arms := map[string]int{}
	for i, x := range b.Arms {
		arms[x.Name] = i
	}
	var common [][2]int
	for i, x := range a.Arms {
		if j, ok := arms[x.Name]; ok {
			common = append(common, [2]int{i, j})
			continue
		}
		out.warnf("arm %s is only in %s", x.Name, out.A)
	}
	if len(common) == 0 {
		return nil, fail.With(fmt.Errorf("compare trials: they have no arm of the same name"), fail.Usage)
	}
	out.unlike(a, b)
	rule := a.Options.rule(a.Primary().better(), len(common)+1)
	for _, ij := range common {
		for k, m := range a.Measures {
			if err := out.row(a, b, ij, m, k == 0, rule); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (m Measure) better() stats.Better {
	if m.Higher {
		return stats.Higher
	}
	return stats.Lower
}

func (r *Result) title() string {
	return fmt.Sprintf("%s (%s)", r.Name, r.Started.Format("2006-01-02 15:04"))
}

func (c *Comparison) warnf(format string, args ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...))
}

// unlike warns of whatever differs beside the figures.
func (c *Comparison) unlike(a, b *Result) {
	for _, name := range slices.Sorted(maps.Keys(a.Params)) {
		if a.Params[name] != b.Params[name] {
			c.warnf("parameter %s: %s against %s", name, a.Params[name], b.Params[name])
		}
	}
	for name := range b.Params {
		if _, ok := a.Params[name]; !ok {
			c.warnf("parameter %s is only in %s", name, c.B)
		}
	}
	if a.Where != b.Where {
		c.warnf("they ran on: %s; %s", a.Where, b.Where)
	}
	if a.Options.Rate != b.Options.Rate {
		c.warnf("offered rate: %v against %v per second", a.Options.Rate, b.Options.Rate)
	}
	if a.Options.Round != b.Options.Round {
		c.warnf("rounds of %s against %s", a.Options.Round, b.Options.Round)
	}
	if !maps.Equal(a.Options.With, b.Options.With) {
		c.warnf("the servers had other settings: %v against %v", a.Options.With, b.Options.With)
	}
	if a.Version != b.Version {
		c.warnf("made by Headroom %s and %s", a.Version, b.Version)
	}
}

func (c *Comparison) row(a, b *Result, arm [2]int, m Measure, decides bool, rule stats.Rule) error {
	va, vb := a.Counted(arm[0], m.Name), b.Counted(arm[1], m.Name)
	if len(va) == 0 || len(vb) == 0 {
		if decides {
			c.warnf("arm %s has no rounds that count", a.Arms[arm[0]].Name)
		}
		return nil
	}
	row := Row{Arm: a.Arms[arm[0]].Name, Measure: m}
	change, err := stats.Unpaired(va, vb, rule.Level())
	if err != nil {
		if decides {
			return fmt.Errorf("compare %s of arm %s: %w", m.Name, row.Arm, err)
		}
		return nil // a figure of zero has no ratio
	}
	row.Change = change
	if row.A, err = stats.Summarize(va, rule.Level()); err == nil {
		row.B, err = stats.Summarize(vb, rule.Level())
	}
	if err != nil {
		return fmt.Errorf("compare %s of arm %s: %w", m.Name, row.Arm, err)
	}
	if decides {
		row.Verdict = rule.Judge(change.Ratio)
		c.Regressed = c.Regressed || row.Verdict == stats.Slower
	}
	c.Rows = append(c.Rows, row)
	return nil
}
