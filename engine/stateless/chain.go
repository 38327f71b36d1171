package stateless

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"headroom/engine/ruleset"
)

// prefix begins the names of the chains that the conversion makes.
const prefix = "hr_"

// opposite is the hook that the answers to a flow pass.
var opposite = map[string]string{"input": "output", "output": "input", "forward": "forward"}

// judge converts the chains that one base chain leads to.
type judge struct {
	t    *table
	base *ruleset.Chain
	tool ruleset.Tool
	// copied is the prefix of all names where a copy is made beside the
	// original.
	copied string
	// seen says that established flows were accepted before, told that related
	// ones were.
	seen, told bool
	// early are the rules of the present chain that were asked for INVALID
	// before that.
	early []*ruleset.Rule
	// replies is the chain of answers by what is done with them.
	replies map[string]string
	skip    map[*ruleset.Rule]bool
}

func (t *table) judge(base *ruleset.Chain, copied string) *judge {
	return &judge{t: t, base: base, tool: t.conv.tool(t), copied: copied, replies: map[string]string{}}
}

func (t *table) convertBase(base *ruleset.Chain) error {
	j := t.judge(base, "")
	_, err := j.chain(base)
	return err
}

// stateful says whether a chain or one that it leads to asks for a state.
func (t *table) stateful(ch *ruleset.Chain) bool {
	return slices.ContainsFunc(t.reached(ch), func(c *ruleset.Chain) bool {
		return slices.ContainsFunc(c.Rules, func(r *ruleset.Rule) bool { return conj(r.Matches).has(ruleset.CTState) })
	})
}

// reached lists a chain and those that it leads to.
func (t *table) reached(ch *ruleset.Chain) (out []*ruleset.Chain) {
	for next := []*ruleset.Chain{ch}; len(next) > 0; {
		c := next[len(next)-1]
		if next = next[:len(next)-1]; c == nil || slices.Contains(out, c) {
			continue
		}
		out = append(out, c)
		for _, r := range c.Rules {
			if k := r.Verdict.Kind; k == ruleset.Jump || k == ruleset.Goto {
				next = append(next, t.chain(r.Verdict.Chain))
			}
		}
	}
	return out
}

// chain converts one chain, once for each base chain if it asks for states,
// and returns its new name.
func (j *judge) chain(ch *ruleset.Chain) (string, error) {
	key := ch.Name + "@"
	if j.t.stateful(ch) {
		key += j.base.Name
	}
	if j.copied != "" {
		if key == ch.Name+"@" && ch != j.base {
			return ch.Name, nil // the original serves
		}
		key = j.copied + key
	}
	if name := j.t.names[key]; name != "" {
		return name, nil
	}
	name := j.fresh(j.copied+ch.Name, j.base.Hook)
	j.t.names[key] = name
	out := copyChain(ch)
	out.Name, out.Rules = name, nil
	j.t.out.Chains = append(j.t.out.Chains, out)
	defer func(outer []*ruleset.Rule) { j.early = outer }(j.early)
	j.early = nil
	for _, r := range ch.Rules {
		if j.skip[r] {
			continue
		}
		rules, err := j.rule(r)
		if err != nil {
			return "", fmt.Errorf("chain %s: %s: %w", ch.Name, Written(r), err)
		}
		out.Rules = append(out.Rules, rules...)
	}
	return name, nil
}

// Written is a rule as the user wrote it, with its line where it has one.
func Written(r *ruleset.Rule) string {
	if r.Line > 0 {
		return "line " + strconv.Itoa(r.Line) + ": " + r.Text
	}
	return r.Text
}

// fresh is a name that no chain of the table has: as it is, else with the hook.
func (j *judge) fresh(name, hook string) string {
	const longest = 28 // iptables' limit
	free := func(s string) bool { return len(s) <= longest && !j.t.taken[s] }
	try := name
	if len(try) > longest {
		try = try[:longest]
	}
	for n := 2; !free(try); n++ {
		tail := "_" + hook
		if n > 2 {
			tail += strconv.Itoa(n)
		}
		try = name[:min(len(name), longest-len(tail))] + tail
	}
	j.t.taken[try] = true
	return try
}

// made adds a chain of our own.
func (j *judge) made(name string) *ruleset.Chain {
	out := &ruleset.Chain{Name: j.fresh(prefix+name, j.base.Hook)}
	j.t.out.Chains = append(j.t.out.Chains, out)
	return out
}

// deed is what is done with a packet: a rule's actions and verdict.
func deed(r *ruleset.Rule) string {
	s := string(r.Verdict.Kind) + " " + r.Verdict.Chain + " " + r.Verdict.With
	for _, a := range r.Actions {
		s += "; " + a.Name + a.Set + a.Text
	}
	return s
}

// verdict makes rules that do what r does where all of when holds.
func (j *judge) verdict(r *ruleset.Rule, when conj) *ruleset.Rule {
	out := *r
	out.Matches, out.Line, out.Handle, out.Text = when, 0, 0, ""
	if out.Counter != nil {
		counter := *out.Counter
		counter.Before = 0
		out.Counter = &counter
	}
	out.Actions = slices.Clone(r.Actions)
	for i := range out.Actions {
		out.Actions[i].Before = 0
	}
	return &out
}

// established is the chain that does what r does with what can be an answer
// to a flow, or belongs to one that was let in here.
func (j *judge) established(r *ruleset.Rule) (string, error) {
	do := deed(r)
	if name := j.replies[do]; name != "" {
		return name, nil
	}
	if r.Verdict.Kind == ruleset.Continue || len(r.Actions) > 0 && j.tool == ruleset.IPTables {
		return "", fmt.Errorf("what is done with established flows cannot be done in a chain of its own: %s", do)
	}
	lists, err := j.mirrors()
	if err != nil {
		return "", err
	}
	plain := &ruleset.Rule{Actions: r.Actions, Verdict: r.Verdict}
	if r.Verdict.Kind == ruleset.Jump {
		plain.Verdict.Kind = ruleset.Goto
	}
	own, err := j.ongoing(lists)
	if err != nil {
		return "", err
	}
	var name string
	for i := len(lists) - 1; i >= 0; i-- {
		ch := j.fill("replies_"+j.base.Hook, lists[i], plain)
		name = ch.Name
		plain = &ruleset.Rule{Verdict: ruleset.Verdict{Kind: ruleset.Goto, Chain: name}}
	}
	if len(own) > 0 {
		plain := &ruleset.Rule{Actions: r.Actions, Verdict: r.Verdict}
		if r.Verdict.Kind == ruleset.Jump {
			plain.Verdict.Kind = ruleset.Goto
		}
		second := j.fill("ongoing_"+j.base.Hook, own, plain)
		both := j.made("established_" + j.base.Hook)
		both.Rules = []*ruleset.Rule{jump(nil, name), jump(nil, second.Name)}
		name = both.Name
	}
	j.replies[do] = name
	return name, nil
}

func jump(when conj, to string) *ruleset.Rule {
	return &ruleset.Rule{Matches: when, Verdict: ruleset.Verdict{Kind: ruleset.Jump, Chain: to}}
}

// fill makes a chain of entries.
func (j *judge) fill(name string, list []entry, yes *ruleset.Rule) *ruleset.Chain {
	ch := j.made(name)
	for _, e := range list {
		r := *yes
		r.Matches = e.when
		if !e.yes {
			r = ruleset.Rule{Matches: e.when, Verdict: ruleset.Verdict{Kind: ruleset.Return}}
		}
		ch.Rules = append(ch.Rules, &r)
	}
	return ch
}

// mirrors are the lists of answers, all of which must say yes: one for each
// base chain of the opposite hook that refuses anything.
func (j *judge) mirrors() ([][]entry, error) {
	w := way{family: j.t.Family, tool: j.tool, peers: j.t.conv.Peers}
	switch j.base.Hook {
	case "input":
		w.local, w.ports = true, j.t.conv.Ports
	case "forward":
		w.ports = ruleset.Range{Lo: 1024, Hi: 65535}
	}
	var out [][]entry
	best := []leaf{{accept: true}}
	for _, p := range j.t.conv.base(j.t.Family, opposite[j.base.Hook]) {
		ls, err := p.table.unfold(p.chain)
		if err != nil {
			return nil, err
		}
		ls = j.fitting(ls)
		refuses := slices.ContainsFunc(ls, func(l leaf) bool { return !l.accept })
		if refuses {
			if err := j.sets(p.table, ls); err != nil {
				return nil, err
			}
			out = append(out, prune(w.mirror(ls)))
		} else if p.chain.Priority >= 0 && j.sets(p.table, ls) == nil {
			best = ls
		}
	}
	if len(out) == 0 {
		out = append(out, prune(w.mirror(best)))
	}
	return out, nil
}

// fitting leaves out what packets of this table's family never match.
func (j *judge) fitting(in []leaf) (out []leaf) {
	other := map[ruleset.Family]string{ruleset.IP: "ipv4", ruleset.IP6: "ipv6"}[j.t.Family]
	for _, l := range in {
		if other != "" {
			k := v6
			if other == "ipv6" {
				k = v4
			}
			if l.when.has(k.field) || strings.Contains(familyOf(l.when), k.nfproto) {
				continue
			}
			l.when = l.when.drop(ruleset.NFProto)
		}
		out = append(out, l)
	}
	return out
}

// familyOf names the families of the addresses that a conjunction asks for.
func familyOf(c conj) (out string) {
	for _, m := range c {
		switch {
		case m.Field == ruleset.NFProto && !m.Not:
			out += strings.Join(m.Words, " ")
		case len(m.Addrs) > 0 && m.Addrs[0].Lo.Is4():
			out += " ipv4"
		case len(m.Addrs) > 0:
			out += " ipv6"
		}
	}
	return out
}

// sets fails if leaves of another table look up that table's sets.
func (j *judge) sets(from *table, ls []leaf) error {
	if from == j.t || from.from.Tool == ruleset.IPTables {
		return nil
	}
	for _, l := range ls {
		for _, m := range l.when {
			if m.Set != "" {
				return fmt.Errorf("the answers depend on set %s of table %s, which rules of table %s cannot see", m.Set, from.Name, j.t.Name)
			}
		}
	}
	return nil
}

// ongoing lists the TCP segments of connections that the base chain itself
// lets in; none if the answers take all sound segments anyhow.
func (j *judge) ongoing(lists [][]entry) ([]entry, error) {
	if opposite[j.base.Hook] == "" || len(lists) == 1 && takesTCP(lists[0]) {
		return nil, nil
	}
	ls, err := j.t.unfold(j.base)
	if err != nil {
		return nil, err
	}
	var out []entry
	for _, l := range j.fitting(ls) {
		switch {
		case !l.when.allows(tcp):
		case l.accept:
			out = append(out, withFlags(l.when, j.tool, ongoing)...)
		default:
			out = append(out, entry{l.when, false})
		}
	}
	return prune(out), nil
}

// takesTCP says whether a list takes every TCP segment that can be an answer.
func takesTCP(list []entry) bool {
	for _, e := range list {
		if !e.yes {
			return false
		}
		if len(e.when.drop(ruleset.TCPFlags)) == 1 && e.when.exactly(tcp) {
			return true
		}
	}
	return false
}
