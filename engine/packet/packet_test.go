package packet_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/engine/netns"
	"headroom/engine/packet"
	"headroom/testkit/need"
)

// The kernel is the judge of what is built: these tests put packets on the
// loopback of a namespace and look at what it makes of them.

func place(t *testing.T) (*netns.Namespace, *packet.Tap) {
	t.Helper()
	need.Have(t, "netns")
	n, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	tap, err := packet.OpenTap(n, "lo")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tap.Close)
	return n, tap
}

var (
	four = netip.MustParseAddr("127.0.0.1")
	six  = netip.MustParseAddr("::1")
)

func listen(t *testing.T, n *netns.Namespace, at netip.Addr) *net.UDPConn {
	t.Helper()
	var c *net.UDPConn
	err := n.Do(func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, 0)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func port(c *net.UDPConn) uint16 { return c.LocalAddr().(*net.UDPAddr).AddrPort().Port() }

func send(t *testing.T, tap *packet.Tap, all ...packet.Packet) {
	t.Helper()
	for _, p := range all {
		raw, err := p.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if err := tap.Send(raw); err != nil {
			t.Fatal(err)
		}
	}
}

// next is the next datagram of a socket and whose it is; "" if none comes.
func next(t *testing.T, c *net.UDPConn) (string, netip.AddrPort) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1<<16)
	n, from, err := c.ReadFromUDPAddrPort(b)
	if err != nil {
		t.Fatalf("nothing arrived: %v", err)
	}
	return string(b[:n]), from
}

func TestUDPArrivesWholeAndBrokenOnesDoNot(t *testing.T) {
	n, tap := place(t)
	for _, at := range []netip.Addr{four, six} {
		c := listen(t, n, at)
		for _, size := range []int{0, 1, 2, 7, 100, 1371} {
			p := packet.Packet{Src: at, Dst: at, Proto: packet.UDP, SrcPort: 4242, DstPort: port(c), Payload: bytes.Repeat([]byte{0xfe}, size)}
			broken := p
			broken.BadChecksum, broken.Payload = true, []byte("broken")
			send(t, tap, broken, p) // in this order: what arrives first is not the broken one
			got, from := next(t, c)
			if got != string(p.Payload) || from.Port() != 4242 || from.Addr() != at {
				t.Errorf("%s, %d bytes: %d bytes from %s arrived: %.20q", at, size, len(got), from, got)
			}
		}
	}
}

func TestSizeIsThatOfTheWholePacket(t *testing.T) {
	for _, at := range []netip.Addr{four, six} {
		for _, proto := range []uint8{packet.UDP, packet.TCP, packet.ICMP, 132} {
			for _, size := range []int{0, 61, 128, 1500} {
				raw, err := packet.Packet{Src: at, Dst: at, Proto: proto, Size: size, Payload: []byte("x")}.Bytes()
				if err != nil || size > 0 && len(raw) != size {
					t.Errorf("%s, protocol %d, size %d: %d bytes, %v", at, proto, size, len(raw), err)
				}
			}
		}
	}
}

func TestFragmentsAreJoinedByTheKernel(t *testing.T) {
	n, tap := place(t)
	for _, at := range []netip.Addr{four, six} {
		c := listen(t, n, at)
		payload := bytes.Repeat([]byte("0123456789"), 700)
		whole := packet.Packet{Src: at, Dst: at, Proto: packet.UDP, ID: 77, SrcPort: 9, DstPort: port(c), Payload: payload}
		all, err := whole.Fragments(1280)
		if err != nil || len(all) < 6 {
			t.Fatalf("%d pieces, %v", len(all), err)
		}
		for _, f := range all {
			if raw, err := f.Bytes(); err != nil || len(raw) > 1280 {
				t.Errorf("a piece of %d bytes, %v", len(raw), err)
			}
		}
		send(t, tap, all...)
		if got, _ := next(t, c); got != string(payload) {
			t.Errorf("%s: %d bytes arrived, sent %d", at, len(got), len(payload))
		}
		if one, err := whole.Fragments(20000); err != nil || len(one) != 1 {
			t.Errorf("a packet that fits: %d pieces, %v", len(one), err)
		}
		if _, err := all[1].Fragments(100); err == nil {
			t.Error("a fragment was cut again")
		}
	}
}

func TestEchoIsAnswered(t *testing.T) {
	_, tap := place(t)
	for _, at := range []netip.Addr{four, six} {
		p := packet.Packet{Src: at, Dst: at, Proto: packet.ICMP, Type: 8, Rest: 7<<16 | 1, Payload: []byte("are you there")}
		if at.Is6() {
			p.Proto, p.Type = packet.ICMPv6, 128
		}
		want := p.Reply(0)
		want.DontFragment = false
		send(t, tap, p)
		if got := await(t, tap, func(ip []byte) bool { return icmpType(ip) == want.Type }); !bytes.Contains(got, p.Payload) {
			t.Errorf("%s: no answer to the echo: %x", at, got)
		}
	}
}

func icmpType(ip []byte) uint8 {
	switch {
	case ip[0]>>4 == 4 && ip[9] == packet.ICMP:
		return ip[20]
	case ip[0]>>4 == 6 && ip[6] == packet.ICMPv6:
		return ip[40]
	}
	return 0xff
}

// await takes packets until one is as wanted.
func await(t *testing.T, tap *packet.Tap, ok func(ip []byte) bool) []byte {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		ip, err := tap.Next(100 * time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if ip != nil && ok(ip) {
			return bytes.Clone(ip)
		}
	}
	t.Fatal("no such packet came")
	return nil
}

func TestErrorsReachTheSocketTheyAreAbout(t *testing.T) {
	n, tap := place(t)
	for _, at := range []netip.Addr{four, six} {
		other := listen(t, n, at) // that hears and stays silent
		var c *net.UDPConn
		err := n.Do(func() (err error) {
			c, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, port(other))))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		about := packet.Packet{Src: at, Dst: at, Proto: packet.UDP, SrcPort: port(c), DstPort: port(other), Payload: []byte("x")}
		typ, code := uint8(packet.Unreachable), uint8(3)
		if at.Is6() {
			typ, code = packet.Unreachable6, 4
		}
		e, err := about.Error(at, typ, code, 0)
		if err != nil {
			t.Fatal(err)
		}
		send(t, tap, e)
		if err := c.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: the socket was told %v", at, err)
		}
	}
}

func TestHandshake(t *testing.T) {
	n, tap := place(t)
	for _, at := range []netip.Addr{four, six} {
		var l net.Listener
		err := n.Do(func() (err error) {
			l, err = net.Listen("tcp", netip.AddrPortFrom(at, 0).String())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		to := l.Addr().(*net.TCPAddr).AddrPort().Port()
		// From an address that nobody has, so that nobody answers with RST.
		from := netip.MustParseAddr("127.9.9.9")
		if at.Is6() {
			from = at
		}
		syn := packet.Packet{Src: from, Dst: at, Proto: packet.TCP, SrcPort: 999, DstPort: to, Flags: packet.SYN, Seq: 1000, Options: []byte{2, 4, 5, 0xb4, 1}}
		send(t, tap, syn)
		head := 20
		if at.Is6() {
			head = 40
		}
		got := await(t, tap, func(ip []byte) bool {
			return len(ip) >= head+20 && ip[head+13] == packet.SYN|packet.ACK && ip[head+2] == 999>>8 && ip[head+3] == 999&0xff
		})
		if ack := fmt.Sprintf("%x", got[head+8:head+12]); ack != "000003e9" {
			t.Errorf("%s: SYN of 1000 is acknowledged with %s", at, ack)
		}
	}
}

func TestReply(t *testing.T) {
	p := packet.Packet{Src: four, Dst: netip.MustParseAddr("127.0.0.2"), Proto: packet.TCP, SrcPort: 1, DstPort: 2, Flags: packet.SYN, Seq: 10, Ack: 20}
	r := p.Reply(packet.SYN | packet.ACK)
	if r.Src != p.Dst || r.Dst != p.Src || r.SrcPort != 2 || r.DstPort != 1 || r.Seq != 20 || r.Ack != 11 || r.Flags != packet.SYN|packet.ACK {
		t.Errorf("%+v", r)
	}
}

func TestWhatCannotBeBuilt(t *testing.T) {
	for name, p := range map[string]packet.Packet{
		"missing":          {Src: four, Proto: packet.UDP},
		"two families":     {Src: four, Dst: six},
		"multiple of 8":    {Src: four, Dst: four, Offset: 9},
		"TCP options":      {Src: four, Dst: four, Proto: packet.TCP, Options: make([]byte, 41)},
		"more than 65535":  {Src: four, Dst: four, Proto: packet.UDP, Payload: make([]byte, 65536)},
		"more than  65535": {Src: four, Dst: four, Proto: packet.UDP, Size: 65536},
	} {
		if _, err := p.Bytes(); err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(name, "  ", " ")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTapOnlyInWhatWeMade(t *testing.T) {
	if _, err := packet.OpenTap(nil, "lo"); err == nil {
		t.Error("a tap on the machine's own loopback")
	}
	n, _ := place(t)
	if _, err := packet.OpenTap(n, "eth0"); err == nil {
		t.Error("a tap on a device that Join did not make")
	}
}
