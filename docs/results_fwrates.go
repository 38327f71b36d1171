package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"headroom/unit"
)

// fwratesText tells what conversions by firewall.stateless bring.
func fwratesText(raw []byte) (string, error) {
	var r struct {
		Note  string
		Cores int
		Rates []struct {
			Set, Flood      string
			Old, New, Empty []float64
			Ratio, Lo, Hi   float64
		}
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	if len(r.Rates) == 0 {
		return "", errors.New("no rates")
	}
	middle := func(vs []float64) string {
		if len(vs) == 0 {
			return "–"
		}
		vs = slices.Sorted(slices.Values(vs))
		return unit.Format(vs[len(vs)/2], unit.PerSecond)
	}
	const want = 1.1
	var rows [][]string
	for _, x := range r.Rates {
		verdict := "met"
		if x.Ratio < want {
			verdict = "**not met**"
		}
		if x.Hi > 0 && x.Lo < want && x.Hi >= want {
			verdict = "cannot be told"
		}
		interval := "–"
		if x.Hi > 0 {
			interval = fmt.Sprintf("%.2f–%.2f", x.Lo, x.Hi)
		}
		rows = append(rows, []string{x.Set, x.Flood, middle(x.Empty), middle(x.Old), middle(x.New), fmt.Sprintf("%.2f ×", x.Ratio), interval, verdict})
	}
	text := fmt.Sprintf("Usual rule sets of iptables, as they are and converted to nft, in turns, %d rounds, %d cores: packets per second of the receiving core's work over a wire, under a flood of UDP from spoofed sources that the last rule accepts or drops. Wanted: ≥ %g ×.\n\n", len(r.Rates[0].Old), r.Cores, want) +
		table([]string{"rule set", "UDP flood", "no rules", "old, tracked", "converted", "converted by old", "95 % interval", ""}, rows)
	if r.Note != "" {
		text += "\n" + r.Note + "\n"
	}
	return text, nil
}
