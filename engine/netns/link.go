package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"headroom/fail"
	"headroom/host"
)

// own lists what the kernel keeps per network namespace below /proc/sys.
var own = []string{"net/ipv4", "net/ipv6", "net/netfilter"}

// root is the first two parts of a sysctl's path.
func root(name string) string {
	parts := strings.SplitN(name, "/", 3)
	if len(parts) < 3 || strings.Contains(name, "..") {
		return ""
	}
	return parts[0] + "/" + parts[1]
}

// furnish makes a fresh namespace, which the thread has entered, usable and
// quiet.
func furnish() error {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("set the loopback up: %w", err)
	}
	l := host.Open(host.Options{})
	defer l.Close()
	for _, s := range []struct{ name, value string }{
		{"ipv4/conf/all/rp_filter", "0"}, {"ipv4/conf/default/rp_filter", "0"}, {"ipv4/conf/lo/rp_filter", "0"},
		// Without these, packets that are put on the loopback as they are on the wire are taken for forged.
		{"ipv4/conf/lo/accept_local", "1"}, {"ipv4/conf/lo/route_localnet", "1"},
		{"ipv6/conf/default/accept_dad", "0"}, {"ipv6/conf/default/addr_gen_mode", "1"}, {"ipv6/conf/default/router_solicitations", "0"},
	} {
		if err := l.WriteValue("/proc/sys/net/"+s.name, s.value); err != nil && !errors.Is(err, fail.ErrAbsent) {
			return err // absent: a kernel without IPv6
		}
	}
	return nil
}

// End is one end of a veth pair: its name and addresses there.
type End struct {
	Name  string
	Addrs []netip.Prefix
}

// Wire says how Join ties two namespaces.
type Wire struct {
	A, B   End
	MTU    int // bytes; 0 is the kernel's 1500
	Queues int // of sending and receiving on either end; 0 is 1
	// Poll has both ends take packets in as a network card does (NAPI, with
	// GRO), on the CPU that sends unless "threaded" is set (SetDevice). Without
	// it they arrive as from a software device.
	Poll bool
}

// Between is the usual wire: 10.99.0.1/24 and fd00:99::1/64 on a's end veth0,
// .2 and ::2 on b's.
func Between() Wire {
	return Wire{
		A: End{"veth0", []netip.Prefix{netip.MustParsePrefix("10.99.0.1/24"), netip.MustParsePrefix("fd00:99::1/64")}},
		B: End{"veth0", []netip.Prefix{netip.MustParsePrefix("10.99.0.2/24"), netip.MustParsePrefix("fd00:99::2/64")}},
	}
}

// Join ties two namespaces by a veth pair, both ends up, addresses usable at
// once (no duplicate address detection), each end knowing the other's hardware
// address. Of itself the kernel sends only a few IPv6 multicast reports.
func Join(a, b *Namespace, w Wire) error {
	if a == b {
		return fmt.Errorf("join two namespaces: they are the same")
	}
	if err := join(a, b, w); err != nil {
		return fmt.Errorf("join two namespaces: %w", err)
	}
	return nil
}

func join(a, b *Namespace, w Wire) error {
	far, err := b.hold()
	if err != nil {
		return err
	}
	defer far.Close()
	macA, macB := net.HardwareAddr{2, 0, 0, 0x99, 0, 1}, net.HardwareAddr{2, 0, 0, 0x99, 0, 2}
	err = a.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.HardwareAddr, attrs.MTU = w.A.Name, macA, w.MTU
		attrs.NumTxQueues, attrs.NumRxQueues = max(w.Queues, 1), max(w.Queues, 1)
		v := netlink.NewVeth(attrs)
		v.PeerName, v.PeerHardwareAddr, v.PeerNamespace, v.PeerMTU = w.B.Name, macB, netlink.NsFd(int(far.Fd())), uint32(w.MTU)
		v.PeerNumTxQueues, v.PeerNumRxQueues = uint32(attrs.NumTxQueues), uint32(attrs.NumRxQueues)
		if err := netlink.LinkAdd(v); err != nil {
			return fmt.Errorf("make a veth pair %s, %s: %w", w.A.Name, w.B.Name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, step := range []func(*Namespace, End) error{(*Namespace).up, (*Namespace).carries, (*Namespace).address, (*Namespace).answers} {
		if err := errors.Join(step(a, w.A), step(b, w.B)); err != nil {
			return err
		}
	}
	if w.Poll {
		if err := errors.Join(a.on(w.A, poll), b.on(w.B, poll)); err != nil {
			return err
		}
	}
	if err := a.know(w.A, Device{MAC: [6]byte(macA), Far: [6]byte(macB), Peer: b, Polled: w.Poll}, w.B); err != nil {
		return err
	}
	return b.know(w.B, Device{MAC: [6]byte(macB), Far: [6]byte(macA), Peer: a, Polled: w.Poll}, w.A)
}

// on runs f inside with the device of one end.
func (n *Namespace) on(e End, f func(netlink.Link) error) error {
	return n.Do(func() error {
		l, err := netlink.LinkByName(e.Name)
		if err != nil {
			return fmt.Errorf("find %s: %w", e.Name, err)
		}
		return f(l)
	})
}

func (n *Namespace) up(e End) error {
	return n.on(e, func(l netlink.Link) error {
		if err := netlink.LinkSetUp(l); err != nil {
			return fmt.Errorf("set %s up: %w", e.Name, err)
		}
		return nil
	})
}

const patience = 10 * time.Second

// carries waits until a device that is up carries packets: the kernel attaches
// its queue a moment after the far end came up, and drops everything before.
func (n *Namespace) carries(e End) error {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		var now netlink.LinkOperState
		err := n.on(e, func(l netlink.Link) error {
			if now = l.Attrs().OperState; now != netlink.OperUp {
				return nil
			}
			return netlink.LinkSetUp(l) // waits for the kernel's lock, under which the queue is attached
		})
		if err != nil || now == netlink.OperUp {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("wait for %s to come up: it is %s", e.Name, now)
		}
	}
}

func (n *Namespace) address(e End) error {
	return n.on(e, func(l netlink.Link) error {
		for _, p := range e.Addrs {
			a := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}, Flags: unix.IFA_F_NODAD}
			if err := netlink.AddrAdd(l, a); err != nil {
				return fmt.Errorf("give %s to %s: %w", p, e.Name, err)
			}
		}
		return nil
	})
}

// answers waits until the addresses are the namespace's own: the kernel learns
// its IPv6 addresses in the background, and is deaf until then.
func (n *Namespace) answers(e End) error {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		var deaf netip.Addr
		err := n.Do(func() error {
			for _, p := range e.Addrs {
				routes, err := netlink.RouteGet(p.Addr().AsSlice())
				if err != nil || len(routes) != 1 || routes[0].Type != unix.RTN_LOCAL {
					deaf = p.Addr() // an error is that there is no route yet
				}
			}
			return nil
		})
		if err != nil || !deaf.IsValid() {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("wait for %s of %s: the kernel does not take it for its own", deaf, e.Name)
		}
	}
}

// know tells one end where the other is, and keeps whose it is.
func (n *Namespace) know(near End, d Device, other End) error {
	return n.on(near, func(l netlink.Link) error {
		for _, p := range other.Addrs {
			err := netlink.NeighSet(&netlink.Neigh{LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT, IP: p.Addr().AsSlice(), HardwareAddr: d.Far[:]})
			if err != nil {
				return fmt.Errorf("tell %s where %s is: %w", near.Name, p.Addr(), err)
			}
		}
		n.mu.Lock()
		d.Name, d.Index = near.Name, l.Attrs().Index
		n.links = append(n.links, d)
		n.mu.Unlock()
		return nil
	})
}
