package network

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"headroom/fail"
	"headroom/host"
	"headroom/metric"
	"headroom/probe/proc"
)

var (
	tracked = &metric.Def{Name: "host_conntrack_entries", Unit: metric.Count, Kind: metric.Gauge,
		Help: "Connections in the firewall's connection tracking table.", Source: "/proc/sys/net/netfilter/nf_conntrack_count"}
	trackLimit = &metric.Def{Name: "host_conntrack_entries_limit", Unit: metric.Count, Kind: metric.Gauge,
		Help: "Connections that the table takes; packets of further ones are dropped.", Source: "/proc/sys/net/netfilter/nf_conntrack_max"}
	trackDrops = &metric.Def{Name: "host_conntrack_drops_total", Unit: metric.Count, Kind: metric.Counter,
		Help: "Packets dropped because the table was full or had no room.", Source: "/proc/net/stat/nf_conntrack drop"}
	trackEarly = &metric.Def{Name: "host_conntrack_early_drops_total", Unit: metric.Count, Kind: metric.Counter,
		Help: "Connections thrown out of the table to make room.", Source: "/proc/net/stat/nf_conntrack early_drop"}
	trackFailed = &metric.Def{Name: "host_conntrack_insert_failures_total", Unit: metric.Count, Kind: metric.Counter,
		Help: "Connections that could not be put into the table.", Source: "/proc/net/stat/nf_conntrack insert_failed"}
)

var conntrackCollector = &metric.Collector{
	Name: "network.conntrack", Doc: "the firewall's connection tracking table against its limit", Of: metric.Host,
	Defs: []*metric.Def{tracked, trackLimit, trackDrops, trackEarly, trackFailed},
	Collect: func(_ context.Context, r host.Reader, out *metric.Out) error {
		const count, limit = "/proc/sys/net/netfilter/nf_conntrack_count", "/proc/sys/net/netfilter/nf_conntrack_max"
		v := proc.ReadNumbers(r, count, limit)
		if len(v) == 0 {
			return fmt.Errorf("read the connection tracking table: the module nf_conntrack is %w: no firewall here tracks connections", fail.ErrAbsent)
		}
		v.Give(out, "/proc/sys/net/netfilter", []proc.Figure{{Def: tracked, Key: count}, {Def: trackLimit, Key: limit}})
		sum, err := trackStat(r)
		if err != nil {
			out.Gap(err.Error(), "", trackDrops, trackEarly, trackFailed)
			return nil
		}
		sum.Give(out, "/proc/net/stat/nf_conntrack", []proc.Figure{{Def: trackDrops, Key: "drop"}, {Def: trackEarly, Key: "early_drop"}, {Def: trackFailed, Key: "insert_failed"}})
		return nil
	},
}

// trackStat sums the lines of all CPUs; figures are in hex under their names.
func trackStat(r host.Reader) (proc.Values, error) {
	b, err := r.ReadFile("/proc/net/stat/nf_conntrack")
	if err != nil {
		return nil, err
	}
	var head []string
	sum := proc.Values{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if head == nil {
			head = f
			continue
		}
		for i := range min(len(f), len(head)) {
			if n, err := strconv.ParseUint(f[i], 16, 64); err == nil {
				sum[head[i]] += float64(n)
			}
		}
	}
	return sum, nil
}
