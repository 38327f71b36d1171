package change

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"headroom/host"
)

// iptables is the dialect of the iptables-save format; tool is the prefix of
// the programs' names.
type iptables struct{ tool string }

// builtIn are the chains that each table has of itself.
var builtIn = map[string][]string{
	"raw":      {"PREROUTING", "OUTPUT"},
	"mangle":   {"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"},
	"nat":      {"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"},
	"filter":   {"INPUT", "FORWARD", "OUTPUT"},
	"security": {"INPUT", "FORWARD", "OUTPUT"},
}

func (iptables) valid(table string) bool { return builtIn[table] != nil }

// The wait is for the lock that all iptables programs share.
func (x iptables) loader() []string {
	return []string{x.tool + "-restore", "--counters", "--wait", "20"}
}
func (x iptables) tester() []string    { return append(x.loader(), "--test") }
func (x iptables) listers() [][]string { return [][]string{{x.tool + "-save", "--counters"}} }

func (x iptables) look(ctx context.Context, r host.Reader, _ []string) (full, still string, err error) {
	b, err := r.Look(ctx, x.listers()[0]...)
	return string(b), "", err
}

// xtTable is one table of the iptables-save format.
type xtTable struct {
	name   string
	chains []xtChain
	rules  []xtRule
}

type xtChain struct{ name, policy, counters string }

type xtRule struct{ counters, text string }

// empty says that the table does nothing, as one that is not there.
func (t xtTable) empty() bool {
	return len(t.rules) == 0 && !slices.ContainsFunc(t.chains, func(c xtChain) bool { return c.policy != "ACCEPT" })
}

func (t xtTable) text(counters bool) string {
	var out strings.Builder
	fmt.Fprintf(&out, "*%s\n", t.name)
	for _, c := range t.chains {
		n := "[0:0]" // iptables-restore --counters wants some
		if counters && c.counters != "" {
			n = c.counters
		}
		fmt.Fprintf(&out, ":%s %s %s\n", c.name, c.policy, n)
	}
	for _, r := range t.rules {
		if counters && r.counters != "" {
			out.WriteString(r.counters + " ")
		}
		out.WriteString(r.text + "\n")
	}
	out.WriteString("COMMIT\n")
	return out.String()
}

var (
	xtChainLine = regexp.MustCompile(`^:(\S+) (\S+)(?: (\[\d+:\d+\]))?$`)
	xtRuleLine  = regexp.MustCompile(`^(?:(\[\d+:\d+\]) )?(-A \S+.*)$`)
	xtAlien     = regexp.MustCompile("^# Table `([^']*)' is incompatible")
)

// parseTables reads the iptables-save format, and nothing but it: no -I, -D,
// -F or the like.
func parseTables(s string) ([]xtTable, error) {
	var out []xtTable
	var now *xtTable
	n := 0
	for line := range strings.Lines(s) {
		n++
		line = strings.TrimRight(line, "\r\n \t")
		chain, rule := xtChainLine.FindStringSubmatch(line), xtRuleLine.FindStringSubmatch(line)
		switch {
		case line == "" || line[0] == '#':
			if m := xtAlien.FindStringSubmatch(line); m != nil {
				out = append(out, xtTable{name: m[1], chains: []xtChain{{policy: xtUnknown}}})
			}
		case line[0] == '*' && now == nil:
			now = &xtTable{name: line[1:]}
		case line == "COMMIT" && now != nil:
			out = append(out, *now)
			now = nil
		case chain != nil && now != nil:
			now.chains = append(now.chains, xtChain{chain[1], chain[2], chain[3]})
		case rule != nil && now != nil:
			now.rules = append(now.rules, xtRule{rule[1], rule[2]})
		default:
			return nil, fmt.Errorf("read rules: line %d: %s is not what iptables-save writes", n, clip(line))
		}
	}
	if now != nil {
		return nil, fmt.Errorf("read rules: they end in the middle of table %s: COMMIT is missing", now.name)
	}
	return out, nil
}

// xtUnknown marks a table that iptables cannot list.
const xtUnknown = "?"

func (x iptables) listed(full, _ string, tables []string) (State, []string, error) {
	st := State{Present: true, Stored: map[string]string{}}
	all, err := parseTables(full)
	if err != nil {
		return st, nil, err
	}
	var names []string
	for _, t := range all {
		names = append(names, t.name)
	}
	for _, name := range tables {
		for _, t := range all {
			if t.name != name || t.empty() {
				continue
			}
			if t.chains[0].policy == xtUnknown {
				return st, nil, fmt.Errorf("read rules: table %s was made by nft in a way that %s cannot list", name, x.tool)
			}
			st.Stored[name] = t.text(false)
			st.Loads += t.text(true)
		}
	}
	return st, names, nil
}

// script replaces the tables; one that content leaves out is emptied.
func (x iptables) script(tables []string, content string) (string, error) {
	all, err := parseTables(content)
	if err != nil {
		return "", err
	}
	given := map[string]string{}
	for _, t := range all {
		if !slices.Contains(tables, t.name) {
			return "", fmt.Errorf("read rules: table %s is none of the named ones (%s)", t.name, strings.Join(tables, ", "))
		}
		if given[t.name] != "" {
			return "", fmt.Errorf("read rules: table %s is there twice", t.name)
		}
		given[t.name] = t.withBuiltIn().text(true)
	}
	var out strings.Builder
	for _, name := range tables {
		text := given[name]
		if text == "" {
			text = xtTable{name: name}.withBuiltIn().text(true)
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

// withBuiltIn names each built-in chain: one that is left out would keep the
// policy that it has.
func (t xtTable) withBuiltIn() xtTable {
	for _, name := range builtIn[t.name] {
		if !slices.ContainsFunc(t.chains, func(c xtChain) bool { return c.name == name }) {
			t.chains = append(t.chains, xtChain{name: name, policy: "ACCEPT"})
		}
	}
	return t
}
