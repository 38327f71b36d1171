package stateless

import (
	"errors"
	"fmt"
	"slices"

	"headroom/engine/ruleset"
)

// states of a packet, as a rule asks for them.
type states struct{ fresh, established, related, invalid, untracked bool }

// asked takes the state matches out of a rule.
func asked(ms []ruleset.Match) (st states, rest conj, any bool) {
	st = states{true, true, true, true, true}
	for _, m := range ms {
		if m.Field != ruleset.CTState {
			m.Text = keepText(m)
			rest = append(rest, m)
			continue
		}
		any = true
		for _, s := range []struct {
			flag *bool
			name string
		}{{&st.fresh, "new"}, {&st.established, "established"}, {&st.related, "related"}, {&st.invalid, "invalid"}, {&st.untracked, "untracked"}} {
			*s.flag = *s.flag && slices.Contains(m.Words, s.name) != m.Not
		}
	}
	return st, rest, any
}

// keepText keeps the text of what only its text tells.
func keepText(m ruleset.Match) string {
	switch m.Field {
	case ruleset.Other, ruleset.String, ruleset.CTOther, ruleset.InSet, ruleset.Concat, ruleset.Port:
		return m.Text
	}
	return ""
}

// rule converts one rule.
func (j *judge) rule(r *ruleset.Rule) ([]*ruleset.Rule, error) {
	st, when, any := asked(r.Matches)
	out := j.verdict(r, when)
	if to := r.Verdict.Chain; r.Verdict.Kind == ruleset.Jump || r.Verdict.Kind == ruleset.Goto {
		target := j.t.chain(to)
		if target == nil {
			return nil, fmt.Errorf("there is no chain %s", to)
		}
		name, err := j.chain(target)
		if err != nil {
			return nil, err
		}
		out.Verdict.Chain = name
	}
	if !any || st == (states{true, true, true, true, true}) {
		out.Text = r.Text
		if any || out.Verdict.Chain != r.Verdict.Chain {
			out.Text = ""
		}
		return []*ruleset.Rule{out}, nil
	}
	x := &expansion{j: j, r: out, when: when, accept: r.Verdict.Kind == ruleset.Accept}
	x.denies = r.Verdict.Kind == ruleset.Drop || r.Verdict.Kind == ruleset.Reject
	x.all(st)
	var late []*ruleset.Rule
	if st.established && x.accept && len(when) == 0 {
		j.seen = true
		late = j.late()
	}
	if st.invalid && !x.accept && !j.seen {
		j.early = append(j.early, out)
	}
	if st.related && x.accept && len(when) == 0 {
		j.told = true
	}
	for i, made := range x.out {
		made.Comment = r.Comment
		if i > 0 && made.Counter != nil {
			made.Counter = &ruleset.Counter{}
		}
	}
	return append(x.out, late...), x.err
}

// late does what earlier rules of the chain do with INVALID with that of it
// which could have been an answer then, now that answers have been accepted.
func (j *judge) late() (out []*ruleset.Rule) {
	for _, r := range j.early {
		x := &expansion{j: j, r: r, when: r.Matches}
		if x.when.allows(tcp) {
			for _, m := range segments(j.tool, lost) {
				x.add(numbers(ruleset.Proto, tcp), m)
			}
		}
		for _, k := range kindsOf(j.t.Family) {
			if x.when.allows(k.proto) {
				x.add(numbers(ruleset.Proto, k.proto), numbers(k.field, k.reply...))
			}
		}
		for _, made := range x.out {
			made.Comment = r.Comment
			if made.Counter != nil {
				made.Counter = &ruleset.Counter{}
			}
		}
		out = append(out, x.out...)
	}
	j.early = nil
	return out
}

// expansion is one rule on its way to several.
type expansion struct {
	j              *judge
	r              *ruleset.Rule // what is done
	when           conj          // the rule's matches without the state
	accept, denies bool
	out            []*ruleset.Rule
	err            error
}

// add does it where the matches hold, too.
func (x *expansion) add(ms ...ruleset.Match) {
	// What the state became comes first, as most packets fail there; some
	// matches of iptables drop what they cannot read.
	if c, ok := conj(ms).all(x.when); ok {
		x.out = append(x.out, x.j.verdict(x.r, c))
	}
}

func (x *expansion) all(st states) {
	if st.established && !(st.fresh && x.noTrace()) {
		x.established()
	}
	if st.fresh {
		x.fresh(st.established)
	}
	if st.related {
		x.related()
	}
	if st.invalid {
		x.invalid()
		if !x.accept && x.r.Verdict.Kind != ruleset.Return && !st.related && !x.j.told {
			x.untold()
		}
	}
	if st.untracked {
		x.untracked()
	}
}

// noTrace says that NEW takes all packets of the rule's protocol, so that
// ESTABLISHED adds none.
func (x *expansion) noTrace() bool {
	return !x.when.allows(tcp) && !x.when.allows(icmp) && !x.when.allows(icmp6)
}

func (x *expansion) established() {
	to, err := x.j.established(x.r)
	if err != nil {
		x.err = err
		return
	}
	x.out = append(x.out, &ruleset.Rule{Matches: x.when, Counter: x.r.Counter, Verdict: ruleset.Verdict{Kind: ruleset.Jump, Chain: to}})
}

// fresh does it with what begins a flow; also with the rest of its direction
// if ESTABLISHED was asked for, too.
func (x *expansion) fresh(also bool) {
	cs := opening
	switch {
	case x.j.seen && !x.accept:
		cs = beginning
	case also && x.accept:
		cs = forward
	case also:
		cs = append(slices.Clone(forward), answering...)
	}
	if x.when.allows(tcp) {
		for _, m := range segments(x.j.tool, cs) {
			x.add(numbers(ruleset.Proto, tcp), m)
		}
	}
	for _, k := range kindsOf(x.j.t.Family) {
		if x.when.allows(k.proto) {
			x.add(numbers(ruleset.Proto, k.proto), numbers(k.field, k.request...))
		}
	}
	x.others(x.denies && !also)
}

// others does it with protocols that are neither TCP nor ICMP; of what is
// refused as NEW the answers are excepted.
func (x *expansion) others(except bool) {
	if m := x.when.find(ruleset.Proto); m != nil && len(without(m.Numbers, numbers(ruleset.Proto, tcp, icmp, icmp6).Numbers)) == 0 {
		return
	}
	x.limits()
	if x.j.tool == ruleset.NFT && !except || x.when.find(ruleset.Proto) != nil && !except {
		m := numbers(ruleset.Proto, icmp, tcp, icmp6)
		m.Not = true
		x.add(m)
		return
	}
	if x.r.Verdict.Kind == ruleset.Return {
		x.err = errors.New("what begins a flow cannot leave the chain from a chain of its own: name the protocol")
		return
	}
	do := *x.r
	if do.Verdict.Kind == ruleset.Jump {
		do.Verdict.Kind = ruleset.Goto
	}
	ch := x.j.made("new_" + x.j.base.Hook)
	for _, p := range []uint64{tcp, icmp, icmp6} {
		ch.Rules = append(ch.Rules, &ruleset.Rule{Matches: conj{numbers(ruleset.Proto, p)}, Verdict: ruleset.Verdict{Kind: ruleset.Return}})
	}
	if except && !x.j.seen {
		if x.err = x.spare(ch, &do); x.err != nil {
			return
		}
	}
	ch.Rules = append(ch.Rules, x.j.verdict(&do, nil))
	x.out = append(x.out, jump(x.when, ch.Name))
}

// spare lets what can be an answer leave a chain before the packets that begin
// a flow are refused there.
func (x *expansion) spare(ch *ruleset.Chain, do *ruleset.Rule) error {
	lists, err := x.j.mirrors()
	if err != nil {
		return err
	}
	if len(lists) > 1 {
		return fmt.Errorf("new flows are refused before established ones are accepted, and %d chains decide on answers", len(lists))
	}
	for _, e := range lists[0] {
		if !e.when.allows(udp) {
			continue
		}
		r := &ruleset.Rule{Matches: e.when, Verdict: ruleset.Verdict{Kind: ruleset.Return}}
		if !e.yes {
			r = x.j.verdict(do, e.when)
		}
		ch.Rules = append(ch.Rules, r)
	}
	return nil
}

// limits notes that a rate of new flows becomes one of packets.
func (x *expansion) limits() {
	if x.when.has(ruleset.Limit) && x.when.allows(udp) {
		x.j.t.conv.note("a rate in chain %s counted new flows; of UDP it counts packets now", x.j.base.Name)
	}
}

func (x *expansion) invalid() {
	if x.when.allows(tcp) {
		bad, good := invalid, append(slices.Clone(forward), answering...)
		if x.j.seen {
			// What could be an answer, or belong to a connection that was let
			// in, has passed: of the rest only a SYN, or an ACK alone, is taken
			// for a beginning by connection tracking.
			bad, good = append(slices.Clone(invalid), lost...), beginning
		}
		ms := segments(ruleset.IPTables, bad)
		if x.j.tool == ruleset.NFT {
			ms = segments(ruleset.NFT, good)
			ms[0].Not = true
		}
		for _, m := range ms {
			x.add(numbers(ruleset.Proto, tcp), m)
		}
	}
	for _, k := range kindsOf(x.j.t.Family) {
		switch {
		case !x.when.allows(k.proto):
		case x.j.tool == ruleset.NFT || x.when.has(k.field):
			x.add(numbers(ruleset.Proto, k.proto), k.strange(x.j.seen, x.j.told))
		default:
			x.strange(k)
		}
	}
}

// strange does it with the ICMP types that no flow has, in a chain of its own
// that the others leave: iptables takes one type in a rule.
func (x *expansion) strange(k kinds) {
	ch := x.j.made("strange_" + x.j.base.Hook)
	for _, known := range k.strange(x.j.seen, x.j.told).Numbers {
		for n := known.Lo; n <= known.Hi; n++ {
			ch.Rules = append(ch.Rules, &ruleset.Rule{Matches: conj{numbers(ruleset.Proto, k.proto), numbers(k.field, n)}, Verdict: ruleset.Verdict{Kind: ruleset.Return}})
		}
	}
	do := *x.r
	if do.Verdict.Kind == ruleset.Jump {
		do.Verdict.Kind = ruleset.Goto
	}
	ch.Rules = append(ch.Rules, x.j.verdict(&do, nil))
	if c, ok := x.when.and(numbers(ruleset.Proto, k.proto)); ok {
		x.out = append(x.out, jump(c, ch.Name))
	}
}

// untracked does it with what was never tracked: neighbour discovery, and what
// the old rules took from tracking.
func (x *expansion) untracked() {
	for _, k := range kindsOf(x.j.t.Family) {
		if x.when.allows(k.proto) && len(k.free) > 0 {
			x.add(numbers(ruleset.Proto, k.proto), numbers(k.field, k.free...))
		}
	}
	hook := "prerouting"
	if x.j.base.Hook == "output" || x.j.base.Hook == "postrouting" {
		hook = "output"
	}
	for _, p := range x.j.t.conv.base(x.j.t.Family, hook) {
		for _, r := range p.chain.Rules {
			if !slices.ContainsFunc(r.Actions, func(a ruleset.Action) bool { return a.Name == ruleset.Notrack }) {
				continue
			}
			var ms conj
			for _, m := range r.Matches {
				m.Text = keepText(m)
				ms = append(ms, m)
			}
			x.add(ms...)
		}
	}
}
