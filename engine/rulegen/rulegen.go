// Package rulegen makes rule sets as people write them, from choices that
// somebody else makes: a property test, or a seed.
package rulegen

import (
	"fmt"
	"strings"
)

// Choose returns a number from 0 to n-1.
type Choose func(n int) int

func (c Choose) of(list ...string) string { return list[c(len(list))] }

func (c Choose) maybe(one, in int) bool { return c(in) < one }

// Set is a rule set with state matches: tool is "iptables", "ip6tables" or
// "nft", text what the tool loads.
func Set(c Choose) (tool, text string) {
	switch c(4) {
	case 0:
		return "nft", nft(c)
	case 1:
		return "ip6tables", iptables(c, true)
	}
	return "iptables", iptables(c, false)
}

var (
	sources4 = []string{"10.0.0.0/8", "192.0.2.7/32", "198.51.100.0/25", "172.16.3.0/24", "203.0.113.64/26"}
	sources6 = []string{"2001:db8:1::/48", "2001:db8:2::7/128", "fd00:5::/32"}
	ports    = []string{"22", "25", "53", "80", "123", "443", "500", "5432", "8000:8100", "1194", "33000:33100"}
	devices  = []string{"eth0", "eth1", "wg0"}
)

func addr(c Choose, v6 bool) string {
	if v6 {
		return c.of(sources6...)
	}
	return c.of(sources4...)
}

// established accepts what belongs to known flows, one way or another.
func established(c Choose) []string {
	module, flag := "conntrack", "--ctstate"
	if c.maybe(1, 3) {
		module, flag = "state", "--state"
	}
	states := c.of("RELATED,ESTABLISHED", "RELATED,ESTABLISHED", "ESTABLISHED")
	out := []string{fmt.Sprintf("-m %s %s %s -j ACCEPT", module, flag, states)}
	invalid := fmt.Sprintf("-m %s %s INVALID -j DROP", module, flag)
	switch c(5) {
	case 0:
		return append([]string{invalid}, out...)
	case 1, 2:
		return append(out, invalid)
	}
	return out
}

// service is a rule for one service.
func service(c Choose, chain string, v6 bool, verdicts ...string) string {
	var b strings.Builder
	in, out := chain != "OUTPUT", chain != "INPUT"
	if in && c.maybe(1, 4) {
		b.WriteString("-i " + c.of(devices...) + " ")
	}
	if out && c.maybe(1, 4) {
		b.WriteString("-o " + c.of(devices...) + " ")
	}
	if c.maybe(1, 3) {
		b.WriteString(c.of("-s ", "-s ", "! -s ") + addr(c, v6) + " ")
	}
	if c.maybe(1, 5) {
		b.WriteString("-d " + addr(c, v6) + " ")
	}
	proto := c.of("tcp", "tcp", "tcp", "udp", "udp", "icmp")
	verdict := c.of(verdicts...)
	if proto == "icmp" {
		if v6 {
			b.WriteString("-p ipv6-icmp " + c.of("", "-m icmp6 --icmpv6-type 128 ", "-m icmp6 --icmpv6-type 135 "))
		} else {
			b.WriteString("-p icmp " + c.of("", "-m icmp --icmp-type 8 ", "-m icmp --icmp-type 3 "))
		}
	} else {
		b.WriteString("-p " + proto + " ")
		switch c(6) {
		case 0:
			b.WriteString("-m multiport --dports " + c.of("80,443", "25,465,587", "53,853", "137:139,445") + " ")
		case 1:
			b.WriteString("-m " + proto + " --sport " + c.of(ports...) + " --dport " + c.of(ports...) + " ")
		default:
			b.WriteString("-m " + proto + " --dport " + c.of(ports...) + " ")
		}
		if proto == "tcp" && c.maybe(1, 8) {
			b.WriteString("-m tcp --tcp-flags FIN,SYN,RST,ACK SYN ")
		}
	}
	if verdict == "ACCEPT" && c.maybe(1, 2) {
		b.WriteString("-m conntrack --ctstate " + c.of("NEW", "NEW", "NEW,ESTABLISHED") + " ")
	}
	if c.maybe(1, 6) {
		b.WriteString(`-m comment --comment "made up" `)
	}
	return b.String() + "-j " + verdict
}

func iptables(c Choose, v6 bool) string {
	var b strings.Builder
	in, out, fwd := c.of("DROP", "DROP", "ACCEPT"), c.of("ACCEPT", "ACCEPT", "DROP"), c.of("DROP", "ACCEPT", "DROP")
	fmt.Fprintf(&b, "*filter\n:INPUT %s [0:0]\n:FORWARD %s [0:0]\n:OUTPUT %s [0:0]\n:own - [0:0]\n", in, fwd, out)
	add := func(chain string, rules ...string) {
		for _, r := range rules {
			fmt.Fprintf(&b, "-A %s %s\n", chain, r)
		}
	}
	reject := "REJECT"
	if c.maybe(3, 4) {
		add("INPUT", "-i lo -j ACCEPT")
	}
	if c.maybe(1, 4) {
		add("INPUT", "-s "+addr(c, v6)+" -j DROP")
	}
	add("INPUT", established(c)...)
	if v6 && c.maybe(3, 4) {
		add("INPUT", "-p ipv6-icmp -m icmp6 --icmpv6-type 135 -j ACCEPT", "-p ipv6-icmp -m icmp6 --icmpv6-type 136 -j ACCEPT")
	}
	for range 1 + c(5) {
		if c.maybe(1, 6) {
			add("INPUT", service(c, "INPUT", v6, "own"))
			continue
		}
		add("INPUT", service(c, "INPUT", v6, "ACCEPT", "ACCEPT", "ACCEPT", "ACCEPT", "DROP", reject))
	}
	for range c(3) {
		add("own", service(c, "INPUT", v6, "ACCEPT", "DROP", "RETURN"))
	}
	if out == "DROP" || c.maybe(1, 3) {
		add("OUTPUT", "-o lo -j ACCEPT")
		add("OUTPUT", established(c)...)
		for range 1 + c(4) {
			add("OUTPUT", service(c, "OUTPUT", v6, "ACCEPT", "ACCEPT", "ACCEPT", "DROP"))
		}
	}
	if c.maybe(1, 2) {
		add("FORWARD", established(c)...)
		for range 1 + c(3) {
			add("FORWARD", service(c, "FORWARD", v6, "ACCEPT", "ACCEPT", "DROP"))
		}
	}
	return b.String() + "COMMIT\n"
}

// nft is a table of both families.
func nft(c Choose) string {
	var b strings.Builder
	chain := func(hook, policy string, rules ...string) {
		fmt.Fprintf(&b, "\tchain %s {\n\t\ttype filter hook %s priority 0; policy %s;\n", hook, hook, policy)
		for _, r := range rules {
			b.WriteString("\t\t" + r + "\n")
		}
		b.WriteString("\t}\n")
	}
	services := func(n int) (out []string) {
		for range n {
			var r string
			if c.maybe(1, 4) {
				r += "iifname " + c.of(devices...) + " "
			}
			if c.maybe(1, 3) {
				r += "ip saddr " + strings.TrimSuffix(addr(c, false), "/32") + " "
			} else if c.maybe(1, 4) {
				r += "ip6 saddr " + addr(c, true) + " "
			}
			state := c.of("", "ct state new ", "ct state new,established ")
			out = append(out, r+c.of("tcp", "tcp", "udp")+" dport "+c.of("22", "{ 80, 443 }", "53", "8000-8100", "!= 25")+" "+state+c.of("accept", "accept", "accept", "counter accept", "drop"))
		}
		return out
	}
	b.WriteString("table inet made {\n")
	state := c.of("ct state established,related accept", "ct state invalid drop\n\t\tct state established,related accept", "ct state vmap { established : accept, related : accept, invalid : drop }")
	in := append([]string{state, "iifname lo accept", "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, echo-request } accept"}, services(1+c(5))...)
	chain("input", c.of("drop", "drop", "accept"), in...)
	if c.maybe(1, 2) {
		out := append([]string{"oifname lo accept", state}, "udp dport 53 accept", "tcp dport { 80, 443 } accept", c.of("icmp type echo-request accept", "ip daddr 10.0.0.0/8 udp dport 123 accept"))
		chain("output", c.of("drop", "accept"), out...)
	}
	if c.maybe(1, 3) {
		chain("forward", "drop", append([]string{state}, services(1+c(3))...)...)
	}
	b.WriteString("}\n")
	return b.String()
}
