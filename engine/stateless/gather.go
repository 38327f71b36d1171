package stateless

import (
	"cmp"
	"slices"
	"strings"

	"headroom/engine/ruleset"
)

// Name is the name of the nft tables that rules of iptables are written into.
const Name = "headroom"

// reassemble is the chain for whose sake the kernel puts fragments together.
const reassemble = prefix + "reassemble"

// untrack takes packets from connection tracking in both raw hooks: all, or
// those of some services only.
func (c *converter) untrack(only []Service) {
	for _, f := range c.families() {
		t := c.home(f)
		tool := c.tool(t)
		for _, hook := range []string{"prerouting", "output"} {
			rules := notrack(f, tool, hook, only)
			if tool == ruleset.IPTables {
				ch := c.raw(t, hook)
				ch.Rules = append(rules, ch.Rules...)
				continue
			}
			t.touched = true
			t.out.Chains = append(t.out.Chains, &ruleset.Chain{Name: prefix + "untrack_" + hook, Hook: hook, Type: "filter", Priority: -300, Policy: ruleset.Accept, Rules: rules})
		}
		if len(only) > 0 {
			continue
		}
		home := t
		if tool == ruleset.IPTables {
			home = c.filter(t)
		}
		home.out.Chains = append(home.out.Chains, &ruleset.Chain{Name: reassemble, Rules: []*ruleset.Rule{{
			Matches: conj{{Field: ruleset.CTState, Words: []string{"untracked"}}}, Verdict: ruleset.Verdict{Kind: ruleset.Return},
			Comment: "no packet comes here; for its sake fragments are put together before the rules look",
		}}})
	}
}

// families are those that tracking is switched off for: inet where a table of
// it is there, for that is both.
func (c *converter) families() (out []ruleset.Family) {
	for _, t := range c.tables {
		if t.Family == ruleset.Inet {
			return []ruleset.Family{ruleset.Inet}
		}
		if !slices.Contains(out, t.Family) {
			out = append(out, t.Family)
		}
	}
	return out
}

// home is the table of a family that ours is put into.
func (c *converter) home(f ruleset.Family) *table {
	for _, t := range c.tables {
		if t.Family == f && slices.ContainsFunc(t.Chains, func(ch *ruleset.Chain) bool { return ch.Type == "filter" }) {
			return t
		}
	}
	for _, t := range c.tables {
		if t.Family == f {
			return t
		}
	}
	return nil
}

// filter is iptables' filter table of t's family, else t.
func (c *converter) filter(t *table) *table {
	for _, o := range c.tables {
		if o.from == t.from && o.Family == t.Family && o.Name == "filter" {
			return o
		}
	}
	return t
}

// raw is the chain of iptables' raw table at a hook, made if need be.
func (c *converter) raw(t *table, hook string) *ruleset.Chain {
	var raw *table
	for _, o := range c.tables {
		if o.from == t.from && o.Family == t.Family && o.Name == "raw" {
			raw = o
		}
	}
	if raw == nil {
		raw = &table{Table: &ruleset.Table{Family: t.Family, Name: "raw"}, from: t.from, conv: c}
		raw.begin("raw", "")
		c.tables = append(c.tables, raw)
	}
	raw.touched = true
	name := strings.ToUpper(hook)
	for _, ch := range raw.out.Chains {
		if ch.Name == name {
			return ch
		}
	}
	ch := &ruleset.Chain{Name: name, Hook: hook, Type: "filter", Priority: -300, Policy: ruleset.Accept}
	raw.out.Chains = append(raw.out.Chains, ch)
	return ch
}

func notrack(f ruleset.Family, tool ruleset.Tool, hook string, only []Service) []*ruleset.Rule {
	do := func(when conj) *ruleset.Rule {
		return &ruleset.Rule{Matches: when, Actions: []ruleset.Action{{Name: ruleset.Notrack}}}
	}
	if len(only) == 0 {
		return []*ruleset.Rule{do(nil)}
	}
	var out []*ruleset.Rule
	for _, s := range only {
		when := conj{numbers(ruleset.Proto, s.Proto), {Field: ruleset.DPort, Numbers: s.Ports}}
		if hook == "prerouting" {
			when = append(conj{{Field: ruleset.AddrType, Words: []string{"dst local"}}}, when...)
		} else {
			when[1].Field = ruleset.SPort
		}
		out = append(out, do(when))
	}
	return out
}

// gather writes the converted tables into rule sets, one for each tool and,
// with iptables, family.
func (c *converter) gather() error {
	byKey := map[string]*ruleset.Ruleset{}
	set := func(t *table, tool ruleset.Tool) *ruleset.Ruleset {
		key := string(tool)
		if tool == ruleset.IPTables {
			key += string(t.Family)
		}
		if byKey[key] == nil {
			byKey[key] = &ruleset.Ruleset{Tool: tool, Source: "conversion"}
			c.res.Rulesets = append(c.res.Rulesets, byKey[key])
		}
		return byKey[key]
	}
	for _, t := range c.tables {
		if t.out == nil {
			continue
		}
		tool := c.tool(t)
		rs := set(t, tool)
		switch {
		case tool == ruleset.IPTables:
			for _, ch := range t.out.Chains {
				ch.Rules = split(ch.Rules)
			}
			rs.Tables = append(rs.Tables, t.out)
		case t.from.Tool == ruleset.IPTables:
			c.res.Gone = append(c.res.Gone, string(t.Family)+" "+t.Name)
			merge(rs, t)
		default:
			rs.Tables = append(rs.Tables, t.out)
		}
	}
	return nil
}

// merge puts a table of iptables into the nft table of its family; chains of
// other tables than filter get that table's name.
func merge(rs *ruleset.Ruleset, t *table) {
	i := slices.IndexFunc(rs.Tables, func(o *ruleset.Table) bool { return o.Family == t.Family && o.Name == Name })
	if i < 0 {
		i = len(rs.Tables)
		rs.Tables = append(rs.Tables, &ruleset.Table{Family: t.Family, Name: Name})
	}
	rename := func(s string) string {
		if t.Name == "filter" || s == "" || strings.HasPrefix(s, prefix+"untrack_") {
			return s
		}
		return t.Name + "_" + s
	}
	for _, ch := range t.out.Chains {
		if ch.Hook != "" && len(ch.Rules) == 0 && ch.Policy == ruleset.Accept {
			continue
		}
		one := *ch
		one.Name, one.Rules, one.Counter = rename(ch.Name), nil, nil
		for _, r := range ch.Rules {
			x := *r
			x.Verdict.Chain, x.Verdict.Text, x.Text = rename(r.Verdict.Chain), "", ""
			x.Actions = slices.Clone(r.Actions)
			for i := range x.Actions {
				x.Actions[i].Text = ""
			}
			x.Matches = slices.Clone(r.Matches)
			for i := range x.Matches {
				x.Matches[i].Text = keepText(x.Matches[i])
			}
			one.Rules = append(one.Rules, &x)
		}
		rs.Tables[i].Chains = append(rs.Tables[i].Chains, &one)
	}
}

// split makes rules of iptables of those that list what it takes only one of.
func split(in []*ruleset.Rule) (out []*ruleset.Rule) {
	for _, r := range in {
		if r.Text != "" {
			out = append(out, r)
			continue
		}
		out = append(out, parts(r)...)
	}
	return out
}

// slots is how many ports multiport takes; a range is two.
const slots = 15

func parts(r *ruleset.Rule) []*ruleset.Rule {
	for i, m := range r.Matches {
		var pieces []ruleset.Match
		one := ruleset.Match{Field: m.Field, Not: m.Not, Mask: m.Mask, Text: m.Text}
		switch m.Field {
		case ruleset.Proto, ruleset.ICMPType, ruleset.ICMP6, ruleset.TCPFlags, ruleset.ICMPCode, ruleset.ICMP6C:
			for _, n := range m.Numbers {
				for v := n.Lo; v <= n.Hi; v++ {
					x := one
					x.Numbers = []ruleset.Range{{Lo: v, Hi: v}}
					pieces = append(pieces, x)
				}
			}
		case ruleset.SPort, ruleset.DPort:
			for chunk := range slices.Chunk(m.Numbers, slots/2) {
				x := one
				x.Numbers = chunk
				pieces = append(pieces, x)
			}
		case ruleset.SAddr, ruleset.DAddr:
			for _, a := range m.Addrs {
				x := one
				x.Addrs = []ruleset.AddrRange{a}
				pieces = append(pieces, x)
			}
		case ruleset.IIf, ruleset.OIf:
			for _, w := range m.Words {
				x := one
				x.Words = []string{w}
				pieces = append(pieces, x)
			}
		}
		if len(pieces) < 2 || m.Not {
			continue
		}
		var out []*ruleset.Rule
		for n, p := range pieces {
			x := *r
			x.Matches = slices.Clone(r.Matches)
			x.Matches[i] = p
			if n > 0 && x.Counter != nil {
				x.Counter = &ruleset.Counter{}
			}
			out = append(out, parts(&x)...)
		}
		return out
	}
	return []*ruleset.Rule{r}
}

// order sorts services for people.
func order(in []Service) []Service {
	slices.SortFunc(in, func(a, b Service) int { return cmp.Compare(a.Proto, b.Proto) })
	return in
}
