package firewall

import (
	"fmt"
	"strings"

	"headroom/check"
	"headroom/engine/ruleset"
	"headroom/fact"
	"headroom/probe/firewall"
	"headroom/unit"
)

// longRun is from how many rules of one form in a row on a set is advised.
const longRun = 16

var longChain = &check.Check{
	Name: "firewall.long-chain",
	Doc: check.Doc{
		Title:    "Many rules of one form where one look into a set would do",
		Why:      "Rules are asked one after the other. A packet that none of 300 addresses matches is compared 300 times; a set answers at once, whether it holds 1 or 250,000 entries (S8: 10 % dearer than the first rule, flat; 5 rules in a row cost 12 % already). `headroom lab firewall` measures it on this machine.",
		Evidence: fmt.Sprintf("%d or more rules in a row that differ in one address, port or interface only and do the same; with the counters of what they matched and of what passed through them. Chains that Docker, fail2ban, firewalld, ufw and the like make themselves are left alone.", longRun),
		Fix:      "One set, one rule: nft add set …, ip saddr @set drop; or ipset create … hash:net, -m set --match-set.",
		Risk:     "Rules between which others stand must stay apart: only rules in a row are counted here, so the order does not matter. Counters become those of the set's rule.",
		Undo:     "Save the rules before (iptables-save, nft list ruleset); iptables-restore or nft -f loads them again.",
		Sources:  []string{"S8", "ipset(8)", "nft(8)"},
	},
	Needs: []fact.Any{firewall.Live},
	Run: func(s *fact.Set, out *check.Report) {
		r := fact.Get(s, firewall.Live)
		defer incomplete(r, out)
		for _, t := range r.Tables() {
			for _, c := range t.Chains {
				if owner(t, c) != "" || len(c.Rules) < longRun {
					continue
				}
				if x := longest(c); x.n >= longRun {
					out.Found(runFinding(t, c, x))
				}
			}
		}
	},
}

// run is a row of rules that differ in one field.
type run struct {
	field   ruleset.Field
	from, n int
}

// longest finds the longest row of a chain.
func longest(c *ruleset.Chain) (best run) {
	for _, f := range []ruleset.Field{ruleset.SAddr, ruleset.DAddr, ruleset.DPort, ruleset.SPort, ruleset.IIf} {
		last, now := "", run{field: f}
		for i, r := range c.Rules {
			form := formOf(r, f)
			if form == "" || form != last {
				now = run{field: f, from: i}
			}
			last = form
			if form != "" {
				now.n = i - now.from + 1
			}
			if now.n > best.n {
				best = now
			}
		}
	}
	return best
}

// formOf is all of a rule but the values of one field; "" if it does not match
// on that field once, or in a way that a set cannot take over.
func formOf(r *ruleset.Rule, f ruleset.Field) string {
	var b strings.Builder
	found := 0
	for _, m := range r.Matches {
		switch {
		case m.Field == ruleset.Limit || m.Field == ruleset.Other:
			return "" // counts for each rule by itself
		case m.Field == f && !m.Not && m.Set == "" && m.Mask == 0:
			found++
			continue
		}
		fmt.Fprint(&b, m.Field, m.Not, m.Addrs, m.Numbers, m.Words, m.Mask, m.Set, "|")
	}
	if found != 1 || r.Verdict.Kind == ruleset.Continue && len(r.Actions) == 0 { // it only counts: a set would count all together
		return ""
	}
	for _, a := range r.Actions {
		b.WriteString(a.Text + "|")
	}
	fmt.Fprint(&b, r.Verdict.Kind, r.Verdict.Chain, r.Verdict.With)
	return b.String()
}

var fieldName = map[ruleset.Field]string{ruleset.SAddr: "source address", ruleset.DAddr: "destination address", ruleset.DPort: "destination port",
	ruleset.SPort: "source port", ruleset.IIf: "incoming interface"}

func runFinding(t *ruleset.Table, c *ruleset.Chain, x run) check.Finding {
	first := c.Rules[x.from]
	matched, counted := uint64(0), true
	for _, r := range c.Rules[x.from : x.from+x.n] {
		if r.Counter == nil {
			counted = false
			continue
		}
		matched += r.Counter.Packets
	}
	f := check.Finding{
		Subject: chainName(t, c), Severity: check.Advice, Basis: check.ByRule, Worth: min(0.8, 0.2+float64(x.n)/1000),
		Summary: fmt.Sprintf("%s rules in a row differ in the %s only: each packet that passes is compared up to %s times where one look into a set would do.", count(int64(x.n)), fieldName[x.field], count(int64(x.n))),
		Hint:    setHint(t, x, first),
		Evidence: []check.Cite{
			{Name: "rules in a row", Value: x.n, Unit: unit.Count, Source: chainName(t, c)},
			{Name: "the first of them", Value: first.Text, Source: where(first, x.from)},
		},
	}
	if x.n >= 100 {
		f.Severity = check.Warning
	}
	if passed, ok := behind(c, x.from+x.n); ok && counted && passed+matched > 0 {
		f.Basis = check.Measured
		f.Summary = fmt.Sprintf("%s rules in a row differ in the %s only: they matched %s packets, and at least %s more were compared with all of them in vain, where one look into a set would do.",
			count(int64(x.n)), fieldName[x.field], count(int64(matched)), count(int64(passed)))
		f.Evidence = append(f.Evidence, check.Cite{Name: "packets that they matched", Value: int64(matched), Unit: unit.Count, Source: "their counters"},
			check.Cite{Name: "packets that later rules and the policy took", Value: int64(passed), Unit: unit.Count, Source: "their counters"})
	}
	return f
}

// where says at which line or handle a rule is.
func where(r *ruleset.Rule, at int) string {
	if r.Line > 0 {
		return fmt.Sprintf("rule %d, line %d of the dump", at+1, r.Line)
	}
	return fmt.Sprintf("rule %d, handle %d", at+1, r.Handle)
}

// behind sums what the rules from one on and the policy took; ok is false if
// none of them counts.
func behind(c *ruleset.Chain, from int) (packets uint64, ok bool) {
	for _, r := range c.Rules[from:] {
		if r.Counter != nil && r.Verdict.Kind != ruleset.Continue {
			packets, ok = packets+r.Counter.Packets, true
		}
	}
	if c.Counter != nil {
		packets, ok = packets+c.Counter.Packets, true
	}
	return packets, ok
}

// setHint is how to begin.
func setHint(t *ruleset.Table, x run, r *ruleset.Rule) string {
	verdict := string(r.Verdict.Kind)
	if r.Verdict.Chain != "" {
		verdict += " " + r.Verdict.Chain
	}
	iptables := r.Line > 0
	typ, name := "ipv4_addr", "ip saddr"
	if t.Family == ruleset.IP6 {
		typ, name = "ipv6_addr", "ip6 saddr"
	}
	switch {
	case (x.field == ruleset.SAddr || x.field == ruleset.DAddr) && iptables:
		side := map[ruleset.Field]string{ruleset.SAddr: "src", ruleset.DAddr: "dst"}[x.field]
		family := map[ruleset.Family]string{ruleset.IP6: " family inet6"}[t.Family]
		return fmt.Sprintf("ipset create many hash:net%s, ipset add many ADDRESS for each, then one rule with -m set --match-set many %s in place of the %d.", family, side, x.n)
	case x.field == ruleset.DAddr:
		name = strings.Replace(name, "saddr", "daddr", 1)
	case x.field == ruleset.SPort || x.field == ruleset.DPort:
		if iptables {
			return "One rule takes 15 ports: -m multiport; nftables takes any number in { }."
		}
		return fmt.Sprintf("One rule with { PORT, PORT … } in place of the %d.", x.n)
	case x.field == ruleset.IIf:
		return "One rule with iifname { … } of nftables in place of all; iptables has no set of interfaces alone."
	}
	return fmt.Sprintf("nft add set %s %s many { type %s; flags interval; }, then one rule \"%s @many %s\" in place of the %d.", t.Family, t.Name, typ, name, verdict, x.n)
}
