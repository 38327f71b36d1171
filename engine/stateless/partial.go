package stateless

import (
	"errors"
	"fmt"
	"slices"

	"headroom/engine/ruleset"
	"headroom/fail"
)

// partial keeps the old rules and takes only local services from tracking that
// no rule needs it for. Untracked packets are judged by a converted copy of
// the chains.
func (c *converter) partial() (*Result, error) {
	services, err := c.services()
	if err != nil {
		return nil, fmt.Errorf("convert rules: %w", err)
	}
	if len(services) == 0 {
		return c.res, fail.Hint(errors.New("convert rules in part: no service is let in by a fixed port that no rule with tracking is about"), "leave connection tracking on")
	}
	c.res.Services = services
	for _, t := range c.tables {
		t.begin(t.Name, "copy")
		for _, ch := range t.Chains {
			t.out.Chains = append(t.out.Chains, copyChain(ch))
		}
		for i, ch := range t.Chains {
			if ch.Hook != "input" && ch.Hook != "output" || ch.Type == "nat" || !t.stateful(ch) {
				continue
			}
			if err := t.beside(ch, t.out.Chains[i]); err != nil {
				return nil, fmt.Errorf("convert rules: table %s: %w", t.Name, err)
			}
		}
	}
	c.untrack(services)
	for _, t := range c.tables {
		if !t.touched {
			c.res.Same = append(c.res.Same, string(t.Family)+" "+t.Name)
		}
	}
	return c.res, c.gather()
}

// beside makes the converted copy of a base chain and leads untracked packets
// to it.
func (t *table) beside(base, out *ruleset.Chain) error {
	j := t.judge(base, prefix)
	j.skip = map[*ruleset.Rule]bool{}
	for _, ch := range t.Chains {
		for _, r := range ch.Rules {
			j.skip[r] = reason(r) != ""
		}
	}
	name, err := j.chain(base)
	if err != nil {
		return err
	}
	for _, ch := range t.out.Chains {
		if ch.Name == name {
			ch.Hook, ch.Type, ch.Policy, ch.Priority, ch.Counter = "", "", "", 0, nil
			ch.Rules = append(ch.Rules, &ruleset.Rule{Verdict: ruleset.Verdict{Kind: base.Policy}})
		}
	}
	state := func(s string) ruleset.Match { return ruleset.Match{Field: ruleset.CTState, Words: []string{s}} }
	head := []*ruleset.Rule{{Matches: conj{state("untracked")}, Verdict: ruleset.Verdict{Kind: ruleset.Goto, Chain: name}}}
	// An error about an untracked packet quotes what tracking does not know.
	for _, k := range kindsOf(t.Family) {
		head = append(head, &ruleset.Rule{
			Matches: conj{numbers(ruleset.Proto, k.proto), numbers(k.field, k.errors...), state("invalid")},
			Verdict: ruleset.Verdict{Kind: ruleset.Goto, Chain: name},
		})
	}
	out.Rules = append(head, out.Rules...)
	t.touched = true
	return nil
}

// services lists what the input chains let in by a fixed port, without what a
// refused rule may be about.
func (c *converter) services() ([]Service, error) {
	found := map[uint64][]ruleset.Range{}
	for _, f := range []ruleset.Family{ruleset.IP, ruleset.IP6} {
		for _, p := range c.base(f, "input") {
			ls, err := p.table.unfold(p.chain)
			if err != nil {
				return nil, err
			}
			for _, l := range ls {
				port := l.when.find(ruleset.DPort)
				if !l.accept || port == nil {
					continue
				}
				for _, proto := range []uint64{tcp, udp} {
					if l.when.exactly(proto) {
						found[proto] = append(found[proto], port.Numbers...)
					}
				}
			}
		}
	}
	var out []Service
	for proto, ports := range found {
		ports = without(tidy(slices.Clone(ports)), []ruleset.Range{c.Ports})
		for _, r := range c.res.Refused {
			ports = without(ports, r.about(proto))
		}
		if len(ports) > 0 {
			out = append(out, Service{proto, ports})
		}
	}
	return order(out), nil
}

// about lists the ports of local services that a refused rule may be about.
func (r Refusal) about(proto uint64) []ruleset.Range {
	all := []ruleset.Range{{Lo: 0, Hi: 65535}}
	field := ruleset.DPort
	switch r.hook {
	case "postrouting", "forward":
		return nil // answers of local services are never translated; what is forwarded stays tracked
	case "output":
		field = ruleset.SPort
	}
	if !r.when.allows(proto) {
		return nil
	}
	if r.hook == "output" && r.when.has(ruleset.DPort) && !r.when.has(ruleset.SPort) {
		return nil
	}
	if m := r.when.find(field); m != nil {
		return m.Numbers
	}
	return all
}
