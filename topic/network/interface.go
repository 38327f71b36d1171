package network

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"headroom/host"
	"headroom/metric"
)

func ofInterface(name, unit, help string, field int) *metric.Def {
	return &metric.Def{Name: name, Unit: unit, Kind: metric.Counter, Labels: []string{"interface"}, Help: help, Source: fmt.Sprintf("/proc/net/dev figure %d", field+1)}
}

// interfaceFigures are the counters of each interface, by their place after
// its name in /proc/net/dev.
var interfaceFigures = []struct {
	field int
	def   *metric.Def
}{
	{0, ofInterface("host_network_receive_bytes_total", metric.Bytes, "Bytes received.", 0)},
	{1, ofInterface("host_network_receive_packets_total", metric.Count, "Packets received.", 1)},
	{2, ofInterface("host_network_receive_errors_total", metric.Count, "Packets received with an error.", 2)},
	{3, ofInterface("host_network_receive_drops_total", metric.Count, "Packets received that the kernel dropped.", 3)},
	{8, ofInterface("host_network_transmit_bytes_total", metric.Bytes, "Bytes sent.", 8)},
	{9, ofInterface("host_network_transmit_packets_total", metric.Count, "Packets sent.", 9)},
	{10, ofInterface("host_network_transmit_errors_total", metric.Count, "Packets that could not be sent.", 10)},
	{11, ofInterface("host_network_transmit_drops_total", metric.Count, "Packets dropped before they were sent.", 11)},
}

var (
	up = &metric.Def{Name: "host_network_up", Unit: metric.Count, Kind: metric.Gauge, Labels: []string{"interface"},
		Help: "1 if the interface carries traffic, 0 if its line is down.", Source: "/sys/class/net/*/carrier"}
	speed = &metric.Def{Name: "host_network_speed_bytes", Unit: metric.Bytes, Kind: metric.Gauge, Labels: []string{"interface"},
		Help: "What the line carries per second in each direction.", Source: "/sys/class/net/*/speed"}
)

func interfaceDefs() []*metric.Def {
	var out []*metric.Def
	for _, f := range interfaceFigures {
		out = append(out, f.def)
	}
	return append(out, up, speed)
}

// maxInterfaces bounds the series of one machine.
const maxInterfaces = 64

// passed are interfaces with random names, one for each container.
var passed = []string{"veth", "cali", "lxc", "tap"}

// line is the state of an interface, read anew every half minute.
type line struct {
	speed float64 // bytes per second; 0 where it does not tell
	up    float64
	known bool
}

type lines struct {
	at time.Time
	of map[string]line
}

var interfaceCollector = &metric.Collector{
	Name: "network.interface", Doc: "bytes, packets, errors and drops of each interface", Of: metric.Host, Fast: true, Defs: interfaceDefs(),
	Collect: func(_ context.Context, r host.Reader, out *metric.Out) error {
		b, err := r.ReadFile("/proc/net/dev")
		if err != nil {
			return err
		}
		kept := metric.Kept[lines](out)
		if d := out.At.Sub(kept.at); kept.of == nil || d < 0 || d >= 30*time.Second {
			kept.at, kept.of = out.At, map[string]line{}
		}
		given := 0
		for text := range strings.Lines(string(b)) {
			name, v, ok := parseInterface(text)
			if !ok || hasPrefix(name, passed) {
				continue
			}
			if given++; given > maxInterfaces {
				out.Gap(fmt.Sprintf("there are more than %d interfaces: the rest is left out", maxInterfaces), "")
				break
			}
			for _, f := range interfaceFigures {
				out.Add(f.def, v[f.field], name)
			}
			giveLine(r, out, kept.of, name)
		}
		return nil
	},
}

// parseInterface reads "eth0: 1 2 …", 16 figures.
func parseInterface(text string) (name string, v [16]float64, ok bool) {
	name, rest, ok := strings.Cut(text, ":")
	f := strings.Fields(rest)
	if !ok || len(f) < len(v) {
		return "", v, false
	}
	for i := range v {
		n, err := strconv.ParseUint(f[i], 10, 64)
		if err != nil {
			return "", v, false
		}
		v[i] = float64(n)
	}
	return strings.TrimSpace(name), v, true
}

// giveLine adds what the line is. The loopback has none; virtual ones may have
// no speed, which is no fault.
func giveLine(r host.Reader, out *metric.Out, of map[string]line, name string) {
	if name == "lo" {
		return
	}
	l, ok := of[name]
	if !ok {
		l = readLine(r, name)
		of[name] = l
	}
	if l.known {
		out.Add(up, l.up, name)
	}
	if l.speed > 0 {
		out.Add(speed, l.speed, name)
	}
}

func readLine(r host.Reader, name string) (l line) {
	dir := "/sys/class/net/" + name
	if b, err := r.ReadFile(dir + "/carrier"); err == nil { // an interface that is switched off refuses
		l.known = true
		if strings.TrimSpace(string(b)) == "1" {
			l.up = 1
		}
	} else if b, err := r.ReadFile(dir + "/operstate"); err == nil {
		l.known = strings.TrimSpace(string(b)) == "down"
	}
	if b, err := r.ReadFile(dir + "/speed"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 32); err == nil && n > 0 {
			l.speed = float64(n) * 1e6 / 8 // megabits
		}
	}
	return l
}

func hasPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}
