package ruleset

import (
	"slices"
	"strings"
)

// Chain finds a chain of the table; nil if there is none.
func (t *Table) Chain(name string) *Chain {
	for _, c := range t.Chains {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Set finds a set of the table, or an ipset of those that Attach gave it; nil
// if there is none.
func (t *Table) Set(name string) *Set {
	for _, list := range [][]*Set{t.Sets, t.ipsets} {
		for _, s := range list {
			if s.Name == name {
				return s
			}
		}
	}
	return nil
}

// Ports are the destination ports that a rule names, in matches, sets, tuples and
// verdict maps: the first of each range.
func (t *Table) Ports(r *Rule) (out []uint64) {
	add := func(fields []Field, elements []Element) {
		at := slices.Index(fields, DPort)
		for _, e := range elements {
			parts := strings.Split(e.Text, " . ")
			x := Match{Field: DPort}
			if at >= 0 && at < len(parts) && x.fromText(parts[at]) {
				out = append(out, x.Numbers[0].Lo)
			}
		}
	}
	named := func(name string) []Element {
		if s := t.Set(name); s != nil {
			return s.Elements
		}
		return nil
	}
	for _, m := range r.Matches {
		switch {
		case m.Not:
		case m.Field == Concat:
			add(m.Fields, append(named(m.Set), m.Elements...))
		case m.Field == DPort && m.Set != "":
			add([]Field{DPort}, named(m.Set))
		case m.Field == DPort:
			for _, n := range m.Numbers {
				out = append(out, n.Lo)
			}
		}
	}
	if m := r.Verdict.Map; m != nil {
		add(m.Key, append(named(m.Name), m.Elements...))
	}
	return out
}
