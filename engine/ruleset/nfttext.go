package ruleset

import (
	"encoding/json"
	"fmt"
	"strings"
)

// exprText writes an expression of nft's JSON in nft's own syntax. What it does
// not know is written as JSON, which nft does not take: see unwritable.
func exprText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		if v {
			return "exists"
		}
		return "missing"
	case []any:
		return join(v, ",")
	case object:
		if k, x := only(v); k != "" {
			if s := known(k, x); s != "" {
				return s
			}
		}
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return unwritable + fmt.Sprint(v)
	}
	return unwritable + string(raw)
}

// unwritable marks text that nft does not take.
const unwritable = "json:"

func join(vs []any, sep string) string {
	parts := make([]string, len(vs))
	for i, v := range vs {
		parts[i] = exprText(v)
	}
	return strings.Join(parts, sep)
}

// known writes {"kind": x}; "" if the kind is not known.
func known(kind string, x any) string {
	o, _ := x.(object)
	l, _ := x.([]any)
	switch kind {
	case "prefix":
		return exprText(o["addr"]) + "/" + str(o, "len")
	case "range":
		return join(l, "-")
	case "set":
		return "{ " + elementsText(list(x)) + " }"
	case "concat":
		return join(l, " . ")
	case "payload":
		if base := str(o, "base"); base != "" {
			return "@" + base + "," + str(o, "offset") + "," + str(o, "len")
		}
		return str(o, "protocol") + " " + str(o, "field")
	case "meta":
		return metaText(str(o, "key"))
	case "ct", "rt":
		return strings.Join(notEmpty(kind, str(o, "dir"), str(o, "family"), str(o, "key")), " ")
	case "fib":
		return "fib " + join(list(o["flags"]), " . ") + " " + str(o, "result")
	case "socket", "osf":
		return kind + " " + str(o, "key")
	case "ipsec":
		return strings.Join(notEmpty("ipsec", str(o, "dir"), str(o, "family"), str(o, "key")), " ")
	case "exthdr":
		if f := str(o, "field"); f != "" {
			return str(o, "name") + " " + f
		}
		return "exthdr " + str(o, "name")
	case "tcp option":
		return strings.Join(notEmpty("tcp option", str(o, "name"), str(o, "field")), " ")
	case "numgen":
		return strings.Join(notEmpty("numgen", mode(str(o, "mode")), "mod", str(o, "mod"), with("offset", str(o, "offset"))), " ")
	case "jhash", "symhash":
		key := ""
		if e := o["expr"]; e != nil {
			key = exprText(e)
		}
		return strings.Join(notEmpty(kind, key, "mod", str(o, "mod"), with("seed", str(o, "seed")), with("offset", str(o, "offset"))), " ")
	case "&", "|", "^", "<<", ">>":
		return operation(kind, l)
	case "map":
		return exprText(o["key"]) + " map " + exprText(o["data"])
	case "elem":
		return elementText(o)
	}
	return verdictText(kind, x)
}

func mode(s string) string {
	if s == "incremental" {
		return "inc"
	}
	return s
}

func with(name, value string) string {
	if value == "" || value == "0" {
		return ""
	}
	return name + " " + value
}

func notEmpty(parts ...string) (out []string) {
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return out
}

// shortMeta need no "meta" before them, and are better known without.
var shortMeta = map[string]bool{"iif": true, "oif": true, "iifname": true, "oifname": true}

func metaText(key string) string {
	if shortMeta[key] {
		return key
	}
	return "meta " + key
}

// operation writes a & b; a list of flags stands for their sum.
func operation(op string, args []any) string {
	parts := make([]string, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case []any:
			parts[i] = "(" + join(a, " | ") + ")"
		default:
			parts[i] = exprText(a)
			if k, _ := only(a); k == "&" || k == "|" || k == "^" || k == "<<" || k == ">>" {
				parts[i] = "(" + parts[i] + ")"
			}
		}
	}
	return strings.Join(parts, " "+op+" ")
}

// elementsText writes the elements of a set or map in braces.
func elementsText(es []any) string {
	parts := make([]string, len(es))
	for i, e := range es {
		if pair, ok := e.([]any); ok && len(pair) == 2 {
			parts[i] = quoteName(exprText(pair[0])) + " : " + exprText(pair[1])
			continue
		}
		parts[i] = quoteName(exprText(e))
	}
	return strings.Join(parts, ", ")
}

// quoteName puts quotes around a word that needs them: an interface's name with
// an asterisk within a set.
func quoteName(s string) string {
	if strings.HasSuffix(s, "*") && !strings.ContainsAny(s, " \"") {
		return `"` + s + `"`
	}
	return s
}

func elementText(o object) string {
	parts := []string{exprText(o["val"])}
	for _, k := range []string{"timeout", "expires"} {
		if s := str(o, k); s != "" {
			parts = append(parts, k+" "+s+"s")
		}
	}
	if c, ok := o["counter"].(object); ok {
		parts = append(parts, "counter packets "+str(c, "packets")+" bytes "+str(c, "bytes"))
	}
	if s := str(o, "comment"); s != "" {
		parts = append(parts, "comment "+nftString(s))
	}
	return strings.Join(parts, " ")
}

// nftString writes text in quotes. nft knows no escape: a quote within cannot
// be written and becomes an apostrophe.
func nftString(s string) string {
	return `"` + strings.NewReplacer(`"`, "'", "\n", " ").Replace(s) + `"`
}

// verdictText writes the verdicts that may stand in a map, too.
func verdictText(kind string, x any) string {
	switch kind {
	case "accept", "drop", "return", "continue":
		return kind
	case "jump", "goto":
		if o, ok := x.(object); ok {
			return kind + " " + str(o, "target")
		}
	}
	return ""
}

// matchText writes {"match": {"op", "left", "right"}}.
func matchText(o object) string {
	op, left, right := str(o, "op"), o["left"], o["right"]
	text, value := exprText(left), exprText(right)
	kind, x := only(left)
	if l, ok := right.([]any); ok && (op != "in" || kind == "&") {
		value = "(" + join(l, " | ") + ")"
	}
	if m, ok := x.(object); ok && kind == "meta" && quotedMeta(str(m, "key")) {
		if s, ok := right.(string); ok && !strings.HasPrefix(s, "@") {
			value = nftString(s)
		}
		if k, r := only(right); k == "range" && len(list(r)) == 2 {
			value = nftString(exprText(list(r)[0])) + "-" + nftString(exprText(list(r)[1]))
		}
	}
	switch {
	case op == "in", op == "==" && !isOperation(kind):
		return text + " " + value
	}
	return text + " " + op + " " + value
}

// quotedMeta are keys whose values are names or times, in quotes.
func quotedMeta(key string) bool {
	return strings.HasSuffix(key, "name") || key == "time" || key == "hour" || key == "day"
}

func isOperation(kind string) bool {
	return kind == "&" || kind == "|" || kind == "^" || kind == "<<" || kind == ">>"
}
