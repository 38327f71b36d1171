package firewall

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"headroom/change"
	"headroom/engine/fwproof"
	"headroom/engine/ruleset"
	convert "headroom/engine/stateless"
	"headroom/fail"
)

// shown is how many rules or packets an error lists.
const shown = 10

// refusal is the error of rules that cannot do without tracking, with what can
// be done in part.
func refusal(old []*ruleset.Ruleset, o convert.Options, refused []convert.Refusal) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of the rules cannot do without connection tracking:", len(refused))
	for _, r := range refused[:min(len(refused), shown)] {
		at := "table " + r.Table
		if r.Line > 0 {
			at = fmt.Sprintf("line %d, table %s", r.Line, r.Table)
		}
		fmt.Fprintf(&b, "\n  %s, chain %s: %s: %s", at, r.Chain, r.Rule, r.Reason)
	}
	if more := len(refused) - shown; more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	o.Partial = true
	res, err := convert.Convert(old, o)
	if err != nil || len(res.Services) == 0 {
		return fail.Hint(errors.New(b.String()), "leave connection tracking on: there is no local service that could go without it")
	}
	return fail.Hint(errors.New(b.String()), "in part it can be done: partial=yes takes %s from tracking and leaves all else tracked", services(res.Services))
}

var protocolNames = map[uint64]string{6: "tcp", 17: "udp"}

// services names services: "udp 53, tcp 80".
func services(in []convert.Service) string {
	var out []string
	for _, s := range in {
		var ports []string
		for _, p := range s.Ports {
			if p.Lo == p.Hi {
				ports = append(ports, fmt.Sprint(p.Lo))
			} else {
				ports = append(ports, fmt.Sprintf("%d-%d", p.Lo, p.Hi))
			}
		}
		out = append(out, protocolNames[s.Proto]+" "+strings.Join(ports, ", "))
	}
	return strings.Join(out, " and ")
}

// unproved is the error of a conversion that the kernel does not confirm.
func unproved(rep *fwproof.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "the converted rules treat %d of %d packets otherwise than the old ones, and statelessness does not explain it:", len(rep.Unexpected), rep.Packets)
	for _, d := range rep.Unexpected[:min(len(rep.Unexpected), shown)] {
		fmt.Fprintf(&b, "\n  %s", d.Packet)
		if len(d.Before) > 0 {
			fmt.Fprintf(&b, "\n    after: %s", strings.Join(d.Before, "; "))
		}
		fmt.Fprintf(&b, "\n    made for: %s\n    %s", d.About, d.Why)
	}
	return fail.Hint(errors.New(b.String()), "nothing was changed; leave connection tracking on, or take the rule named out of the conversion with partial=yes")
}

// told says what the proof found, for people.
func told(rep *fwproof.Report, res *convert.Result) (out []string) {
	tried := fmt.Sprintf("proof: %d packets in %d conversations through this kernel, with the old rules and the new: 0 unexpected differences; the old rules let %d pass.", rep.Packets, rep.Conversations, rep.Accepted)
	if rep.Tried*2 < rep.Rules { // few are never tried: those that no packet can reach
		tried += fmt.Sprintf(" There are too many rules to try all: packets of %d of the %d, chosen by chance, and at their edges.", rep.Tried, rep.Rules)
	}
	if rep.Undeliverable > 0 {
		tried += fmt.Sprintf(" %d packets arrive nowhere even without rules and say nothing.", rep.Undeliverable)
	}
	out = append(out, tried)
	groups := slices.Clone(rep.Groups)
	slices.SortStableFunc(groups, func(a, b fwproof.Group) int {
		if a.Wider != b.Wider {
			if a.Wider {
				return -1
			}
			return 1
		}
		return b.Count - a.Count
	})
	for _, g := range groups {
		word := "refused now"
		if g.Wider {
			word = "accepted now"
		}
		out = append(out, fmt.Sprintf("%s: %s (%d of the packets, e.g. %s). %s", word, g.Name, g.Count, g.Example, g.Meaning))
	}
	for _, r := range res.Refused {
		out = append(out, fmt.Sprintf("stays tracked: %s: %s.", r.Rule, r.Reason))
	}
	return out
}

// steps replace the tables of the old rules.
func (old oldRules) steps(res *convert.Result) (out change.Steps, err error) {
	altered := changed(res)
	side, err := fwproof.Written(altered)
	if err != nil {
		return nil, err
	}
	for _, l := range side {
		s := change.Rules{Tool: l.Tool, Content: l.Text, Boot: true}
		for _, rs := range altered {
			for _, t := range rs.Tables {
				switch {
				case rs.Tool == ruleset.NFT && l.Tool == "nft":
					s.Tables = append(s.Tables, string(t.Family)+" "+t.Name)
				case rs.Tool == ruleset.IPTables && l.Tool == base(t.Family):
					s.Tables = append(s.Tables, t.Name)
				}
			}
		}
		if l.Tool != "nft" {
			s.Tool = old.tool(l.Tool)
		}
		out = append(out, s)
	}
	// The emptied tables come last: between the two steps both judge, so
	// nothing gets in that either refuses.
	for _, family := range []ruleset.Family{ruleset.IP, ruleset.IP6} {
		s := change.Rules{Tool: old.tool(base(family)), Boot: true}
		for _, g := range res.Gone {
			if f, name, _ := strings.Cut(g, " "); f == string(family) {
				s.Tables = append(s.Tables, name)
			}
		}
		if len(s.Tables) > 0 {
			out = append(out, s)
		}
	}
	return out, nil
}

// changed are the converted rule sets without the tables that stay as they are.
func changed(res *convert.Result) (out []*ruleset.Ruleset) {
	for _, rs := range res.Rulesets {
		one := *rs
		one.Tables = slices.DeleteFunc(slices.Clone(rs.Tables), func(t *ruleset.Table) bool {
			return slices.Contains(res.Same, string(t.Family)+" "+t.Name)
		})
		if len(one.Tables) > 0 {
			out = append(out, &one)
		}
	}
	return out
}

func base(f ruleset.Family) string {
	if f == ruleset.IP6 {
		return "ip6tables"
	}
	return "iptables"
}

// tool is the variant of a program that the old rules belong to.
func (old oldRules) tool(name string) string {
	for _, t := range old.tools {
		if t == name || strings.HasPrefix(t, name+"-") {
			return t
		}
	}
	return name
}
