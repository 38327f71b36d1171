package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"headroom/unit"
)

// agentFile is a result file of bench/agent.
type agentFile struct {
	CPUs     int
	Load     string  `json:"load_average_at_end"`
	Interval float64 `json:"interval_seconds"`
	Block    float64 `json:"block_seconds"`
	Arms     []agentArm
}

type agentArm struct {
	Name    string
	CPU     []float64 `json:"cpu_seconds_by_block"`
	Samples []float64 `json:"samples_by_block"`
	Peak    float64   `json:"peak_rss_bytes"`
}

// agentText tells a result file of bench/agent.
func agentText(raw []byte) (string, error) {
	var r agentFile
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	var rows [][]string
	for _, a := range r.Arms {
		var share, each []float64
		for i, c := range a.CPU {
			share, each = append(share, 100*c/r.Block), append(each, 1e6*c/max(a.Samples[i], 1))
		}
		if len(share) == 0 {
			return "", fmt.Errorf("%s has no blocks", a.Name)
		}
		rows = append(rows, []string{a.Name, fmt.Sprintf("%.2f %% (%.2f–%.2f)", median(share), slices.Min(share), slices.Max(share)),
			fmt.Sprintf("%.0f", median(a.Samples)*r.Interval/r.Block), fmt.Sprintf("%.0f µs (%.0f–%.0f)", median(each), slices.Min(each), slices.Max(each)),
			unit.Format(a.Peak, unit.Byte)})
	}
	return fmt.Sprintf("All three at once, every %g s, %d CPUs, medians of %d blocks of %g s with their range. The goal is 0.5 %% of one core and 60 MiB. "+
		"The agent also puts each round on disk (fsync) and sends it; node_exporter does neither, and the CPU of who scrapes it is not counted.\n\n", r.Interval, r.CPUs, len(r.Arms[0].CPU), r.Block) +
		table([]string{"process", "of one core", "samples a round", "CPU for a sample", "peak memory"}, rows), nil
}
