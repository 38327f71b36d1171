package ruleset_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"headroom/engine/netns"
	"headroom/engine/ruleset"
)

func filter(t testing.TB, rules ...string) *ruleset.Table {
	t.Helper()
	rs, err := ruleset.ParseIPTables("test", ruleset.IP, []byte("*filter\n:INPUT DROP [0:0]\n:SUB - [0:0]\n-A SUB -j MARK --set-xmark 0x1/0x1\n-A INPUT "+strings.Join(rules, "\n-A INPUT ")+"\nCOMMIT\n"))
	if err != nil {
		t.Fatal(err)
	}
	return rs.Tables[0]
}

func TestShadowed(t *testing.T) {
	for _, c := range []struct {
		rules []string
		want  string // positions of hidden rules and of those that hide them
	}{
		{[]string{"-s 10.0.0.0/8 -j ACCEPT", "-s 10.1.2.3 -p tcp --dport 22 -j DROP"}, "2<1"},
		{[]string{"-p tcp -m multiport --dports 22,80 -j ACCEPT", "-p tcp --dport 80 -j ACCEPT", "-p udp --dport 80 -j ACCEPT"}, "2<1 same"},
		{[]string{"-j LOG", "-s 10.1.2.3 -j DROP", "-s 10.1.2.3 -j ACCEPT"}, "3<2"},
		{[]string{"-p tcp ! --dport 22 -j DROP", "-p tcp --dport 80 -j ACCEPT", "-p tcp --dport 22 -j ACCEPT", "-p udp --dport 80 -j ACCEPT"}, "2<1"},
		{[]string{"-i eth+ -j DROP", "-i eth0 -j ACCEPT", "-i et+ -j ACCEPT"}, "2<1"},
		{[]string{"-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT", "-m conntrack --ctstate RELATED -p icmp -j DROP"}, "2<1"},
		// What must not be called hidden:
		{[]string{"-s 10.0.0.0/8 -m limit --limit 5/sec -j ACCEPT", "-s 10.1.2.3 -j DROP"}, ""},
		{[]string{"-s 10.0.0.0/8 -m recent --set -j ACCEPT", "-s 10.1.2.3 -j DROP"}, ""},
		{[]string{"-s 10.0.0.0/8 -j SUB", "-s 10.1.2.3 -j DROP"}, ""},
		{[]string{"-m mark --mark 1 -j ACCEPT", "-j MARK --set-mark 1", "-m mark --mark 1 -j DROP"}, ""},
		{[]string{"-m mark --mark 1 -j ACCEPT", "-j SUB", "-m mark --mark 1 -j DROP"}, ""},
		{[]string{"-p tcp --dport 22 -j ACCEPT", "-p tcp -j DROP"}, ""},
		{[]string{"-p tcp -m tcp --dport 0:65535 -j ACCEPT", "-p tcp -j DROP"}, ""}, // later fragments have no port
		{[]string{"-m set --match-set bad src -j DROP", "-m set --match-set bad src -j ACCEPT"}, ""},
		{[]string{"-p tcp -m multiport --ports 22 -j ACCEPT", "-p tcp -m multiport ! --ports 80 -j DROP"}, ""},
		{[]string{"-m conntrack ! --ctstate DNAT -j ACCEPT", "-m conntrack --ctstate NEW -j DROP"}, ""},
	} {
		tb := filter(t, c.rules...)
		var got []string
		for _, s := range tb.Shadowed(tb.Chain("INPUT")) {
			x := fmt.Sprintf("%d<%d", s.At, s.ByAt)
			if s.Same {
				x += " same"
			}
			got = append(got, x)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q: got %q, want %q", c.rules, got, c.want)
		}
	}
}

func TestThrough(t *testing.T) {
	tb := filter(t, "-m conntrack --ctstate ESTABLISHED -j ACCEPT", "-p icmp --icmp-type 8 -j ACCEPT", "-p icmp -m limit --limit 5/s --icmp-type 3 -j ACCEPT",
		"-s 10.0.0.0/8 -p tcp --dport 22 -j ACCEPT", "-p tcp --dport 25 -m mystery -j ACCEPT", "-j SUB", "-p tcp --dport 81 -g SUB")
	p := ruleset.Packet{Family: ruleset.IP, Src: netip.MustParseAddr("203.0.113.5"), State: "new", IIf: "eth0"}
	for _, c := range []struct {
		set  func(p *ruleset.Packet)
		want ruleset.Outcome
	}{
		{func(p *ruleset.Packet) { p.Proto, p.State = 17, "established" }, ruleset.Passes},
		{func(p *ruleset.Packet) { p.Proto, p.ICMP = 1, 3 }, ruleset.Passes},
		{func(p *ruleset.Packet) { p.Proto, p.ICMP = 1, 11 }, ruleset.Dropped},
		{func(p *ruleset.Packet) { p.Proto, p.DPort = 6, 22 }, ruleset.Dropped},
		{func(p *ruleset.Packet) { p.Proto, p.DPort, p.Src = 6, 22, netip.MustParseAddr("10.5.5.5") }, ruleset.Passes},
		{func(p *ruleset.Packet) { p.Proto, p.DPort = 6, 25 }, ruleset.Passes | ruleset.Dropped},
		{func(p *ruleset.Packet) { p.Proto, p.DPort = 6, 81 }, ruleset.Dropped},
		{func(p *ruleset.Packet) { p.Family, p.Proto = ruleset.IP6, 6 }, ruleset.Passes},
	} {
		x := p
		c.set(&x)
		if got := ruleset.Through([]*ruleset.Table{tb}, "input", &x); got != c.want {
			t.Errorf("%+v: %b, want %b", x, got, c.want)
		}
	}
}

const values = 4 // of each field of the packets

func randomRule(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString("-A X -p udp")
	not := func() string {
		if r.IntN(4) == 0 {
			return " !"
		}
		return ""
	}
	if r.IntN(2) == 0 {
		fmt.Fprintf(&b, "%s -s 127.0.0.%d/%d", not(), r.IntN(values), 32-r.IntN(3))
	}
	switch r.IntN(3) {
	case 0:
		fmt.Fprintf(&b, "%s -d 127.0.0.%d", not(), 1+r.IntN(values))
	case 1:
		lo := 1 + r.IntN(values)
		fmt.Fprintf(&b, " -m iprange%s --dst-range 127.0.0.%d-127.0.0.%d", not(), lo, lo+r.IntN(2))
	}
	switch r.IntN(3) {
	case 0:
		lo := 7000 + r.IntN(values)
		fmt.Fprintf(&b, " -m udp%s --dport %d:%d", not(), lo, lo+r.IntN(3))
	case 1:
		fmt.Fprintf(&b, " -m multiport%s --dports %d,%d", not(), 7000+r.IntN(values), 7000+r.IntN(values))
	}
	if r.IntN(4) == 0 {
		fmt.Fprintf(&b, "%s -i %s", not(), []string{"lo", "l+", "eth0"}[r.IntN(3)])
	}
	b.WriteString([]string{" -j ACCEPT", " -j DROP", " -j RETURN", "", " -j ACCEPT"}[r.IntN(5)])
	return b.String()
}

// TestShadowedByTheKernel: the kernel never counts a packet in a rule that is
// called hidden, of all packets that tell the rules apart; and each rule counts
// exactly the packets that the model says it matches.
func TestShadowedByTheKernel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	hidden := 0
	for round := range 12 {
		variant := []string{"legacy", "nft"}[round%2]
		n := space(t, "iptables")
		var lines []string
		for range 12 {
			lines = append(lines, randomRule(r))
		}
		rules := "*filter\n:INPUT ACCEPT [0:0]\n:X - [0:0]\n-A INPUT -p udp -j X\n" + strings.Join(lines, "\n") + "\nCOMMIT\n"
		run(t, n, rules, "iptables-"+variant+"-restore")
		sendAll(t, n)
		rs, err := ruleset.ParseIPTables("live", ruleset.IP, []byte(run(t, n, "", "iptables-"+variant+"-save", "-c")))
		if err != nil {
			t.Fatal(err)
		}
		tb := rs.Tables[0]
		c := tb.Chain("X")
		if got := tb.Chain("INPUT").Rules[0].Counter.Packets; got != values*values*values {
			t.Fatalf("the chain saw %d packets", got)
		}
		for _, s := range tb.Shadowed(c) {
			hidden++
			if s.Rule.Counter.Packets != 0 {
				t.Errorf("%s is called hidden by %s, and matched %d packets", s.Rule.Text, s.By.Text, s.Rule.Counter.Packets)
			}
		}
		count(t, tb, c)
	}
	if hidden < 5 {
		t.Errorf("only %d hidden rules: the test tells little", hidden)
	}
}

func each(f func(src, dst, port int)) {
	for src := range values {
		for dst := range values {
			for port := range values {
				f(src+1, dst+1, 7000+port)
			}
		}
	}
}

func addr(last int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, byte(last)}) }

func sendAll(t *testing.T, n *netns.Namespace) {
	err := n.Do(func() error {
		for src := range values {
			c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr(src+1), 0)))
			if err != nil {
				return err
			}
			defer c.Close()
			each(func(s, dst, port int) {
				if s != src+1 || err != nil {
					return
				}
				for { // a refusal of an earlier packet is told once, in place of sending
					if _, e := c.WriteToUDPAddrPort([]byte("x"), netip.AddrPortFrom(addr(dst), uint16(port))); e == nil {
						return
					} else if !strings.Contains(e.Error(), "refused") {
						err = e
						return
					}
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// count compares the counters of a chain with what the model says.
func count(t *testing.T, tb *ruleset.Table, c *ruleset.Chain) {
	want := make([]uint64, len(c.Rules))
	each(func(src, dst, port int) {
		p := ruleset.Packet{Family: ruleset.IP, Proto: 17, Src: addr(src), Dst: addr(dst), DPort: uint64(port), IIf: "lo", State: "new"}
		for i, r := range c.Rules {
			one := &ruleset.Table{Family: ruleset.IP, Chains: []*ruleset.Chain{{Hook: "input", Policy: ruleset.Accept, Rules: []*ruleset.Rule{{Matches: r.Matches, Verdict: ruleset.Verdict{Kind: ruleset.Drop}}}}}}
			if ruleset.Through([]*ruleset.Table{one}, "input", &p) == ruleset.Passes {
				continue
			}
			want[i]++
			if r.Verdict.Kind != ruleset.Continue {
				return
			}
		}
	})
	for i, r := range c.Rules {
		if r.Counter == nil || r.Counter.Packets != want[i] {
			t.Errorf("%s: the kernel counted %+v, the model %d", r.Text, r.Counter, want[i])
		}
	}
}

// TestShadowedOfMany judges a chain of 100,000 rules.
func TestShadowedOfMany(t *testing.T) {
	var rules []string
	for i := range 100_000 {
		rules = append(rules, fmt.Sprintf("-s 10.%d.%d.%d -j DROP", i>>16, i>>8&255, i&255))
	}
	rules = append(rules, "-s 10.0.0.5 -j ACCEPT")
	tb := filter(t, rules...)
	start := time.Now()
	if s := tb.Shadowed(tb.Chain("INPUT")); len(s) != 1 || s[0].ByAt != 6 {
		t.Errorf("%d hidden", len(s))
	}
	t.Logf("judged in %s", time.Since(start))
}
