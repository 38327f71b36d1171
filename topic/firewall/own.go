package firewall

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"headroom/change"
	"headroom/engine/ruleset"
	"headroom/fact"
	"headroom/fail"
	"headroom/host"
	"headroom/probe/firewall"
)

var rulesRecipe = &change.Recipe{
	ID: "firewall.rules",
	Doc: "Loads rules of your own from a file, in the place of the tables that the file names; all other tables stay. They are tried in an empty network namespace first, " +
		"replaced at once, and taken back by themselves unless a new connection from outside was seen and the change is confirmed; only then are they saved to be loaded at boot. " +
		"Undone by loading the old tables again.",
	Args:  []change.Arg{{Name: "rules", Doc: "files, with commas: nft's own syntax, iptables-save, ip6tables-save (also --rules)", Eg: "/root/new.nft"}},
	Needs: []fact.Any{},
	Plan: func(*fact.Set, change.Spec) (change.Change, error) {
		return change.Change{}, fail.Hint(errors.New("firewall.rules is not tried on private servers"), "measure them: headroom lab firewall --rules OLD,NEW")
	},
	Work: workRules,
}

// workRules makes a step of each file, which loads the tables in it.
func workRules(ctx context.Context, r host.Reader, _ *fact.Set, spec change.Spec) (change.Change, error) {
	for name := range spec.Args {
		if name != "rules" {
			return change.Change{}, fail.With(fmt.Errorf("no argument %q; there is rules", name), fail.Usage)
		}
	}
	if spec.Args["rules"] == "" || spec.Object != "" {
		return change.Change{}, fail.With(fail.Hint(errors.New("no file is named"), "write: headroom plan firewall.rules --rules FILE"), fail.Usage)
	}
	c := change.Change{
		Spec: spec, Subject: "the packet filter", Risk: change.RiskHigh, CutsOff: true, Confirm: 2 * time.Minute,
		Why:     "Rules of your own, tried in an empty network namespace; what they let in is yours to judge.",
		RiskWhy: "Rules decide who gets in: without a new connection from outside within the time to confirm, the old ones come back.",
	}
	var named []string
	flushes := false
	for f := range strings.SplitSeq(spec.Args["rules"], ",") {
		b, err := r.ReadFile(f)
		if err != nil {
			return c, fmt.Errorf("read rules: %w", err)
		}
		rs, step, err := ownStep(ctx, f, b)
		if err != nil {
			return c, err
		}
		for _, t := range rs.Tables {
			named = append(named, string(t.Family)+" "+t.Name)
		}
		flushes = flushes || flush.Match(b)
		c.Steps = append(c.Steps, step)
	}
	live, err := firewall.Read(ctx, r)
	if err != nil {
		return c, err
	}
	c.Notes = staying(live, named, flushes)
	return c, nil
}

var flush = regexp.MustCompile(`(?m)^\s*flush\s+ruleset\b`)

// ownStep is the step that loads one file.
func ownStep(ctx context.Context, file string, content []byte) (*ruleset.Ruleset, change.Rules, error) {
	rs, err := firewall.FromFile(ctx, file, content)
	if err != nil {
		return nil, change.Rules{}, err
	}
	s := change.Rules{Tool: "nft", Content: string(content), Boot: true}
	switch rs.Tool {
	case ruleset.IPSet:
		return nil, s, fail.Hint(fmt.Errorf("read rules of %s: it holds address sets, no rules", file), "load them first: ipset restore -exist <%s; rules that name them find them then", file)
	case ruleset.IPTables:
		s.Tool = toolOf(rs, file)
	default:
		text, err := firewall.Relisted(ctx, file, content)
		if err != nil {
			return nil, s, err
		}
		s.Content = string(text)
	}
	for _, t := range rs.Tables {
		name := t.Name
		if s.Tool == "nft" {
			name = string(t.Family) + " " + t.Name
		}
		s.Tables = append(s.Tables, name)
	}
	if len(s.Tables) == 0 {
		return nil, s, fmt.Errorf("read rules of %s: there is no table in it", file)
	}
	return rs, s, nil
}

// staying names the present tables that go on judging packets, too.
func staying(live firewall.Rules, named []string, flushes bool) []string {
	var others []string
	for _, t := range live.Tables() {
		name := string(t.Family) + " " + t.Name
		judges := slices.ContainsFunc(t.Chains, func(c *ruleset.Chain) bool { return len(c.Rules) > 0 || c.Policy == ruleset.Drop })
		if judges && !slices.Contains(named, name) && !slices.Contains(others, name) {
			others = append(others, name)
		}
	}
	if len(others) == 0 {
		return nil
	}
	note := "tables that the file does not name stay, and judge packets, too: " + strings.Join(others, ", ") + "."
	if flushes {
		note += " `flush ruleset` in the file is not done; remove by hand what shall go."
	}
	return []string{note}
}
