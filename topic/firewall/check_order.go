package firewall

import (
	"fmt"
	"slices"

	"headroom/check"
	"headroom/engine/ruleset"
	"headroom/fact"
	"headroom/probe/firewall"
	"headroom/unit"
)

// lateFrom is behind how many rules a busy rule counts as late; enough is how
// many packets must have been counted before shares mean anything.
const (
	lateFrom = 8
	enough   = 10_000
)

var lateRule = &check.Check{
	Name: "firewall.late-rule",
	Doc: check.Doc{
		Title:    "The rule that takes most packets stands late in its chain",
		Why:      "Every packet is compared with all rules before the one that takes it. Where the busiest rule stands thirtieth, most packets pay for 29 comparisons (S8: five rules cost 12 % of what a core can drop).",
		Evidence: fmt.Sprintf("The rules' own counters: fires if one rule takes at least half of %d packets or more that the chain ended, more than %d rules stand before it, and it can go before at least half of those without any packet being treated otherwise: they do not match what it matches, or do the same with it.", enough, lateFrom),
		Fix:      "Move the rule up to the position that the finding names.",
		Risk:     "None for what packets get, as far as it may move; counters of the rules behind it then count less.",
		Undo:     "Save the rules before (iptables-save, nft list ruleset); iptables-restore or nft -f loads them again.",
		Sources:  []string{"S8"},
	},
	Needs: []fact.Any{firewall.Live},
	Run: func(s *fact.Set, out *check.Report) {
		r := fact.Get(s, firewall.Live)
		defer incomplete(r, out)
		for _, t := range r.Tables() {
			for _, c := range t.Chains {
				if owner(t, c) == "" && len(c.Rules) > lateFrom {
					late(t, c, out)
				}
			}
		}
	},
}

func late(t *ruleset.Table, c *ruleset.Chain, out *check.Report) {
	best, total, counted := -1, uint64(0), false
	for i, r := range c.Rules {
		if r.Counter == nil || r.Counter.Before > 0 || r.Verdict.Kind == ruleset.Continue {
			continue
		}
		counted = true
		total += r.Counter.Packets
		if best < 0 || r.Counter.Packets > c.Rules[best].Counter.Packets {
			best = i
		}
	}
	if !counted {
		out.Unknown(chainName(t, c), fmt.Sprintf("its %d rules do not count: add `counter` to them in nftables", len(c.Rules)))
		return
	}
	if c.Counter != nil {
		total += c.Counter.Packets
	}
	if best <= lateFrom || total < enough || 2*c.Rules[best].Counter.Packets < total {
		return
	}
	to := t.Earliest(c, best)
	if 2*to > best {
		return
	}
	hot := c.Rules[best]
	saved := uint64(best-to) * hot.Counter.Packets
	out.Found(check.Finding{
		Subject: chainName(t, c), Severity: check.Advice, Basis: check.Measured, Worth: min(0.6, float64(best)/100),
		Summary: fmt.Sprintf("Rule %d takes %.0f %% of all packets here, after %d comparisons for each; at position %d it would have saved %s comparisons, and no packet would be treated otherwise.",
			best+1, 100*float64(hot.Counter.Packets)/float64(total), best, to+1, count(int64(saved))),
		Hint: fmt.Sprintf("Move it to position %d.", to+1),
		Evidence: []check.Cite{
			{Name: fmt.Sprintf("rule %d", best+1), Value: hot.Text, Source: where(hot, best)},
			{Name: "packets that it took", Value: int64(hot.Counter.Packets), Unit: unit.Count, Source: "its counter"},
			{Name: "packets that the chain ended", Value: int64(total), Unit: unit.Count, Source: "the counters of its rules and policy"},
		},
	})
}

var shadowed = &check.Check{
	Name: "firewall.shadowed",
	Doc: check.Doc{
		Title: "A rule that never gets a packet, because an earlier one takes them all",
		Why:   "A rule behind one that matches the same and more does nothing. If it does the same, it is ballast; if it was meant as an exception, such as a drop behind a wider accept, what it should forbid is allowed.",
		Evidence: "The rules' text: fires where every match of one earlier rule, which ends a packet's way through the chain, follows from the later rule's own matches. Only kinds of matches whose answer cannot change in between count, so a rule that is named is hidden for certain; not every hidden rule is found. " +
			"Warning if the two do different things, note if they do the same.",
		Fix:     "Move the rule up if it is an exception; delete it if it is ballast.",
		Risk:    "Moved up, it does what it says for the first time: read it again before.",
		Undo:    "Save the rules before (iptables-save, nft list ruleset); iptables-restore or nft -f loads them again.",
		Sources: []string{"S7", "iptables(8)", "nft(8)"},
	},
	Needs: []fact.Any{firewall.Live},
	Run: func(s *fact.Set, out *check.Report) {
		r := fact.Get(s, firewall.Live)
		defer incomplete(r, out)
		for _, t := range r.Tables() {
			for _, c := range t.Chains {
				if owner(t, c) == "" {
					hidden(t, c, out)
				}
			}
		}
	},
}

// hidden reports the rules of a chain that others hide: those that do something
// else one by one, at most ten, ballast in one finding.
func hidden(t *ruleset.Table, c *ruleset.Chain, out *check.Report) {
	all := t.Shadowed(c)
	same := slices.DeleteFunc(slices.Clone(all), func(s ruleset.Shadow) bool { return !s.Same })
	other := slices.DeleteFunc(all, func(s ruleset.Shadow) bool { return s.Same })
	const most = 10
	for i, s := range other {
		f := check.Finding{
			Subject: fmt.Sprintf("%s, rule %d", chainName(t, c), s.At), Severity: check.Warning, Basis: check.ByRule, Worth: 0.5,
			Summary:  fmt.Sprintf("Rule %d never gets a packet: rule %d takes all that it would match, and does something else with them (%s, not %s).", s.At, s.ByAt, does(s.By), does(s.Rule)),
			Hint:     fmt.Sprintf("If it is meant as an exception, it belongs before rule %d.", s.ByAt),
			Evidence: twoRules(s),
		}
		if i == most-1 && len(other) > most {
			f.Summary += fmt.Sprintf(" So it is with %d more of this chain.", len(other)-most)
		}
		out.Found(f)
		if i == most-1 {
			break
		}
	}
	if len(same) > 0 {
		out.Found(check.Finding{
			Subject: chainName(t, c), Severity: check.Note, Basis: check.ByRule, Worth: 0.1,
			Summary:  fmt.Sprintf("%d of its %d rules do nothing: an earlier rule takes the same packets and does the same. The first is rule %d.", len(same), len(c.Rules), same[0].At),
			Hint:     "Delete them.",
			Evidence: twoRules(same[0]),
		})
	}
}

func does(r *ruleset.Rule) string {
	if r.Verdict.Kind == ruleset.Continue {
		return "go on"
	}
	return string(r.Verdict.Kind)
}

func twoRules(s ruleset.Shadow) []check.Cite {
	out := []check.Cite{
		{Name: fmt.Sprintf("rule %d", s.At), Value: s.Rule.Text, Source: where(s.Rule, s.At-1)},
		{Name: fmt.Sprintf("rule %d, which hides it", s.ByAt), Value: s.By.Text, Source: where(s.By, s.ByAt-1)},
	}
	for _, x := range []struct {
		r  *ruleset.Rule
		at int
	}{{s.Rule, s.At}, {s.By, s.ByAt}} {
		if x.r.Counter != nil {
			out = append(out, check.Cite{Name: fmt.Sprintf("packets that rule %d took", x.at), Value: int64(x.r.Counter.Packets), Unit: unit.Count, Source: "its counter"})
		}
	}
	return out
}
