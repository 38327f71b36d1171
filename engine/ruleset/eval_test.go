package ruleset_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"headroom/engine/ruleset"
)

// randomNFT is a table whose chain input decides over UDP packets, with jumps,
// maps and sets.
func randomNFT(r *rand.Rand) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	host := func() string { return fmt.Sprintf("127.0.0.%d", 1+r.IntN(values)) }
	port := func() string { return fmt.Sprint(7000 + r.IntN(values)) }
	match := func() string {
		switch r.IntN(9) {
		case 0:
			return "ip saddr " + host()
		case 1:
			return "ip daddr != { " + host() + ", " + host() + "-127.0.0.9 }"
		case 2:
			return "udp dport " + port() + "-7009"
		case 3:
			return "udp dport != " + port()
		case 4:
			return "iifname " + pick(`"lo"`, `"l*"`, `"eth*"`)
		case 5:
			return "ip saddr @some"
		case 6:
			return "ip saddr . udp dport { " + host() + " . " + port() + " }"
		case 7:
			return "meta l4proto " + pick("udp", "tcp", "{ tcp, udp }") + " th dport " + port()
		}
		return "ct state " + pick("new", "established", "{ new, invalid }")
	}
	rule := func(jumps ...string) string {
		if r.IntN(6) == 0 {
			return "udp dport vmap { 7000 : " + pick(append(jumps, "accept", "drop")...) + ", 7001-7002 : " + pick(append(jumps, "return", "accept")...) + " }"
		}
		return match() + " " + pick(append(jumps, "accept", "drop", "drop", "return", "counter")...)
	}
	chain := func(n int, jumps ...string) string {
		var b strings.Builder
		for range n {
			b.WriteString("\t\t" + rule(jumps...) + "\n")
		}
		return b.String() + "\t}\n"
	}
	return "table ip f {\n\tset some {\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\telements = { " + host() + "/31 }\n\t}\n" +
		"\tchain b {\n" + chain(2) + "\tchain a {\n" + chain(3, "jump b", "goto b") +
		"\tchain input {\n\t\ttype filter hook input priority 0; policy " + pick("accept", "drop") + ";\n\t\tip protocol icmp accept\n" + chain(6, "jump a", "goto a", "jump b") + "}\n" +
		"table ip seen {\n\tset got {\n\t\ttype ipv4_addr . ipv4_addr . inet_service\n\t\tsize 1000\n\t\tflags dynamic\n\t}\n" +
		"\tchain late {\n\t\ttype filter hook input priority 100;\n\t\tmeta l4proto udp add @got { ip saddr . ip daddr . udp dport }\n\t}\n}\n"
}

// TestThroughByTheKernel: what the model says for certain of a packet, the
// kernel does, whatever jumps, maps and sets the rules have.
func TestThroughByTheKernel(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	certain, all := 0, 0
	for range 30 {
		n := space(t, "nft")
		rules := randomNFT(r)
		run(t, n, rules, "nft", "-f", "-")
		rs, err := ruleset.ParseNFT("live", []byte(run(t, n, "", "nft", "-j", "list", "ruleset")))
		if err != nil {
			t.Fatal(err)
		}
		sendAll(t, n)
		after, err := ruleset.ParseNFT("live", []byte(run(t, n, "", "nft", "-j", "list", "ruleset")))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, e := range after.Tables[1].Set("got").Elements {
			got[e.Text] = true
		}
		each(func(src, dst, port int) {
			p := ruleset.Packet{Family: ruleset.IP, Proto: 17, Src: addr(src), Dst: addr(dst), DPort: uint64(port), IIf: "lo", State: "new"}
			o := ruleset.Through(rs.Tables[:1], "input", &p)
			passed := got[fmt.Sprintf("%s . %s . %d", addr(src), addr(dst), port)]
			all++
			if o.Only(ruleset.Passes) || o.Only(ruleset.Dropped) {
				certain++
			}
			if o.Only(ruleset.Passes) && !passed || o.Only(ruleset.Dropped) && passed {
				t.Errorf("%s to %s port %d: the model says %b, passed: %v\n%s", addr(src), addr(dst), port, o, passed, rules)
			}
		})
		if t.Failed() {
			return
		}
	}
	if certain*2 < all {
		t.Errorf("certain of %d packets of %d only: the test tells little", certain, all)
	}
	t.Logf("certain of %d packets of %d", certain, all)
}

// TestEarliest: a rule moved up as far as it may go changes no packet's fate.
func TestEarliest(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	moved := 0
	for range 300 {
		var lines []string
		for range 10 {
			lines = append(lines, strings.TrimPrefix(randomRule(r), "-A X "))
		}
		tb := filter(t, lines...)
		c := tb.Chain("INPUT")
		for at := range c.Rules {
			to := tb.Earliest(c, at)
			if to == at {
				continue
			}
			moved++
			now := *c
			now.Rules = append([]*ruleset.Rule{}, c.Rules[:to]...)
			now.Rules = append(append(now.Rules, c.Rules[at]), c.Rules[to:at]...)
			now.Rules = append(now.Rules, c.Rules[at+1:]...)
			after := &ruleset.Table{Family: tb.Family, Chains: []*ruleset.Chain{&now}}
			each(func(src, dst, port int) {
				p := ruleset.Packet{Family: ruleset.IP, Proto: 17, Src: addr(src), Dst: addr(dst), DPort: uint64(port), IIf: "lo", State: "new"}
				a, b := ruleset.Through([]*ruleset.Table{tb}, "input", &p), ruleset.Through([]*ruleset.Table{after}, "input", &p)
				if a != b {
					t.Fatalf("rule %d moved to %d: %s to %s port %d gets %b, not %b:\n%s", at, to, addr(src), addr(dst), port, b, a, strings.Join(lines, "\n"))
				}
			})
		}
	}
	if moved < 100 {
		t.Errorf("only %d rules could move: the test tells little", moved)
	}
}

func TestPorts(t *testing.T) {
	n := space(t, "nft")
	run(t, n, "table ip f {\n\tset s {\n\t\ttype inet_service\n\t\telements = { 25, 465 }\n\t}\n\tmap m {\n\t\ttype ipv4_addr . inet_service : verdict\n\t\telements = { 10.0.0.1 . 5432 : accept }\n\t}\n"+
		"\tchain c {\n\t\ttcp dport 22 accept\n\t\ttcp dport { 80, 8000-8100 } accept\n\t\ttcp dport @s accept\n\t\tip saddr . tcp dport { 10.0.0.1 . 443 } accept\n"+
		"\t\ttcp dport vmap { 21 : drop, 990 : accept }\n\t\tip saddr . tcp dport vmap @m\n\t\ttcp dport != 1 accept\n\t\ttcp sport 5 accept\n\t}\n}\n", "nft", "-f", "-")
	rs, err := ruleset.ParseNFT("live", []byte(run(t, n, "", "nft", "-j", "list", "ruleset")))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rs.Tables[0].Chains[0].Rules {
		got = append(got, fmt.Sprint(rs.Tables[0].Ports(r)))
	}
	if s := strings.Join(got, " "); s != "[22] [80 8000] [25 465] [443] [21 990] [5432] [] []" {
		t.Error(s)
	}
}
