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

// tooBig is the message that a packet is too large for the path, from a router
// on the way. Where connections are tracked it belongs to one: state related.
func tooBig(r firewall.Rules, n firewall.Network, v6 bool) ruleset.Packet {
	p := fromOutside(n, v6)
	p.Proto, p.ICMP, p.Code, p.State, p.Length = 1, 3, 4, "related", 56
	if v6 {
		p.Proto, p.ICMP, p.Code, p.Length = 58, 2, 0, 96
	}
	if tracking(r) == nil || keptOut(r, p) {
		p.State = "untracked"
	}
	return p
}

var (
	messageName = map[bool]string{false: "ICMP \"fragmentation needed\" (type 3, code 4)", true: "ICMPv6 \"packet too big\" (type 2)"}
	versionName = map[bool]string{false: "IPv4", true: "IPv6"}
	allowRule   = map[bool]string{
		false: "nft: icmp type destination-unreachable accept; iptables: -A INPUT -p icmp --icmp-type destination-unreachable -j ACCEPT, before the rule that drops it.",
		true:  "nft: icmpv6 type { packet-too-big, destination-unreachable, time-exceeded, parameter-problem } accept; ip6tables: -A INPUT -p ipv6-icmp --icmpv6-type packet-too-big -j ACCEPT, before the rule that drops it.",
	}
)

var pathMTU = &check.Check{
	Name: "firewall.path-mtu",
	Doc: check.Doc{
		Title: "Messages that a path takes only smaller packets are dropped",
		Why: "A sender learns that its packets are too large for a link on the way by an ICMP message, and by nothing else: connections open, small answers pass, and the first large one hangs for ever. " +
			"Frames of 9000 bytes towards paths of 1500 broke https that way (S7). For IPv6 no router fragments, so it is worse.",
		Evidence: "The rules, asked with such a message from a stranger that belongs to a known connection: fires if it is dropped for certain, for IPv4 (warning) or IPv6 with an address beyond the link (danger). With tcp_mtu_probing on, TCP finds out by itself: advice.",
		Fix:      "Let destination-unreachable in (IPv4), and packet-too-big, destination-unreachable, time-exceeded, parameter-problem (IPv6).",
		Risk:     "None worth it: forged messages can make packets smaller, down to 552 bytes (net.ipv4.route.min_pmtu) or 1280 (IPv6), and only for connections that are known.",
		Undo:     "Take the rule out again.",
		Sources:  []string{"S7", "RFC 1191", "RFC 4890", "RFC 8201"},
	},
	Needs: []fact.Any{firewall.Live, firewall.Around},
	Quiet: []string{"firewall.mtu-mismatch"},
	Run: func(s *fact.Set, out *check.Report) {
		r, n := fact.Get(s, firewall.Live), fact.Get(s, firewall.Around)
		defer incomplete(r, out)
		for _, v6 := range []bool{false, true} {
			if _, _, ok := n.Address(v6); !ok {
				continue
			}
			p := tooBig(r, n, v6)
			switch gets(r, p) {
			case ruleset.Dropped:
				out.Found(droppedMessage(r, n, p, v6))
			case ruleset.Passes:
			default:
				out.Unknown(versionName[v6], "a rule that is not understood in full decides over "+messageName[v6])
			}
		}
	},
}

func droppedMessage(r firewall.Rules, n firewall.Network, p ruleset.Packet, v6 bool) check.Finding {
	f := check.Finding{
		Subject: "input, " + versionName[v6], Severity: check.Warning, Basis: check.ByRule, Worth: 0.6,
		Summary:  fmt.Sprintf("The rules drop %s, so large answers over a path with a smaller MTU hang for ever.", messageName[v6]),
		Hint:     allowRule[v6],
		Evidence: []check.Cite{{Name: "the message is dropped in", Value: dropper(r, p), Source: "the rules, asked with it from " + p.Src.String() + " to " + p.Dst.String() + ", state " + p.State}},
	}
	f.Evidence = append(f.Evidence, cite("tcp_mtu_probing", n.Probing, unit.None, "/proc/sys/net/ipv4/tcp_mtu_probing")...)
	switch {
	case n.Probing.OK() && n.Probing.Value > 0:
		f.Severity, f.Worth = check.Advice, 0.3
		f.Summary = fmt.Sprintf("The rules drop %s; TCP finds out by itself here (tcp_mtu_probing), after a pause of seconds, and nothing else does.", messageName[v6])
	case v6:
		f.Severity, f.Worth = check.Danger, 0.7
	}
	return f
}

// dropper names the chains in which the packet is dropped for certain.
func dropper(r firewall.Rules, p ruleset.Packet) string {
	var names []string
	for _, t := range r.Tables() {
		for _, c := range t.Chains {
			if c.Hook != "ingress" && c.Hook != "prerouting" && c.Hook != "input" {
				continue
			}
			one := *t
			one.Chains = nil
			for _, x := range t.Chains {
				if x == c || x.Hook == "" {
					one.Chains = append(one.Chains, x)
				}
			}
			if ruleset.Through([]*ruleset.Table{&one}, c.Hook, &p).Only(ruleset.Dropped) {
				names = append(names, chainName(t, c))
			}
		}
	}
	return strings.Join(names, ", ")
}

// ethernet is the largest packet that can be counted on beyond the own network.
const ethernet = 1500

var mtuMismatch = &check.Check{
	Name: "firewall.mtu-mismatch",
	Doc: check.Doc{
		Title: "Packets larger than the path takes, and nobody may say so",
		Why: "A device with an MTU above that of its path works only because routers answer \"too big\". If the rules drop that answer, every large packet to such a destination vanishes: handshakes succeed, downloads hang. " +
			"It was seen with 9000-byte frames towards paths of 1500 (S7), and comes with tunnels and PPPoE.",
		Evidence: "Rules that drop the message for certain (see firewall.path-mtu), together with: a default route over a device with an MTU above 1500 that has none of its own, or destinations for which the kernel learned a smaller one.",
		Fix:      "Let the messages in; and set the MTU of the default route to what the path takes (ip route change default … mtu 1500).",
		Risk:     "A smaller MTU of the route costs some throughput towards hosts that take large frames: give those a route of their own.",
		Undo:     "Take the rule out again; ip route change without mtu.",
		Sources:  []string{"S7", "RFC 1191", "RFC 8201"},
	},
	Needs: []fact.Any{firewall.Live, firewall.Around},
	Run: func(s *fact.Set, out *check.Report) {
		r, n := fact.Get(s, firewall.Live), fact.Get(s, firewall.Around)
		defer incomplete(r, out)
		for _, v6 := range []bool{false, true} {
			what, found := narrow(n, v6)
			if len(found) == 0 || n.Probing.OK() && n.Probing.Value > 0 {
				continue
			}
			p := tooBig(r, n, v6)
			o := gets(r, p)
			if o&ruleset.Unclear != 0 {
				out.Unknown(versionName[v6], "a rule that is not understood in full decides over "+messageName[v6])
			}
			if !o.Only(ruleset.Dropped) {
				continue
			}
			out.Found(check.Finding{
				Subject: "input, " + versionName[v6], Severity: check.Danger, Basis: check.Measured, Worth: 0.9,
				Summary:  fmt.Sprintf("%s, and the rules drop %s that would say so: connections hang at their first large packet.", what, messageName[v6]),
				Hint:     allowRule[v6],
				Evidence: append(found, check.Cite{Name: "the message is dropped in", Value: dropper(r, p), Source: "the rules, asked with it from " + p.Src.String()}),
			})
		}
	},
}

// narrow finds paths smaller than this machine's packets: one of them in words,
// all as evidence.
func narrow(n firewall.Network, v6 bool) (what string, out []check.Cite) {
	for _, x := range n.Learned {
		if d, ok := n.Device(x.Device); ok && x.V6 == v6 && x.MTU < d.MTU {
			what = fmt.Sprintf("The path to %s takes packets of %d bytes, %s sends up to %d", x.To, x.MTU, d.Name, d.MTU)
			out = append(out, check.Cite{Name: "largest packet that the path to " + x.To + " was found to take", Value: x.MTU, Source: "bytes, ip route show cache"})
		}
	}
	for _, x := range n.Routes {
		d, ok := n.Device(x.Device)
		if !ok || x.V6 != v6 || !x.Default() || d.MTU <= ethernet || x.MTU > 0 && x.MTU <= ethernet {
			continue
		}
		if what == "" {
			what = fmt.Sprintf("The default route leads over %s with packets of up to %d bytes, and most of the internet takes %d", d.Name, d.MTU, ethernet)
		}
		out = append(out, check.Cite{Name: "largest packet of " + d.Name + ", by which the default route leads", Value: d.MTU, Source: "bytes, ip addr"})
	}
	return what, out
}
