// Command firewall measures what rules cost (lab firewall, on the loopback and
// on a wire) and how fast packets are made, beside trafgen and xdp-trafficgen,
// which take turns with ours. It writes all rounds and the goals to a file.
// Root only; netsniff-ng, xdp-tools, nftables, iptables and ipset are its peers.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"time"

	"headroom/lab"
	"headroom/stats"
	"headroom/topic/firewall"
	"headroom/trial"
)

// goal is one figure that was promised, and what came of it.
type goal struct {
	Text   string
	Want   float64 // at least; of a time, at most
	AtMost bool
	Got    float64 // 0: not measured
	Lo, Hi float64 // interval; 0 where there is none
}

type file struct {
	Date, Go       string
	Cores          int
	Note           string `json:",omitempty"`
	Generator      generator
	Loopback, Wire *lab.Result
	Goals          []goal
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "firewall:", err)
		os.Exit(1)
	}
}

func run() error {
	rounds := flag.Int("rounds", 8, "rounds of each part")
	ms := flag.Int("ms", 250, "milliseconds of a turn of the lab")
	length := flag.Duration("for", time.Second, "length of a turn of the generators")
	part := flag.String("only", "", "generators: only these, and no result file")
	note := flag.String("note", "", "what a reader must know of this run, for the result file")
	date := flag.String("date", time.Now().UTC().Format(time.DateOnly), "date in the result file's name")
	out := flag.String("out", "", "result file (default bench/results/firewall-DATE.json; - for none)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	f := file{Date: *date, Go: runtime.Version(), Cores: runtime.NumCPU(), Note: *note}
	var err error
	if f.Generator, err = generators(ctx, *rounds, *length); err != nil {
		return err
	}
	if *part != "" {
		return json.NewEncoder(os.Stdout).Encode(f.Generator)
	}
	for _, part := range []struct {
		on string
		to **lab.Result
	}{{"loopback", &f.Loopback}, {"wire", &f.Wire}} {
		o := lab.Options{Rounds: *rounds, Budget: 4 * time.Minute, Params: map[string]string{"on": part.on, "ms": fmt.Sprint(*ms)}}
		if *part.to, err = lab.Run(ctx, firewall.Cost, o, lab.Env{Version: "bench"}, progress()); err != nil {
			return err
		}
	}
	f.Goals = f.judge()
	for _, g := range f.Goals {
		fmt.Printf("%-70s want %g, got %.3g (%.3g to %.3g)\n", g.Text, g.Want, g.Got, g.Lo, g.Hi)
	}
	if *out == "-" {
		return nil
	}
	if *out == "" {
		*out = "bench/results/firewall-" + *date + ".json"
	}
	text, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(*out, append(text, '\n'), 0o644)
}

// progress prints what is being done, once for each arm of the first round.
func progress() func(trial.Event) {
	last := ""
	return func(e trial.Event) {
		if line := fmt.Sprintf("%s, block %d", e.Phase, e.Block); line != last {
			last = line
			fmt.Fprintln(os.Stderr, line)
		}
	}
}

// judge holds the figures against the goals.
func (f *file) judge() []goal {
	out := []goal{
		{Text: "our generator by the best of trafgen, packets of one core", Want: 3},
		{Text: "our generator by xdp-trafficgen, packets of one core", Want: 1},
	}
	out[0].take(f.Generator.best(ours, trafgens...))
	out[1].take(f.Generator.best(ours, xdpTrafficgen))
	for _, p := range []struct {
		text      string
		want      float64
		of        *lab.Result
		arm, over string
	}{
		{"loopback: dropping in raw by accepting with tracking", 2, f.Loopback, "drop, iptables raw", "accept, tracked"},
		{"loopback: accepting without tracking by with", 1.1, f.Loopback, "accept, not tracked", "accept, tracked"},
		{"loopback: an ipset of 65 k by a bare drop", 0.85, f.Loopback, "drop, ipset of 65 k", "drop, iptables raw"},
		{"wire: dropping in XDP by iptables raw", 3, f.Wire, "drop, XDP", "drop, iptables raw"},
		{"wire: our XDP filter by xdp-filter, both with 1 address", 0.95, f.Wire, "drop, XDP hash of 1", "drop, xdp-filter"},
		{"wire: an ipset of 1 M by one of 1", 0.85, f.Wire, "drop, ipset of 1 M", "drop, ipset of 1"},
		{"wire: an nft set of 1 M by one of 1", 0.85, f.Wire, "drop, nft set of 1 M", "drop, nft set of 1"},
		{"loopback: an ipset of 1 M by one of 1", 0.85, f.Loopback, "drop, ipset of 1 M", "drop, ipset of 1"},
		{"loopback: an nft set of 1 M by one of 1", 0.85, f.Loopback, "drop, nft set of 1 M", "drop, nft set of 1"},
	} {
		g := goal{Text: p.text, Want: p.want}
		g.take(between(p.of, p.arm, p.over))
		out = append(out, g)
	}
	for _, arm := range []string{"drop, ipset of 1 M", "drop, nft set of 1 M", "drop, XDP hash of 1 M", "drop, XDP lpm of 1 M", "drop, XDP range of 1 M"} {
		g := goal{Text: "seconds to load: " + arm, Want: 5, AtMost: true}
		for _, a := range f.Wire.Arms {
			if s, ok := a.Figures["load_seconds"]; ok && a.Name == arm {
				g.Got = s.Median.Center
			}
		}
		out = append(out, g)
	}
	return out
}

func (g *goal) take(c stats.Comparison, ok bool) {
	if ok {
		g.Got = c.Ratio.Center
	}
	if ok && !math.IsInf(c.Ratio.Hi, 0) { // some rounds are too few for an interval
		g.Lo, g.Hi = c.Ratio.Lo, c.Ratio.Hi
	}
}

const level = 0.95

// between compares two arms of a lab, round by round.
func between(r *lab.Result, arm, over string) (stats.Comparison, bool) {
	at := func(name string) []float64 {
		for i, a := range r.Arms {
			if a.Name == name {
				return r.Counted(i, "per_core")
			}
		}
		return nil
	}
	return ratio(at(arm), at(over))
}

func ratio(a, b []float64) (stats.Comparison, bool) {
	var pairs []stats.Pair
	for i := range min(len(a), len(b)) {
		pairs = append(pairs, stats.Pair{Base: b[i], Changed: a[i]})
	}
	if len(pairs) == 0 {
		return stats.Comparison{}, false
	}
	c, err := stats.Compare(pairs, level)
	return c, err == nil
}
