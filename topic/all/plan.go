package all

import (
	"context"
	"fmt"
	"strings"

	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/fail"
	"headroom/host"
	"headroom/topic"
)

// Checks lists the checks of some topics and the facts they need.
func Checks(ts []topic.Topic) (checks []*check.Check, needs []fact.Any) {
	for _, t := range ts {
		for _, c := range t.Checks {
			checks = append(checks, c)
			needs = append(needs, c.Needs...)
		}
	}
	return checks, Unique(needs)
}

// Facts lists every fact of some topics: their own and what their checks and
// recipes need.
func Facts(ts []topic.Topic) []fact.Any {
	var out []fact.Any
	for _, t := range ts {
		out = append(out, t.Facts...)
		for _, c := range t.Checks {
			out = append(out, c.Needs...)
		}
		for _, r := range t.Recipes {
			out = append(out, r.Needs...)
		}
	}
	return Unique(out)
}

// Unique leaves out facts that were listed before.
func Unique(in []fact.Any) []fact.Any {
	seen := map[string]bool{}
	out := in[:0:0]
	for _, s := range in {
		if !seen[s.Key()] {
			seen[s.Key()] = true
			out = append(out, s)
		}
	}
	return out
}

// Recipes lists the recipes of all topics.
func Recipes() (out []*change.Recipe) {
	for _, t := range Topics() {
		out = append(out, t.Recipes...)
	}
	return out
}

// Recipe finds the recipe of a change; the error is one of usage and lists
// those there are.
func Recipe(spec change.Spec) (*change.Recipe, error) {
	var ids []string
	for _, r := range Recipes() {
		if r.ID == spec.ID {
			return r, nil
		}
		ids = append(ids, r.ID)
	}
	return nil, fail.With(fail.Hint(fmt.Errorf("no change %q", spec.ID), "there are: %s; each is explained by: headroom changes ID", strings.Join(ids, ", ")), fail.Usage)
}

// Prepare makes the plan for some changes on a machine: facts, recipe, plan.
// It changes nothing.
func Prepare(ctx context.Context, r host.Reader, o fact.Options, specs []change.Spec) (*change.Plan, error) {
	var changes []change.Change
	for _, spec := range specs {
		rc, err := Recipe(spec)
		if err != nil {
			return nil, err
		}
		set, err := fact.Gather(ctx, r, o, rc.Needs...)
		if err != nil {
			return nil, err
		}
		c, err := planOne(ctx, r, rc, set, spec)
		if err != nil {
			return nil, err
		}
		changes = append(changes, c)
	}
	return change.Prepare(ctx, r, changes...)
}

// planOne asks the recipe, after all that it needs is known.
func planOne(ctx context.Context, r host.Reader, rc *change.Recipe, set *fact.Set, spec change.Spec) (change.Change, error) {
	for _, n := range rc.Needs {
		if why := set.Why(n); why != "" {
			if cause := set.Error(n); cause != nil {
				return change.Change{}, fmt.Errorf("plan %s: could not tell %s: %w", spec.ID, n.Key(), cause)
			}
			return change.Change{}, fmt.Errorf("plan %s: could not tell %s: %s", spec.ID, n.Key(), why)
		}
	}
	plan := rc.Plan
	if rc.Work != nil {
		plan = func(s *fact.Set, spec change.Spec) (change.Change, error) { return rc.Work(ctx, r, s, spec) }
	}
	c, err := plan(set, spec)
	if err != nil {
		return change.Change{}, fmt.Errorf("plan %s: %w", spec, err)
	}
	return c, nil
}
