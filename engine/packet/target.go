package packet

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"headroom/engine/netns"
	"headroom/fail"
)

// Target is where a flood goes. The zero Target is nowhere. There are two
// others, and neither can be made to lead out of the machine.
type Target struct {
	ns     *netns.Namespace // nil: the machine itself
	host   bool
	device netns.Device
}

// Host is the machine's own loopback. Every packet must go to a loopback
// address, and come from one, so that no answer leaves the machine either. A
// socket that is bound to the loopback sends them.
func Host() Target { return Target{host: true, device: netns.Device{Name: "lo", Index: 1}} }

// Inside is a device of a namespace that package netns made: "lo", or an end
// of a wire, which leads to the namespace at its other end. Packets may come
// from and go to any address, for no way leads out.
func Inside(n *netns.Namespace, device string) (Target, error) {
	d, err := n.Device(device)
	if err != nil {
		return Target{}, err
	}
	return Target{ns: n, device: d}, nil
}

func (t Target) do(f func() error) error {
	switch {
	case t.host:
		return f()
	case t.ns == nil:
		return errNowhere
	}
	return t.ns.Do(f)
}

var errNowhere = errors.New("send packets: no target was given")

// enclosed returns nil if none of the packets, and no answer to them, can get
// out of the machine.
func (t Target) enclosed(mix []Packet) error {
	if !t.host {
		if t.ns == nil {
			return errNowhere
		}
		return t.ns.Enclosed()
	}
	seen := map[netip.Addr]bool{}
	for _, p := range mix {
		for _, a := range []netip.Addr{p.Dst, p.Src} {
			if seen[a] {
				continue
			}
			seen[a] = true
			switch {
			case a.IsLoopback() && !a.Is4In6():
			case a == p.Dst:
				return outward(fmt.Errorf("send packets to %s: that is no loopback address, so they could leave this machine", a))
			default:
				return outward(fail.Hint(fmt.Errorf("send packets from %s to %s: an answer could leave this machine", a, p.Dst), "on the loopback take sources of 127.0.0.0/8; any source goes into namespaces: leave out %s", p.Dst))
			}
			if err := local(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// local makes sure that the kernel keeps a loopback address to itself.
func local(a netip.Addr) error {
	routes, err := netlink.RouteGet(a.AsSlice())
	if err != nil {
		return fmt.Errorf("look where %s leads: %w", a, err)
	}
	for _, r := range routes {
		if r.Type != unix.RTN_LOCAL {
			return outward(fmt.Errorf("send packets to %s: this machine routes it elsewhere", a))
		}
	}
	return nil
}

func outward(err error) error {
	return fail.With(fail.Hint(err, "a flood goes to the loopback (127.0.0.1, ::1) or into a namespace of its own, never to another machine; nothing changes that"), fail.Usage)
}
