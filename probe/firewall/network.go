package firewall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"headroom/fact"
	"headroom/fail"
	"headroom/host"
)

// Network is what the rules stand between: devices, routes, the sizes of
// packets on them, and the kernel's own checks of packets.
type Network struct {
	Devices []Device `json:"devices" src:"ip -j addr" doc:"network devices that are up"`
	Routes  []Route  `json:"routes" src:"ip -j route show table all" doc:"default routes, and routes with an MTU of their own"`
	Learned []Route  `json:"learned" src:"ip -j route show cache" doc:"destinations whose path was found to take smaller packets than the device"`

	ReversePath map[string]int64 `json:"rp_filter" unit:"count" src:"/proc/sys/net/ipv4/conf/*/rp_filter" doc:"0: sources are not checked, 1: must come from where the answer goes, 2: must be reachable at all; the larger of all's and the device's counts"`
	SynCookies  fact.Opt[int64]  `json:"tcp_syncookies" unit:"count" src:"/proc/sys/net/ipv4/tcp_syncookies" doc:"1: answers SYNs without memory when the queue is full"`
	Probing     fact.Opt[int64]  `json:"tcp_mtu_probing" unit:"count" src:"/proc/sys/net/ipv4/tcp_mtu_probing" doc:"1: TCP finds out by itself that large packets vanish"`
	Forwards    fact.Opt[int64]  `json:"ip_forward" unit:"count" src:"/proc/sys/net/ipv4/ip_forward" doc:"1: passes packets of others on"`
	Forwards6   fact.Opt[int64]  `json:"ipv6_forwarding" unit:"count" src:"/proc/sys/net/ipv6/conf/all/forwarding" doc:"the same for IPv6"`

	UDPPorts   fact.Opt[[]int64] `json:"udp_ports" unit:"count" src:"/proc/net/udp, /proc/net/udp6" doc:"UDP ports below 32768 that are open for other hosts"`
	Datagrams  fact.Opt[int64]   `json:"udp_datagrams" unit:"count" src:"/proc/net/snmp Udp InDatagrams" doc:"UDP datagrams received since boot"`
	Received   fact.Opt[int64]   `json:"ip_received" unit:"count" src:"/proc/net/snmp Ip InReceives" doc:"IPv4 packets received since boot, loopback too"`
	Uptime     fact.Opt[float64] `json:"uptime" unit:"seconds" src:"/proc/uptime" doc:"since boot"`
	CookiesOut fact.Opt[int64]   `json:"syncookies_sent" unit:"count" src:"/proc/net/netstat TcpExt SyncookiesSent" doc:"SYN cookies sent since boot"`
	Overflows  fact.Opt[int64]   `json:"listen_overflows" unit:"count" src:"/proc/net/netstat TcpExt ListenOverflows" doc:"connections refused because a program did not take them fast enough, since boot"`
	Unrouted   fact.Opt[int64]   `json:"reverse_path_drops" unit:"count" src:"/proc/net/netstat TcpExt IPReversePathFilter" doc:"packets dropped by rp_filter since boot"`
}

// Device is a network device that is up.
type Device struct {
	Name  string   `json:"name" src:"ip -j addr" doc:"its name"`
	MTU   int64    `json:"mtu" unit:"bytes" src:"ip -j addr" doc:"the largest packet that it takes"`
	Kind  string   `json:"kind" src:"ip -j addr" doc:"loopback, ether, none …"`
	Addrs []string `json:"addrs" src:"ip -j addr" doc:"its addresses, without those of link scope"`
}

// Route is a route, or what the kernel learned of a path.
type Route struct {
	To     string `json:"to" src:"ip -j route" doc:"a prefix or an address; 0.0.0.0/0 or ::/0 for the default route"`
	V6     bool   `json:"ipv6" src:"ip -j route" doc:"whether it is of IPv6"`
	Device string `json:"device" src:"ip -j route" doc:"where it leads out"`
	MTU    int64  `json:"mtu,omitempty" unit:"bytes" src:"ip -j route" doc:"the largest packet on it; 0: as the device"`
}

// Default says whether it is a default route.
func (r Route) Default() bool { return r.To == "0.0.0.0/0" || r.To == "::/0" }

// Around is the fact "firewall.network".
var Around = &fact.Source[Network]{
	Name: "firewall.network", Doc: "devices, routes and packet sizes around the rules, and the kernel's own checks",
	Read: func(ctx context.Context, in *fact.In) (Network, error) { return ReadNetwork(ctx, in) },
}

// ReadNetwork reads it. Without the program ip nothing can be told.
func ReadNetwork(ctx context.Context, r host.Reader) (Network, error) {
	var n Network
	if err := n.devices(ctx, r); err != nil {
		return n, err
	}
	var err error
	if n.Routes, err = routes(ctx, r, "ip", "-j", "route", "show", "table", "all"); err != nil {
		return n, err
	}
	n.Routes = slices.DeleteFunc(n.Routes, func(x Route) bool { return !x.Default() && x.MTU == 0 })
	for _, argv := range [][]string{{"ip", "-j", "route", "show", "cache"}, {"ip", "-j", "-6", "route", "show", "cache"}} {
		more, err := routes(ctx, r, argv...)
		if err != nil {
			return n, err
		}
		n.Learned = append(n.Learned, slices.DeleteFunc(more, func(x Route) bool { return x.MTU == 0 })...)
	}
	n.settings(r)
	n.counters(r)
	return n, nil
}

func listed[T any](ctx context.Context, r host.Reader, argv ...string) (out []T, err error) {
	b, err := r.Look(ctx, argv...)
	if errors.Is(err, fail.ErrAbsent) {
		return nil, fail.Hint(fmt.Errorf("list devices and routes: no program ip: %w", fail.ErrAbsent), "apt-get install iproute2")
	}
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(string(b)) == "" {
		return nil, nil
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("read what %s wrote: %w", strings.Join(argv, " "), err)
	}
	return out, nil
}

func (n *Network) devices(ctx context.Context, r host.Reader) error {
	list, err := listed[struct {
		IfName   string   `json:"ifname"`
		Flags    []string `json:"flags"`
		MTU      int64    `json:"mtu"`
		LinkType string   `json:"link_type"`
		AddrInfo []struct {
			Local     string `json:"local"`
			PrefixLen int    `json:"prefixlen"`
			Scope     string `json:"scope"`
		} `json:"addr_info"`
	}](ctx, r, "ip", "-j", "addr")
	if err != nil {
		return err
	}
	for _, l := range list {
		if !slices.Contains(l.Flags, "UP") {
			continue
		}
		d := Device{Name: l.IfName, MTU: l.MTU, Kind: l.LinkType}
		for _, a := range l.AddrInfo {
			if a.Scope != "link" {
				d.Addrs = append(d.Addrs, a.Local+"/"+strconv.Itoa(a.PrefixLen))
			}
		}
		n.Devices = append(n.Devices, d)
	}
	return nil
}

func routes(ctx context.Context, r host.Reader, argv ...string) (out []Route, err error) {
	list, err := listed[struct {
		Dst     string `json:"dst"`
		Dev     string `json:"dev"`
		Gateway string `json:"gateway"`
		Type    string `json:"type"`
		Pref    string `json:"pref"`
		Metrics []struct {
			MTU int64 `json:"mtu"`
		} `json:"metrics"`
		MTU      int64 `json:"mtu"`
		NextHops []struct {
			Gateway string `json:"gateway"`
			Dev     string `json:"dev"`
		} `json:"nexthops"`
	}](ctx, r, argv...)
	if err != nil {
		return nil, err
	}
	for _, l := range list {
		if l.Type != "" && l.Type != "unicast" {
			continue
		}
		x := Route{To: l.Dst, Device: l.Dev, MTU: l.MTU, V6: strings.Contains(l.Dst+l.Gateway, ":") || l.Pref != ""}
		for _, m := range l.Metrics {
			x.MTU = max(x.MTU, m.MTU)
		}
		for _, hop := range l.NextHops {
			x.V6 = x.V6 || strings.Contains(hop.Gateway, ":")
		}
		if x.To == "default" {
			x.To = map[bool]string{false: "0.0.0.0/0", true: "::/0"}[x.V6]
		}
		if len(l.NextHops) == 0 {
			out = append(out, x)
		}
		for _, hop := range l.NextHops { // several ways at once
			x.Device = hop.Dev
			out = append(out, x)
		}
	}
	return out, nil
}

func (n *Network) settings(r host.Reader) {
	n.SynCookies = number(r, "/proc/sys/net/ipv4/tcp_syncookies")
	n.Probing = number(r, "/proc/sys/net/ipv4/tcp_mtu_probing")
	n.Forwards = number(r, "/proc/sys/net/ipv4/ip_forward")
	n.Forwards6 = number(r, "/proc/sys/net/ipv6/conf/all/forwarding")
	n.ReversePath = map[string]int64{}
	for _, name := range append([]string{"all"}, n.names()...) {
		if v := number(r, "/proc/sys/net/ipv4/conf/"+strings.ReplaceAll(name, "/", ".")+"/rp_filter"); v.OK() {
			n.ReversePath[name] = v.Value
		}
	}
}

func (n *Network) names() (out []string) {
	for _, d := range n.Devices {
		out = append(out, d.Name)
	}
	return out
}

// counters reads what the kernel counted, of this network namespace.
func (n *Network) counters(r host.Reader) {
	table := map[string]fact.Opt[int64]{}
	for _, file := range []string{"/proc/net/snmp", "/proc/net/netstat"} {
		readTable(r, file, table)
	}
	get := func(file, key string) fact.Opt[int64] {
		if v, ok := table[key]; ok {
			return v
		}
		if v, ok := table[file]; ok {
			return v
		}
		return fact.Unknown[int64](file + " does not show " + key)
	}
	n.Datagrams, n.Received = get("/proc/net/snmp", "Udp InDatagrams"), get("/proc/net/snmp", "Ip InReceives")
	n.CookiesOut, n.Overflows = get("/proc/net/netstat", "TcpExt SyncookiesSent"), get("/proc/net/netstat", "TcpExt ListenOverflows")
	n.Unrouted = get("/proc/net/netstat", "TcpExt IPReversePathFilter")
	n.UDPPorts = udpPorts(r)
	n.Uptime = fact.Unknown[float64]("/proc/uptime cannot be read")
	if b, err := r.ReadFile("/proc/uptime"); err == nil {
		first, _, _ := strings.Cut(string(b), " ")
		if f, err := strconv.ParseFloat(first, 64); err == nil && f > 0 && f < 1e12 {
			n.Uptime = fact.Known(f)
		}
	}
}

// readTable reads pairs of lines "Tcp: Name …" and "Tcp: figure …".
func readTable(r host.Reader, file string, into map[string]fact.Opt[int64]) {
	b, err := r.ReadFile(file)
	if err != nil {
		into[file] = fact.Unknown[int64](err.Error())
		return
	}
	var head []string
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) == 0 || len(head) == 0 || head[0] != f[0] {
			head = f
			continue
		}
		for i := 1; i < min(len(f), len(head)); i++ {
			if v, err := strconv.ParseInt(f[i], 10, 64); err == nil {
				into[strings.TrimSuffix(f[0], ":")+" "+head[i]] = fact.Known(v)
			}
		}
		head = nil
	}
}

// ephemeral is the first port that the kernel gives to clients.
const ephemeral = 32768

// udpPorts are the ports of sockets that are bound to more than loopback and
// not connected to one peer.
func udpPorts(r host.Reader) fact.Opt[[]int64] {
	ports := []int64{}
	for _, file := range []string{"/proc/net/udp", "/proc/net/udp6"} {
		b, err := r.ReadFile(file)
		if errors.Is(err, fail.ErrAbsent) && file == "/proc/net/udp6" {
			continue
		}
		if err != nil {
			return fact.Unknown[[]int64](err.Error())
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) < 3 || f[0] == "sl" {
				continue
			}
			addr, port, _ := strings.Cut(f[1], ":")
			_, peer, _ := strings.Cut(f[2], ":")
			n, err := strconv.ParseInt(port, 16, 32)
			if err != nil || peer != "0000" || n >= ephemeral || loopbackHex(addr) {
				continue
			}
			ports = append(ports, n)
		}
	}
	slices.Sort(ports)
	return fact.Known(slices.Compact(ports))
}

// loopbackHex says whether an address of /proc/net/udp is of the loopback: each
// four bytes are written in the order of a little-endian machine.
func loopbackHex(s string) bool {
	return len(s) == 8 && strings.HasSuffix(s, "7F") || s == "00000000000000000000000001000000"
}

// Default is the device of the default route of a family; "" if there is none.
func (n Network) Default(v6 bool) string {
	for _, r := range n.Routes {
		if r.Default() && r.V6 == v6 {
			return r.Device
		}
	}
	return ""
}

// Device finds a device that is up by its name.
func (n Network) Device(name string) (Device, bool) {
	for _, d := range n.Devices {
		if d.Name == name {
			return d, true
		}
	}
	return Device{}, false
}

// Address is the first address of a family that a device outside of the
// loopback has; ok is false if there is none. Of IPv6 those that lead beyond
// the site go before those that do not (fc00::/7).
func (n Network) Address(v6 bool) (a netip.Addr, device string, ok bool) {
	for _, d := range n.Devices {
		if d.Kind == "loopback" {
			continue
		}
		for _, s := range d.Addrs {
			p, err := netip.ParsePrefix(s)
			if err != nil || p.Addr().Is6() != v6 {
				continue
			}
			if !ok || a.IsPrivate() && !p.Addr().IsPrivate() {
				a, device, ok = p.Addr(), d.Name, true
			}
		}
	}
	return a, device, ok
}
