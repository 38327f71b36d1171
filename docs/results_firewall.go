package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"headroom/lab"
	"headroom/unit"
)

// firewallFile is a result file of bench/firewall.
type firewallFile struct {
	Cores     int
	Note      string
	Generator struct {
		Seconds float64
		Rates   map[string][]float64
		Median  map[string]float64
		Missing map[string]string
	}
	Loopback, Wire *lab.Result
	Goals          []struct {
		Text        string
		Want        float64
		AtMost      bool
		Got, Lo, Hi float64
	}
}

func firewallText(raw []byte) (string, error) {
	var r firewallFile
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "What a rule costs (`headroom lab firewall`), and how fast packets are made; %d cores, everything in namespaces, all ways in turns.\n\n", r.Cores)
	b.WriteString(r.goals())
	fmt.Fprintf(&b, "\nPackets from one core over a wire (veth), turns of %g s. XDP drops them on another core; nft, at the netdev hook, on the core that sends.\n\n", r.Generator.Seconds)
	b.WriteString(r.generators())
	for _, part := range []struct {
		what string
		of   *lab.Result
	}{
		{"On the loopback one core sends and receives, one source, one port, as in S8.", r.Loopback},
		{"On a wire one core sends frames from up to 16384 sources and another takes them in; only the second one's work counts.", r.Wire},
	} {
		if part.of != nil {
			fmt.Fprintf(&b, "\n%s %s a turn, %d rounds.\n\n%s", part.what, part.of.Params["ms"]+" ms", len(part.of.Counted(0, part.of.Primary().Name)), costTable(part.of))
			for _, s := range part.of.Skipped {
				fmt.Fprintf(&b, "\nLeft out: %s: %s\n", s.Arm, oneLine(s.Why))
			}
		}
	}
	if r.Note != "" {
		fmt.Fprintf(&b, "\n%s\n", r.Note)
	}
	return b.String(), nil
}

func (r *firewallFile) goals() string {
	var rows [][]string
	for _, g := range r.Goals {
		want, got, verdict := fmt.Sprintf("≥ %g ×", g.Want), fmt.Sprintf("%.2f ×", g.Got), "met"
		if g.Hi > 0 {
			got += fmt.Sprintf(" (%.2f–%.2f)", g.Lo, g.Hi)
		}
		if g.AtMost {
			want, got = fmt.Sprintf("≤ %g s", g.Want), unit.Seconds(g.Got)
		}
		switch {
		case g.Got == 0:
			got, verdict = "not measured", "–"
		case g.AtMost && g.Got > g.Want, !g.AtMost && g.Got < g.Want:
			verdict = "**not met**"
		}
		rows = append(rows, []string{g.Text, want, got, verdict})
	}
	return table([]string{"goal", "wanted", "measured (95 % interval)", ""}, rows)
}

func (r *firewallFile) generators() string {
	names := slices.SortedFunc(maps.Keys(r.Generator.Median), func(a, b string) int {
		return int(r.Generator.Median[b] - r.Generator.Median[a])
	})
	var rows [][]string
	for _, n := range names {
		rows = append(rows, []string{n, rates(r.Generator.Median[n]), fmt.Sprint(len(r.Generator.Rates[n]))})
	}
	out := table([]string{"generator", "packets arrived", "rounds"}, rows)
	for _, n := range slices.Sorted(maps.Keys(r.Generator.Missing)) {
		out += fmt.Sprintf("\n%s does not run here: %s\n", n, oneLine(r.Generator.Missing[n]))
	}
	return out
}

// oneLine is the first line of what a program said.
func oneLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.ReplaceAll(s, "|", `\|`)
}

// costTable has a row for each arm: figures of then, of today, and the cost.
func costTable(r *lab.Result) string {
	var rows [][]string
	for i, a := range r.Arms {
		cost, was := "", ""
		if v, ok := r.Against(a.Name); ok && i > 0 {
			cost = fmt.Sprintf("%+.0f %% (%+.0f to %+.0f)", 100*(v.Gain.Center-1), 100*(v.Gain.Lo-1), 100*(v.Gain.Hi-1))
			if v.Then > 0 {
				was = fmt.Sprintf("%+.0f %%", 100*(v.Then-1))
			}
		}
		figure := func(name string, u unit.Unit) string {
			if s, ok := a.Figures[name]; ok {
				return unit.Format(s.Median.Center, u)
			}
			return ""
		}
		rows = append(rows, []string{a.Name, a.As, was, figure("per_core", unit.PerSecond), cost, figure("ns_per_packet", unit.Count), figure("load_seconds", unit.Second), figure("memory", unit.Byte)})
	}
	return table([]string{"rule", "S8", "S8, to the first", "packets per second of one core", "to the first", "ns a packet", "to load", "memory"}, rows)
}
