package report

import (
	"encoding/json"
	"strings"

	"headroom/change"
	"headroom/trial"
)

// armTitle names an arm by what its plan alters, "max_wal_size 1GB → 10GB",
// behind its own name if it was given one; or by that where it is not one value.
func armTitle(r *trial.Result, name string) string {
	for _, a := range r.Arms {
		if a.Name != name || len(a.Changes) != 1 {
			continue
		}
		var plan change.Plan
		if json.Unmarshal(a.Plans, &plan) != nil {
			return name
		}
		for arg, want := range a.Changes[0].Args {
			if row, ok := alteration(&plan, arg); ok && len(a.Changes[0].Args) == 1 {
				title := strings.TrimSpace(a.Changes[0].Object+" "+arg) + " " + row.Now + " → " + orElse(row.After, want)
				if name != trial.ArmOf(a.Changes...).Name {
					title = name + " (" + title + ")"
				}
				return title
			}
		}
	}
	return name
}

// alteration finds what a plan does to the named setting or value.
func alteration(p *change.Plan, name string) (change.Row, bool) {
	for _, s := range p.Steps() {
		for _, row := range s.Rows() {
			base := row.Name[strings.LastIndexByte(row.Name, '/')+1:]
			if row.Name == name+" (in force)" || base == name {
				return row, true
			}
		}
	}
	return change.Row{}, false
}
