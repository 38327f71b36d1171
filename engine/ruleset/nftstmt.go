package ruleset

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// statement adds one expression of a rule to the model.
func (n *nftRule) statement(e any) {
	kind, x := only(e)
	if s, ok := e.(string); ok { // "notrack", "masquerade" of some versions
		kind = s
	}
	o, _ := x.(object)
	before := len(n.rule.Matches)
	switch kind {
	case "match":
		n.match(o)
		for _, m := range n.rule.Matches[before:] {
			if m.Text != "" {
				n.texts = append(n.texts, m.Text)
			}
		}
		return
	case "limit":
		n.limit(x)
	case "counter":
		n.counter(x)
	case "accept", "drop", "return", "continue", "jump", "goto", "reject", "queue", "vmap", "dnat", "snat", "masquerade", "redirect", "tproxy", "synproxy", "fwd", "xt":
		n.verdict(kind, x, o)
	case "quota", "ct count", "meter", "connlimit", "last", "":
		n.opaque(kind, e, x)
	default:
		n.action(kind, x, o)
	}
}

// text notes a statement in nft's syntax, and returns it.
func (n *nftRule) text(s string) string {
	n.texts = append(n.texts, s)
	return s
}

func (n *nftRule) opaque(kind string, e, x any) {
	o, _ := x.(object)
	s := exprText(e)
	switch {
	case kind == "quota" && o != nil:
		s = strings.Join(notEmpty("quota", over(o["inv"]), str(o, "val"), str(o, "val_unit")), " ")
	case kind == "quota":
		s = fmt.Sprintf("quota name %q", fmt.Sprint(x))
	case kind == "ct count":
		s = strings.Join(notEmpty("ct count", over(o["inv"]), str(o, "val")), " ")
	case kind == "meter":
		s = "meter " + str(o, "name") + " { " + exprText(o["key"]) + " " + statementText(o["stmt"]) + " }"
	}
	n.add(Match{Field: Other, Module: kind, Text: s}, n.text(s))
}

func over(inv any) string {
	if inv == true {
		return "over"
	}
	return ""
}

// statementText writes a statement that stands within another one.
func statementText(e any) string {
	sub := nftRule{rule: &Rule{}}
	for _, x := range list(e) {
		sub.statement(x)
	}
	return strings.Join(sub.texts, " ")
}

func (n *nftRule) limit(x any) {
	o, ok := x.(object)
	if !ok {
		n.add(Match{Field: Other, Module: "limit"}, n.text(fmt.Sprintf("limit name %q", fmt.Sprint(x))))
		return
	}
	rate, _ := strconv.ParseFloat(str(o, "rate"), 64)
	burst, _ := strconv.ParseFloat(str(o, "burst"), 64)
	r := &Rate{Per: str(o, "per"), Over: o["inv"] == true}
	unit := str(o, "rate_unit")
	r.Count, r.Bytes = scale(unit, rate)
	burst, _ = scale(str(o, "burst_unit"), burst)
	r.Burst = uint64(burst)
	n.add(Match{Field: Limit, Rate: r}, n.text(rateText(r)))
}

// rateText writes a limit in nft's syntax.
func rateText(r *Rate) string {
	s := "limit rate "
	if r.Over {
		s += "over "
	}
	s += strconv.FormatFloat(r.Count, 'f', -1, 64)
	if r.Bytes {
		s += " bytes"
	}
	s += "/" + r.Per
	switch {
	case r.Burst > 0 && r.Bytes:
		s += fmt.Sprintf(" burst %d bytes", r.Burst)
	case r.Burst > 0:
		s += fmt.Sprintf(" burst %d packets", r.Burst)
	}
	return s
}

func (n *nftRule) counter(x any) {
	o, ok := x.(object)
	switch {
	case x == nil: // of a rule that was not listed with its counts
		n.rule.Counter = &Counter{Before: len(n.rule.Matches)}
		n.text("counter")
	case !ok:
		name := fmt.Sprint(x)
		n.rule.Actions = append(n.rule.Actions, Action{Name: NamedCount, Args: map[string]string{"name": name}, Text: n.text(fmt.Sprintf("counter name %q", name)), Before: len(n.rule.Matches)})
	default:
		p, _ := strconv.ParseUint(str(o, "packets"), 10, 64)
		b, _ := strconv.ParseUint(str(o, "bytes"), 10, 64)
		n.rule.Counter = &Counter{Packets: p, Bytes: b, Before: len(n.rule.Matches)}
		n.text("counter packets " + str(o, "packets") + " bytes " + str(o, "bytes"))
	}
}

func (n *nftRule) action(kind string, x any, o object) {
	a := Action{Name: OtherAction, Before: len(n.rule.Matches)}
	switch kind {
	case "log":
		a.Name, a.Args = Log, map[string]string{}
		for k := range o {
			a.Args[k] = exprText(o[k])
		}
		if _, ok := o["group"]; ok {
			a.Name = NFLog
		}
		a.Text = logText(o)
	case "notrack":
		a.Name, a.Text = Notrack, "notrack"
	case "mangle":
		n.mangle(&a, o)
	case "ct helper":
		a.Name, a.Args, a.Text = Helper, map[string]string{"helper": fmt.Sprint(x)}, fmt.Sprintf("ct helper set %q", fmt.Sprint(x))
	case "flow":
		a.Name, a.Text = Flow, "flow add "+str(o, "flowtable")
	case "set", "map":
		if n.setAction(&a, kind, o) {
			return
		}
	default:
		a.Text = exprText(object{kind: x})
	}
	n.rule.Actions = append(n.rule.Actions, a)
	n.text(a.Text)
}

// setAction reads a change of a set; one with a condition of its own (a limit
// for each element) is a match, and then it answers true.
func (n *nftRule) setAction(a *Action, kind string, o object) bool {
	a.Set = strings.TrimPrefix(str(o, kind), "@")
	a.Name = AddToSet
	if str(o, "op") == "delete" {
		a.Name = DelFromSet
	}
	inner := exprText(o["elem"])
	stmt := statementText(o["stmt"])
	if stmt != "" {
		inner += " " + stmt
	}
	if d, ok := o["data"]; ok {
		inner += " : " + exprText(d)
	}
	a.Text = str(o, "op") + " @" + a.Set + " { " + inner + " }"
	if stmt == "" || stmt == "counter" {
		return false
	}
	n.add(Match{Field: Other, Module: "set", Set: a.Set}, n.text(a.Text))
	return true
}

func logText(o object) string {
	s := "log"
	for _, k := range []string{"prefix", "level", "group", "snaplen", "queue-threshold", "flags"} {
		v, ok := o[k]
		switch {
		case !ok:
		case k == "prefix":
			s += " prefix " + nftString(exprText(v))
		case k == "flags" && len(list(v)) > 1:
			s += " flags all"
		default:
			s += " " + k + " " + exprText(v)
		}
	}
	return s
}

func (n *nftRule) mangle(a *Action, o object) {
	key, value := o["key"], o["value"]
	a.Name, a.Text = Mangle, exprText(key)+" set "+exprText(value)
	kind, x := only(key)
	k, _ := x.(object)
	switch {
	case kind == "meta" && str(k, "key") == "nftrace":
		a.Name = Trace
	case kind == "meta" && str(k, "key") == "mark", kind == "ct" && str(k, "key") == "mark":
		v, mask, ok := markOf(exprText(key), value)
		if !ok {
			return
		}
		a.Name, a.Value, a.Mask = SetMark, v, mask
		if kind == "ct" {
			a.Name = SetCTMark
		}
	case kind == "tcp option" && str(k, "name") == "maxseg":
		a.Name = ClampMSS
	}
}

// markOf reads what a mark is set to: a number, or the mark itself with bits
// set or cleared.
func markOf(self string, v any) (value, mask uint64, ok bool) {
	const all = 0xffffffff
	if _, isNumber := v.(json.Number); isNumber {
		n, ok := number(nil, v)
		return n, all, ok
	}
	op, x := only(v)
	pair := list(x)
	if len(pair) != 2 {
		return 0, 0, false
	}
	n, isNumber := number(nil, pair[1])
	if !isNumber {
		return 0, 0, false
	}
	kept := uint64(all)
	if inner, y := only(pair[0]); inner == "&" {
		sub := list(y)
		m, ok := number(nil, sub[len(sub)-1])
		if !ok || len(sub) != 2 || exprText(sub[0]) != self {
			return 0, 0, false
		}
		kept = m
	} else if exprText(pair[0]) != self {
		return 0, 0, false
	}
	switch op {
	case "|":
		return n, all&^kept | n, true
	case "^":
		return n, all &^ kept, true
	case "&":
		return 0, all &^ (kept & n), true
	}
	return 0, 0, false
}
