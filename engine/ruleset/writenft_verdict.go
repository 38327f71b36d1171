package ruleset

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func (w *writer) nftAction(a Action) (string, error) {
	switch a.Name {
	case Notrack:
		return "notrack", nil
	case Trace:
		return "meta nftrace set 1", nil
	case SetMark:
		return markText("meta mark", a), nil
	case SetCTMark:
		return markText("ct mark", a), nil
	}
	if native(w.rs, NFT, a.Text) {
		return a.Text, nil
	}
	if w.rs.Tool == NFT && a.Text != "" {
		return "", lacks("no syntax for %q", a.Text)
	}
	switch a.Name {
	case Log:
		s := "log"
		if p := a.Args["log-prefix"]; p != "" {
			s += " prefix " + nftString(p)
		}
		if l, ok := logLevels[a.Args["log-level"]]; ok {
			s += " level " + l
		}
		return s, nil
	case NFLog:
		s := "log"
		if p := a.Args["nflog-prefix"]; p != "" {
			s += " prefix " + nftString(p)
		}
		return s + " group " + orZero(a.Args["nflog-group"]), nil
	case ClampMSS:
		if v := a.Args["set-mss"]; v != "" {
			return "tcp option maxseg size set " + v, nil
		}
		return "tcp option maxseg size set rt mtu", nil
	}
	return "", lacks("no nft for %q", a.Text)
}

var logLevels = map[string]string{"0": "emerg", "1": "alert", "2": "crit", "3": "err", "4": "warn", "5": "notice", "6": "info", "7": "debug",
	"emerg": "emerg", "alert": "alert", "crit": "crit", "error": "err", "err": "err", "warning": "warn", "warn": "warn", "notice": "notice", "info": "info", "debug": "debug"}

func orZero(s string) string {
	if s == "" {
		return "0"
	}
	return s
}

func markText(mark string, a Action) string {
	const all = 0xffffffff
	kept := all &^ a.Mask
	s := mark + " set "
	switch {
	case kept == 0:
		return s + fmt.Sprintf("0x%x", a.Value)
	case a.Value == a.Mask:
		return s + fmt.Sprintf("%s | 0x%x", mark, a.Value)
	case a.Value == 0:
		return s + fmt.Sprintf("%s & 0x%x", mark, kept)
	case a.Mask == 0:
		return s + fmt.Sprintf("%s ^ 0x%x", mark, a.Value)
	}
	return s + fmt.Sprintf("%s & 0x%x ^ 0x%x", mark, kept, a.Value)
}

func (w *writer) nftVerdict(v Verdict) (string, error) {
	switch v.Kind {
	case Continue:
		return "", nil
	case Accept, Drop, Return:
		return string(v.Kind), nil
	case Jump, Goto:
		return string(v.Kind) + " " + v.Chain, nil
	case Reject:
		if s := rejectText(v.With); s != "reject" || v.With == "" {
			return s, nil
		}
		return "", lacks("no nft for %q", v.Text)
	}
	if native(w.rs, NFT, v.Text) {
		return v.Text, nil
	}
	if w.rs.Tool == NFT && v.Text != "" {
		return "", lacks("no syntax for %q", v.Text)
	}
	switch v.Kind {
	case DNAT, SNAT:
		return strings.Join(append([]string{string(v.Kind), "to", v.With}, natFlags(v.Text)...), " "), nil
	case Masquerade, Redirect:
		parts := []string{string(v.Kind)}
		if v.With != "" {
			parts = append(parts, "to", ":"+strings.TrimPrefix(v.With, ":"))
		}
		return strings.Join(append(parts, natFlags(v.Text)...), " "), nil
	case Queue:
		return nftQueue(v.Text)
	}
	return "", lacks("no nft for %q", v.Text)
}

// natFlags are the options of a target of iptables in nft's words.
func natFlags(text string) []string {
	words, _ := split(text)
	var out []string
	for _, w := range words {
		switch w.text {
		case "--random":
			out = append(out, "random")
		case "--random-fully":
			out = append(out, "fully-random")
		case "--persistent":
			out = append(out, "persistent")
		}
	}
	if len(out) == 0 {
		return nil
	}
	return []string{strings.Join(out, ",")}
}

func nftQueue(text string) (string, error) {
	words, _ := split(text)
	num, bypass := "0", ""
	for i, w := range words {
		switch w.text {
		case "--queue-num":
			if i+1 < len(words) {
				num = words[i+1].text
			}
		case "--queue-bypass":
			bypass = " flags bypass"
		case "--queue-balance", "--queue-cpu-fanout":
			return "", lacks("no nft for %q", text)
		}
	}
	if _, err := strconv.ParseUint(num, 10, 16); err != nil {
		return "", lacks("no nft for %q", text)
	}
	return "queue" + bypass + " to " + num, nil
}

// objectText writes an object that stands beside the chains; "" if its kind is
// not known.
func objectText(x Object) string {
	var all map[string]object
	dec := json.NewDecoder(strings.NewReader(x.Text))
	dec.UseNumber()
	if dec.Decode(&all) != nil {
		return ""
	}
	o := all[x.Kind]
	body := ""
	switch x.Kind {
	case "counter":
		body = "packets " + str(o, "packets") + " bytes " + str(o, "bytes")
	case "quota":
		body = strings.Join(notEmpty(over(o["inv"]), str(o, "bytes"), "bytes used", orZero(str(o, "used")), "bytes"), " ")
	case "limit":
		var n nftRule
		n.rule = &Rule{}
		n.limit(o)
		body = strings.TrimPrefix(n.texts[0], "limit ")
	case "ct helper":
		body = fmt.Sprintf("type %q protocol %s; l3proto %s;", str(o, "type"), str(o, "protocol"), str(o, "l3proto"))
	case "flowtable":
		var devices []string
		for _, d := range list(o["dev"]) {
			devices = append(devices, exprText(d))
		}
		slices.Sort(devices)
		body = "hook " + str(o, "hook") + " priority " + str(o, "prio") + "; devices = { " + strings.Join(devices, ", ") + " };"
	default:
		return ""
	}
	return x.Kind + " " + x.Name + " { " + body + " }"
}
