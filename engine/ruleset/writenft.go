package ruleset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// NFT writes the rule set in nft's syntax, tables only, without a flush: what
// is there already stays. What nft's syntax cannot say is left out and listed.
func (rs *Ruleset) NFT() (text []byte, missing []Unwritten) {
	w := &writer{rs: rs}
	for _, t := range rs.Tables {
		w.table, w.chain = t, nil
		w.nftTable(t)
	}
	return []byte(w.b.String()), w.missing
}

func (w *writer) nftTable(t *Table) {
	w.line("table %s %s {", t.Family, t.Name)
	for _, o := range t.Others {
		if s := objectText(o); s != "" {
			w.line("\t%s", s)
		} else {
			w.miss(nil, "no syntax for "+o.Kind+" "+o.Name)
		}
	}
	for _, s := range w.setsOf(t) {
		w.nftSet(s)
	}
	for _, c := range t.Chains {
		w.chain = c
		if (c.Hook == "ingress" || c.Hook == "egress") && len(c.Devices) == 0 {
			w.miss(nil, "its devices are not known: nft 1.0.6 leaves them out of its JSON")
			continue
		}
		w.line("\tchain %s {", c.Name)
		if c.Hook != "" {
			w.line("\t\t%s", hookText(c))
		}
		for _, r := range c.Rules {
			s, err := w.nftRule(r)
			if err != nil {
				w.miss(r, err.Error())
				continue
			}
			w.line("\t\t%s", s)
		}
		w.line("\t}")
	}
	w.line("}")
}

func hookText(c *Chain) string {
	s := "type " + c.Type + " hook " + c.Hook
	if len(c.Devices) > 0 {
		s += " devices = { " + strings.Join(c.Devices, ", ") + " }"
	}
	s += " priority " + strconv.Itoa(c.Priority) + "; policy " + string(c.Policy) + ";"
	return s
}

// setsOf are the sets of a table: its own, and the ipsets that its rules name.
func (w *writer) setsOf(t *Table) []*Set {
	out := slices.Clone(t.Sets)
	if w.rs.Tool != IPTables {
		return out
	}
	named := map[string]bool{}
	for _, c := range t.Chains {
		for _, r := range c.Rules {
			for _, m := range r.Matches {
				named[m.Set] = named[m.Set] || m.Set != "" && m.Field != InSet && m.Field != Other
			}
		}
	}
	for _, s := range w.rs.Sets {
		if named[s.Name] && s.Family == t.Family {
			out = append(out, fromIPSet(s))
		}
	}
	return out
}

// fromIPSet is an ipset of addresses as a set of nft, with the time-outs and
// comments of its elements; what they counted is lost.
func fromIPSet(s *Set) *Set {
	out := &Set{Name: s.Name, Type: "ipv4_addr", Flags: []string{"interval"}, Options: []string{"auto-merge"}, Family: s.Family}
	if s.Family == IP6 {
		out.Type = "ipv6_addr"
	}
	timed := false
	for _, e := range s.Elements {
		text := e.Text
		words, _ := split(e.Data)
		for i := 0; i+1 < len(words); i++ {
			switch v := words[i+1].text; words[i].text {
			case "timeout":
				if v != "0" {
					text, timed = text+" timeout "+v+"s", true
				}
			case "comment":
				text += " comment " + nftString(short(v, 125))
			}
		}
		out.Elements = append(out.Elements, Element{Text: text})
	}
	if timed || slices.Contains(s.Flags, "timeout") {
		out.Flags, out.Options = append(out.Flags, "timeout"), nil // elements that merge would lose theirs
	}
	return out
}

func (w *writer) nftSet(s *Set) {
	kind, typ := "set", s.Type
	if s.Map {
		kind, typ = "map", typ+" : "+s.Data
	}
	w.line("\t%s %s {", kind, s.Name)
	word := "type"
	if strings.Contains(s.Type, " ") && !strings.Contains(s.Type, "_") { // "ip saddr": an expression
		word = "typeof"
	}
	w.line("\t\t%s %s", word, typ)
	flags := slices.Clone(s.Flags)
	if w.rs.Tool == NFT && w.changed(s.Name) && !slices.Contains(flags, "dynamic") { // nft 1.0.6 leaves it out of its JSON
		flags = append(flags, "dynamic")
	}
	if len(flags) > 0 {
		w.line("\t\tflags %s", strings.Join(flags, ","))
	}
	for _, o := range s.Options {
		w.line("\t\t%s", o)
	}
	if len(s.Elements) > 0 {
		w.b.WriteString("\t\telements = { ")
		for i, e := range s.Elements {
			if i > 0 {
				w.b.WriteString(", ")
			}
			w.b.WriteString(quoteName(e.Text))
			switch {
			case e.Verdict != nil:
				w.b.WriteString(" : " + e.Verdict.Text)
			case s.Map:
				w.b.WriteString(" : " + e.Data)
			}
		}
		w.b.WriteString(" }\n")
	}
	w.line("\t}")
}

// changed says whether a rule of the present table changes the set.
func (w *writer) changed(name string) bool {
	for _, c := range w.table.Chains {
		for _, r := range c.Rules {
			for _, a := range r.Actions {
				if a.Set == name {
					return true
				}
			}
			for _, m := range r.Matches {
				if m.Field == Other && m.Set == name {
					return true
				}
			}
		}
	}
	return false
}

// nftRule writes matches, actions and counter in their places, then the verdict.
func (w *writer) nftRule(r *Rule) (string, error) {
	var parts []string
	counted := false
	for i := 0; i <= len(r.Matches); i++ {
		left := len(r.Matches) - i
		if r.Counter != nil && !counted && r.Counter.Before >= left {
			parts = append(parts, fmt.Sprintf("counter packets %d bytes %d", r.Counter.Packets, r.Counter.Bytes))
			counted = true
		}
		for _, a := range r.Actions {
			if a.Before != left && (i > 0 || a.Before < left) {
				continue
			}
			s, err := w.nftAction(a)
			if err != nil {
				return "", err
			}
			parts = append(parts, s)
		}
		if i == len(r.Matches) {
			break
		}
		s, err := w.nftMatch(r, r.Matches[i])
		if err != nil {
			return "", err
		}
		if s != "" {
			parts = append(parts, s)
		}
	}
	s, err := w.nftVerdict(r.Verdict)
	if err != nil {
		return "", err
	}
	parts = append(parts, notEmpty(s)...)
	if r.Comment != "" {
		parts = append(parts, "comment "+nftString(short(r.Comment, 125)))
	}
	return strings.Join(parts, " "), nil
}

// short cuts text to what nft stores of a comment.
func short(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-3], "") + "..."
}
