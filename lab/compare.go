package lab

import (
	"fmt"
	"maps"
	"slices"

	"headroom/fail"
	"headroom/stats"
	"headroom/trial"
)

// Compare compares b with a, arm by arm of the same name. It refuses results
// of different labs or without an arm in common, and warns of whatever else is
// not alike. The two did not take turns, so what moved on the machine between
// them counts as difference.
func Compare(a, b *Result) (*trial.Comparison, error) {
	if a.Lab != b.Lab {
		return nil, fail.With(fmt.Errorf("compare labs: one is of %s, the other of %s", a.Lab, b.Lab), fail.Usage)
	}
	out := &trial.Comparison{A: a.title(), B: b.title(), Workload: "lab " + a.Lab, Warnings: unlike(a, b)}
	better := stats.Lower
	if a.Primary().Higher {
		better = stats.Higher
	}
	rule := stats.Rule{Better: better, Alpha: alpha, Arms: len(a.Arms), Margin: margin, Matter: matter}
	for i, arm := range a.Arms {
		j := slices.IndexFunc(b.Arms, func(x ArmResult) bool { return x.Name == arm.Name })
		if j < 0 {
			out.Warnings = append(out.Warnings, fmt.Sprintf("arm %s is only in %s", arm.Name, out.A))
			continue
		}
		for k, m := range a.Measures {
			va, vb := a.Counted(i, m.Name), b.Counted(j, m.Name)
			row, err := compareRow(arm.Name, m, va, vb, rule)
			if err != nil && k == 0 {
				return nil, fmt.Errorf("compare %s of arm %s: %w", m.Name, arm.Name, err)
			}
			if err != nil {
				continue // a figure of zero has no ratio
			}
			if k == 0 {
				row.Verdict = rule.Judge(row.Change.Ratio)
				out.Regressed = out.Regressed || row.Verdict == stats.Slower
			}
			out.Rows = append(out.Rows, row)
		}
	}
	if len(out.Rows) == 0 {
		return nil, fail.With(fmt.Errorf("compare labs: they have no arm in common"), fail.Usage)
	}
	return out, nil
}

func compareRow(arm string, m trial.Measure, va, vb []float64, rule stats.Rule) (trial.Row, error) {
	row := trial.Row{Arm: arm, Measure: m}
	var err error
	if row.Change, err = stats.Unpaired(va, vb, rule.Level()); err != nil {
		return row, err
	}
	if row.A, err = stats.Summarize(va, rule.Level()); err != nil {
		return row, err
	}
	row.B, err = stats.Summarize(vb, rule.Level())
	return row, err
}

func (r *Result) title() string {
	return fmt.Sprintf("lab %s (%s)", r.Lab, r.Started.Format("2006-01-02 15:04"))
}

// unlike warns of whatever differs beside the figures.
func unlike(a, b *Result) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(a.Params)) {
		if a.Params[name] != b.Params[name] {
			out = append(out, fmt.Sprintf("parameter %s: %s against %s", name, a.Params[name], b.Params[name]))
		}
	}
	if a.Where != b.Where {
		out = append(out, fmt.Sprintf("they ran on: %s; %s", a.Where, b.Where))
	}
	if a.Version != b.Version {
		out = append(out, fmt.Sprintf("made by Headroom %s and %s", a.Version, b.Version))
	}
	return out
}
