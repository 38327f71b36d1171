package stateless

import (
	"slices"
	"strings"

	"headroom/engine/ruleset"
)

// plainModules are matches of iptables that look at the packet, its socket or
// the clock only: they mean the same without tracking and are kept as written.
var plainModules = []string{"recent", "time", "u32", "geoip", "hashlimit", "mac", "physdev", "owner", "string", "rpfilter", "ttl", "hl", "ecn", "dscp", "tos", "length",
	"pkttype", "addrtype", "iprange", "multiport", "bpf", "cpu", "realm", "policy", "devgroup", "ah", "esp", "sctp", "dccp", "udplite", "tcpmss", "mark", "set", "comment",
	"limit", "tcp", "udp", "icmp", "icmp6", "frag", "rt", "hbh", "dst", "mh", "ipv6header", "eui64", "socket", "protocol", "address", "rateest", "nfacct", "quota"}

// tracking are matches of iptables that ask connection tracking.
var tracking = map[string]string{
	"connlimit": "it counts open connections", "connbytes": "it counts what a connection has carried", "connlabel": "it reads the connection's labels",
	"helper": "it asks for a connection tracking helper", "cluster": "it shares out connections", "statistic": "its verdict is a matter of chance, which no proof can repeat",
}

// refusals lists the rules that cannot do without tracking.
func (c *converter) refusals() {
	for _, t := range c.tables {
		for _, ch := range t.Chains {
			for _, r := range ch.Rules {
				why := reason(r)
				if why == "" {
					continue
				}
				c.res.Refused = append(c.res.Refused, Refusal{
					Table: string(t.Family) + " " + t.Name, Chain: ch.Name, Line: r.Line, Rule: r.Text, Reason: why,
					hook: t.hookOf(ch), when: r.Matches,
				})
			}
		}
	}
}

// hookOf is the hook that a chain is reached from; "" if there are several or
// none.
func (t *table) hookOf(ch *ruleset.Chain) string {
	var hooks []string
	for _, b := range t.Chains {
		if b.Hook != "" && slices.Contains(t.reached(b), ch) && !slices.Contains(hooks, b.Hook) {
			hooks = append(hooks, b.Hook)
		}
	}
	if len(hooks) != 1 {
		return ""
	}
	return hooks[0]
}

var verdictReasons = map[ruleset.Kind]string{
	ruleset.DNAT: "address translation remembers each connection", ruleset.SNAT: "address translation remembers each connection",
	ruleset.Masquerade: "address translation remembers each connection", ruleset.Redirect: "redirection is address translation, which remembers each connection",
	ruleset.TProxy: "a transparent proxy takes its packets by their connection", ruleset.SynProxy: "synproxy answers for the connection and then tracks it",
	ruleset.Queue: "a program decides, which no proof can repeat",
}

// reason says why a rule cannot do without tracking; "" if it can.
func reason(r *ruleset.Rule) string {
	if why := verdictReasons[r.Verdict.Kind]; why != "" {
		return why
	}
	switch r.Verdict.Kind {
	case ruleset.OtherVerdict:
		return "its target is not understood, so what it does without tracking is not known"
	case ruleset.Map:
		return "its verdict map could not be taken apart"
	}
	if st, _, any := asked(r.Matches); any && st.established && r.Verdict.Kind == ruleset.Return && st != (states{true, true, true, true, true}) {
		return "it leaves the chain with what is established; what could be an answer is told by a chain of its own, which cannot: accept it before"
	}
	for _, a := range r.Actions {
		switch a.Name {
		case ruleset.SetCTMark:
			return "the connection's mark is kept in its tracking entry"
		case ruleset.Helper:
			return "helper " + strings.TrimSpace(a.Args["helper"]) + " opens further connections (RELATED), which only tracking can tell"
		case ruleset.Flow:
			return "a flowtable takes tracked connections"
		case ruleset.OtherAction:
			return "what it does is not understood"
		}
	}
	for _, m := range r.Matches {
		if why := matchReason(m); why != "" {
			return why
		}
	}
	return ""
}

func matchReason(m ruleset.Match) string {
	switch m.Field {
	case ruleset.CTStatus:
		return "it asks for a connection's status (" + strings.Join(m.Words, ", ") + ")"
	case ruleset.CTDir:
		return "it asks for a packet's direction in its connection"
	case ruleset.CTMark:
		return "it asks for the connection's mark"
	case ruleset.CTOther:
		return "it asks connection tracking (" + m.Module + ")"
	case ruleset.CTState:
		for _, w := range m.Words {
			if w == "snat" || w == "dnat" {
				return "it asks whether the connection's addresses were translated"
			}
		}
	case ruleset.Other:
		if why := tracking[m.Module]; why != "" {
			return why
		}
		if !slices.Contains(plainModules, m.Module) {
			return "its match " + m.Module + " is not understood, so what it means without tracking is not known"
		}
	}
	return ""
}

// bound says what in a table only iptables has; "" if nft can say it all.
func bound(t *ruleset.Table) string {
	for _, ch := range t.Chains {
		for _, r := range ch.Rules {
			for _, m := range r.Matches {
				if m.Field == ruleset.Other || m.Field == ruleset.String || m.Field == ruleset.InSet || m.Field == ruleset.Port || m.Set != "" {
					return r.Text
				}
			}
			for _, a := range r.Actions {
				if a.Name == ruleset.AddToSet || a.Name == ruleset.DelFromSet || a.Name == ruleset.Mangle {
					return r.Text
				}
			}
		}
	}
	return ""
}
