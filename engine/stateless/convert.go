// Package stateless turns a rule set that relies on connection tracking into
// one that does without, and keeps its policy as far as single packets can
// tell. It is pure: model in, model out; that the policy was kept is for
// engine/fwproof to prove on a real kernel.
//
// The kernel's states become conditions on the packet alone. NEW is a TCP
// segment that opens a connection, and of other protocols any packet.
// ESTABLISHED is what could be an answer: the reverse of what the opposite
// chain lets out as NEW (for TCP any sound segment but the opening one; for UDP
// to a port that clients take; for ICMP the type of the reply). RELATED are the
// ICMP errors that must pass. INVALID are flags and types that no flow has.
// Every packet is taken from connection tracking in both raw hooks.
package stateless

import (
	"errors"
	"fmt"
	"slices"

	"headroom/engine/ruleset"
	"headroom/fail"
)

// Options say how to convert.
type Options struct {
	// Ports are those that this machine's clients take:
	// net.ipv4.ip_local_port_range. Zero is 32768 to 60999, Linux's default.
	Ports ruleset.Range
	// Peers narrow the answers to UDP questions that the old rules let go to
	// anybody.
	Peers []Peer
	// Partial keeps connection tracking for all but the local services that
	// need none.
	Partial bool
	// As is the tool to write for: ruleset.NFT or ruleset.IPTables. Empty is
	// NFT, but IPTables where the old rules hold what only iptables has.
	As ruleset.Tool
}

// Peer is who answers to a UDP service.
type Peer struct {
	Port  uint16
	Addrs []ruleset.AddrRange
}

// Result is a converted rule set.
type Result struct {
	// Rulesets replace the tables of the old ones that they came from: one for
	// each tool and, with iptables, family.
	Rulesets []*ruleset.Ruleset
	// Gone are tables whose policy went into another one of Rulesets, so that
	// they must go; as "FAMILY NAME".
	Gone []string
	// Same are tables of Rulesets that Partial left as they were, as
	// "FAMILY NAME".
	Same []string
	// Refused are the rules that cannot do without connection tracking. With
	// Partial what they need stays tracked; else Rulesets is empty if there
	// are any.
	Refused []Refusal
	// Services are what Partial takes from tracking.
	Services []Service
	// Notes say what is different by intention, for people.
	Notes []string
}

// Refusal is a rule that cannot be converted, and why.
type Refusal struct {
	Table, Chain string
	Line         int    // in the dump; 0 with nft
	Rule         string // as written
	Reason       string
	hook         string
	when         conj
}

// Service is a local service whose packets need no tracking.
type Service struct {
	Proto uint64
	Ports []ruleset.Range
}

// DefaultPorts is Linux's default of net.ipv4.ip_local_port_range.
var DefaultPorts = ruleset.Range{Lo: 32768, Hi: 60999}

// Convert turns rule sets, which together are all that one machine has, into
// untracked ones. The input is left as it is. It fails if there is nothing to
// convert; rules that cannot be converted are in Result.Refused.
func Convert(in []*ruleset.Ruleset, o Options) (*Result, error) {
	if o.Ports.Hi == 0 {
		o.Ports = DefaultPorts
	}
	c := &converter{Options: o, in: in, res: &Result{}}
	c.load()
	if len(c.tables) == 0 {
		return nil, errors.New("convert rules: there is no table with rules of IPv4 or IPv6")
	}
	if !c.tracked() {
		return nil, fail.With(fail.Hint(errors.New("convert rules: no rule asks for a connection's state, so there is nothing to convert"),
			"they do without connection tracking as they are; what else tracks (address translation, rules of another program) is among the findings of: headroom check firewall"), fail.Usage)
	}
	c.refusals()
	if o.Partial {
		return c.partial()
	}
	if len(c.res.Refused) > 0 {
		return c.res, nil
	}
	if err := c.full(); err != nil {
		return nil, fmt.Errorf("convert rules: %w", err)
	}
	return c.res, nil
}

type converter struct {
	Options
	in     []*ruleset.Ruleset
	tables []*table
	res    *Result
	noted  map[string]bool
}

// table is one table of the old rules and what becomes of it.
type table struct {
	*ruleset.Table
	from *ruleset.Ruleset
	conv *converter
	out  *ruleset.Table
	// names are the chains made so far, by what they were made of.
	names map[string]string
	taken map[string]bool
	// touched says that Partial altered it.
	touched bool
}

func (t *table) chain(name string) *ruleset.Chain {
	for _, c := range t.Chains {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func (c *converter) load() {
	for _, rs := range c.in {
		for _, t := range rs.Tables {
			if t.Family == ruleset.IP || t.Family == ruleset.IP6 || t.Family == ruleset.Inet {
				c.tables = append(c.tables, &table{Table: spread(t), from: rs, conv: c})
			}
		}
	}
}

// tracked says whether any rule asks for a state.
func (c *converter) tracked() bool {
	for _, t := range c.tables {
		for _, ch := range t.Chains {
			for _, r := range ch.Rules {
				if ch.Name != reassemble && conj(r.Matches).has(ruleset.CTState) {
					return true
				}
			}
		}
	}
	return false
}

// tool is whose words a table is written in.
func (c *converter) tool(t *table) ruleset.Tool {
	if t.from.Tool == ruleset.NFT || c.As == ruleset.NFT {
		return ruleset.NFT
	}
	if c.As == ruleset.IPTables || c.Partial {
		return ruleset.IPTables
	}
	if slices.ContainsFunc(c.tables, func(t *table) bool { return t.from.Tool == ruleset.IPTables && bound(t.Table) != "" }) {
		return ruleset.IPTables
	}
	return ruleset.NFT
}

// base lists the base chains at a hook that packets of a family pass, without
// those of NAT, in the order of the kernel.
func (c *converter) base(f ruleset.Family, hook string) (out []placed) {
	for _, t := range c.tables {
		if f != ruleset.Inet && t.Family != ruleset.Inet && t.Family != f {
			continue
		}
		for _, ch := range t.Chains {
			if ch.Hook == hook && ch.Type != "nat" {
				out = append(out, placed{t, ch})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b placed) int { return a.chain.Priority - b.chain.Priority })
	return out
}

type placed struct {
	table *table
	chain *ruleset.Chain
}

func (c *converter) note(format string, args ...any) {
	if c.noted == nil {
		c.noted = map[string]bool{}
	}
	if s := fmt.Sprintf(format, args...); !c.noted[s] {
		c.noted[s] = true
		c.res.Notes = append(c.res.Notes, s)
	}
}

// full converts all tables.
func (c *converter) full() error {
	for _, t := range c.tables {
		t.begin(t.Name, "")
		for _, ch := range t.Chains {
			if ch.Hook == "" || ch.Type == "nat" {
				continue
			}
			if err := t.convertBase(ch); err != nil {
				return fmt.Errorf("table %s: %w", t.Name, err)
			}
		}
		t.rest()
	}
	c.untrack(nil)
	return c.gather()
}

// begin makes the table to be filled.
func (t *table) begin(name, prefix string) {
	t.out = &ruleset.Table{Family: t.Family, Name: name, Sets: t.Sets, Others: t.Others}
	t.names, t.taken = map[string]string{}, map[string]bool{}
	for _, c := range t.Chains {
		t.taken[c.Name] = prefix != ""
	}
}

// rest keeps the chains that no packet reaches, if they ask for no state, and
// those of NAT tables without rules.
func (t *table) rest() {
	for _, ch := range t.Chains {
		if t.names[ch.Name+"@"] != "" || t.madeOf(ch.Name) {
			continue
		}
		if t.stateful(ch) {
			t.conv.note("chain %s of table %s was left out: no rule leads to it", ch.Name, t.Name)
			continue
		}
		t.out.Chains = append(t.out.Chains, copyChain(ch))
	}
}

func (t *table) madeOf(name string) bool {
	return slices.ContainsFunc(t.out.Chains, func(c *ruleset.Chain) bool { return c.Name == name })
}

func copyChain(ch *ruleset.Chain) *ruleset.Chain {
	out := *ch
	out.Rules = slices.Clone(ch.Rules)
	out.Line, out.Handle = 0, 0
	return &out
}
