package firewall

import (
	"slices"
	"strings"

	"headroom/engine/ruleset"
)

// merge puts the tables of iptables and of nft together. A table that
// iptables-nft keeps is listed by both: nft shows the matches of iptables' own
// modules without their values, and iptables-nft-save leaves out, without a
// word, matches of nft that it does not know. So iptables' list is taken where
// it has all that nft's has, else nft's.
func merge(rs []*ruleset.Ruleset, nft []*ruleset.Table) (out []*ruleset.Table) {
	for _, one := range rs {
		for _, t := range one.Tables {
			i := -1
			if strings.Contains(one.Maker, "nf_tables") {
				i = slices.IndexFunc(nft, func(x *ruleset.Table) bool { return x.Family == t.Family && x.Name == t.Name })
			}
			switch {
			case i < 0:
				out = append(out, t)
			case whole(t, nft[i]):
				out = append(out, t)
				nft = slices.Delete(slices.Clone(nft), i, i+1)
			}
		}
	}
	return append(out, nft...)
}

// whole says whether iptables' list of a table has all that nft's has.
func whole(ip, nft *ruleset.Table) bool {
	if len(nft.Sets)+len(nft.Others) > 0 {
		return false
	}
	for _, c := range nft.Chains {
		same := ip.Chain(c.Name)
		if same == nil || same.Hook != c.Hook || len(same.Rules) != len(c.Rules) {
			return false
		}
		for i, r := range c.Rules {
			if !covers(same.Rules[i], r) {
				return false
			}
		}
	}
	return true
}

// covers says whether a rule as iptables lists it has as many matches as nft
// shows of it, apart from those of iptables' own modules, and counts, as each
// rule of iptables does.
func covers(ip, nft *ruleset.Rule) bool {
	n := 0
	for _, m := range nft.Matches {
		if m.Text != "" && !strings.HasPrefix(m.Module, "xt") {
			n++
		}
	}
	return nft.Counter != nil && nft.Verdict.Kind != ruleset.Map && len(ip.Matches) >= n
}

// faithful cuts those tables out of iptables-nft-save's dumps of which they do
// not tell all; nft's dump has them.
func faithful(dumps []Dump) []Dump {
	var nft []*ruleset.Table
	for _, d := range dumps {
		if strings.HasPrefix(d.Source, "nft") && d.Text != "" {
			if rs, err := parse(d); err == nil {
				nft = rs.Tables
			}
		}
	}
	for i, d := range dumps {
		if d.Family == "" || d.Text == "" {
			continue
		}
		rs, err := parse(d)
		if err != nil || !strings.Contains(rs.Maker, "nf_tables") {
			continue
		}
		for _, t := range rs.Tables {
			at := slices.IndexFunc(nft, func(x *ruleset.Table) bool { return x.Family == t.Family && x.Name == t.Name })
			if at >= 0 && !whole(t, nft[at]) {
				dumps[i].Text = cut(dumps[i].Text, t.Name)
			}
		}
		if !strings.Contains(dumps[i].Text, "COMMIT") {
			dumps[i].Text = ""
		}
		dumps[i].Size = int64(len(dumps[i].Text))
	}
	return dumps
}

// cut takes a table's block out of a dump of iptables-save.
func cut(dump, table string) string {
	var b strings.Builder
	within := false
	for line := range strings.Lines(dump) {
		switch {
		case strings.TrimSpace(line) == "*"+table:
			within = true
		case within && strings.TrimSpace(line) == "COMMIT":
			within = false
			continue
		}
		if !within {
			b.WriteString(line)
		}
	}
	return b.String()
}
