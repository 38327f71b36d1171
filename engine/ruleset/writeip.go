package ruleset

import (
	"fmt"
	"slices"
	"strings"
)

// IPTables writes the tables of one family (IP or IP6) as iptables-restore
// takes them; with counters if any rule or policy has them. Base chains must
// have iptables' names. What iptables cannot say is left out and listed; tables
// of the family Inet are not written and not listed.
func (rs *Ruleset) IPTables(family Family) (text []byte, missing []Unwritten) {
	w := &writer{rs: rs}
	for _, t := range rs.Tables {
		w.table, w.chain = t, nil
		if t.Family == family {
			w.ipTable(t)
		}
	}
	return []byte(w.b.String()), w.missing
}

var ipTables = map[string]bool{"raw": true, "mangle": true, "nat": true, "filter": true, "security": true}

func (w *writer) ipTable(t *Table) {
	if !ipTables[t.Name] {
		w.miss(nil, "iptables has no table of this name")
		return
	}
	for _, s := range t.Sets {
		w.miss(nil, "no iptables for the set "+s.Name)
	}
	for _, o := range t.Others {
		w.miss(nil, "no iptables for the "+o.Kind+" "+o.Name)
	}
	w.line("*%s", t.Name)
	var written []*Chain
	for _, c := range t.Chains {
		w.chain = c
		hook := baseHooks[c.Name]
		if c.Hook != hook || hook != "" && c.Priority != basePriority(t.Name, hook) {
			w.miss(nil, "iptables has no such chain at this hook and priority")
			continue
		}
		written = append(written, c)
		w.line(":%s %s %s", c.Name, ipPolicy(c), ipCounter(c.Counter))
	}
	for _, c := range written {
		w.chain = c
		for _, r := range c.Rules {
			s, err := w.ipRule(r)
			if err != nil {
				w.miss(r, err.Error())
				continue
			}
			if r.Counter != nil {
				s = ipCounter(r.Counter) + " " + s
			}
			w.line("%s", s)
		}
	}
	w.line("COMMIT")
}

func ipPolicy(c *Chain) string {
	if c.Hook == "" {
		return "-"
	}
	return strings.ToUpper(string(c.Policy))
}

func ipCounter(c *Counter) string {
	if c == nil {
		return "[0:0]"
	}
	return fmt.Sprintf("[%d:%d]", c.Packets, c.Bytes)
}

func (w *writer) ipRule(r *Rule) (string, error) {
	parts := []string{"-A", quote(w.chain.Name)}
	for i := 0; i < len(r.Matches); i++ {
		m := r.Matches[i]
		if m.Field == ICMPType && i+1 < len(r.Matches) && r.Matches[i+1].Field == ICMPCode || m.Field == ICMP6 && i+1 < len(r.Matches) && r.Matches[i+1].Field == ICMP6C {
			s, err := ipICMP(m, &r.Matches[i+1])
			if err != nil {
				return "", err
			}
			parts = append(parts, s)
			i++
			continue
		}
		s, err := w.ipMatch(r, m)
		if err != nil {
			return "", err
		}
		parts = append(parts, notEmpty(s)...)
	}
	if r.Comment != "" {
		parts = append(parts, "-m comment --comment "+quote(short(r.Comment, 255)))
	}
	s, err := w.ipEnd(r)
	return strings.Join(append(parts, notEmpty(s)...), " "), err
}

// ipEnd writes the one target that a rule of iptables has.
func (w *writer) ipEnd(r *Rule) (string, error) {
	switch {
	case len(r.Actions) == 0:
		return w.ipVerdict(r.Verdict)
	case len(r.Actions) > 1 || r.Verdict.Kind != Continue:
		return "", lacks("iptables does one thing in a rule, not several")
	}
	a := r.Actions[0]
	if native(w.rs, IPTables, a.Text) {
		return a.Text, nil
	}
	switch a.Name {
	case Notrack:
		return "-j CT --notrack", nil
	case Trace:
		return "-j TRACE", nil
	case SetMark:
		return fmt.Sprintf("-j MARK --set-xmark 0x%x/0x%x", a.Value, a.Mask), nil
	case SetCTMark:
		return fmt.Sprintf("-j CONNMARK --set-xmark 0x%x/0x%x", a.Value, a.Mask), nil
	case Log:
		s := "-j LOG"
		if p := a.Args["prefix"] + a.Args["log-prefix"]; p != "" {
			s += " --log-prefix " + quote(p)
		}
		return s, nil
	}
	return "", lacks("no iptables for %q", a.Text)
}

func (w *writer) ipVerdict(v Verdict) (string, error) {
	switch v.Kind {
	case Continue:
		return "", nil
	case Accept, Drop, Return:
		return "-j " + strings.ToUpper(string(v.Kind)), nil
	case Jump:
		return "-j " + quote(v.Chain), nil
	case Goto:
		return "-g " + quote(v.Chain), nil
	case Reject:
		if v.With == "" {
			return "-j REJECT", nil
		}
		for name, with := range rejects {
			if with == v.With && (strings.HasPrefix(name, "icmp") || name == "tcp-reset") {
				return "-j REJECT --reject-with " + name, nil
			}
		}
	}
	if native(w.rs, IPTables, v.Text) {
		return v.Text, nil
	}
	return "", lacks("no iptables for %q", v.Text)
}

func ipICMP(m Match, code *Match) (string, error) {
	option := "-m icmp --icmp-type "
	if m.Field == ICMP6 {
		option = "-m icmp6 --icmpv6-type "
	}
	if len(m.Numbers) != 1 {
		return "", lacks("iptables takes one ICMP type in a rule")
	}
	if m.Numbers[0] == (Range{0, 255}) && !m.Not && code == nil {
		if m.Field == ICMP6 {
			return "", nil
		}
		return option + "any", nil
	}
	s := fmt.Sprint(m.Numbers[0].Lo)
	if code != nil {
		if len(code.Numbers) != 1 || code.Numbers[0].Lo != code.Numbers[0].Hi || code.Not || m.Not {
			return "", lacks("iptables takes one ICMP code in a rule")
		}
		s += fmt.Sprintf("/%d", code.Numbers[0].Lo)
	}
	if m.Numbers[0].Lo != m.Numbers[0].Hi {
		return "", lacks("iptables takes one ICMP type in a rule")
	}
	return negated(m.Not, option, s), nil
}

// negated writes "-m x ! --y value".
func negated(not bool, option, value string) string {
	if !not {
		return option + value
	}
	if i := strings.LastIndex(option, "--"); i >= 0 {
		return option[:i] + "! " + option[i:] + value
	}
	return "! " + option + value
}

func upper(words []string) string {
	out := slices.Clone(words)
	for i := range out {
		out[i] = strings.ReplaceAll(strings.ToUpper(out[i]), "-", "_")
	}
	return strings.Join(out, ",")
}
