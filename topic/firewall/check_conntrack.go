package firewall

import (
	"fmt"

	"headroom/check"
	"headroom/fact"
	"headroom/probe/firewall"
	"headroom/unit"
)

const netfilter = "/proc/sys/net/netfilter/nf_conntrack_"

func count(n int64) string { return unit.Format(float64(n), unit.Count) }

// cite is evidence from a figure that is known.
func cite(name string, v fact.Opt[int64], u unit.Unit, source string) []check.Cite {
	if !v.OK() {
		return nil
	}
	return []check.Cite{{Name: name, Value: v.Value, Unit: u, Source: source}}
}

// drops is the evidence of packets lost to the table.
func drops(c firewall.Conntrack) (out []check.Cite) {
	const from = "/proc/net/stat/nf_conntrack"
	out = append(out, cite("packets dropped because they could not be tracked, since boot", c.Drops, unit.Count, from+" drop")...)
	out = append(out, cite("connections thrown out to make room, since boot", c.EarlyDrops, unit.Count, from+" early_drop")...)
	return append(out, cite("connections that could not be put in, since boot", c.InsertFailures, unit.Count, from+" insert_failed")...)
}

// entryBytes is what one tracked connection takes: 256 bytes of the slab and
// its part of the extensions and buckets, rounded up.
const entryBytes = 320

// room is how to give the table n entries, and what that costs.
func room(n int64) string {
	return fmt.Sprintf("sysctl -w net.netfilter.nf_conntrack_max=%d net.netfilter.nf_conntrack_buckets=%d takes up to %s of memory when full; a file in /etc/sysctl.d keeps it over a boot.", n, n, unit.Bytes(n*entryBytes))
}

var trackUse = &check.Check{
	Name: "firewall.conntrack-use",
	Doc: check.Doc{
		Title: "The connection tracking table is nearly full",
		Why: "When the table is full, the first packet of every new connection is dropped, whatever the rules say: the server is off the air for newcomers while it is idle otherwise. " +
			"Busy DNS servers came there without any attack (S7).",
		Evidence: "nf_conntrack_count against nf_conntrack_max, and the kernel's counters of drops. Fires from 70 % up, or if packets could not be tracked since boot: warning; from 90 % up: danger.",
		Fix:      "Track less (firewall.stateless), let dead entries go sooner, or a larger table: net.netfilter.nf_conntrack_max with as many nf_conntrack_buckets.",
		Risk:     "A larger table takes memory: some 320 bytes for each connection.",
		Undo:     "Set the old figure again with sysctl -w; entries above it stay until they time out.",
		Sources:  []string{"S7", "Documentation/networking/nf_conntrack-sysctl.rst"},
	},
	Needs: []fact.Any{firewall.Tracked},
	Quiet: []string{"firewall.table-full"},
	Run: func(s *fact.Set, out *check.Report) {
		c := fact.Get(s, firewall.Tracked)
		switch {
		case !c.Loaded:
			return
		case !c.Count.OK():
			out.Unknown("connection tracking", c.Count.Because)
			return
		case !c.Max.OK() || c.Max.Value <= 0:
			out.Unknown("connection tracking", "its limit is not known: "+c.Max.Because)
			return
		}
		share := float64(c.Count.Value) / float64(c.Max.Value)
		lost := c.Drops.OK() && c.Drops.Value > 0
		if share < 0.7 && !lost {
			if !c.Drops.OK() {
				out.Unknown("drops of connection tracking", c.Drops.Because)
			}
			return
		}
		f := check.Finding{
			Subject: "connection tracking", Severity: check.Warning, Basis: check.Measured, Worth: share,
			Summary: fmt.Sprintf("The table holds %s of %s connections (%.0f %%); when it is full, every new connection is dropped.", count(c.Count.Value), count(c.Max.Value), 100*share),
			Hint:    room(4 * c.Max.Value),
			Evidence: append([]check.Cite{
				{Name: "nf_conntrack_count", Value: c.Count.Value, Unit: unit.Count, Source: netfilter + "count"},
				{Name: "nf_conntrack_max", Value: c.Max.Value, Unit: unit.Count, Source: netfilter + "max"}}, drops(c)...),
		}
		if share >= 0.9 {
			f.Severity = check.Danger
		}
		if lost {
			f.Worth = max(share, 0.5)
			f.Summary = fmt.Sprintf("The kernel dropped %s packets since boot because it could not track them; the table now holds %s of %s connections.", count(c.Drops.Value), count(c.Count.Value), count(c.Max.Value))
		}
		out.Found(f)
	},
}

var tableFull = &check.Check{
	Name: "firewall.table-full",
	Doc: check.Doc{
		Title:    "The kernel told of a full connection tracking table",
		Why:      "\"nf_conntrack: table full, dropping packet\" means that new connections were refused although the rules allow them. The kernel writes a few of these lines a second at most, so each stands for many packets.",
		Evidence: "The kernel's log, as far back as its buffer reaches: danger if the line is there.",
		Fix:      "Track less (firewall.stateless), shorter time-outs, or a larger table.",
		Risk:     "A larger table takes memory: some 320 bytes for each connection.",
		Undo:     "Set the old figure again with sysctl -w.",
		Sources:  []string{"S7", "net/netfilter/nf_conntrack_core.c"},
	},
	Needs: []fact.Any{firewall.Told, firewall.Tracked},
	Run: func(s *fact.Set, out *check.Report) {
		k, c := fact.Get(s, firewall.Told), fact.Get(s, firewall.Tracked)
		if k.Full == 0 {
			return
		}
		f := check.Finding{
			Subject: "connection tracking", Severity: check.Danger, Basis: check.Measured, Worth: 1,
			Summary: fmt.Sprintf("The kernel told %s times that the connection tracking table was full and packets were dropped, the last time %s before its newest line.", count(k.Full), unit.Seconds(k.Ends-k.Last)),
			Evidence: append([]check.Cite{
				{Name: "lines \"table full, dropping packet\"", Value: k.Full, Unit: unit.Count, Source: "dmesg"},
				{Name: "the first came, after boot", Value: k.First, Unit: unit.Second, Source: "dmesg"},
				{Name: "the last came, after boot", Value: k.Last, Unit: unit.Second, Source: "dmesg"},
				{Name: "the log reaches back to, after boot", Value: k.Begins, Unit: unit.Second, Source: "dmesg"}}, drops(c)...),
		}
		if k.Skipped > 0 {
			f.Evidence = append(f.Evidence, check.Cite{Name: "further network messages that it kept back", Value: k.Skipped, Unit: unit.Count, Source: "dmesg, callbacks suppressed"})
		}
		if c.Max.OK() && c.Max.Value > 0 {
			f.Hint = room(4 * c.Max.Value)
		}
		out.Found(f)
	},
}

// day is what a silent TCP connection may be kept for without a finding, in seconds.
const day = 24 * 3600

var trackTimeouts = &check.Check{
	Name: "firewall.conntrack-timeouts",
	Doc: check.Doc{
		Title: "Dead connections stay in the tracking table for days",
		Why: "The kernel keeps a TCP connection that says nothing for 5 days. Where clients vanish without a farewell (mobile ones, scanners, a restarted balancer), the table fills with connections that are long gone. " +
			"Long time-outs of UDP do the same, and make a flood cheaper: entries must only arrive faster than they leave.",
		Evidence: "nf_conntrack_tcp_timeout_established above one day with the table a quarter full or more; nf_conntrack_udp_timeout above 60 s, or nf_conntrack_udp_timeout_stream above 300 s, at any fill.",
		Fix:      "sysctl net.netfilter.nf_conntrack_tcp_timeout_established=7440 (the 2 hours 4 minutes of RFC 5382); 30 and 120 for UDP.",
		Risk:     "A connection that is silent for longer than that without TCP keep-alives is cut: look for such (database sessions kept by pools) first.",
		Undo:     "Set the old figure again with sysctl -w.",
		Sources:  []string{"S7", "RFC 5382", "Documentation/networking/nf_conntrack-sysctl.rst"},
	},
	Needs: []fact.Any{firewall.Tracked},
	Run:   runTimeouts,
}

func runTimeouts(s *fact.Set, out *check.Report) {
	c := fact.Get(s, firewall.Tracked)
	if !c.Loaded {
		return
	}
	quarter := c.Count.OK() && c.Max.OK() && 4*c.Count.Value >= c.Max.Value
	for _, x := range []struct {
		name, what  string
		v           fact.Opt[int64]
		limit, good int64
		fires       bool
	}{
		{"tcp_timeout_established", "a TCP connection that says nothing", c.Established, day, 7440, quarter},
		{"udp_timeout", "a UDP packet without an answer", c.UDP, 60, 30, true},
		{"udp_timeout_stream", "a UDP exchange", c.UDPStream, 300, 120, true},
	} {
		if !x.v.OK() {
			out.Unknown(x.name, x.v.Because)
			continue
		}
		if x.v.Value <= x.limit || !x.fires {
			continue
		}
		out.Found(check.Finding{
			Subject: "connection tracking", Severity: check.Advice, Basis: check.ByRule, Worth: 0.2,
			Summary:  fmt.Sprintf("The table keeps %s for %s; %s is enough and lets dead entries go.", x.what, unit.Seconds(float64(x.v.Value)), unit.Seconds(float64(x.good))),
			Hint:     fmt.Sprintf("sysctl -w net.netfilter.nf_conntrack_%s=%d, unless connections here are silent for longer than that without keep-alives.", x.name, x.good),
			Evidence: append(cite(x.name, x.v, unit.Second, netfilter+x.name), append(cite("nf_conntrack_count", c.Count, unit.Count, netfilter+"count"), cite("nf_conntrack_max", c.Max, unit.Count, netfilter+"max")...)...),
		})
	}
}

var trackBuckets = &check.Check{
	Name: "firewall.conntrack-buckets",
	Doc: check.Doc{
		Title:    "Too few lists for the connections that the tracking table may hold",
		Why:      "Each packet's connection is looked for in one list of a hash table. With 8 connections for each list the search of a full table passes 8 entries, each a miss of the CPU's cache; kernels before 5.15 set 4 by default, and raising nf_conntrack_max alone makes it worse.",
		Evidence: "nf_conntrack_max divided by nf_conntrack_buckets: fires above 4.",
		Fix:      "sysctl net.netfilter.nf_conntrack_buckets to the value of nf_conntrack_max.",
		Risk:     "8 bytes of memory for each list; the table is rehashed at once, which takes some milliseconds.",
		Undo:     "Set the old figure again with sysctl -w.",
		Sources:  []string{"S7", "Documentation/networking/nf_conntrack-sysctl.rst"},
	},
	Needs: []fact.Any{firewall.Tracked},
	Run: func(s *fact.Set, out *check.Report) {
		c := fact.Get(s, firewall.Tracked)
		switch {
		case !c.Loaded:
			return
		case !c.Max.OK():
			out.Unknown("connection tracking", c.Max.Because)
			return
		case !c.Buckets.OK() || c.Buckets.Value <= 0:
			out.Unknown("connection tracking", "its buckets are not known: "+c.Buckets.Because)
			return
		}
		ratio := float64(c.Max.Value) / float64(c.Buckets.Value)
		if ratio <= 4 {
			return
		}
		now := "."
		if c.Count.OK() {
			now = fmt.Sprintf(", now %.1f.", float64(c.Count.Value)/float64(c.Buckets.Value))
		}
		out.Found(check.Finding{
			Subject: "connection tracking", Severity: check.Advice, Basis: check.ByRule, Worth: min(0.5, ratio/100),
			Summary:  fmt.Sprintf("A full table has %.1f connections in each of its %s lists%s Every packet searches one of them.", ratio, count(c.Buckets.Value), now),
			Hint:     fmt.Sprintf("sysctl -w net.netfilter.nf_conntrack_buckets=%d takes %s of memory.", c.Max.Value, unit.Bytes(8*c.Max.Value)),
			Evidence: append(cite("nf_conntrack_max", c.Max, unit.Count, netfilter+"max"), cite("nf_conntrack_buckets", c.Buckets, unit.Count, netfilter+"buckets")...),
		})
	},
}
