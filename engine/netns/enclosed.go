package netns

import (
	"fmt"
	"net"
	"slices"

	"github.com/vishvananda/netlink"

	"headroom/fail"
)

// Device is a loopback, or an end of what Join made.
type Device struct {
	Name  string
	Index int        // within its namespace
	MAC   [6]byte    // zero for a loopback
	Far   [6]byte    // the other end's; zero for a loopback
	Peer  *Namespace // where the other end is; the namespace itself for a loopback
	// Polled says that both ends take packets in as a network card does (Wire.Poll).
	Polled bool
}

// Device returns the loopback ("lo") or an end that Join made in n. Other
// devices are refused.
func (n *Namespace) Device(name string) (Device, error) {
	if err := n.Do(func() error { return nil }); err != nil {
		return Device{}, err
	}
	if name == "lo" {
		return Device{Name: "lo", Index: loopback, Peer: n}, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.IndexFunc(n.links, func(d Device) bool { return d.Name == name })
	if i < 0 {
		return Device{}, fmt.Errorf("find device %s in the namespace: it is not one that this program joined to it: %w", name, fail.ErrAbsent)
	}
	return n.links[i], nil
}

// loopback is the index of each namespace's first device.
const loopback = 1

// Enclosed returns nil if nothing that is sent in n can reach more than
// namespaces that this package made: every device that is up, in n and in all
// namespaces joined to it, is a loopback or an end that Join made.
func (n *Namespace) Enclosed() error {
	seen := []*Namespace{n}
	for i := 0; i < len(seen); i++ {
		more, err := seen[i].neighbours()
		if err != nil {
			return fmt.Errorf("make sure that the namespace is enclosed: %w", err)
		}
		for _, m := range more {
			if !slices.Contains(seen, m) {
				seen = append(seen, m)
			}
		}
	}
	return nil
}

func (n *Namespace) neighbours() (out []*Namespace, err error) {
	err = n.Do(func() error {
		all, err := netlink.LinkList()
		if err != nil {
			return fmt.Errorf("list devices: %w", err)
		}
		for _, l := range all {
			a := l.Attrs()
			if a.Flags&net.FlagUp == 0 || a.Index == loopback && a.Flags&net.FlagLoopback != 0 {
				continue
			}
			n.mu.Lock()
			i := slices.IndexFunc(n.links, func(d Device) bool { return d.Index == a.Index && d.Name == a.Name })
			if i >= 0 && l.Type() == "veth" {
				out = append(out, n.links[i].Peer)
			}
			n.mu.Unlock()
			if i < 0 || l.Type() != "veth" {
				return fmt.Errorf("device %s (%s) leads out of it", a.Name, l.Type())
			}
		}
		return nil
	})
	return out, err
}
