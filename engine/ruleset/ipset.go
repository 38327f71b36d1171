package ruleset

import (
	"slices"
	"strings"
)

// setParts are the parts of an ipset's type in the words of Set.Fields.
var setParts = map[string]string{"ip": "addr", "net": "addr", "port": "port", "iface": "iface", "mark": "mark", "mac": "mac"}

// ParseIPSet reads what `ipset save` wrote. Errors are of type *SyntaxError.
func ParseIPSet(source string, dump []byte) (*Ruleset, error) {
	rs := &Ruleset{Tool: IPSet, Source: source}
	sets := map[string]*Set{}
	n := 0
	for line := range strings.Lines(string(dump)) {
		n++
		line = strings.TrimSpace(line)
		command, rest, _ := strings.Cut(line, " ")
		name, rest, _ := strings.Cut(rest, " ")
		fail := func(col int, why string) error { return &SyntaxError{source, n, col, why} }
		switch {
		case line == "" || line[0] == '#':
		case command == "create" || command == "-N":
			s, ok := newIPSet(name, rest)
			if !ok {
				return nil, fail(len(command)+len(name)+3, "a set without a type")
			}
			if sets[name] != nil {
				return nil, fail(len(command)+2, "set "+name+" is made a second time")
			}
			s.Line = n
			sets[name] = s
			rs.Sets = append(rs.Sets, s)
		case command == "add" || command == "-A":
			s := sets[name]
			key, data, _ := strings.Cut(rest, " ")
			if s == nil {
				return nil, fail(len(command)+2, "set "+name+" was not created")
			}
			if key == "" {
				return nil, fail(len(command)+len(name)+3, "the line ends where an element is expected")
			}
			s.Elements = append(s.Elements, Element{Text: key, Data: data})
		default:
			return nil, fail(1, "not a line of a saved set: "+command)
		}
	}
	return rs, nil
}

func newIPSet(name, rest string) (*Set, bool) {
	typ, options, _ := strings.Cut(rest, " ")
	_, parts, colon := strings.Cut(typ, ":")
	if name == "" || !colon {
		return nil, false
	}
	s := &Set{Name: name, Type: typ, Family: IP, Flags: strings.Fields(options)}
	for i := 0; i+1 < len(s.Flags); i++ {
		if s.Flags[i] == "family" && s.Flags[i+1] == "inet6" {
			s.Family = IP6
		}
	}
	for p := range strings.SplitSeq(parts, ",") {
		f := setParts[p]
		if f == "" {
			f = "other"
		}
		s.Fields = append(s.Fields, f)
	}
	return s, true
}

// Attach gives an iptables rule set the ipsets that its rules may name, and
// turns the matches on them (InSet) into matches on the fields that their types
// hold, where the model has such.
func (rs *Ruleset) Attach(sets []*Set) {
	rs.Sets = sets
	byName := map[string]*Set{}
	for _, s := range sets {
		byName[s.Name] = s
	}
	for _, t := range rs.Tables {
		t.ipsets = sets
		for _, c := range t.Chains {
			for _, r := range c.Rules {
				for i := range r.Matches {
					if m := &r.Matches[i]; m.Field == InSet && byName[m.Set] != nil {
						byName[m.Set].name(m)
					}
				}
			}
		}
	}
}

// name gives a match on the set its fields. One with exceptions (nomatch) has
// no counterpart in the model.
func (s *Set) name(m *Match) {
	if len(m.Words) != len(s.Fields) || slices.ContainsFunc(s.Elements, func(e Element) bool { return strings.Contains(e.Data, "nomatch") }) {
		return
	}
	var fields []Field
	for i, f := range s.Fields {
		dst := m.Words[i] == "dst"
		switch {
		case f == "addr" && dst:
			fields = append(fields, DAddr)
		case f == "addr":
			fields = append(fields, SAddr)
		case f == "iface" && dst:
			fields = append(fields, OIf)
		case f == "iface":
			fields = append(fields, IIf)
		default: // a port of an ipset goes with a protocol of its own
			return
		}
	}
	m.Field = fields[0]
	if len(fields) > 1 {
		m.Field, m.Fields = Concat, fields
	}
}
