package stateless

import (
	"reflect"
	"slices"

	"headroom/engine/ruleset"
)

// related does it with the ICMP errors that must pass. Where only some hosts or
// devices have flows at all, only errors to those.
func (x *expansion) related() {
	var to [][]entry
	all := true
	if x.accept {
		if to, all, x.err = x.j.toldTo(); x.err != nil {
			return
		}
	}
	var chains []string
	for _, list := range to {
		chains = append(chains, x.j.fill("errors_"+x.j.base.Hook, list, &ruleset.Rule{Actions: x.r.Actions, Verdict: x.r.Verdict}).Name)
	}
	for _, k := range kindsOf(x.j.t.Family) {
		if !x.when.allows(k.proto) {
			continue
		}
		which := conj{numbers(ruleset.Proto, k.proto), numbers(k.field, k.errors...)}
		if all {
			x.add(which...)
			continue
		}
		for _, name := range chains {
			if c, ok := which.all(x.when); ok {
				x.out = append(x.out, &ruleset.Rule{Matches: c, Counter: x.r.Counter, Verdict: ruleset.Verdict{Kind: ruleset.Jump, Chain: name}})
			}
		}
	}
}

// untold does it with the ICMP errors to where nobody has a flow: whatever they
// quote, it is unknown, so that they are INVALID.
func (x *expansion) untold() {
	to, all, err := x.j.toldTo()
	if err != nil || all { // where it cannot be said, an error too many passes
		return
	}
	var unknown *ruleset.Chain
	for _, k := range kindsOf(x.j.t.Family) {
		c, ok := conj{numbers(ruleset.Proto, k.proto), numbers(k.field, slices.Concat(k.errors, k.related)...)}.all(x.when)
		if !ok || !x.when.allows(k.proto) {
			continue
		}
		if unknown == nil {
			unknown = x.j.fill("unknown_"+x.j.base.Hook, slices.Concat(to...), &ruleset.Rule{Verdict: ruleset.Verdict{Kind: ruleset.Return}})
			do := *x.r
			if do.Verdict.Kind == ruleset.Jump {
				do.Verdict.Kind = ruleset.Goto
			}
			unknown.Rules = append(unknown.Rules, x.j.verdict(&do, nil))
		}
		x.out = append(x.out, jump(c, unknown.Name))
	}
}

// toldTo lists whom an error can be told through the present base chain, in
// two lists of which either will do: those who begin flows that the opposite
// chain lets through backwards, and those to whom this one lets flows begin.
// all says that everybody is among them.
func (j *judge) toldTo() (lists [][]entry, all bool, err error) {
	if opposite[j.base.Hook] == "" {
		return nil, true, nil
	}
	var begun, own []leaf
	judged := false // some chain decides on what goes the other way
	for _, p := range j.t.conv.base(j.t.Family, opposite[j.base.Hook]) {
		ls, err := p.table.unfold(p.chain)
		if err != nil {
			return nil, false, err
		}
		if p.chain.Priority < 0 && !slices.ContainsFunc(ls, func(l leaf) bool { return !l.accept }) {
			continue
		}
		judged = true
		for _, l := range j.fitting(ls) {
			when, sure, never := reversed(l.when)
			if !never && (l.accept || sure) && (p.table == j.t || !setsIn(when)) {
				begun = append(begun, leaf{when, l.accept})
			}
		}
	}
	if !judged {
		return nil, true, nil
	}
	if list := j.places(begun); len(list) > 0 && len(list[0].when) == 0 {
		return nil, true, nil
	}
	ls, err := j.t.unfold(j.base)
	if err != nil {
		return nil, false, err
	}
	for _, l := range j.fitting(ls) {
		if _, _, never := reversed(l.when); !never { // errors begin no flow
			own = append(own, l)
		}
	}
	for _, list := range [][]entry{j.places(begun), j.places(own)} {
		if len(list) == 0 {
			continue
		}
		if len(list[0].when) == 0 {
			return nil, true, nil
		}
		lists = append(lists, list)
	}
	return lists, false, nil
}

func setsIn(c conj) bool {
	return slices.ContainsFunc(c, func(m ruleset.Match) bool { return m.Set != "" })
}

// places keeps of conditions on flows the devices and the place that an error
// about one goes to, without those where all such flows are refused before.
func (j *judge) places(ls []leaf) (out []entry) {
	var refused []leaf
	for _, l := range ls {
		if !l.accept {
			refused = append(refused, l)
			continue
		}
		at, _ := placeOf(l.when)
		regions := []conj{at}
		for _, d := range refused[:min(len(refused), 50)] {
			if there, rest := placeOf(d.when); implies(l.when, rest) {
				regions = j.outside(regions, there)
			}
		}
		for _, c := range regions {
			if e := (entry{c, true}); !slices.ContainsFunc(out, func(o entry) bool { return reflect.DeepEqual(o, e) }) {
				out = append(out, e)
			}
		}
	}
	if slices.ContainsFunc(out, func(e entry) bool { return len(e.when) == 0 }) {
		return []entry{{nil, true}}
	}
	return prune(out)
}

// placeOf parts a condition into where an error about a flow goes to and the
// rest.
func placeOf(when conj) (at, rest conj) {
	for _, m := range when {
		switch m.Field {
		case ruleset.IIf, ruleset.OIf, ruleset.DAddr, ruleset.NFProto:
			at = append(at, m)
		default:
			rest = append(rest, m)
		}
	}
	return at, rest
}

// outside cuts a place out of regions. Where that cannot be written it stays,
// so that an error too many passes.
func (j *judge) outside(regions []conj, there conj) (out []conj) {
	for _, r := range regions {
		for _, m := range there {
			m.Not = !m.Not
			if m.Not && j.tool == ruleset.IPTables && slices.ContainsFunc(r, func(x ruleset.Match) bool { return x.Field == m.Field && x.Not }) {
				return regions
			}
			if c, ok := r.and(m); ok {
				out = append(out, c)
			}
		}
	}
	if len(out) > 64 {
		return regions
	}
	return out
}
