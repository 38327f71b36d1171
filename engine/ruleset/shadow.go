package ruleset

import (
	"slices"
)

// Shadow is a rule that no packet can reach in a way that matters: an earlier
// rule of the chain takes every packet that it would match.
type Shadow struct {
	Rule, By *Rule
	At, ByAt int  // positions in the chain, from 1
	Same     bool // both have the same verdict: the later one is merely of no use
}

// Shadowed finds the rules of a chain that an earlier one hides. It is sound: a
// rule is listed only if the matches of one earlier rule, all of them of kinds
// whose answer cannot change in between, follow from its own, and that rule
// ends the packet's way through the chain. It does not find all: several rules
// together, and sets, are not considered.
func (t *Table) Shadowed(c *Chain) (out []Shadow) {
	p := purity{t, map[string]bool{}}
	type candidate struct {
		rule *Rule
		at   int
	}
	index := map[string][]candidate{} // by a value that a hidden rule must have, too
	for i, r := range c.Rules {
		var by *candidate
		for _, key := range append(r.keys(), "") {
			for j := range index[key] {
				if e := index[key][j]; (by == nil || e.at < by.at) && hides(e.rule, r) {
					by = &e
				}
			}
		}
		if by != nil {
			out = append(out, Shadow{Rule: r, By: by.rule, At: i + 1, ByAt: by.at, Same: by.rule.Verdict.Kind == r.Verdict.Kind && by.rule.Verdict.Chain == r.Verdict.Chain})
		}
		switch {
		case !p.rule(r):
			clear(index) // it may have rewritten the packet
		case ends(r.Verdict) && r.constant():
			e := candidate{r, i + 1}
			key := ""
			if ks := r.keys(); len(ks) > 0 {
				key = ks[0]
			}
			if len(index[key]) < looked {
				index[key] = append(index[key], e)
			}
		}
	}
	return out
}

// looked is how many earlier rules of a kind are compared with each rule, so
// that a chain of 100,000 is judged in seconds.
const looked = 1000

// keys are exact values that the rule asks for: a rule that hides it and asks
// for the same field with one value has the same.
func (r *Rule) keys() (out []string) {
	for _, m := range r.Matches {
		switch {
		case m.Not || m.Set != "" || m.Mask != 0:
		case (m.Field == SAddr || m.Field == DAddr) && len(m.Addrs) == 1 && m.Addrs[0].Lo == m.Addrs[0].Hi:
			out = append(out, string(m.Field)+m.Addrs[0].Lo.String())
		}
	}
	return out
}

// ends says whether a verdict ends the packet's way through the chain.
func ends(v Verdict) bool {
	switch v.Kind {
	case Accept, Drop, Reject, Return, Goto:
		return true
	}
	return false
}

// stable are the fields whose value cannot change between two rules, and whose
// matches are fully described by the model.
var stable = map[Field]bool{NFProto: true, Proto: true, SAddr: true, DAddr: true, SPort: true, DPort: true, Port: true, IIf: true, OIf: true, CTState: true,
	TCPFlags: true, ICMPType: true, ICMPCode: true, ICMP6: true, ICMP6C: true, Fragment: true, Length: true, TTL: true, DSCP: true, PktType: true, Mark: true}

// constant says whether the rule's answer for a packet cannot change from one
// moment to the next.
func (r *Rule) constant() bool {
	return !slices.ContainsFunc(r.Matches, func(m Match) bool { return !stable[m.Field] || m.Set != "" })
}

// purity finds rules that may change a packet or what is known of it.
type purity struct {
	table *Table
	known map[string]bool // of chains; true while being looked at
}

// rule says whether nothing of the packet can have changed after the rule.
func (p purity) rule(r *Rule) bool {
	for _, m := range r.Matches {
		if m.Field == Other && m.Module != "comment" {
			return false
		}
	}
	for _, a := range r.Actions {
		if a.Name != Log && a.Name != NFLog && a.Name != Trace && a.Name != NamedCount {
			return false
		}
	}
	switch r.Verdict.Kind {
	case Continue, Accept, Drop, Reject, Return:
		return true
	case Jump, Goto:
		return p.chain(r.Verdict.Chain)
	}
	return false
}

func (p purity) chain(name string) bool {
	if pure, ok := p.known[name]; ok {
		return pure
	}
	c := p.table.Chain(name)
	if c == nil {
		return false
	}
	p.known[name] = true
	p.known[name] = !slices.ContainsFunc(c.Rules, func(r *Rule) bool { return !p.rule(r) })
	return p.known[name]
}

// hides says whether every packet that r matches was matched by e before.
func hides(e, r *Rule) bool {
	for _, m := range e.Matches {
		if !slices.ContainsFunc(r.Matches, func(have Match) bool { return implies(have, m) }) {
			return false
		}
	}
	return true
}

// implies says whether m holds whenever have does.
func implies(have, m Match) bool {
	if have.Field != m.Field || have.Mask != m.Mask || have.Set != "" || m.Set != "" {
		return false
	}
	switch {
	case m.Field == Fragment:
		return have.Not == m.Not
	case len(have.Words) > 0:
		return impliesWords(have, m)
	case len(have.Addrs) > 0:
		return between(have.Not, m.Not, have.Addrs, m.Addrs, AddrRange.Contains, AddrRange.overlaps)
	case m.Field == Port && (have.Not || m.Not): // two values at once
		return false
	}
	return between(have.Not, m.Not, have.Numbers, m.Numbers, Range.contains, Range.overlaps)
}

func (r Range) contains(o Range) bool { return r.Lo <= o.Lo && o.Hi <= r.Hi }
func (r Range) overlaps(o Range) bool { return r.Lo <= o.Hi && o.Lo <= r.Hi }

func (r AddrRange) overlaps(o AddrRange) bool {
	return r.Lo.BitLen() == o.Lo.BitLen() && r.Lo.Compare(o.Hi) <= 0 && o.Lo.Compare(r.Hi) <= 0
}

// between decides for lists of ranges, of which any may hold.
func between[T any](haveNot, mNot bool, have, m []T, contains, overlaps func(a, b T) bool) bool {
	if len(have) == 0 || len(m) == 0 {
		return false
	}
	within := func(small, large []T) bool {
		return !slices.ContainsFunc(small, func(s T) bool {
			return !slices.ContainsFunc(large, func(l T) bool { return contains(l, s) })
		})
	}
	switch {
	case !haveNot && !mNot:
		return within(have, m)
	case haveNot && mNot:
		return within(m, have)
	case !haveNot && mNot:
		return !slices.ContainsFunc(have, func(h T) bool {
			return slices.ContainsFunc(m, func(x T) bool { return overlaps(h, x) })
		})
	}
	return false
}

func impliesWords(have, m Match) bool {
	contains, overlaps := func(a, b string) bool { return a == b }, func(a, b string) bool { return a == b }
	switch m.Field {
	case IIf, OIf:
		contains = nameMatches
		overlaps = func(a, b string) bool { return nameMatches(a, b) || nameMatches(b, a) }
	case CTState:
		nat := func(w string) bool { return w == "snat" || w == "dnat" } // true beside another state
		if slices.ContainsFunc(have.Words, nat) || slices.ContainsFunc(m.Words, nat) {
			return false
		}
	}
	return between(have.Not, m.Not, have.Words, m.Words, contains, overlaps)
}

// Earliest is the position, from 0, to which the rule at position at can move
// up without any packet being treated otherwise: the rules that it passes match
// no packet that it matches, or end it in the same way.
func (t *Table) Earliest(c *Chain, at int) int {
	r := c.Rules[at]
	if !ends(r.Verdict) || !r.constant() || len(r.Actions) > 0 {
		return at
	}
	p := purity{t, map[string]bool{}}
	to := at
	for to > 0 {
		above := c.Rules[to-1]
		same := ends(above.Verdict) && above.Verdict.Kind == r.Verdict.Kind && above.Verdict.Chain == r.Verdict.Chain && above.Verdict.With == r.Verdict.With &&
			len(above.Actions) == 0 && above.constant()
		if !same && !(p.rule(above) && apart(above, r)) {
			return to
		}
		to--
	}
	return to
}

// apart says whether no packet matches both rules, for certain.
func apart(a, b *Rule) bool {
	for _, m := range a.Matches {
		if !stable[m.Field] || m.Not || m.Field == Port {
			continue
		}
		x := m
		x.Not = true // what b matches must lie outside of what a does
		if slices.ContainsFunc(b.Matches, func(have Match) bool { return !have.Not && implies(have, x) }) {
			return true
		}
	}
	return false
}
