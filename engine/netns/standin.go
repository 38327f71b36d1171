package netns

import (
	"errors"
	"fmt"
	"net"
	"regexp"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

var word = regexp.MustCompile(`[^\s"{},;]+`)

// Named returns this machine's network devices whose names stand as words in a
// text, with their numbers; without the loopback.
func Named(text string) (map[string]int, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network devices: %w", err)
	}
	words := map[string]bool{}
	for _, w := range word.FindAllString(text, -1) {
		words[w] = true
	}
	out := map[string]int{}
	for _, i := range all {
		if words[i.Name] && i.Name != "lo" {
			out[i.Name] = i.Index
		}
	}
	return out, nil
}

// StandIn puts a device that does nothing into the namespace for each name,
// with the number given (0: any): nft takes a rule about a device by its number
// (iif, oif) only where there is one of that name.
func (n *Namespace) StandIn(devices map[string]int) error {
	return n.Do(func() error {
		for name, index := range devices {
			attrs := netlink.NewLinkAttrs()
			attrs.Name, attrs.Index = name, index
			err := netlink.LinkAdd(&netlink.Dummy{LinkAttrs: attrs})
			if errors.Is(err, unix.EOPNOTSUPP) { // a kernel without dummies
				err = netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs})
			}
			if err != nil {
				return fmt.Errorf("make a stand-in for device %s: %w", name, err)
			}
		}
		return nil
	})
}
