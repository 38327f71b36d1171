package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/fail"
	"headroom/host"
	"headroom/topic"
	"headroom/topic/all"
)

// machine is the machine and server that a verb works on, from its flags.
type machine struct {
	db      string
	noProbe bool
	root    string
	named   bool // the user named a server, by flag, configuration or PG* variable
}

// flags adds --db and --no-probe to a verb.
func (m *machine) flags(c *cobra.Command, probe bool) {
	c.Flags().StringVar(&m.db, "db", "", "the PostgreSQL server, as libpq takes it: URL, or keyword=value; default: PG* variables, then the local socket")
	if probe {
		c.Flags().BoolVar(&m.noProbe, "no-probe", false, "do not measure the disk (at most 2 s of low-priority reads)")
	}
	c.Flags().StringVar(&m.root, "root", "", "look at a copy of /proc, /sys and /etc below this folder instead of this machine")
}

// open returns the machine; the server is connected at first use.
func (m *machine) open(a *app) *host.Local {
	if m.db == "" {
		m.db = os.Getenv("HEADROOM_DB")
	}
	if m.db == "" {
		m.db = a.config.DB
	}
	m.named = m.db != "" || anyEnv("PGHOST", "PGPORT", "PGSERVICE", "PGDATABASE", "PGUSER", "PGHOSTADDR")
	if a.config.Probe != nil && !*a.config.Probe {
		m.noProbe = true
	}
	return host.Open(host.Options{Root: m.root, DSN: m.db, WithPG: true})
}

func anyEnv(names ...string) bool {
	for _, n := range names {
		if os.Getenv(n) != "" {
			return true
		}
	}
	return false
}

// gather reads the wanted facts of the machine.
func (m *machine) gather(ctx context.Context, r host.Reader, want []fact.Any) (*fact.Set, error) {
	name, _ := os.Hostname()
	return fact.Gather(ctx, r, fact.Options{Probes: !m.noProbe, Host: name, Version: version}, want...)
}

// loadFacts reads a file that `facts --save` wrote.
func loadFacts(path string) (*fact.Set, []string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fail.Hint(fmt.Errorf("read facts: %w", err), "make one with: headroom facts --save %s", path)
	}
	defer f.Close()
	set, skipped, err := fact.Load(f, factsOf(all.Topics()))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return set, skipped, nil
}

// pickTopics returns the topics named, or all.
func pickTopics(names []string) ([]topic.Topic, error) {
	known := all.Topics()
	if len(names) == 0 {
		return known, nil
	}
	var out []topic.Topic
	for _, n := range names {
		found := false
		for _, t := range known {
			if t.Name == n {
				out, found = append(out, t), true
			}
		}
		if !found {
			return nil, fail.With(fail.Hint(fmt.Errorf("no topic %q", n), "there are: %s", strings.Join(topicNames(known), ", ")), fail.Usage)
		}
	}
	return out, nil
}

func topicNames(ts []topic.Topic) (out []string) {
	for _, t := range ts {
		out = append(out, t.Name)
	}
	return out
}

// checksOf lists the checks of some topics and the facts they need.
func checksOf(ts []topic.Topic) (checks []*check.Check, needs []fact.Any) {
	for _, t := range ts {
		for _, c := range t.Checks {
			checks = append(checks, c)
			needs = append(needs, c.Needs...)
		}
	}
	return checks, unique(needs)
}

// factsOf lists every fact of some topics: their own and what their checks
// and recipes need.
func factsOf(ts []topic.Topic) []fact.Any {
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
	return unique(out)
}

func unique(in []fact.Any) []fact.Any {
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

// recipe finds the recipe of a change.
func recipe(spec change.Spec) (*change.Recipe, error) {
	var ids []string
	for _, r := range recipes() {
		if r.ID == spec.ID {
			return r, nil
		}
		ids = append(ids, r.ID)
	}
	return nil, fail.With(fail.Hint(fmt.Errorf("no change %q", spec.ID), "there are: %s; each is explained by: headroom changes ID", strings.Join(ids, ", ")), fail.Usage)
}

// prepare makes the plan for some changes on a machine: facts, recipe, plan.
func prepare(ctx context.Context, m *machine, r host.Reader, specs []change.Spec) (*change.Plan, error) {
	var changes []change.Change
	for _, spec := range specs {
		rc, err := recipe(spec)
		if err != nil {
			return nil, err
		}
		set, err := m.gather(ctx, r, rc.Needs)
		if err != nil {
			return nil, err
		}
		c, err := planOne(rc, set, spec)
		if err != nil {
			return nil, err
		}
		changes = append(changes, c)
	}
	return change.Prepare(ctx, r, changes...)
}

// planOne asks the recipe, after all that it needs is known.
func planOne(rc *change.Recipe, set *fact.Set, spec change.Spec) (change.Change, error) {
	for _, n := range rc.Needs {
		if why := set.Why(n); why != "" {
			if cause := set.Error(n); cause != nil {
				return change.Change{}, fmt.Errorf("plan %s: could not tell %s: %w", spec.ID, n.Key(), cause)
			}
			return change.Change{}, fmt.Errorf("plan %s: could not tell %s: %s", spec.ID, n.Key(), why)
		}
	}
	c, err := rc.Plan(set, spec)
	if err != nil {
		return change.Change{}, fmt.Errorf("plan %s: %w", spec, err)
	}
	return c, nil
}
