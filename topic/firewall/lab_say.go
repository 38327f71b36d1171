package firewall

import (
	"fmt"
	"math"
	"strings"

	"headroom/lab"
	"headroom/stats"
	"headroom/unit"
)

// sayCost puts the figures into words: what each arm costs against the first.
func sayCost(r *lab.Result) (out []string) {
	var costs []string
	for _, v := range r.Versus {
		open := v.Verdict == stats.NeedsMore && !r.Ceiling // of many rows those that are settled will do
		if open || v.Pairs < stats.MinPairs || !(v.Gain.Lo > 0) || math.IsInf(v.Gain.Hi, 0) {
			continue
		}
		costs = append(costs, v.Arm+": "+cost(v))
	}
	if len(costs) > 0 {
		out = append(out, fmt.Sprintf("Cost against %s, in packets lost of those that one core could do: %s.", r.Arms[0].Name, strings.Join(costs, "; ")))
	}
	out = append(out, early(r)...)
	return append(out, large(r)...)
}

// cost is how many packets fewer a core does, with the interval; a gain is
// said as such.
func cost(v lab.Versus) string {
	switch v.Verdict {
	case stats.NoDifference:
		return "nothing that shows"
	case stats.NeedsMore:
		return fmt.Sprintf("not settled (%.0f to %.0f %%)", 100*(1-v.Gain.Hi), 100*(1-v.Gain.Lo))
	}
	if v.Gain.Center >= 1 {
		return fmt.Sprintf("none, 1/%.2g of the work (1/%.2g to 1/%.2g)", v.Gain.Center, v.Gain.Lo, v.Gain.Hi)
	}
	return fmt.Sprintf("%.0f %% (%.0f to %.0f %%)", 100*(1-v.Gain.Center), 100*(1-v.Gain.Hi), 100*(1-v.Gain.Lo))
}

// each is an arm's ns per packet; 0 if it did not run.
func each(r *lab.Result, arm string) float64 {
	for _, a := range r.Arms {
		if s, ok := a.Figures[nanos.Name]; ok && a.Name == arm {
			return s.Median.Center
		}
	}
	return 0
}

// early compares the earliest drop with iptables'.
func early(r *lab.Result) []string {
	x, raw := each(r, xdpDrop), each(r, rawDrop)
	if v, ok := r.Against(xdpDrop); !ok || v.Verdict != stats.Faster || x <= 0 || raw <= 0 {
		return nil
	}
	return []string{fmt.Sprintf("Dropping in XDP costs 1/%.2g of iptables raw here: %.0f ns against %.0f ns a packet.", raw/x, x, raw)}
}

// large says what a large set costs to have: one sentence for each kind.
func large(r *lab.Result) (out []string) {
	for _, a := range r.Arms {
		t, ok := a.Figures[loadTime.Name]
		m, known := a.Figures[setMemory.Name]
		kind, size, found := strings.Cut(a.Name, " of ")
		small := each(r, kind+" of 1")
		if !ok || !known || !found || !strings.HasSuffix(size, "M") || small <= 0 {
			continue
		}
		out = append(out, fmt.Sprintf("%s: loaded in %s, %s in the kernel, %s a packet against %s of the same with 1 entry.", strings.TrimPrefix(a.Name, "drop, "),
			unit.Seconds(t.Median.Center), unit.Format(m.Median.Center, unit.Byte), ns(each(r, a.Name)), ns(small)))
	}
	return out
}

func ns(v float64) string { return fmt.Sprintf("%.0f ns", v) }
