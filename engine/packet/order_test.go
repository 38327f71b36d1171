package packet_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"headroom/engine/packet"
	"headroom/host"
	"headroom/testkit/need"
)

func order(t *testing.T, ctx context.Context, o packet.Order) packet.Outcome {
	t.Helper()
	l := host.Open(host.Options{})
	defer l.Close()
	out, err := o.Run(ctx, l)
	if err != nil {
		t.Fatalf("%+v: %v", o, err)
	}
	return out
}

func TestOrdersArrive(t *testing.T) {
	need.Have(t, "netns")
	for _, kind := range []packet.Kind{packet.Datagrams, packet.SYNs, packet.Echoes} {
		for _, v6 := range []bool{false, true} {
			spoof := netip.MustParsePrefix("10.0.0.0/9")
			if v6 {
				spoof = netip.MustParsePrefix("2001:db8::/35")
			}
			for _, m := range methods {
				o := order(t, t.Context(), packet.Order{Kind: kind, V6: v6, Spoof: spoof, Size: 100, Method: m, Count: 200})
				// In the driver a few IPv6 reports of the kernel's own may come, too.
				if o.Packets != 200 || o.Arrived < 200 || o.Arrived > 204 || !strings.Contains(o.At, "XDP") || o.Method != m || len(o.Cores) == 0 {
					t.Errorf("%s, IPv6 %v, %s: %+v", kind, v6, m, o)
				}
			}
		}
	}
}

func TestOrderToTheLoopback(t *testing.T) {
	need.Have(t, "netns") // raw sockets
	for _, kind := range []packet.Kind{packet.Datagrams, packet.SYNs, packet.Echoes} {
		for _, to := range []netip.Addr{four, six} {
			o := order(t, t.Context(), packet.Order{To: to, Kind: kind, Ports: []packet.Ports{{First: 9, Last: 9}}, Count: 300})
			if o.Packets != 300 || o.Arrived < 300 && kind != packet.SYNs || o.Method != packet.Mmsg {
				t.Errorf("%s to %s: %+v", kind, to, o)
			}
		}
	}
}

func TestMix(t *testing.T) {
	to := netip.MustParseAddr("10.99.0.2")
	spoof := netip.MustParsePrefix("172.16.0.0/12")
	o := packet.Order{Kind: packet.SYNs, Spoof: spoof, Ports: []packet.Ports{{80, 81}, {443, 443}}}
	mix, err := o.Mix(four, to)
	if err != nil {
		t.Fatal(err)
	}
	ports, from := map[uint16]int{}, map[netip.Addr]bool{}
	for _, p := range mix {
		ports[p.DstPort]++
		from[p.Src] = true
		if !spoof.Contains(p.Src) || p.Flags != packet.SYN || p.Dst != to {
			t.Fatalf("%+v", p)
		}
	}
	if len(ports) != 3 || ports[443] < len(mix)/4 || len(from) < len(mix)*9/10 {
		t.Errorf("ports %v, %d sources of %d", ports, len(from), len(mix))
	}
	again, err := o.Mix(four, to)
	if err != nil || again[77].Src != mix[77].Src {
		t.Errorf("the same seed gives another mix: %v", err)
	}
	for name, o := range map[string]packet.Order{
		"of kind":      {Kind: "sctp"},
		"two families": {Kind: packet.Datagrams, Spoof: netip.MustParsePrefix("fd00::/8")},
		"no range":     {Kind: packet.Datagrams, Ports: []packet.Ports{{5, 4}}},
	} {
		if _, err := o.Mix(four, to); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPacketsLongerThanAnEthernetFrame(t *testing.T) {
	need.Have(t, "netns")
	for _, size := range []int{1501, 3000, 9000, 65535} {
		o := order(t, t.Context(), packet.Order{Kind: packet.Datagrams, Size: size, Count: 20})
		if o.Packets != 20 || o.Arrived < 20 {
			t.Errorf("%d bytes: %+v", size, o)
		}
	}
}

func TestInterruptedOrderTellsWhatWasSent(t *testing.T) {
	need.Have(t, "netns")
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if o := order(t, ctx, packet.Order{Kind: packet.Datagrams, Size: 64}); o.Packets == 0 || o.Arrived == 0 {
		t.Errorf("%+v", o)
	}
}

func TestReadSNMP(t *testing.T) {
	c, err := packet.ReadSNMP()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"IpInReceives", "UdpNoPorts", "TcpInSegs"} {
		if _, ok := c[name]; !ok {
			t.Errorf("no %s", name)
		}
	}
}
