package firewall

import (
	"fmt"
	"slices"

	"headroom/change"
	"headroom/check"
	"headroom/engine/ruleset"
	"headroom/fact"
	"headroom/probe/firewall"
	"headroom/unit"
)

// The arithmetic of S7: an empty UDP packet is 28 bytes of IP and UDP header; a
// SYN has 40. On Ethernet either takes the smallest frame with its preamble and
// gap.
const (
	lineRate  = 100e6 / 8 // bytes per second
	floodUDP  = 28        // bytes of a packet
	floodSYN  = 40
	floodWire = 84.0 // bytes of it on the wire
)

// stateless is the plan that tracks no connections.
var stateless = change.Spec{ID: "firewall.stateless"}

// flooded is what a spoofed flood does to the table.
type flooded struct {
	rate    float64 // packets per second that the line carries
	fills   float64 // seconds until the table is full; 0: never
	timeout float64 // seconds that an entry stays
	bytes   float64 // that it takes to fill it
}

// arithmetic takes the time-out of a UDP packet without an answer, or that of a
// half-open TCP connection, and the packet's size.
func arithmetic(c firewall.Conntrack, timeout, size int64) flooded {
	f := flooded{rate: lineRate / floodWire, timeout: float64(timeout)}
	free := max(0, float64(c.Max.Value-c.Count.Value))
	f.bytes = free * float64(size)
	if f.rate*f.timeout > free {
		f.fills = max(free/f.rate, 1/f.rate)
	}
	return f
}

var trackFlood = &check.Check{
	Name: "firewall.conntrack-flood",
	Doc: check.Doc{
		Title: "A spoofed flood of a slow line fills the connection tracking table",
		Why: "Each packet with a new source or port takes an entry until its time-out, 30 s for UDP. 262,144 entries times 28 bytes are 7 MB, which 5 addresses sent in half a second took a server off the air for 29 s (S7). What the rules drop takes no entry; what they let in does, and forged sources cannot be told from real ones. " +
			"A full table makes room by throwing out entries without an answer, as far as it finds some among few (early_drop): newer kernels then let a part of the newcomers in.",
		Evidence: "The free room of the table, its time-out for UDP (or for half-open TCP connections, where only TCP gets in), and packets of 84 bytes on the wire (an Ethernet frame of 28 bytes of headers) at 100 Mbit/s: 148,810 a second. " +
			"Fires if they fill it, connections are tracked, and the rules let a stranger's packet of a new connection in. Advice; warning if that takes less than 5 s and UDP gets in.",
		Fix:     "firewall.stateless; or NOTRACK for what strangers may send; or a table larger than rate times time-out.",
		Risk:    "Without tracking, answers are let in by their ports, not by what was asked: see docs/limits.md.",
		Undo:    "`headroom revert ID` loads the old rules.",
		Sources: []string{"S7"},
	},
	Needs: []fact.Any{firewall.Tracked, firewall.Live, firewall.Around},
	Run:   runFlood,
}

func runFlood(s *fact.Set, out *check.Report) {
	c, r, n := fact.Get(s, firewall.Tracked), fact.Get(s, firewall.Live), fact.Get(s, firewall.Around)
	if !c.Loaded {
		return
	}
	defer incomplete(r, out)
	rule := tracking(r)
	if rule == nil {
		return
	}
	for _, v := range []fact.Opt[int64]{c.Count, c.Max, c.UDP} {
		if !v.OK() {
			out.Unknown("connection tracking", v.Because)
			return
		}
	}
	way, port, udp, unclear := letsIn(r, n)
	timeout, name, size := c.UDP, "udp_timeout", int64(floodUDP)
	if !udp && c.SynReceived.OK() {
		timeout, name, size = c.SynReceived, "tcp_timeout_syn_recv", floodSYN
	}
	f := arithmetic(c, timeout.Value, size)
	if f.fills > 0 && way == "" && unclear {
		out.Unknown("connection tracking", "whether a stranger's packet is let in hangs on rules that are not understood in full")
	}
	if f.fills == 0 || way == "" {
		return
	}
	severity := check.Advice
	if udp && f.fills < 5 {
		severity = check.Warning
	}
	out.Found(check.Finding{
		Subject: "connection tracking", Severity: severity, Basis: check.ByRule, Worth: 0.6,
		Summary: fmt.Sprintf("A flood with forged sources from a 100 Mbit/s line fills the table in %s (%s entries, %s of packets) and keeps it full: each entry stays %s. It gets in by %s.",
			unit.Seconds(f.fills), count(c.Max.Value-c.Count.Value), unit.Bytes(int64(f.bytes)), unit.Seconds(f.timeout), way),
		Hint: fmt.Sprintf("Only a table of more than %s entries (%s a second times %s) would outlast it.", count(int64(f.rate*f.timeout)), count(int64(f.rate)), unit.Seconds(f.timeout)),
		Evidence: []check.Cite{
			{Name: "nf_conntrack_max", Value: c.Max.Value, Unit: unit.Count, Source: netfilter + "max"},
			{Name: "nf_conntrack_count", Value: c.Count.Value, Unit: unit.Count, Source: netfilter + "count"},
			{Name: "nf_conntrack_" + name, Value: timeout.Value, Unit: unit.Second, Source: netfilter + name},
			{Name: "packets at 100 Mbit/s, 84 bytes each on the wire", Value: f.rate, Unit: unit.PerSecond, Source: "arithmetic"},
			{Name: "a stranger gets in by", Value: way, Source: "the rules, asked with a packet to port " + fmt.Sprint(port)},
			{Name: "connections are tracked for", Value: rule.Text, Source: "the rules"},
		},
		Fixes: fixes(r),
	})
}

// fixes is the plan without tracking; where rules translate addresses, that of
// what can do without.
func fixes(r firewall.Rules) []change.Spec {
	if translation(r) != nil {
		return []change.Spec{{ID: stateless.ID, Args: map[string]string{"partial": "yes"}}}
	}
	return []change.Spec{stateless}
}

// letsIn finds a way in for a packet of a new connection that is tracked: a
// port that the rules name, or any. unclear says that it did not find out of all.
func letsIn(r firewall.Rules, n firewall.Network) (way string, port uint64, udp, unclear bool) {
	for _, proto := range []uint64{17, 6} {
		for _, d := range append([]uint64{9}, named(r, proto)...) {
			p := fromOutside(n, false)
			p.Proto, p.SPort, p.DPort, p.Flags = proto, 40000, d, ruleset.FlagSYN
			o := gets(r, p)
			if o.Only(ruleset.Passes) && !keptOut(r, p) {
				return fmt.Sprintf("%s port %d", map[uint64]string{17: "UDP", 6: "TCP"}[proto], d), d, proto == 17, unclear
			}
			unclear = unclear || o&ruleset.Unclear != 0
		}
	}
	return "", 0, false, unclear
}

// mostPorts is how many ports that rules name are asked for.
const mostPorts = 200

// named are the destination ports of a protocol that rules name, each once.
func named(r firewall.Rules, proto uint64) (out []uint64) {
	rules(r, func(t *ruleset.Table, _ *ruleset.Chain, x *ruleset.Rule) bool {
		right := slices.ContainsFunc(x.Matches, func(m ruleset.Match) bool {
			return m.Field == ruleset.Proto && !m.Not && slices.ContainsFunc(m.Numbers, func(n ruleset.Range) bool { return n.Lo <= proto && proto <= n.Hi })
		})
		if right && len(out) < mostPorts {
			out = append(out, t.Ports(x)...)
		}
		return true
	})
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), mostPorts)]
}

// busyUDP is from how many datagrams a second since boot on a UDP server counts
// as busy.
const busyUDP = 200

var trackedUDP = &check.Check{
	Name: "firewall.tracked-udp",
	Doc: check.Doc{
		Title: "Connections are tracked for a busy UDP server that needs none of it",
		Why: "A question and its answer over UDP are one packet each; tracking makes, finds and ages an entry for each pair, which costs about 20 % of the packets that a core can take (S7, S8), and fills the table. " +
			"Without address translation nothing needs it: the port says who may ask.",
		Evidence: "UDP datagrams received since boot divided by the uptime, open UDP ports, rules that need tracking, none that translates addresses, and none that keeps these ports out (NOTRACK). Fires from 200 a second up on an open port below 1024, or 5353, that the rules let in.",
		Fix:      "firewall.stateless, or NOTRACK for that port in the raw table, both ways.",
		Risk:     "Answers to the server's own questions must be let in by their source port.",
		Undo:     "`headroom revert ID` loads the old rules.",
		Sources:  []string{"S7", "S8"},
	},
	Needs: []fact.Any{firewall.Tracked, firewall.Live, firewall.Around},
	Run:   runTrackedUDP,
}

func runTrackedUDP(s *fact.Set, out *check.Report) {
	c, r, n := fact.Get(s, firewall.Tracked), fact.Get(s, firewall.Live), fact.Get(s, firewall.Around)
	if !c.Loaded {
		return
	}
	defer incomplete(r, out)
	rule := tracking(r)
	if rule == nil || translation(r) != nil {
		return
	}
	switch {
	case !n.Datagrams.OK():
		out.Unknown("UDP", n.Datagrams.Because)
		return
	case !n.Uptime.OK():
		out.Unknown("UDP", n.Uptime.Because)
		return
	case !n.UDPPorts.OK():
		out.Unknown("UDP", n.UDPPorts.Because)
		return
	}
	rate := float64(n.Datagrams.Value) / n.Uptime.Value
	if rate < busyUDP {
		return
	}
	for _, port := range n.UDPPorts.Value {
		p := fromOutside(n, false)
		p.Proto, p.SPort, p.DPort = 17, 40000, uint64(port)
		if port >= 1024 && port != 5353 || keptOut(r, p) {
			continue
		}
		o := gets(r, p)
		if o&ruleset.Unclear != 0 {
			out.Unknown(fmt.Sprintf("UDP port %d", port), "whether it is let in hangs on rules that are not understood in full")
		}
		if !o.Only(ruleset.Passes) {
			continue
		}
		out.Found(check.Finding{
			Subject: fmt.Sprintf("UDP port %d", port), Severity: check.Warning, Basis: check.Measured, Worth: 0.7,
			Summary: fmt.Sprintf("Each of some %s UDP datagrams a second is tracked, though no rule here translates addresses; that costs about a fifth of what a core can take.", count(int64(rate))),
			Evidence: append([]check.Cite{
				{Name: "UDP datagrams received since boot", Value: n.Datagrams.Value, Unit: unit.Count, Source: "/proc/net/snmp Udp InDatagrams"},
				{Name: "of so many IPv4 packets", Value: n.Received.Value, Unit: unit.Count, Source: "/proc/net/snmp Ip InReceives"},
				{Name: "since", Value: n.Uptime.Value, Unit: unit.Second, Source: "/proc/uptime"},
				{Name: "connections are tracked for", Value: rule.Text, Source: "the rules"},
			}, cite("nf_conntrack_count", c.Count, unit.Count, netfilter+"count")...),
			Fixes: fixes(r),
		})
		return
	}
}
