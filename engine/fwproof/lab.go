package fwproof

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"headroom/engine/netns"
	"headroom/engine/packet"
	"headroom/fail"
	"headroom/host"
)

// Load is one text for one tool: "nft", "ipset", or one of the family of
// iptables ("iptables", "ip6tables", also with -legacy or -nft).
type Load struct {
	Tool string
	Text string
}

// Side is a rule set as the tools take it, loaded in this order.
type Side []Load

//go:embed watch.nft
var watch string

// lab is a machine of nothing but a rule set: a namespace with the devices
// that the rules name, each a TUN whose far end we hold. What the rules let
// through is noted by two chains behind all others, by the packet's number (the
// IP identification, the flow label); what the kernel itself wants to send is
// dropped before any rule, so that its answers cannot be taken for ours.
type lab struct {
	ns   *netns.Namespace
	tuns map[string]*os.File
	raw  map[string]int // raw sockets by device and family
	ifs  map[string]int // device numbers
	pair [2]string      // devices that forwarded packets go between at present
}

// scene is what a lab needs besides rules.
type scene struct {
	devices []string
	local   []netip.Addr // addresses of this machine
	// routed are those that it has where packets go through it, and apart says
	// that this must be another namespace: one rule's own address is another's
	// that is routed.
	routed map[netip.Addr]bool
	apart  bool
	groups []netip.Addr // multicast groups that it listens to
}

func openLab(ctx context.Context, s scene, side Side) (*lab, error) {
	ns, err := netns.New()
	if err != nil {
		return nil, err
	}
	l := &lab{ns: ns, tuns: map[string]*os.File{}, raw: map[string]int{}, ifs: map[string]int{}}
	for _, step := range []func() error{
		func() error { return l.furnish(s) },
		func() error { return l.load(ctx, side) },
		func() error { return l.load(ctx, Side{{"nft", watch}}) },
	} {
		if err := step(); err != nil {
			l.Close()
			return nil, err
		}
	}
	return l, nil
}

// Close gives all up.
func (l *lab) Close() {
	for _, f := range l.tuns {
		f.Close()
	}
	for _, fd := range l.raw {
		unix.Close(fd)
	}
	l.ns.Close()
}

var sysctls = [][2]string{
	{"net/ipv4/igmp_max_memberships", "10000"},
	{"net/ipv4/ip_forward", "1"}, {"net/ipv6/conf/all/forwarding", "1"}, {"net/ipv4/conf/all/accept_local", "1"},
	{"net/ipv4/conf/all/accept_redirects", "0"}, {"net/ipv4/conf/default/accept_redirects", "0"}, {"net/ipv4/conf/all/send_redirects", "0"}, {"net/ipv4/conf/default/send_redirects", "0"},
	{"net/ipv6/conf/all/accept_redirects", "0"}, {"net/ipv6/conf/default/accept_redirects", "0"}, {"net/ipv6/conf/all/accept_ra", "0"}, {"net/ipv6/conf/default/accept_ra", "0"},
}

func (l *lab) furnish(s scene) error {
	for _, c := range sysctls {
		if err := l.ns.Sysctl(c[0], c[1]); err != nil {
			return err
		}
	}
	return l.ns.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		l.ifs["lo"] = lo.Attrs().Index
		for _, d := range s.devices {
			if err := l.device(d); err != nil {
				return fmt.Errorf("make device %s: %w", d, err)
			}
		}
		for _, a := range s.local {
			if err := address(lo, a, unix.IFA_F_NODAD); err != nil {
				return err
			}
		}
		for _, g := range s.groups {
			for _, d := range s.devices {
				dev, err := netlink.LinkByIndex(l.ifs[d])
				if err != nil {
					return err
				}
				if err := address(dev, g, unix.IFA_F_NODAD|unix.IFA_F_MCAUTOJOIN); err != nil {
					return err
				}
			}
		}
		return l.rules(s.devices)
	})
}

func address(dev netlink.Link, a netip.Addr, flags int) error {
	err := netlink.AddrAdd(dev, &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}, Flags: flags})
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("give %s to %s: %w", a, dev.Attrs().Name, err)
	}
	return nil
}

// device makes a TUN and the ways out through it.
func (l *lab) device(name string) error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "tun "+name)
	req, err := unix.NewIfreq(name)
	if err != nil {
		f.Close()
		return err
	}
	req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		f.Close()
		return err
	}
	l.tuns[name] = f
	dev, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	l.ifs[name] = dev.Attrs().Index
	if err := netlink.LinkSetUp(dev); err != nil {
		return err
	}
	for _, f := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		r := &netlink.Route{LinkIndex: dev.Attrs().Index, Dst: everywhere(f), Priority: 1000 + dev.Attrs().Index, Family: f, Scope: netlink.SCOPE_LINK}
		if err := netlink.RouteReplace(r); err != nil {
			return fmt.Errorf("route: %w", err)
		}
	}
	return nil
}

func everywhere(family int) *net.IPNet {
	if family == netlink.FAMILY_V6 {
		return &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
	}
	return &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
}

// firstTable is the number of the routing table of the first device.
const firstTable = 1000

// rules sends what comes in on each device to a routing table of its own.
func (l *lab) rules(devices []string) error {
	for _, d := range devices {
		for _, f := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
			r := netlink.NewRule()
			r.IifName, r.Table, r.Family, r.Priority = d, firstTable+l.ifs[d], f, 100
			if err := netlink.RuleAdd(r); err != nil {
				return fmt.Errorf("routing rule of %s: %w", d, err)
			}
		}
	}
	return nil
}

// between makes what comes in on a go out of b, and the other way round.
func (l *lab) between(a, b string) error {
	if l.pair == [2]string{a, b} || l.pair == [2]string{b, a} {
		return nil
	}
	l.pair = [2]string{a, b}
	for _, way := range [][2]string{{a, b}, {b, a}} {
		for _, f := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
			r := &netlink.Route{LinkIndex: l.ifs[way[1]], Dst: everywhere(f), Table: firstTable + l.ifs[way[0]], Family: f, Scope: netlink.SCOPE_LINK}
			if err := netlink.RouteReplace(r); err != nil {
				return fmt.Errorf("route from %s to %s: %w", way[0], way[1], err)
			}
		}
	}
	return nil
}

var loaders = map[string][]string{"nft": {"nft", "-f", "-"}, "ipset": {"ipset", "restore"}}

// load loads texts.
func (l *lab) load(ctx context.Context, side Side) error {
	for _, x := range side {
		argv := loaders[x.Tool]
		if argv == nil {
			argv = []string{x.Tool + "-restore"}
		}
		if _, err := l.ns.Run(ctx, host.Cmd{Argv: argv, Stdin: strings.NewReader(x.Text)}, 1<<20); err != nil {
			return fmt.Errorf("load rules into a namespace: %w", refused(err))
		}
	}
	return nil
}

var (
	complaint = regexp.MustCompile(`(?s)run (\S+): exit status \d+: (?:\S+ v\S+ \(\w+\): )?(.*?)\s*Error occurred at line: (\d+)`)
	noSet     = regexp.MustCompile(`Set (\S+) doesn't exist`)
)

// refused is what iptables-restore says in one line, with the way out of a set
// that it lacks.
func refused(err error) error {
	m := complaint.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	out := fmt.Errorf("%s: line %s: %s", m[1], m[3], m[2])
	if set := noSet.FindStringSubmatch(m[2]); set != nil {
		return fail.Hint(out, "give the address sets, too: --rules RULES,SETS, SETS being what `ipset save` writes; to convert rules in force ipset must be installed: apt-get install ipset")
	}
	return out
}

// last is the highest number that a packet can have: IPv4 gives 16 bits.
const last = 65535

// seen are the lengths of the packets that passed a hook, by their numbers:
// where a packet came in pieces, all of them have its number.
type seen map[uint32][]int

// all says whether all of a packet passed: it as a whole, or every piece.
func (s seen) all(id uint32, step Step) bool {
	lengths := s[id]
	if !step.Cut {
		return len(lengths) > 0
	}
	if slices.Contains(lengths, length(step.Packet)) {
		return true
	}
	return !slices.ContainsFunc(step.pieces(), func(p packet.Packet) bool { return !slices.Contains(lengths, length(p)) })
}

// length is what the IP header says of a packet's length.
func length(p packet.Packet) int {
	b, err := p.Bytes()
	if err != nil {
		return 0
	}
	if p.V6() {
		return len(b) - 40
	}
	return len(b)
}

// inject sends one packet, numbered.
func (l *lab) inject(s Step, id uint32) error {
	if s.In != "" && s.Out != "" {
		if err := l.between(s.In, s.Out); err != nil {
			return err
		}
	}
	for _, p := range s.pieces() {
		p.ID = uint16(id)
		b, err := p.Bytes()
		if err != nil {
			return err
		}
		if p.V6() {
			b[1], b[2], b[3] = b[1]&0xf0|byte(id>>16), byte(id>>8), byte(id)
		}
		if s.In != "" {
			// A martian is refused by the kernel before any hook; the empty
			// rule set shows which these are.
			_, err = l.tuns[s.In].Write(b)
		} else {
			err = l.send(s.Out, p, b)
			if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS) { // the device is full of what went out
				drain(l.tuns[s.Out])
				err = l.send(s.Out, p, b)
			}
		}
		if err != nil && !harmless(err) {
			return fmt.Errorf("send %s: %w", s, err)
		}
	}
	return nil
}

// harmless are the errors of a packet that was refused on its way, be it by a
// rule or for want of a way: which of them, the empty rule set tells.
func harmless(err error) bool {
	for _, e := range []error{unix.EPERM, unix.EINVAL, unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EACCES, unix.EADDRNOTAVAIL, unix.EMSGSIZE, unix.ECONNREFUSED, unix.EPROTO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (l *lab) send(device string, p packet.Packet, b []byte) error {
	key, domain := device+"4", unix.AF_INET
	if p.V6() {
		key, domain = device+"6", unix.AF_INET6
	}
	fd, ok := l.raw[key]
	if !ok {
		var err error
		if fd, err = unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_RAW); err != nil {
			return err
		}
		l.raw[key] = fd
		if err := unix.BindToDevice(fd, device); err != nil {
			return err
		}
		if p.V6() {
			if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_HDRINCL, 1); err != nil {
				return err
			}
		}
	}
	if p.V6() {
		return unix.Sendto(fd, b, unix.MSG_DONTWAIT, &unix.SockaddrInet6{Addr: p.Dst.As16(), ZoneId: uint32(l.ifs[device])})
	}
	return unix.Sendto(fd, b, unix.MSG_DONTWAIT, &unix.SockaddrInet4{Addr: p.Dst.As4()})
}

// unsee empties the lists of what passed.
func (l *lab) unsee(ctx context.Context) error {
	return l.load(ctx, Side{{"nft", "flush set inet headroom_watch in4\nflush set inet headroom_watch in6\nflush set inet headroom_watch out4\nflush set inet headroom_watch out6\n"}})
}

// forget empties the table of connections.
func (l *lab) forget() error {
	for _, f := range l.tuns { // what went out: nobody wants it
		drain(f)
	}
	return l.ns.Do(func() error {
		// Emptying walks through the connections of all namespaces.
		if n, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count"); err == nil && string(n) == "0\n" {
			return nil
		}
		if err := netlink.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
			return fmt.Errorf("empty the table of connections: %w", err)
		}
		return nil
	})
}

func drain(f *os.File) {
	if f == nil {
		return
	}
	buf := make([]byte, 2048)
	c, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = c.Control(func(fd uintptr) {
		for {
			if _, err := unix.Read(int(fd), buf); err != nil {
				return
			}
		}
	})
}

// read returns what passed.
func (l *lab) read(ctx context.Context) (in, out seen, err error) {
	raw, err := l.ns.Run(ctx, host.Cmd{Argv: []string{"nft", "-j", "list", "table", "inet", "headroom_watch"}}, 64<<20)
	if err != nil {
		return nil, nil, fmt.Errorf("read what passed: %w", err)
	}
	var doc struct {
		Nftables []struct {
			Set *struct {
				Name string            `json:"name"`
				Elem []json.RawMessage `json:"elem"`
			} `json:"set"`
		} `json:"nftables"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, nil, fmt.Errorf("read what passed: %w", err)
	}
	in, out = seen{}, seen{}
	for _, o := range doc.Nftables {
		if o.Set == nil {
			continue
		}
		into := out
		if strings.HasPrefix(o.Set.Name, "in") {
			into = in
		}
		for _, e := range o.Set.Elem {
			var pair struct {
				Concat [2]uint32 `json:"concat"`
			}
			if err := json.Unmarshal(e, &pair); err != nil {
				return nil, nil, fmt.Errorf("read what passed: element %s: %w", e, err)
			}
			into[pair.Concat[0]] = append(into[pair.Concat[0]], int(pair.Concat[1]))
		}
	}
	return in, out, nil
}
