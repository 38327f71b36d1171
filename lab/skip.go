package lab

import (
	"fmt"
	"slices"
)

// Skipped is an arm that this machine cannot do, and why.
type Skipped struct {
	Arm string `json:"arm"`
	Why string `json:"why"`
}

// Skip leaves an arm out, for a reason that the result tells: the kernel lacks
// something, or a program is not there. Only Setup may call it. The claims about
// the arm go with it; without its base the lab ends.
func (s *Stand) Skip(arm, why string) { s.skipped = append(s.skipped, Skipped{arm, why}) }

// leaveOut takes the arms away that Setup skipped.
func (r *run) leaveOut() error {
	for _, st := range r.st.all {
		for _, x := range st.skipped {
			i := r.armAt(x.Arm)
			if i < 0 {
				continue // by another stand
			}
			r.exp.Arms = slices.Delete(slices.Clone(r.exp.Arms), i, i+1)
			r.res.Arms = slices.Delete(r.res.Arms, i, i+1)
			r.st.ofArm = slices.Delete(r.st.ofArm, i, i+1)
			r.exp.Claims = slices.DeleteFunc(slices.Clone(r.exp.Claims), func(c Claim) bool { return c.Arm == x.Arm || c.Over == x.Arm })
			r.res.Skipped = append(r.res.Skipped, x)
			if i == 0 || len(r.exp.Arms) < 2 {
				return fmt.Errorf("run lab %s: nothing is left to compare without arm %q: %s", r.lab.Name, x.Arm, x.Why)
			}
		}
	}
	if len(r.res.Skipped) == 0 {
		return nil
	}
	return r.judgeBy()
}
