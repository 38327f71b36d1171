package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"headroom/stats"
	"headroom/unit"
)

// ours are the arms of bench/agent that are Headroom's.
func (r agentFile) ours() (out []agentArm) {
	for _, a := range r.Arms {
		if strings.HasPrefix(a.Name, "headroom agent") {
			out = append(out, a)
		}
	}
	return out
}

// each is the CPU time of a sample by block, in seconds.
func (a agentArm) each() (out []float64) {
	for i, c := range a.CPU {
		out = append(out, c/max(a.Samples[i], 1))
	}
	return out
}

func agentCPU(r agentFile) (answer, error) {
	var texts []string
	met := true
	for _, a := range r.ours() {
		var share []float64
		for _, c := range a.CPU {
			share = append(share, 100*c/r.Block)
		}
		if len(share) == 0 {
			return answer{}, errLacks
		}
		met = met && median(share) <= 0.5
		texts = append(texts, fmt.Sprintf("%s: %.2f %% (%.2f–%.2f; %d blocks)", strings.TrimPrefix(a.Name, "headroom agent, "), median(share), slices.Min(share), slices.Max(share), len(share)))
	}
	if len(texts) == 0 {
		return answer{}, errLacks
	}
	return answer{strings.Join(texts, "; "), verdict(met, "")}, nil
}

func agentMemory(r agentFile) (answer, error) {
	most := 0.0
	for _, a := range r.ours() {
		most = max(most, a.Peak)
	}
	if most == 0 {
		return answer{}, errLacks
	}
	return answer{mib(most) + " at most", verdict(most <= 60<<20, "")}, nil
}

func agentSample(r agentFile) (answer, error) {
	ours := r.ours()
	i := slices.IndexFunc(r.Arms, func(a agentArm) bool { return strings.Contains(a.Name, "node-exporter") })
	if i < 0 || len(ours) == 0 || len(ours[0].CPU) == 0 || len(r.Arms[i].CPU) == 0 {
		return answer{}, errLacks
	}
	own, theirs := median(ours[0].each()), median(r.Arms[i].each())
	return answer{fmt.Sprintf("%.0f µs, theirs %.0f µs: %.1f × as much; ours with the sync to disk and the sending, theirs without who scrapes", 1e6*own, 1e6*theirs, own/theirs), "–"}, nil
}

// collectFile is a result file of bench/pgcollect.
type collectFile struct {
	Server               string
	Cores                int
	Tables, Statements   int
	Sessions, Rounds     int
	Collectors           []collectCost
	ServerShareOfOneCore float64
	OurCPUPer10s         float64
	LongestStatementMS   []struct{ MaxMS float64 }
	Note                 string
	Trials               []collectTrial
}

type collectCost struct {
	Name                                       string
	Every                                      float64
	Samples                                    int
	WallMS, WorstWallMS, ServerCPUMS, OurCPUMS float64
}

type collectTrial struct {
	Load   string
	Speed  int
	Window int
	With   []float64
	Ratio  stats.Interval
}

// loss is what is lost of transactions per second at the usual pace, in
// percent: what is lost when collecting Speed times as often, by Speed.
func (t collectTrial) loss() (center, least, most float64) {
	by := 100 / float64(max(t.Speed, 1))
	return (1 - t.Ratio.Center) * by, (1 - t.Ratio.Hi) * by, (1 - t.Ratio.Lo) * by
}

const lossLimit = 0.5 // percent

func collectEffect(r collectFile) (answer, error) {
	if len(r.Trials) == 0 {
		return answer{}, errLacks
	}
	var texts []string
	proved, above := map[string]bool{}, false
	for _, t := range r.Trials {
		center, least, most := t.loss()
		above = above || least > lossLimit
		proved[t.Load] = proved[t.Load] || most < lossLimit
		often := "as often as usual"
		if t.Speed > 1 {
			often = fmt.Sprintf("%d times as often, divided by %d", t.Speed, t.Speed)
		}
		texts = append(texts, fmt.Sprintf("%s, %s: %.2f %% (%.2f to %.2f; %d pairs)", t.Load, often, center, least, most, len(t.With)))
	}
	why := ""
	for _, load := range sorted(proved) {
		if !proved[load] {
			why = "the interval of " + load + " is too wide to tell"
		}
	}
	if above {
		why = "it takes more"
	}
	return answer{strings.Join(texts, "; "), verdict(why == "", why)}, nil
}

func collectText(raw []byte) (string, error) {
	var r collectFile
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	if len(r.Collectors) == 0 {
		return "", errLacks
	}
	var rows [][]string
	for _, c := range r.Collectors {
		rows = append(rows, []string{c.Name, fmt.Sprintf("%g s", c.Every), fmt.Sprint(c.Samples), millis(c.WallMS), millis(c.WorstWallMS), millis(c.ServerCPUMS), millis(c.OurCPUMS)})
	}
	longest := 0.0
	for _, s := range r.LongestStatementMS {
		longest = max(longest, s.MaxMS)
	}
	text := fmt.Sprintf("PostgreSQL %s with %d tables, %d statements counted, %d idle sessions; %d rounds of each collector, one after the other. Times are medians, CPU is the mean of a round, "+
		"from the kernel's account of the session that reads. %s. All at their intervals: %.2f %% of one core for the server, %.2f %% for us; the longest statement took %s.\n\n",
		r.Server, r.Tables, r.Statements, r.Sessions, r.Rounds, strings.TrimSuffix(r.Note, "."), 100*r.ServerShareOfOneCore, 100*r.OurCPUPer10s/10, millis(longest)) +
		table([]string{"collector", "every", "samples", "time", "longest", "server's CPU", "our CPU"}, rows)
	if len(r.Trials) == 0 {
		return text, nil
	}
	rows = nil
	for _, t := range r.Trials {
		center, least, most := t.loss()
		rows = append(rows, []string{t.Load, fmt.Sprintf("%d ×", t.Speed), fmt.Sprintf("%.4f (%.4f–%.4f)", t.Ratio.Center, t.Ratio.Lo, t.Ratio.Hi),
			fmt.Sprintf("%.2f %% (%.2f to %.2f)", center, least, most), fmt.Sprintf("%d of %s", len(t.With), unit.Seconds(float64(t.Window)))})
	}
	return text + "\nTransactions per second of pgbench with the collectors by those without, in windows of one running pgbench in turns; 95 % interval. " +
		"Where they run n times as often, the loss at the usual pace is reckoned as an n-th of what was seen. A loss below zero is noise.\n\n" +
		table([]string{"load", "as often as usual", "TPS with by without", "loss at the usual pace", "pairs of windows"}, rows), nil
}
