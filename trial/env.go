package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"headroom/change"
	"headroom/fact"
	"headroom/fail"
	"headroom/host"
)

// Env is what a trial needs of the program around it.
type Env struct {
	Recipes []*change.Recipe // that arms may name
	Facts   []fact.Any       // read before and after, kept with the result
	// Still are facts that nothing but an arm may move: whatever moved is
	// warned of. Figures that move by themselves do not belong here.
	Still []fact.Any
	// Live is the user's own machine and, for workloads on a server, the
	// user's own server; nil if none was named.
	Live *Stand
	// Refuse, if given, says why a target is protected; nil lets it be changed.
	// It is asked for each change to something that is not private.
	Refuse func(change.Change) error
	// Dirs hold the journal of changes to the live machine, and scratch files.
	Dirs host.Dirs
	// Parent is the folder for private servers; "" is pglocal's own choice.
	Parent string
	// Fresh is pglocal.Options.Fresh: nothing is kept for the next trial.
	Fresh   bool
	Version string // of Headroom
	Host    string // name of the machine
}

func (e Env) recipe(id string) (*change.Recipe, error) {
	var ids []string
	for _, r := range e.Recipes {
		if r.ID == id {
			return r, nil
		}
		ids = append(ids, r.ID)
	}
	return nil, fail.With(fail.Hint(fmt.Errorf("find change %q: there is none of that name", id),
		"there are: %s", strings.Join(ids, ", ")), fail.Usage)
}

// changes makes an arm's changes out of the facts of one stand.
func (e Env) changes(ctx context.Context, r host.Reader, a Arm) ([]change.Change, error) {
	var out []change.Change
	for _, spec := range a.Changes {
		recipe, err := e.recipe(spec.ID)
		if err != nil {
			return nil, err
		}
		set, err := fact.Gather(ctx, r, fact.Options{Host: e.Host, Version: e.Version}, recipe.Needs...)
		if err != nil {
			return nil, err
		}
		for _, need := range recipe.Needs {
			if why := set.Why(need); why != "" {
				return nil, fmt.Errorf("plan %s: cannot tell %s: %s", spec, need.Key(), why)
			}
		}
		c, err := recipe.Plan(set, spec)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// onMachine says whether a change touches more than a server's settings, and
// so the one machine that all servers here share.
func onMachine(c change.Change) bool {
	for _, s := range c.Steps {
		if k := s.Kind(); k != "setting" && k != "sql" {
			return true
		}
	}
	return false
}

// governor decides how fast the CPUs run; many virtual machines have none.
const governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"

// keepFacts reads the facts to be stored and the ones that must keep still.
func (e Env) keepFacts(ctx context.Context, r host.Reader) (json.RawMessage, map[string]string, error) {
	if len(e.Facts)+len(e.Still) == 0 {
		return nil, nil, nil
	}
	set, err := fact.Gather(ctx, r, fact.Options{Host: e.Host, Version: e.Version}, append(append([]fact.Any{}, e.Facts...), e.Still...)...)
	if err != nil {
		return nil, nil, err
	}
	var b strings.Builder
	if err := set.Save(&b); err != nil {
		return nil, nil, err
	}
	still := map[string]string{}
	if b, err := r.ReadFile(governor); err == nil {
		still["CPU frequency governor"] = strings.TrimSpace(string(b))
	}
	for _, s := range e.Still {
		if x, ok := set.Entry(s.Key()); ok && x.Unknown == "" {
			if err := flatten(still, s.Key(), x.Value); err != nil {
				return nil, nil, err
			}
		}
	}
	return json.RawMessage(b.String()), still, nil
}

// flatten writes every single value within v as one line, under a name that
// does not depend on the order of lists whose members have names.
func flatten(out map[string]string, name string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("compare fact %s: %w", name, err)
	}
	var plain any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // written as they stand, not as 1.07e+09
	if err := dec.Decode(&plain); err != nil {
		return fmt.Errorf("compare fact %s: %w", name, err)
	}
	flat(out, name, plain)
	return nil
}

func flat(out map[string]string, name string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			flat(out, name+" "+k, x)
		}
	case []any:
		for i, x := range v {
			key := fmt.Sprint(i)
			if m, ok := x.(map[string]any); ok {
				if n, ok := m["name"].(string); ok {
					key = n
				}
			}
			flat(out, name+" "+key, x)
		}
	default:
		out[name] = fmt.Sprint(v)
	}
}
