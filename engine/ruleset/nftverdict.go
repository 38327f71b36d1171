package ruleset

import (
	"fmt"
	"strings"
)

var nftKinds = map[string]Kind{"accept": Accept, "drop": Drop, "return": Return, "continue": Continue, "jump": Jump, "goto": Goto, "reject": Reject, "queue": Queue,
	"vmap": Map, "dnat": DNAT, "snat": SNAT, "masquerade": Masquerade, "redirect": Redirect, "tproxy": TProxy, "synproxy": SynProxy, "fwd": OtherVerdict, "xt": OtherVerdict}

func (n *nftRule) verdict(kind string, x any, o object) {
	v := Verdict{Kind: nftKinds[kind], Chain: str(o, "target"), Text: verdictText(kind, x)}
	switch kind {
	case "reject":
		v.With = strings.TrimSpace(str(o, "type") + " " + exprOr(o["expr"]))
		v.Text = rejectText(v.With)
	case "vmap":
		v.Map, v.Text = n.vmap(o), exprText(o["key"])+" vmap "+exprText(o["data"])
		if v.Map == nil {
			v.Kind = OtherVerdict
		}
	case "dnat", "snat", "masquerade", "redirect", "tproxy":
		v.With, v.Text = natText(kind, o)
	case "queue":
		v.Text = queueText(o)
	case "synproxy":
		v.Text = synproxyText(x, o)
	case "fwd":
		v.Text = exprText(object{kind: x})
	case "xt":
		if n.xt(x, o) {
			return
		}
		v.Text = exprText(object{kind: x})
	}
	n.rule.Verdict = v
	n.text(v.Text)
}

func exprOr(v any) string {
	if v == nil {
		return ""
	}
	return exprText(v)
}

// xt notes a match or target of iptables that nft cannot show; it answers true
// if it is a match only.
func (n *nftRule) xt(x any, o object) bool {
	text := exprText(object{"xt": x})
	m := Match{Field: Other, Module: strings.TrimSpace("xt " + str(o, "name"))}
	if str(o, "type") == "target" {
		return false
	}
	n.add(m, text)
	if str(o, "type") == "match" {
		n.text(text)
		return true
	}
	return false // not said which: it may be either
}

func rejectText(with string) string {
	switch {
	case with == "":
		return "reject"
	case with == "tcp reset":
		return "reject with tcp reset"
	}
	family, typ, ok := strings.Cut(with, " ")
	if !ok {
		return "reject"
	}
	return "reject with " + family + " " + typ
}

func (n *nftRule) vmap(o object) *VerdictMap {
	keys := []any{o["key"]}
	if k, x := only(o["key"]); k == "concat" {
		keys = list(x)
	}
	m := &VerdictMap{}
	for _, k := range keys {
		f, ok := n.field(k)
		if !ok {
			return nil
		}
		m.Key = append(m.Key, f.field)
	}
	if s, ok := o["data"].(string); ok && strings.HasPrefix(s, "@") {
		m.Name = s[1:]
		return m
	}
	k, x := only(o["data"])
	if k != "set" {
		return nil
	}
	m.Elements = nftElements(x, true)
	for _, e := range m.Elements {
		if e.Verdict == nil {
			return nil
		}
	}
	return m
}

// natText writes where a NAT goes to, and the whole statement.
func natText(kind string, o object) (to, text string) {
	addr, port := exprOr(o["addr"]), exprOr(o["port"])
	to = addr
	if strings.Contains(addr, ":") && port != "" {
		to = "[" + addr + "]"
	}
	if port != "" {
		to += ":" + port
	}
	parts := []string{kind}
	if f := str(o, "family"); f != "" {
		parts = append(parts, f)
	}
	if to != "" {
		parts = append(parts, "to", to)
	}
	if fl := list(o["flags"]); len(fl) > 0 {
		parts = append(parts, join(fl, ","))
	}
	return to, strings.Join(parts, " ")
}

func queueText(o object) string {
	s := "queue"
	if fl := list(o["flags"]); len(fl) > 0 {
		s += " flags " + join(fl, ",")
	}
	if num := o["num"]; num != nil {
		s += " to " + exprText(num)
	}
	return s
}

func synproxyText(x any, o object) string {
	switch {
	case x == nil:
		return "synproxy"
	case o == nil:
		return fmt.Sprintf("synproxy name %q", fmt.Sprint(x))
	}
	parts := []string{"synproxy"}
	for _, k := range []string{"mss", "wscale"} {
		if s := str(o, k); s != "" {
			parts = append(parts, k+" "+s)
		}
	}
	for _, f := range list(o["flags"]) {
		parts = append(parts, exprText(f))
	}
	return strings.Join(parts, " ")
}

// finish puts the rule's text together and counts the positions of actions from
// the end.
func (n *nftRule) finish() {
	total := len(n.rule.Matches)
	for i := range n.rule.Actions {
		n.rule.Actions[i].Before = total - n.rule.Actions[i].Before
	}
	if n.rule.Counter != nil {
		n.rule.Counter.Before = total - n.rule.Counter.Before
	}
	n.rule.Text = strings.Join(n.texts, " ")
	if n.rule.Comment != "" {
		n.rule.Text += " comment " + nftString(n.rule.Comment)
	}
}
