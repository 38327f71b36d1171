package firewall

import (
	"fmt"
	"strings"

	"headroom/check"
	"headroom/engine/ruleset"
	"headroom/fact"
	"headroom/probe/firewall"
	"headroom/unit"
)

// discard is a port that nobody lets in on purpose.
const discard = 9

// stranger asks what becomes of a new connection to a port that no rule is
// likely to name. in lists the protocols that get in for certain.
func stranger(r firewall.Rules, n firewall.Network, v6 bool) (o ruleset.Outcome, in []string) {
	for _, proto := range []uint64{6, 17} {
		p := fromOutside(n, v6)
		p.Proto, p.SPort, p.DPort, p.Flags = proto, 40000, discard, ruleset.FlagSYN
		one := gets(r, p)
		if one.Only(ruleset.Passes) {
			in = append(in, map[uint64]string{6: "TCP", 17: "UDP"}[proto])
		}
		o |= one
	}
	return o, in
}

// filters counts the rules that a packet of a family to this machine meets.
func filters(r firewall.Rules, family ruleset.Family) (n int, policies string) {
	for _, t := range r.Tables() {
		if t.Family != family && t.Family != ruleset.Inet {
			continue
		}
		for _, c := range t.Chains {
			if c.Hook != "input" && c.Hook != "prerouting" || c.Type == "nat" {
				continue
			}
			n += len(c.Rules)
			if c.Hook == "input" {
				policies += fmt.Sprintf(", %s: %d rules, policy %s", chainName(t, c), len(c.Rules), c.Policy)
			}
		}
	}
	if policies == "" {
		return n, "no chain at the hook input"
	}
	return n, policies[2:]
}

var defaultAccept = &check.Check{
	Name: "firewall.default-accept",
	Doc: check.Doc{
		Title: "What no rule names is let in",
		Why: "With a list of what is forbidden, every service that is started is open to the world at once: a database bound to all addresses, a debug port, a container. " +
			"With a list of what is allowed, forgetting a rule costs a telephone call instead.",
		Evidence: "The rules, asked with a new TCP connection and a UDP packet of a stranger to port 9: fires if they pass for certain. Warning where other rules accept by port, so that a closed list was meant; advice where rules only drop; note where nothing filters at all.",
		Fix:      "A last rule that drops, or the policy drop, after a rule for what belongs to known connections and for the ports that are meant.",
		Risk:     "A port that was forgotten is closed. Keep a connection open while you load it, and let the old rules come back by themselves unless a new connection works.",
		Undo:     "Save the rules before (iptables-save, nft list ruleset); iptables-restore or nft -f loads them again.",
		Sources:  []string{"S7", "iptables(8)", "nft(8)"},
	},
	Needs: []fact.Any{firewall.Live, firewall.Around},
	Run: func(s *fact.Set, out *check.Report) {
		r, n := fact.Get(s, firewall.Live), fact.Get(s, firewall.Around)
		defer incomplete(r, out)
		o, in := stranger(r, n, false)
		switch {
		case o&ruleset.Unclear != 0:
			out.Unknown("input, IPv4", "a rule that is not understood in full decides over a stranger's new connection")
			return
		case len(in) == 0:
			return
		case len(r.Unread()) > 0: // what is not seen may close it
			return
		}
		total, policies := filters(r, ruleset.IP)
		f := check.Finding{
			Subject: "input, IPv4", Severity: check.Advice, Basis: check.ByRule, Worth: 0.3,
			Summary:  "A new connection to a port that no rule names gets in: the rules only list what is forbidden.",
			Hint:     "Turn the list round: accept what is known and meant, drop the rest. Keep a connection open while you load it.",
			Evidence: []check.Cite{{Name: "what a stranger's packet meets", Value: policies, Source: "the rules"}, {Name: "lets in to port 9 from " + somebody4.String(), Value: strings.Join(in, ", "), Source: "the rules"}},
		}
		switch {
		case total == 0:
			f.Severity, f.Worth = check.Note, 0.1
			f.Hint = "If this machine can be reached from elsewhere, begin with rules that accept known connections, ICMP, SSH and what is meant, and drop the rest. Keep a connection open while you load them."
			f.Summary = "No rule filters what comes in: every service that listens is open to whoever reaches this machine."
		case len(named(r, 6)) > 0 && acceptsByPort(r):
			f.Severity, f.Worth = check.Warning, 0.5
			f.Summary = "Rules accept single ports, as if the rest were closed, but what no rule names gets in, too."
			f.Hint = "Close the list with a last rule that drops, or with the policy drop. Keep a connection open while you load it."
		}
		out.Found(f)
	},
}

// acceptsByPort says whether a rule on the way in accepts a TCP or UDP port.
func acceptsByPort(r firewall.Rules) (found bool) {
	rules(r, func(t *ruleset.Table, c *ruleset.Chain, x *ruleset.Rule) bool {
		if t.Family == ruleset.IP6 || c.Hook != "" && c.Hook != "input" || owner(t, c) != "" || x.Verdict.Kind != ruleset.Accept && x.Verdict.Kind != ruleset.Map {
			return true
		}
		found = len(t.Ports(x)) > 0
		return !found
	})
	return found
}

var ipv6Open = &check.Check{
	Name: "firewall.ipv6-open",
	Doc: check.Doc{
		Title:    "IPv6 was forgotten",
		Why:      "iptables filters IPv4 only. A server with an IPv6 address of its own and no rules for it is open there to whoever knows or finds the address, although its IPv4 side looks closed.",
		Evidence: "The rules, asked with a stranger's new connection to port 9 over both: fires if IPv4 drops it and IPv6 lets it in for certain. Danger with an address that can be reached from beyond the site, warning with one of the site (fc00::/7).",
		Fix:      "The same rules for IPv6, with ICMPv6 let in (neighbour discovery, packet-too-big): an nft table of the family inet serves both.",
		Risk:     "Without neighbour discovery IPv6 stops working: let icmpv6 types 133 to 136 in.",
		Undo:     "Save the rules before (iptables-save, nft list ruleset); iptables-restore or nft -f loads them again.",
		Sources:  []string{"RFC 4890", "ip6tables(8)", "nft(8)"},
	},
	Needs: []fact.Any{firewall.Live, firewall.Around},
	Run: func(s *fact.Set, out *check.Report) {
		r, n := fact.Get(s, firewall.Live), fact.Get(s, firewall.Around)
		defer incomplete(r, out)
		addr, device, ok := n.Address(true)
		if four, _ := stranger(r, n, false); !ok || !four.Only(ruleset.Dropped) {
			return
		}
		o, in := stranger(r, n, true)
		if o&ruleset.Unclear != 0 {
			out.Unknown("input, IPv6", "a rule that is not understood in full decides over a stranger's new connection")
		}
		if len(in) == 0 || len(r.Unread()) > 0 {
			return
		}
		severity, worth := check.Danger, 0.9
		if addr.IsPrivate() {
			severity, worth = check.Warning, 0.5
		}
		four, _ := filters(r, ruleset.IP)
		_, policies := filters(r, ruleset.IP6)
		out.Found(check.Finding{
			Subject: "input, IPv6", Severity: severity, Basis: check.ByRule, Worth: worth,
			Summary: fmt.Sprintf("IPv4 is filtered, but over IPv6 a stranger reaches the %s ports of %s on %s.", strings.Join(in, " and "), addr, device),
			Hint:    "Put the rules into an nft table of the family inet, which serves both, or write them for ip6tables, too; let ICMPv6 in.",
			Evidence: []check.Cite{
				{Name: "rules that an IPv4 packet meets", Value: four, Unit: unit.Count, Source: "the rules"},
				{Name: "what an IPv6 packet meets", Value: policies, Source: "the rules"},
				{Name: "address", Value: addr.String() + " on " + device, Source: "ip addr"},
			},
		})
	},
}
