package firewall

import (
	"fmt"
	"strings"

	"headroom/engine/packet"
	"headroom/lab"
)

// row is one arm: rules, and what counts the packets. A new row is one more
// entry in allRows.
type row struct {
	name, doc string
	rules     []ruleText
	set       int // entries of the set; 0: it has none
	filter    *filter
	runs      string // a shell line that attaches a program and stays; DEVICE is the device
	accept    bool   // the packets are counted at UDP, past all rules
	bound     bool   // a program reads from the port
	file      bool   // the rules are those of a file of the user
	text      string
	then      float64
	as        string

	onLoopback, onWire bool
}

// filter is a program of ours instead of rules.
type filter struct {
	at  packet.Hook
	how packet.Lookup
}

// ruleText is input for one tool.
type ruleText struct {
	argv []string
	text func(set []string) string // of the set's entries
}

func fixed(s string) func([]string) string { return func([]string) string { return s } }

// The packets' port.
const port = 5353

// legacy loads rules of iptables as S8 had them; restore is of today's iptables
// on top of nftables.
func legacy(table string, rules ...string) ruleText {
	return iptables("iptables-legacy-restore", table, rules)
}
func restore(table string, rules ...string) ruleText {
	return iptables("iptables-nft-restore", table, rules)
}

func iptables(tool, table string, rules []string) ruleText {
	chain := map[string]string{"raw": "PREROUTING", "filter": "INPUT"}[table]
	var b strings.Builder
	fmt.Fprintf(&b, "*%s\n:%s ACCEPT [0:0]\n", table, chain)
	for _, r := range rules {
		fmt.Fprintf(&b, "-A %s %s\n", chain, r)
	}
	b.WriteString("COMMIT\n")
	return ruleText{argv: []string{tool, "--noflush", "--wait"}, text: fixed(b.String())}
}

func nft(text string) ruleText { return ruleText{argv: []string{"nft", "-f", "-"}, text: fixed(text)} }

// nftRaw is a table whose chain sees packets where iptables' raw table does.
func nftRaw(rules ...string) ruleText {
	return nft("table ip t {\n chain c {\n type filter hook prerouting priority raw; policy accept;\n " + strings.Join(rules, "\n ") + "\n }\n}\n")
}

// nftSet is the same with a set, or a verdict map, of the entries.
func nftSet(decl, tail, rule string) ruleText {
	return ruleText{argv: []string{"nft", "-f", "-"}, text: func(set []string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "table ip t {\n %s { type ipv4_addr%s; elements = { ", decl, tail)
		for i, s := range set {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(s)
			if strings.HasPrefix(decl, "map") {
				b.WriteString(" : drop")
			}
		}
		fmt.Fprintf(&b, " }; }\n chain c {\n type filter hook prerouting priority raw; policy accept;\n %s\n }\n}\n", rule)
		return b.String()
	}}
}

func ipset() ruleText {
	return ruleText{argv: []string{"ipset", "restore"}, text: func(set []string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "create s hash:ip hashsize %d maxelem %d\n", max(1024, len(set)/4), max(65536, len(set)))
		for _, s := range set {
			b.WriteString("add s " + s + "\n")
		}
		return b.String()
	}}
}

// others are rules that never match: n of them come before the one that does.
func others(n int, last string) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("-s 192.0.2.%d/32 -j DROP", i+1))
	}
	return append(out, last)
}

// Names of rows that claims are about.
const (
	rawDrop    = "drop, iptables raw"
	tracked    = "accept, tracked"
	untracked  = "accept, not tracked"
	ipset1     = "drop, ipset of 1"
	ipset65k   = "drop, ipset of 65 k"
	xdpDrop    = "drop, XDP"
	xdpHash1   = "drop, XDP hash of 1"
	xdpFilter  = "drop, xdp-filter"
	chainOf50  = "drop, iptables raw, after 50 rules"
	nftRawDrop = "drop, nft prerouting raw"
)

var claims = []lab.Claim{
	{Text: "dropping early, against accepting with tracking", Arm: rawDrop, Over: tracked, Then: 280.0 / 87},
	{Text: "no tracking, against tracking", Arm: untracked, Over: tracked, Then: 106.0 / 87},
	{Text: "a set of 65 k, against a bare drop", Arm: ipset65k, Over: rawDrop, Then: 255.0 / 280},
	{Text: "a set, against 50 rules in a chain", Arm: ipset65k, Over: chainOf50},
	{Text: "nft, against iptables", Arm: nftRawDrop, Over: rawDrop},
	{Text: "a small program of ours, against xdp-filter", Arm: xdpHash1, Over: xdpFilter},
}

func allRows(most int) []*row {
	var out []*row
	for _, part := range [][]*row{dropRows(), acceptRows(), matchRows(), setRows(most), filterRows(most)} {
		out = append(out, part...)
	}
	return out
}

func dropRows() []*row {
	return []*row{
		{name: rawDrop, doc: "The first rule of iptables' raw table drops.", rules: []ruleText{legacy("raw", "-j DROP")}, then: 280e3, as: "280 k/s", onLoopback: true, onWire: true},
		{name: "drop, iptables-nft raw", doc: "The same, by the iptables that is built on nftables.", rules: []ruleText{restore("raw", "-j DROP")}, onLoopback: true, onWire: true},
		{name: "drop, iptables raw, after 5 rules", doc: "Five rules on other sources come first.", rules: []ruleText{legacy("raw", others(5, "-j DROP")...)}, then: 250e3, as: "250 k/s", onLoopback: true},
		{name: chainOf50, doc: "Fifty rules on other sources come first.", rules: []ruleText{legacy("raw", others(50, "-j DROP")...)}, onLoopback: true, onWire: true},
		{name: "drop, iptables filter", doc: "The first rule of the filter table's INPUT chain drops.", rules: []ruleText{legacy("filter", "-j DROP")}, then: 250e3, as: "250 k/s", onLoopback: true, onWire: true},
		{name: nftRawDrop, doc: "nftables, at the same place as iptables' raw table.", rules: []ruleText{nftRaw("counter drop")}, onLoopback: true, onWire: true},
		{name: "drop, nft ingress", doc: "nftables' netdev hook, before the IP layer.",
			rules: []ruleText{nft("table netdev t {\n chain c {\n type filter hook ingress device \"DEVICE\" priority 0; policy accept;\n udp dport 5353 counter drop\n }\n}\n")}, onLoopback: true, onWire: true},
	}
}

const (
	stateRule = "-m conntrack --ctstate NEW,ESTABLISHED -j ACCEPT"
	openRule  = "-j ACCEPT"
	noTrack   = "-j CT --notrack"
)

// untrack keeps packets from being tracked both ways in.
func untrack() ruleText {
	return ruleText{argv: []string{"iptables-legacy-restore", "--noflush", "--wait"},
		text: fixed("*raw\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n-A PREROUTING " + noTrack + "\n-A OUTPUT " + noTrack + "\nCOMMIT\n")}
}

func acceptRows() []*row {
	return []*row{
		{name: "accept, no rules", doc: "No rule at all; a program reads from the port.", accept: true, bound: true, onLoopback: true, onWire: true},
		{name: untracked, doc: "NOTRACK in the raw table on both hooks, accepted in the filter table; a program reads from the port.",
			rules: []ruleText{untrack(), legacy("filter", openRule)}, accept: true, bound: true, then: 106e3, as: "106 k/s", onLoopback: true, onWire: true},
		{name: tracked, doc: "Accepted by the connection's state; a program reads from the port.", rules: []ruleText{legacy("filter", stateRule)},
			accept: true, bound: true, then: 87e3, as: "87 k/s", onLoopback: true, onWire: true},
		{name: "accept, not tracked, closed port", doc: "The same without a program: the kernel answers with ICMP, within its limit.",
			rules: []ruleText{untrack(), legacy("filter", openRule)}, accept: true, onLoopback: true},
		{name: "accept, tracked, closed port", doc: "Accepted by the connection's state, without a program.", rules: []ruleText{legacy("filter", stateRule)}, accept: true, onLoopback: true},
	}
}

func matchRows() (out []*row) {
	for _, algo := range []string{"bm", "kmp"} {
		hit := &row{name: "drop, string match " + algo, doc: "The packet holds the string.", rules: []ruleText{legacy("raw", "-m string --algo "+algo+" --string headroom -j DROP")},
			text: "headroom", onLoopback: true}
		if hit.then, hit.as = 255e3, "255 k/s"; algo == "kmp" {
			hit.then, hit.as = 235e3, "235 k/s"
		}
		out = append(out, hit, &row{name: "drop, after a string match " + algo, doc: "The packet does not hold the string; the next rule drops it.",
			rules: []ruleText{legacy("raw", "-m string --algo "+algo+" --string headroom -j ACCEPT", "-j DROP")}, onLoopback: true})
	}
	return append(out,
		&row{name: "drop, hashlimit", doc: "What is above 1000/s of a /16 is dropped, and the rest by the next rule.",
			rules: []ruleText{legacy("raw", "-m hashlimit --hashlimit-above 1000/s --hashlimit-mode srcip --hashlimit-srcmask 16 --hashlimit-name lab -j DROP", "-j DROP")},
			then:  225e3, as: "225 k/s", onLoopback: true, onWire: true},
		&row{name: "drop, nft meter", doc: "The same with a dynamic set of nftables.",
			rules: []ruleText{nft("table ip t {\n set m { type ipv4_addr; size 65535; flags dynamic; }\n chain c {\n type filter hook prerouting priority raw; policy accept;\n " +
				"update @m { ip saddr & 255.255.0.0 limit rate over 1000/second } counter drop\n counter drop\n }\n}\n")}, onLoopback: true, onWire: true})
}

func setRows(most int) (out []*row) {
	for _, n := range []int{1, 65_000, 250_000, most} {
		name := setName(n)
		ip := &row{name: "drop, ipset of " + name, doc: "An ipset (hash:ip) of so many addresses holds the source.", set: n,
			rules: []ruleText{ipset(), legacy("raw", "-m set --match-set s src -j DROP")}, onLoopback: true, onWire: true}
		if n <= 250_000 {
			ip.then, ip.as = 255e3, "255 k/s"
		}
		out = append(out, ip, &row{name: "drop, nft set of " + name, doc: "A set of nftables of so many addresses holds the source.", set: n,
			rules: []ruleText{nftSet("set s", "", "ip saddr @s counter drop")}, onLoopback: true, onWire: true})
	}
	return append(out, &row{name: "drop, nft map of 65 k", doc: "A verdict map of nftables holds the source.", set: 65_000,
		rules: []ruleText{nftSet("map s", " : verdict", "counter ip saddr vmap @s")}, onLoopback: true})
}

func setName(n int) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return fmt.Sprintf("%d M", n/1_000_000)
	case n >= 1000:
		return fmt.Sprintf("%d k", n/1000)
	}
	return fmt.Sprint(n)
}

func filterRows(most int) []*row {
	out := []*row{
		{name: "drop, XDP generic", doc: "An XDP program drops everything, after the kernel made a buffer: all that a loopback can.", filter: &filter{packet.AtGeneric, packet.Every}, onLoopback: true},
		{name: "drop, tc clsact BPF", doc: "A BPF program at tc's ingress looks the source up in a hash of 1.", set: 1, filter: &filter{packet.AtClsact, packet.Hash}, onLoopback: true, onWire: true},
		{name: xdpDrop, doc: "An XDP program in the driver drops everything.", filter: &filter{packet.AtDriver, packet.Every}, onWire: true},
		// Its maps live as long as this view of the file systems.
		{name: xdpFilter, doc: "xdp-filter of xdp-tools drops the source.", set: 1, onWire: true,
			runs: "mount -t bpf bpf /sys/fs/bpf && xdp-filter load -m native -f ipv4 DEVICE && xdp-filter ip -m src " + member(0).String() + " && echo ready && exec cat"},
	}
	for _, how := range []packet.Lookup{packet.Hash, packet.LPM, packet.Range} {
		for _, n := range []int{1, 65_000, most} {
			out = append(out, &row{name: fmt.Sprintf("drop, XDP %s of %s", how, setName(n)), set: n, filter: &filter{packet.AtDriver, how}, onWire: true,
				doc: "An XDP program in the driver finds the source (" + string(how) + ") among so many."})
		}
	}
	return out
}
