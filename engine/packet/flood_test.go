package packet_test

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"headroom/engine/netns"
	"headroom/engine/packet"
	"headroom/fail"
	"headroom/host"
)

var methods = []packet.Method{packet.Mmsg, packet.Ring, packet.XDP}

func TestEachMethodSendsExactlyTheMix(t *testing.T) {
	a, b := wire(t)
	to, err := packet.Inside(a, "veth0")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range methods {
		var from []netip.Addr
		var half []packet.Span
		for i := range uint32(37) {
			from = append(from, addr(10<<24+99<<16+1<<8+i))
			if i%2 == 0 {
				half = append(half, packet.Span{First: from[i], Last: from[i]})
			}
		}
		all, err := packet.Attach(b, "veth0", packet.AtDriver, packet.Hash, half)
		if err != nil {
			t.Fatal(err)
		}
		// Two threads, each of which begins at its own place of the mix and sends
		// it once; few enough to fit into the wire's queue at once.
		for round := range int64(5) {
			sent, err := packet.Flood{To: to, Mix: sources(from), Method: m, Count: 2 * 37, CPUs: []int{0, 1}}.Run(t.Context())
			if err != nil || sent.Packets != 2*37 || sent.Refused != 0 || sent.Method != m {
				t.Fatalf("%s: sent %+v: %v", m, sent, err)
			}
			dropped(t, all, 2*19*(round+1))
		}
		if err := all.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheKernelTakesWhatEachMethodSends(t *testing.T) {
	a, b := wire(t)
	to, err := packet.Inside(a, "veth0")
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []struct{ from, to string }{{"10.99.0.1", "10.99.0.2"}, {"10.11.12.13", "10.99.0.2"}, {"fd00:99::1", "fd00:99::2"}, {"fd00:99::77", "fd00:99::2"}} {
		for _, m := range methods {
			c := listen(t, b, netip.MustParseAddr(way.to))
			p := packet.Packet{Src: netip.MustParseAddr(way.from), Dst: netip.MustParseAddr(way.to), Proto: packet.UDP, SrcPort: 777, DstPort: port(c), Payload: []byte("hello")}
			if sent, err := (packet.Flood{To: to, Mix: []packet.Packet{p}, Method: m, Count: 3}).Run(t.Context()); err != nil || sent.Packets != 3 {
				t.Fatalf("%s from %s: %+v, %v", m, way.from, sent, err)
			}
			for range 3 {
				if got, from := next(t, c); got != "hello" || from != netip.AddrPortFrom(p.Src, 777) {
					t.Errorf("%s: %q from %s", m, got, from)
				}
			}
		}
	}
}

func TestSYNFloodIsAnswered(t *testing.T) {
	a, b := wire(t)
	to, err := packet.Inside(a, "veth0")
	if err != nil {
		t.Fatal(err)
	}
	var l net.Listener
	if err := b.Do(func() (err error) { l, err = net.Listen("tcp", "10.99.0.2:0"); return err }); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tap, err := packet.OpenTap(a, "veth0")
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	syn := packet.Packet{Src: netip.MustParseAddr("10.99.0.1"), Dst: netip.MustParseAddr("10.99.0.2"), Proto: packet.TCP, Flags: packet.SYN,
		SrcPort: 4000, DstPort: l.Addr().(*net.TCPAddr).AddrPort().Port()}
	for _, m := range methods {
		syn.SrcPort++
		if _, err := (packet.Flood{To: to, Mix: []packet.Packet{syn}, Method: m, Count: 1}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		await(t, tap, func(ip []byte) bool {
			return ip[9] == packet.TCP && ip[33] == packet.SYN|packet.ACK && ip[23] == byte(syn.SrcPort)
		})
	}
}

func TestRateAndDuration(t *testing.T) {
	a, _ := wire(t)
	to, err := packet.Inside(a, "veth0")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range methods {
		sent, err := packet.Flood{To: to, Mix: sources([]netip.Addr{addr(1 << 24)}), Method: m, Rate: 5000, For: 300 * time.Millisecond}.Run(t.Context())
		if err != nil || sent.Took < 300*time.Millisecond || sent.Packets < 1 || float64(sent.Packets) > 5000*sent.Took.Seconds()+1 {
			t.Errorf("%s: %+v: %v", m, sent, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if sent, err := (packet.Flood{To: to, Mix: sources([]netip.Addr{addr(1 << 24)})}).Run(ctx); err != nil || sent.Packets != 0 || sent.Method != packet.XDP {
		t.Errorf("interrupted before it began: %+v, %v", sent, err)
	}
}

// What must be impossible: a packet that leaves the machine, or an answer to
// one that does.
func TestNothingLeavesTheMachine(t *testing.T) {
	lo, far := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.1")
	far6 := netip.MustParseAddr("2001:db8::1")
	for name, p := range map[string]packet.Packet{
		"to another machine":          {Src: lo, Dst: far},
		"from another machine":        {Src: far, Dst: lo},
		"to another machine, IPv6":    {Src: six, Dst: far6},
		"from another machine, IPv6":  {Src: far6, Dst: six},
		"an own address that is real": {Src: lo, Dst: netip.MustParseAddr("0.0.0.0")},
		"mapped":                      {Src: netip.MustParseAddr("::ffff:127.0.0.1"), Dst: netip.MustParseAddr("::ffff:127.0.0.1")},
	} {
		p.Proto, p.DstPort = packet.UDP, 9
		for _, m := range append(methods, packet.Auto, "") {
			good := packet.Packet{Src: lo, Dst: lo, Proto: packet.UDP, DstPort: 9}
			sent, err := packet.Flood{To: packet.Host(), Mix: []packet.Packet{good, p}, Method: m, Count: 2}.Run(t.Context())
			if err == nil || sent.Packets != 0 {
				t.Errorf("%s by %q: sent %+v", name, m, sent)
			}
		}
	}
	p := packet.Packet{Src: lo, Dst: lo, Proto: packet.UDP, DstPort: 9}
	for _, m := range []packet.Method{packet.Ring, packet.XDP} {
		if _, err := (packet.Flood{To: packet.Host(), Mix: []packet.Packet{p}, Method: m, Count: 1}).Run(t.Context()); err == nil {
			t.Errorf("%s on the machine's own device", m)
		}
	}
	if _, err := (packet.Flood{Mix: []packet.Packet{p}, Count: 1}).Run(t.Context()); err == nil {
		t.Error("sent to no target")
	}
	if _, err := packet.Inside(nil, "lo"); err == nil {
		t.Error("no namespace is a target")
	}
	if _, err := packet.Inside(&netns.Namespace{}, "lo"); err == nil {
		t.Error("a namespace that nobody made is a target")
	}
}

func TestANamespaceWithAWayOutIsNoTarget(t *testing.T) {
	a, b := wire(t)
	to, err := packet.Inside(a, "veth0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := packet.Inside(a, "eth0"); err == nil {
		t.Error("a device that nobody joined is a target")
	}
	for _, argv := range [][]string{{"ip", "link", "add", "out0", "type", "bridge"}, {"ip", "link", "set", "out0", "up"}} {
		if _, err := b.Run(t.Context(), host.Cmd{Argv: argv}, 1<<10); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range methods {
		sent, err := packet.Flood{To: to, Mix: sources([]netip.Addr{addr(1 << 24)}), Method: m, Count: 1}.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "out0") || sent.Packets != 0 {
			t.Errorf("%s: %+v, %v", m, sent, err)
		}
	}
}

func TestLoopbackOfTheMachine(t *testing.T) {
	for _, at := range []netip.Addr{four, six} {
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, 0)))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		p := packet.Packet{Src: at, Dst: at, Proto: packet.UDP, DstPort: port(c), Payload: []byte("x")}
		sent, err := packet.Flood{To: packet.Host(), Mix: []packet.Packet{p}, Count: 5}.Run(t.Context())
		if err != nil || sent.Packets != 5 || sent.Method != packet.Mmsg {
			t.Fatalf("%+v, %v", sent, err)
		}
		for range 5 {
			next(t, c)
		}
	}
}

func TestFloodsThatCannotBe(t *testing.T) {
	p := packet.Packet{Src: four, Dst: four, Proto: packet.UDP, DstPort: 9}
	for name, f := range map[string]packet.Flood{
		"none to send":       {},
		"cannot be negative": {Mix: []packet.Packet{p}, Rate: -1},
		"two families":       {Mix: []packet.Packet{{Src: four, Dst: six}}},
		"no method":          {Mix: []packet.Packet{p}, Method: "pigeon"},
		"IPv4 and of IPv6":   {Mix: []packet.Packet{p, {Src: six, Dst: six, Proto: packet.UDP}}, Count: 1},
		"CPU 4095":           {Mix: []packet.Packet{p}, Count: 1, CPUs: []int{4095}},
	} {
		f.To = packet.Host()
		_, err := f.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if name != "IPv4 and of IPv6" && fail.Code(err) != fail.Usage {
			t.Errorf("%s: exit status %d", name, fail.Code(err))
		}
	}
}
