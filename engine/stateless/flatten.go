package stateless

import (
	"errors"
	"fmt"
	"slices"

	"headroom/engine/ruleset"
	"headroom/fail"
)

// leaf is what the first packet of a flow meets: where all of when holds, it is
// accepted or not. Of a list of leaves the first that matches counts.
type leaf struct {
	when   conj
	accept bool
}

// most is how many leaves a chain may unfold into, and steps how many rules
// are looked at on the way: chains that jump twice to the next double them.
const (
	most  = 20000
	steps = 3 * most
)

// unfold lists the leaves of a base chain, jumps followed, policy last, as the
// first packet of a flow meets them: a state match holds if it takes NEW, flags
// are those of a SYN. What cannot be known of the reply that is to be judged
// (rates, marks, lengths, owners) is taken for true where it accepts and for
// false where it refuses, so the list may accept too much, never too little.
func (t *table) unfold(base *ruleset.Chain) ([]leaf, error) {
	u := &unfolding{table: t}
	for _, g := range u.chain(base, []guard{{sure: true}}, 0) {
		u.leaf(g, base.Policy != ruleset.Drop)
	}
	if u.err != nil {
		return nil, fmt.Errorf("chain %s: %w", base.Name, u.err)
	}
	return trim(u.out), nil
}

func tooLong() error {
	return fail.Hint(fmt.Errorf("it unfolds into more than %d rules", most), "addresses in a set (nft set, ipset) are one rule")
}

// guard is the condition under which a rule is reached.
type guard struct {
	when conj
	sure bool // nothing uncertain was taken for true on the way
}

type unfolding struct {
	table *table
	out   []leaf
	steps int
	err   error
}

func (u *unfolding) leaf(g guard, accept bool) {
	if !accept && !g.sure {
		return
	}
	if u.out = append(u.out, leaf{g.when, accept}); len(u.out) > most && u.err == nil {
		u.err = tooLong()
	}
}

// chain unfolds one chain for those that reach it under any of the guards and
// returns the guards under which its end is reached.
func (u *unfolding) chain(c *ruleset.Chain, reach []guard, depth int) []guard {
	if depth > 32 {
		u.err = errors.New("jumps of more than 32 levels")
	}
	var back []guard // where RETURN or the end of a goto leads
	for _, r := range c.Rules {
		if len(reach) == 0 {
			return back
		}
		var next []guard
		for _, g := range reach {
			if u.err != nil {
				return nil
			}
			stay, left := u.rule(r, g, depth)
			next, back = append(next, stay...), append(back, left...)
		}
		if reach = next; len(reach) > 500 {
			u.err = fmt.Errorf("its RETURNs in chain %s make more than 500 cases", c.Name)
		}
	}
	return append(back, reach...)
}

// rule unfolds one rule and returns under which guards the next one is asked,
// and under which the chain is left.
func (u *unfolding) rule(r *ruleset.Rule, g guard, depth int) (stay, left []guard) {
	if u.steps++; u.steps > steps && u.err == nil {
		u.err = tooLong()
	}
	when, sure, never := opens(r.Matches)
	if u.table.conv.tool(u.table) == ruleset.IPTables && when.has(ruleset.Concat) {
		when, sure = when.drop(ruleset.Concat), false
	}
	if never {
		return []guard{g}, nil
	}
	all, ok := g.when.all(when)
	if !ok {
		return []guard{g}, nil
	}
	hit := guard{all, g.sure && sure}
	switch v := r.Verdict; v.Kind {
	case ruleset.Accept, ruleset.Queue:
		u.leaf(hit, true)
	case ruleset.Drop, ruleset.Reject:
		u.leaf(hit, false)
	case ruleset.Jump, ruleset.Goto:
		to := u.table.chain(v.Chain)
		if to == nil {
			u.err = fmt.Errorf("jump to chain %s, which is not there", v.Chain)
			return nil, nil
		}
		ends := u.chain(to, []guard{hit}, depth+1)
		if v.Kind == ruleset.Goto {
			return apart(g, when, sure), ends
		}
		// Whoever comes back goes on as if the rule were not there: what the
		// chain decided stands before, and the first leaf counts.
		return []guard{g}, nil
	case ruleset.Return:
		if !sure {
			return []guard{g}, nil
		}
		return apart(g, when, true), []guard{hit}
	default:
		return []guard{g}, nil
	}
	if len(when) == 0 && sure {
		return nil, nil
	}
	return []guard{g}, nil
}

// apart is the guard for those that do not match when: one for each way not
// to.
func apart(g guard, when conj, sure bool) (out []guard) {
	if !sure {
		return []guard{g}
	}
	for _, m := range when {
		m.Not = !m.Not
		if more, ok := g.when.and(m); ok {
			out = append(out, guard{more, g.sure})
		}
		if lacks(m.Field) && !g.when.has(ruleset.Proto) && !when.has(ruleset.Proto) {
			out = append(out, guard{g.when, false}) // packets without the field
		}
	}
	return out
}

// lacks says whether there are packets without a field, which then match
// neither the match nor its negation.
func lacks(f ruleset.Field) bool {
	switch f {
	case ruleset.SPort, ruleset.DPort, ruleset.Port, ruleset.ICMPType, ruleset.ICMP6, ruleset.ICMPCode, ruleset.ICMP6C, ruleset.TCPFlags, ruleset.TCPOpt, ruleset.Concat:
		return true
	}
	return false
}

// opens reduces the matches of a rule to those that are about a flow, as its
// first packet meets them. sure is false if some were left out; never says that
// no first packet matches.
func opens(ms []ruleset.Match) (when conj, sure, never bool) {
	sure = true
	for _, m := range ms {
		switch m.Field {
		case ruleset.CTState:
			if slices.Contains(m.Words, "new") == m.Not {
				return nil, false, true
			}
		case ruleset.TCPFlags:
			if holds := m.Set == "" && in(m.Numbers, syn&maskOf(m)); holds == m.Not {
				return nil, false, true
			}
		case ruleset.Fragment:
			if !m.Not {
				return nil, false, true // put together before the rules look
			}
		case ruleset.ICMPCode, ruleset.ICMP6C:
			if in(m.Numbers, 0) == m.Not {
				return nil, false, true
			}
		case ruleset.NFProto, ruleset.Proto, ruleset.SAddr, ruleset.DAddr, ruleset.SPort, ruleset.DPort, ruleset.Port,
			ruleset.IIf, ruleset.OIf, ruleset.ICMPType, ruleset.ICMP6, ruleset.AddrType, ruleset.InSet, ruleset.Concat:
			m.Text = ""
			var ok bool
			if when, ok = when.and(m); !ok {
				return nil, false, true
			}
		default:
			sure = false
		}
	}
	return when, sure, false
}

func maskOf(m ruleset.Match) uint64 {
	if m.Mask == 0 {
		return 0xff
	}
	return m.Mask
}

// trim cuts what comes after a leaf that takes everything, and accepting
// leaves before a last one that accepts all, if none in between refuses.
func trim(in []leaf) []leaf {
	for i, l := range in {
		if len(l.when) == 0 {
			in = in[:i+1]
			break
		}
	}
	n := len(in)
	if n == 0 || len(in[n-1].when) > 0 || in[n-1].accept {
		return in
	}
	for n > 1 && !in[n-2].accept { // refusals before the one of all
		in = append(in[:n-2:n-2], in[n-1])
		n--
	}
	return in
}
