package firewall

import (
	"fmt"
	"slices"
	"strings"

	"headroom/check"
	"headroom/engine/ruleset"
	"headroom/fact"
	"headroom/probe/firewall"
	"headroom/unit"
)

var rpFilter = &check.Check{
	Name: "firewall.rp-filter",
	Doc: check.Doc{
		Title: "Sources of packets are not checked, or too strictly",
		Why:   "rp_filter drops packets whose source cannot be right for where they came in: forged addresses of the own network, which address rules would trust. Strict mode (1) demands the very device that an answer would leave by, and drops good packets where two ways lead out.",
		Evidence: "net.ipv4.conf.*.rp_filter of each device that is up, outside of the loopback (the larger of all's and its own counts), and rules that do the same (nft fib, iptables rpfilter). " +
			"Advice if a device has 0 and no rule does it; warning if it is 1, two devices have a default route, and packets were dropped for it.",
		Fix:     "sysctl net.ipv4.conf.all.rp_filter=2 (loose) where several ways lead out, 1 (strict) where one does.",
		Risk:    "Strict mode with two ways out drops good packets: loose then.",
		Undo:    "Set the old figure again with sysctl -w.",
		Sources: []string{"RFC 3704", "Documentation/networking/ip-sysctl.rst"},
	},
	Needs: []fact.Any{firewall.Around, firewall.Live},
	Run:   runReversePath,
}

func runReversePath(s *fact.Set, out *check.Report) {
	n, r := fact.Get(s, firewall.Around), fact.Get(s, firewall.Live)
	all, ok := n.ReversePath["all"]
	if !ok {
		out.Unknown("rp_filter", "this kernel does not show net.ipv4.conf.all.rp_filter")
		return
	}
	var open, strict []string
	var ways int
	for _, d := range n.Devices {
		own, ok := n.ReversePath[d.Name]
		switch {
		case d.Kind == "loopback" || !ok:
			continue
		case max(all, own) == 0 && hasIPv4(d):
			open = append(open, d.Name)
		case max(all, own) == 1:
			strict = append(strict, d.Name)
		}
	}
	for _, x := range n.Routes {
		if x.Default() && !x.V6 {
			ways++
		}
	}
	lost := n.Unrouted.OK() && n.Unrouted.Value > 0
	switch {
	case len(open) > 0 && !checksSource(r):
		out.Found(check.Finding{
			Subject: "devices " + strings.Join(open, ", "), Severity: check.Advice, Basis: check.ByRule, Worth: 0.2,
			Summary:  fmt.Sprintf("Nobody checks the sources of packets that come in by %s: forged addresses of the own network pass for it.", strings.Join(open, ", ")),
			Hint:     fmt.Sprintf("sysctl -w net.ipv4.conf.all.rp_filter=%d; a file in /etc/sysctl.d keeps it over a boot.", map[bool]int{true: 2, false: 1}[ways > 1]),
			Evidence: []check.Cite{{Name: "rp_filter of all", Value: all, Source: "/proc/sys/net/ipv4/conf/all/rp_filter"}, {Name: "default routes", Value: ways, Unit: unit.Count, Source: "ip route"}},
		})
	case len(strict) > 0 && ways > 1 && lost:
		out.Found(check.Finding{
			Subject: "devices " + strings.Join(strict, ", "), Severity: check.Warning, Basis: check.Measured, Worth: 0.5,
			Summary:  fmt.Sprintf("rp_filter is strict with %d default routes, and dropped %s packets since boot: good ones among them, if answers leave by the other way.", ways, count(n.Unrouted.Value)),
			Hint:     "sysctl -w net.ipv4.conf.all.rp_filter=2 asks only that the source can be reached at all.",
			Evidence: append([]check.Cite{{Name: "default routes", Value: ways, Unit: unit.Count, Source: "ip route"}}, cite("packets dropped by it", n.Unrouted, unit.Count, "/proc/net/netstat TcpExt IPReversePathFilter")...),
		})
	}
}

func hasIPv4(d firewall.Device) bool {
	return slices.ContainsFunc(d.Addrs, func(a string) bool { return !strings.Contains(a, ":") })
}

// checksSource says whether a rule checks sources against the routes.
func checksSource(r firewall.Rules) (found bool) {
	rules(r, func(_ *ruleset.Table, _ *ruleset.Chain, x *ruleset.Rule) bool {
		found = slices.ContainsFunc(x.Matches, func(m ruleset.Match) bool {
			return m.Field == ruleset.Other && (m.Module == "rpfilter" || strings.HasPrefix(m.Text, "fib saddr"))
		})
		return !found
	})
	return found
}

var synCookies = &check.Check{
	Name: "firewall.syncookies",
	Doc: check.Doc{
		Title:    "SYN cookies are off",
		Why:      "A flood of SYNs with forged sources fills the queue of half-open connections of a port with some hundred packets; then nobody gets in. With SYN cookies the kernel answers without memory once the queue is full.",
		Evidence: "net.ipv4.tcp_syncookies is 0: warning. What the kernel counted of connections refused by full queues is shown.",
		Fix:      "sysctl net.ipv4.tcp_syncookies=1.",
		Risk:     "None while the queue is not full; connections made by a cookie lack window scaling if the client sends no time stamps.",
		Undo:     "sysctl -w net.ipv4.tcp_syncookies=0",
		Sources:  []string{"RFC 4987", "Documentation/networking/ip-sysctl.rst"},
	},
	Needs: []fact.Any{firewall.Around},
	Run: func(s *fact.Set, out *check.Report) {
		n := fact.Get(s, firewall.Around)
		if !n.SynCookies.OK() {
			out.Unknown("tcp_syncookies", n.SynCookies.Because)
			return
		}
		if n.SynCookies.Value != 0 {
			return
		}
		f := check.Finding{
			Subject: "TCP", Severity: check.Warning, Basis: check.ByRule, Worth: 0.5,
			Summary:  "SYN cookies are off: some hundred SYNs with forged sources close a port to everybody.",
			Hint:     "sysctl -w net.ipv4.tcp_syncookies=1; a file in /etc/sysctl.d keeps it over a boot.",
			Evidence: []check.Cite{{Name: "tcp_syncookies", Value: n.SynCookies.Value, Source: "/proc/sys/net/ipv4/tcp_syncookies"}},
		}
		f.Evidence = append(f.Evidence, cite("connections that a full queue refused, since boot", n.Overflows, unit.Count, "/proc/net/netstat TcpExt ListenOverflows")...)
		out.Found(f)
	},
}
