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
	if x.accept {
		if to, x.err = x.j.toldTo(); x.err != nil {
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
		if len(chains) == 0 {
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

// toldTo lists whom an error can be told through the present base chain, in
// two lists of which either will do: those who begin flows that the opposite
// chain lets through backwards, and those to whom this one lets flows begin.
// A list of nil is everybody.
func (j *judge) toldTo() ([][]entry, error) {
	if opposite[j.base.Hook] == "" {
		return nil, nil
	}
	var begun []entry
	for _, p := range j.t.conv.base(j.t.Family, opposite[j.base.Hook]) {
		ls, err := p.table.unfold(p.chain)
		if err != nil {
			return nil, err
		}
		if p.chain.Priority < 0 && !slices.ContainsFunc(ls, func(l leaf) bool { return !l.accept }) {
			continue
		}
		for _, l := range j.fitting(ls) {
			when, sure, never := reversed(l.when.drop(ruleset.ICMPType, ruleset.ICMP6))
			if !never && (l.accept || sure) && (p.table == j.t || !setsIn(when)) {
				begun = place(begun, when, l.accept)
			}
		}
	}
	ls, err := j.t.unfold(j.base)
	if err != nil {
		return nil, err
	}
	var own []entry
	for _, l := range j.fitting(ls) {
		own = place(own, l.when, l.accept)
	}
	out := [][]entry{prune(begun), prune(own)}
	for _, list := range out {
		if len(list) > 0 && list[0].yes && len(list[0].when) == 0 {
			return nil, nil
		}
	}
	return slices.DeleteFunc(out, func(l []entry) bool { return len(l) == 0 }), nil
}

func setsIn(c conj) bool {
	return slices.ContainsFunc(c, func(m ruleset.Match) bool { return m.Set != "" })
}

// place keeps of a condition on a flow the devices and the place that an error
// about it goes to. A refusal counts only if that is all that it asks.
func place(out []entry, when conj, yes bool) []entry {
	var kept conj
	for _, m := range when {
		switch m.Field {
		case ruleset.IIf, ruleset.OIf, ruleset.DAddr, ruleset.NFProto:
			kept = append(kept, m)
		default:
			if !yes {
				return out
			}
		}
	}
	e := entry{kept, yes}
	if slices.ContainsFunc(out, func(o entry) bool { return reflect.DeepEqual(o, e) }) {
		return out
	}
	return append(out, e)
}
