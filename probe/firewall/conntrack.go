package firewall

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"headroom/fact"
	"headroom/fail"
	"headroom/host"
)

// Conntrack is the connection tracking table and its settings.
type Conntrack struct {
	Loaded  bool            `json:"loaded" src:"/proc/sys/net/netfilter/nf_conntrack_max" doc:"whether the kernel can track connections at all"`
	Count   fact.Opt[int64] `json:"count" unit:"count" src:"/proc/sys/net/netfilter/nf_conntrack_count" doc:"connections in the table"`
	Max     fact.Opt[int64] `json:"max" unit:"count" src:"/proc/sys/net/netfilter/nf_conntrack_max" doc:"connections that it takes; packets of further ones are dropped"`
	Buckets fact.Opt[int64] `json:"buckets" unit:"count" src:"/proc/sys/net/netfilter/nf_conntrack_buckets" doc:"lists that the connections are spread over"`

	UDP         fact.Opt[int64] `json:"udp_timeout" unit:"seconds" src:"/proc/sys/net/netfilter/nf_conntrack_udp_timeout" doc:"how long a UDP packet without an answer is kept"`
	UDPStream   fact.Opt[int64] `json:"udp_timeout_stream" unit:"seconds" src:"/proc/sys/net/netfilter/nf_conntrack_udp_timeout_stream" doc:"the same with answers"`
	Established fact.Opt[int64] `json:"tcp_timeout_established" unit:"seconds" src:"/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established" doc:"how long a silent TCP connection is kept"`
	SynReceived fact.Opt[int64] `json:"tcp_timeout_syn_recv" unit:"seconds" src:"/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_syn_recv" doc:"how long a half-open TCP connection is kept"`

	Drops          fact.Opt[int64] `json:"drop" unit:"count" src:"/proc/net/stat/nf_conntrack drop" doc:"packets dropped because the table was full or had no room, since boot"`
	EarlyDrops     fact.Opt[int64] `json:"early_drop" unit:"count" src:"/proc/net/stat/nf_conntrack early_drop" doc:"connections thrown out to make room, since boot"`
	InsertFailures fact.Opt[int64] `json:"insert_failed" unit:"count" src:"/proc/net/stat/nf_conntrack insert_failed" doc:"connections that could not be put in, since boot"`
}

const sysctls = "/proc/sys/net/netfilter/nf_conntrack_"

// Tracked is the fact "firewall.conntrack".
var Tracked = &fact.Source[Conntrack]{
	Name: "firewall.conntrack", Doc: "the connection tracking table: use, limits, time-outs, drops",
	Read: func(_ context.Context, in *fact.In) (Conntrack, error) { return ReadConntrack(in) },
}

// ReadConntrack reads the table's figures. A kernel without connection tracking
// is no error: Loaded is false then.
func ReadConntrack(r host.Reader) (Conntrack, error) {
	var c Conntrack
	if _, err := r.Stat("/proc/sys/net"); err != nil {
		return c, err
	}
	if _, err := r.Stat(sysctls + "max"); errors.Is(err, fail.ErrAbsent) {
		return c, nil
	}
	c.Loaded = true
	for _, f := range []struct {
		name string
		to   *fact.Opt[int64]
	}{{"count", &c.Count}, {"max", &c.Max}, {"buckets", &c.Buckets}, {"udp_timeout", &c.UDP}, {"udp_timeout_stream", &c.UDPStream},
		{"tcp_timeout_established", &c.Established}, {"tcp_timeout_syn_recv", &c.SynReceived}} {
		*f.to = number(r, sysctls+f.name)
	}
	sum, err := Stat(r)
	for _, f := range []struct {
		name string
		to   *fact.Opt[int64]
	}{{"drop", &c.Drops}, {"early_drop", &c.EarlyDrops}, {"insert_failed", &c.InsertFailures}} {
		n, ok := sum[f.name]
		switch {
		case err != nil:
			*f.to = fact.Unknown[int64](err.Error())
		case !ok:
			*f.to = fact.Unknown[int64]("/proc/net/stat/nf_conntrack has no column " + f.name)
		default:
			*f.to = fact.Known(int64(n))
		}
	}
	return c, nil
}

// Stat sums /proc/net/stat/nf_conntrack over all CPUs, by its columns' names.
// The first column, entries, is the same for all and left out.
func Stat(r host.Reader) (map[string]uint64, error) {
	b, err := r.ReadFile("/proc/net/stat/nf_conntrack")
	if err != nil {
		return nil, err
	}
	var head []string
	sum := map[string]uint64{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if head == nil {
			head = f
			continue
		}
		for i := 1; i < min(len(f), len(head)); i++ {
			n, err := strconv.ParseUint(f[i], 16, 64)
			if err != nil {
				return nil, fmt.Errorf("read /proc/net/stat/nf_conntrack: %.20q is no figure", f[i])
			}
			sum[head[i]] += n
		}
	}
	return sum, nil
}

// number reads a file that holds a whole number.
func number(r host.Reader, file string) fact.Opt[int64] {
	b, err := r.ReadFile(file)
	if errors.Is(err, fail.ErrAbsent) {
		return fact.Unknown[int64]("this kernel has no " + path.Base(file))
	}
	if err != nil {
		return fact.Unknown[int64](err.Error())
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return fact.Unknown[int64](fmt.Sprintf("%s holds %.40q, not a whole number", file, strings.TrimSpace(string(b))))
	}
	return fact.Known(n)
}
