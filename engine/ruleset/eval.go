package ruleset

import (
	"net/netip"
	"slices"
	"sort"
	"strings"
)

// Packet is one packet as rules see it. Fields that a packet lacks stay zero.
type Packet struct {
	Family       Family // IP or IP6
	Proto        uint64
	Src, Dst     netip.Addr
	SPort, DPort uint64 // of TCP, UDP and the like
	Flags        uint64 // of TCP
	ICMP, Code   uint64 // type and code of ICMP or ICMPv6
	IIf, OIf     string // "" where the hook has none
	State        string // of connection tracking: "new", "related" …; "untracked" without it
	Fragment     bool   // a later fragment
	Length, TTL  uint64
	ToLocal      bool // Dst is an address of this machine
}

// Outcome is what may become of a packet: one or several of Passes, Dropped
// and Unclear.
type Outcome uint8

// The outcomes.
const (
	Passes  Outcome = 1 << iota // accepted, or left to what is behind the rules
	Dropped                     // dropped or rejected
	Unclear                     // a rule of which not all is understood may decide
	returns                     // back to the chain that jumped
)

// Only says whether o is the one outcome possible.
func (o Outcome) Only(want Outcome) bool { return o == want }

// Through is what becomes of a packet at one hook ("input" …), through all base
// chains of the tables in the order in which the kernel asks them. A rule that
// limits a rate is taken to be within it. NAT is not followed: chains of the
// type nat only ever pass.
func Through(tables []*Table, hook string, p *Packet) Outcome {
	out := Passes
	for _, b := range bases(tables, hook, p.Family) {
		e := &evaluation{table: b.table, p: p, done: map[string]Outcome{}, busy: map[string]bool{}}
		o := e.chain(b.chain)
		if o&returns != 0 {
			o &^= returns
			if b.chain.Policy == Drop {
				o |= Dropped
			} else {
				o |= Passes
			}
		}
		if o.Only(Dropped) {
			return Dropped
		}
		out |= o &^ Passes
	}
	return out
}

type base struct {
	table *Table
	chain *Chain
}

// bases are the base chains that a packet of a family passes at a hook.
func bases(tables []*Table, hook string, family Family) (out []base) {
	for _, t := range tables {
		if t.Family != family && t.Family != Inet && t.Family != Netdev {
			continue
		}
		for _, c := range t.Chains { // of a netdev chain whatever its devices: nft 1.0.6 does not tell them
			if c.Hook == hook && c.Type != "nat" {
				out = append(out, base{t, c})
			}
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].chain.Priority < out[j].chain.Priority })
	return out
}

type evaluation struct {
	table *Table
	p     *Packet
	done  map[string]Outcome
	busy  map[string]bool
}

func (e *evaluation) chain(c *Chain) Outcome {
	if o, ok := e.done[c.Name]; ok {
		return o
	}
	if e.busy[c.Name] {
		return Unclear // a loop: the kernel does not load it
	}
	e.busy[c.Name] = true
	var out Outcome
	for _, r := range c.Rules {
		m := e.rule(r)
		if m == no {
			continue
		}
		o := e.verdict(r.Verdict)
		goesOn := o&next != 0
		out |= o &^ next
		if m == yes && !goesOn {
			e.done[c.Name] = out
			return out
		}
	}
	out |= returns
	e.done[c.Name] = out
	return out
}

// next is the outcome of a rule after which the following one is asked.
const next Outcome = 1 << 7

func (e *evaluation) verdict(v Verdict) Outcome {
	switch v.Kind {
	case Continue:
		return next
	case Accept, Queue, TProxy, DNAT, SNAT, Masquerade, Redirect:
		return Passes
	case Drop, Reject, SynProxy:
		return Dropped
	case Return:
		return returns
	case Jump, Goto:
		c := e.table.Chain(v.Chain)
		if c == nil {
			return Unclear
		}
		o := e.chain(c)
		if v.Kind == Jump && o&returns != 0 {
			o = o&^returns | next
		}
		return o
	case Map:
		return e.lookUp(v.Map)
	}
	return Unclear | next
}

// lookUp follows a verdict map of which the key is one field.
func (e *evaluation) lookUp(m *VerdictMap) Outcome {
	elements := m.Elements
	if m.Name != "" {
		s := e.table.Set(m.Name)
		if s == nil {
			return Unclear | next
		}
		elements = s.Elements
	}
	for _, el := range elements {
		if el.Verdict == nil {
			return Unclear | next
		}
		switch e.tuple(m.Key, el.Text) {
		case yes:
			return e.verdict(*el.Verdict)
		case maybe:
			return Unclear | next
		}
	}
	return next
}

// tuple says whether the packet has the values of an element, one for each field.
func (e *evaluation) tuple(fields []Field, text string) answer {
	parts := strings.Split(text, " . ")
	if len(parts) != len(fields) {
		return maybe
	}
	all := yes
	for i, f := range fields {
		x := Match{Field: f}
		if !x.fromText(parts[i]) {
			return maybe
		}
		all = min(all, e.match(x))
	}
	return all
}

// fromText reads the key of an element in nft's syntax.
func (m *Match) fromText(s string) bool {
	switch m.Field {
	case SAddr, DAddr:
		r, err := parseAddrs(s)
		m.Addrs = []AddrRange{r}
		return err == nil
	case SPort, DPort, Proto, ICMPType, ICMP6:
		a, b, dash := strings.Cut(s, "-")
		names := map[Field]map[string]uint64{Proto: protocols, ICMPType: types(icmp4Names), ICMP6: types(icmp6Names)}[m.Field]
		if _, isName := names[s]; isName {
			dash, a = false, s
		}
		lo, ok := lookup(names, a)
		hi, ok2 := lo, true
		if dash {
			hi, ok2 = lookup(names, b)
		}
		m.Numbers = []Range{{lo, hi}}
		return ok && ok2
	case IIf, OIf, CTState, NFProto:
		m.Words = []string{strings.Trim(s, `"`)}
		return true
	}
	return false
}

// answer is whether a match holds.
type answer uint8

const (
	no answer = iota
	maybe
	yes
)

// rule says whether all matches hold.
func (e *evaluation) rule(r *Rule) answer {
	all := yes
	for _, m := range r.Matches {
		all = min(all, e.match(m))
		if all == no {
			return no
		}
	}
	return all
}

func of(b bool) answer {
	if b {
		return yes
	}
	return no
}

func (m Match) words(has string) answer {
	return of(slices.Contains(m.Words, has) != m.Not)
}

func (m Match) figure(n uint64) answer {
	if m.Mask > 0 {
		n &= m.Mask
	}
	in := slices.ContainsFunc(m.Numbers, func(r Range) bool { return r.Lo <= n && n <= r.Hi })
	return of(in != m.Not)
}
