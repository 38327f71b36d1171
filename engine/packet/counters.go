package packet

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"headroom/engine/netns"
	"headroom/host"
)

// byDevice counts what the far end's device took in.
func (p *place) byDevice(ns *netns.Namespace, device string) {
	p.at = "the far end's device"
	p.count(func() (n int64, err error) {
		err = ns.Do(func() error {
			l := host.Open(host.Options{})
			defer l.Close()
			n, err = Took(l, device)
			return err
		})
		return n, err
	})
}

// Took is the number of packets that a device of the calling thread's
// namespace took in since it is there, dropped by XDP or not.
func Took(r host.Reader, device string) (int64, error) {
	raw, err := r.ReadFile("/proc/thread-self/net/dev")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		if f := strings.Fields(rest); ok && name == device && len(f) > 1 {
			return strconv.ParseInt(f[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("count packets: /proc/net/dev does not list %s", device)
}

func readFile(path string) ([]byte, error) {
	l := host.Open(host.Options{})
	defer l.Close()
	return l.ReadFile(path)
}

// onHost counts in this machine's own UDP, TCP or ICMP, past all rules.
func onHost(to netip.Addr, kind Kind) *place {
	p := &place{target: Host(), from: to, to: to, where: "this machine's loopback"}
	p.at = fmt.Sprintf("this machine's %s, with what other programs got", protocols[kind])
	p.count(func() (int64, error) {
		c, err := ReadSNMP()
		if err != nil {
			return 0, err
		}
		return c.took(kind, to.Is6())
	})
	return p
}

var protocols = map[Kind]string{Datagrams: "UDP", SYNs: "TCP", Echoes: "ICMP"}

// SNMP is what the protocols of a namespace counted since it began, by the
// names of /proc/net/snmp and snmp6 without spaces: "UdpNoPorts", "Ip6InReceives".
type SNMP map[string]int64

// ReadSNMP reads the counts of the calling thread's namespace.
func ReadSNMP() (SNMP, error) {
	out := SNMP{}
	raw, err := readFile("/proc/thread-self/net/snmp")
	if err != nil {
		return nil, err
	}
	if err := out.four(string(raw)); err != nil {
		return nil, err
	}
	if raw, err = readFile("/proc/thread-self/net/snmp6"); err != nil {
		return out, nil // a kernel without IPv6
	}
	f := strings.Fields(string(raw))
	for i := 0; i+1 < len(f); i += 2 {
		if out[f[i]], err = strconv.ParseInt(f[i+1], 10, 64); err != nil {
			return nil, fmt.Errorf("read /proc/net/snmp6: %.20q is not a count", f[i+1])
		}
	}
	return out, nil
}

// four reads pairs of lines: names, then values.
func (c SNMP) four(text string) error {
	var names []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if names == nil || names[0] != f[0] {
			names = f
			continue
		}
		if len(f) != len(names) {
			return fmt.Errorf("read /proc/net/snmp: %d names and %d values of %s", len(names), len(f), f[0])
		}
		for i := 1; i < len(f); i++ {
			n, err := strconv.ParseInt(f[i], 10, 64)
			if err != nil {
				return fmt.Errorf("read /proc/net/snmp: %.20q is not a count", f[i])
			}
			c[strings.TrimSuffix(f[0], ":")+names[i]] = n
		}
		names = nil
	}
	return nil
}

// took is how many packets of a kind came in. On a loopback TCP's answers come
// in as well and are taken off; a kernel that never saw an echo request does
// not list them.
func (c SNMP) took(kind Kind, v6 bool) (int64, error) {
	var plus, minus []string
	switch {
	case kind == SYNs:
		plus, minus = []string{"TcpInSegs"}, []string{"TcpOutSegs", "TcpRetransSegs"}
	case kind == Echoes && v6:
		plus = []string{"Icmp6InEchos"}
	case kind == Echoes:
		return c["IcmpMsgInType8"], nil
	case v6:
		plus = []string{"Udp6InDatagrams", "Udp6NoPorts", "Udp6InErrors"}
	default:
		plus = []string{"UdpInDatagrams", "UdpNoPorts", "UdpInErrors"}
	}
	sum := int64(0)
	for _, name := range plus {
		n, ok := c[name]
		if !ok {
			return 0, fmt.Errorf("count packets: the kernel tells no %s", name)
		}
		sum += n
	}
	for _, name := range minus {
		sum -= c[name]
	}
	return sum, nil
}
