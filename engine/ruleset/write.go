package ruleset

import (
	"fmt"
	"strings"
)

// Unwritten is a part of a rule set that the syntax asked for lacks. The rule
// is left out as a whole.
type Unwritten struct {
	Table  *Table
	Chain  *Chain
	Rule   *Rule  // nil: another part of the table or chain
	Reason string // "no iptables for set @x"
}

func (u Unwritten) String() string {
	s := "table " + string(u.Table.Family) + " " + u.Table.Name
	if u.Chain != nil {
		s += " chain " + u.Chain.Name
	}
	if u.Rule != nil {
		s += ": " + u.Rule.Text
	}
	return s + ": " + u.Reason
}

// lacking is the error of a part that a syntax has no word for.
type lacking string

func (l lacking) Error() string { return string(l) }

func lacks(format string, args ...any) error { return lacking(fmt.Sprintf(format, args...)) }

// writer collects the text of a rule set and what it lacks.
type writer struct {
	b       strings.Builder
	rs      *Ruleset
	table   *Table
	chain   *Chain
	missing []Unwritten
}

func (w *writer) miss(r *Rule, reason string) {
	w.missing = append(w.missing, Unwritten{w.table, w.chain, r, reason})
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(&w.b, format+"\n", args...) }

// native says whether text was written for the tool that is written for.
func native(rs *Ruleset, t Tool, text string) bool {
	return rs.Tool == t && text != "" && !strings.Contains(text, unwritable)
}

// protoOf is the one protocol that the rule's matches ask for; ok is false if
// they ask for none or several.
func (r *Rule) protoOf() (number uint64, ok bool) {
	for _, m := range r.Matches {
		if m.Field == Proto && !m.Not && len(m.Numbers) == 1 && m.Numbers[0].Lo == m.Numbers[0].Hi {
			return m.Numbers[0].Lo, true
		}
	}
	return 0, false
}

// familyOf is the address family that a rule of a table is for; "" if both.
func (r *Rule) familyOf(t *Table) Family {
	if t.Family == IP || t.Family == IP6 {
		return t.Family
	}
	for _, m := range r.Matches {
		if m.Field == NFProto && !m.Not && len(m.Words) == 1 {
			if m.Words[0] == "ipv6" {
				return IP6
			}
			return IP
		}
		if (m.Field == SAddr || m.Field == DAddr) && len(m.Addrs) > 0 {
			if m.Addrs[0].Lo.Is4() {
				return IP
			}
			return IP6
		}
	}
	return ""
}
