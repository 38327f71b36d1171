package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"headroom/unit"
)

const made = "<!-- Made from the files in bench/results by `make docs`; edits are lost. -->\n\n"

// resultPages makes performance.md and reliability.md of the newest result
// file of each kind below dir. A kind without a file is said to be unmeasured.
func resultPages(dir string) (map[string]string, error) {
	perf, err := join(dir,
		section{"look-*.json", "What looking costs", lookText},
		section{"pgdriver-????-??-??.json", "The load driver beside pgbench", driverText},
		section{"upsert-????-??-??.json", "`ingest`: upserts", upsertText},
		section{"bulkload-????-??-??.json", "`load`: bulk loading", loadText},
		section{"sqlkit-????-??-??.json", "The SQL kit", kitText},
		section{"firewall-????-??-??.json", "`lab firewall`, `flood`: what a rule costs", firewallText},
		section{"fwrates-????-??-??.json", "`firewall.stateless`: a UDP flood on rules with and without connection tracking", fwratesText},
		section{ingestFiles, "`headroom up`: taking samples, beside VictoriaMetrics", vmText},
		section{hostsFiles, "`headroom up`: 1,000 hosts", hostsText},
		section{"ingest-http-????-??-??.json", "`headroom up`: samples over HTTP into the queue", ingestHTTPText},
		section{"queue-????-??-??.json", "`headroom up`: the queue", queueText},
		section{storeFiles, "`headroom up`: the store", storeText},
		section{agentFiles, "`headroom agent`: what watching a machine costs", agentText},
		section{collectFiles, "What collecting costs a PostgreSQL server", collectText})
	if err != nil {
		return nil, err
	}
	goals, err := aimTable(dir, speedAims)
	if err != nil {
		return nil, err
	}
	safe, err := aimTable(dir, safetyAims)
	if err != nil {
		return nil, err
	}
	rel, err := join(dir,
		section{"honesty-*.json", "False verdicts, and effects found", honestyText},
		section{"power-*.json", "Effects found at the budget that the tool proposes", honestyText},
		section{"kill-points-*.json", "Apply and revert, interrupted at every named point", killText},
		section{"lockout-*.json", "Firewall rules that lock everybody out, applied and interrupted", lockoutText},
		section{"stateless-*.json", "`firewall.stateless`: rule sets by chance, old and new put to the same packets", statelessText},
		section{"kill-trials-*.json", "Trials, interrupted at every named point", trialText},
		section{"ingest-kill-*.json", "`ingest`, killed at random", ingestKillText},
		section{"load-kill-*.json", "`load`, killed at every named point", loadKillText},
		section{killFiles, "`headroom up`, killed at random: the whole way of a sample", wholeKillText},
		section{outageFiles, "`headroom up`: six hours without a store", outageText},
		section{soakFiles, "`headroom up`: a long run", soakText},
		section{"queue-kill-*.json", "The queue, killed at random", queueKillText},
		section{"queue-power-*.json", "The queue, and loss of power", powerText})
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"performance.md": made + "# Performance\n\nMeasured by `make bench`; each figure names its result file. The machine has 2 to 4 cores and is shared: use the figures as ratios.\n" +
			"\n## `headroom up`: what it is meant to reach\n\nEach part by itself: `scripts/bench watch-ingest`, `watch-hosts`, `store` and so on; its sections below say how it was measured.\n\n" + goals + perf,
		"reliability.md": made + "# Reliability\n\nMeasured by `make bench`; each figure names its result file.\n" +
			"\n## `headroom up`: what it is meant to reach\n\nEach part by itself: `scripts/bench watch-kill`, `watch-outage`, `watch-soak`, `queue-kill`, `queue-power`.\n\n" + safe + rel,
	}, nil
}

// section is one kind of result file and how it is told.
type section struct {
	pattern, title string
	text           func(raw []byte) (string, error)
}

func join(dir string, parts ...section) (string, error) {
	var b strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&b, "\n## %s\n\n", p.title)
		files, err := filepath.Glob(filepath.Join(dir, p.pattern))
		if err != nil {
			return "", fmt.Errorf("find results: %w", err)
		}
		if len(files) == 0 {
			b.WriteString("Not measured yet: there is no result file.\n")
			continue
		}
		newest := slices.Max(files)
		raw, err := os.ReadFile(newest)
		if err != nil {
			return "", fmt.Errorf("read result: %w", err)
		}
		text, err := p.text(raw)
		if err != nil {
			return "", fmt.Errorf("read result %s: %w", newest, err)
		}
		fmt.Fprintf(&b, "%s\nFile: `bench/results/%s`.\n", text, filepath.Base(newest))
	}
	return b.String(), nil
}

func lookText(raw []byte) (string, error) {
	var r struct {
		Tables      int       `json:"tables"`
		Check       []float64 `json:"check_wall_seconds"`
		RSS         []float64 `json:"check_peak_rss_bytes"`
		NoProbe     []float64 `json:"check_without_disk_probe_wall_seconds"`
		Connections int       `json:"connections_most_at_once"`
		Statements  int       `json:"statements_per_check"`
		Longest     float64   `json:"longest_statement_seconds"`
		Help        []float64 `json:"help_wall_seconds"`
		Server      string    `json:"server"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	if len(r.Check)*len(r.RSS)*len(r.NoProbe)*len(r.Help) == 0 {
		return "", fmt.Errorf("it lacks figures")
	}
	return table([]string{"what", "figure"}, [][]string{
		{fmt.Sprintf("`headroom check`, PostgreSQL %s with %d tables, median of %d", r.Server, r.Tables, len(r.Check)), unit.Seconds(median(r.Check))},
		{"the same without measuring the disk", unit.Seconds(median(r.NoProbe))},
		{"peak memory, largest", unit.Format(slices.Max(r.RSS), unit.Byte)},
		{"connections at once", fmt.Sprint(r.Connections)},
		{"statements in one check; the longest", fmt.Sprintf("%d; %s", r.Statements, unit.Seconds(r.Longest))},
		{"`headroom --help`, median", unit.Seconds(median(r.Help))},
	}), nil
}

func driverText(raw []byte) (string, error) {
	var r struct {
		Server, CPU    string
		Cores, Clients int
		Seconds        float64
		Rows           []struct {
			Name             string
			Pgbench, Ours    []float64
			Min, Median, Max float64
		}
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	var rows [][]string
	for _, x := range r.Rows {
		rows = append(rows, []string{x.Name, unit.Format(median(x.Pgbench), unit.PerSecond), unit.Format(median(x.Ours), unit.PerSecond),
			fmt.Sprintf("%.2f (%.2f–%.2f)", x.Median, x.Min, x.Max), fmt.Sprint(len(x.Ours))})
	}
	return fmt.Sprintf("Transactions a second, %d clients, PostgreSQL %s, rounds of %g s in turns. The ratio is ours to pgbench's, the median of the pairs with their range. "+
		"pgbench asks for a description of each result and we do not, so the prepared ratios flatter us a little.\n\n", r.Clients, r.Server, r.Seconds) +
		table([]string{"work", "pgbench", "ours", "ratio", "pairs"}, rows), nil
}

type rate struct {
	Hits, Of      int
	Share, Lo, Hi float64
}

func (r rate) String() string {
	return fmt.Sprintf("%d of %d = %.1f %% (95 %% interval %.1f–%.1f %%)", r.Hits, r.Of, 100*r.Share, 100*r.Lo, 100*r.Hi)
}

func honestyText(raw []byte) (string, error) {
	type kind struct {
		Rate     rate
		Coverage rate `json:"interval_holds_the_truth"`
		Trials   []struct {
			Pairs    int
			Proposed *struct {
				Pairs   int
				Seconds float64 `json:"budget_seconds"`
			}
		}
		Unproposed int `json:"pilots_without_proposal"`
	}
	var r struct {
		Workload string
		Where    string
		Equal    kind
		Known    kind `json:"known_effect"`
		Pilots   kind
		Took     float64 `json:"took_seconds"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	var rows [][]string
	if r.Equal.Rate.Of > 0 {
		rows = append(rows, []string{"verdict faster or slower between two equal servers (allowed: 5 %)", r.Equal.Rate.String()},
			[]string{"the interval holds the true ratio of 1", r.Equal.Coverage.String()})
	}
	if r.Known.Rate.Of > 0 {
		var pairs, time []float64
		for _, t := range r.Known.Trials {
			if t.Proposed != nil {
				pairs, time = append(pairs, float64(t.Proposed.Pairs)), append(time, t.Proposed.Seconds)
			}
		}
		at := "a budget proposed from the noise floor alone, as it was done until 20 November 2026"
		if len(pairs) > 0 {
			at = "the proposed budget" + fmt.Sprintf(" (each proposed by a run of 7 s before it; in the middle %.0f pairs, %s; %.0f to %.0f pairs)",
				median(pairs), unit.Seconds(median(time)), slices.Min(pairs), slices.Max(pairs))
		}
		rows = append(rows, []string{"a known effect of 10 % found at " + at, r.Known.Rate.String()},
			[]string{"the interval holds that effect", r.Known.Coverage.String()},
			[]string{"runs that proposed no budget: too noisy", fmt.Sprint(r.Known.Unproposed)})
	}
	if r.Pilots.Rate.Of > 0 {
		rows = append(rows, []string{"false verdict in the runs before, between two equal servers", r.Pilots.Rate.String()})
	}
	return fmt.Sprintf("%s on %s; %s in all.\n\n", r.Workload, r.Where, unit.Seconds(r.Took)) + table([]string{"what", "figure"}, rows), nil
}

func killText(raw []byte) (string, error) {
	var r struct {
		Rows []struct{ Scenario, Point, Signal, Ended string }
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	points, bySignal, ended := map[string]bool{}, map[string][3]int{}, [3]int{}
	for _, x := range r.Rows {
		points[x.Point] = true
		n := bySignal[x.Signal]
		i := slices.Index([]string{"before", "after"}, x.Ended)
		if i < 0 {
			i = 2
		}
		n[i]++
		ended[i]++
		bySignal[x.Signal] = n
	}
	var rows [][]string
	for _, s := range sorted(bySignal) {
		n := bySignal[s]
		rows = append(rows, []string{s, fmt.Sprint(n[0] + n[1] + n[2]), fmt.Sprint(n[0]), fmt.Sprint(n[1]), fmt.Sprint(n[2])})
	}
	rows = append(rows, []string{"all", fmt.Sprint(len(r.Rows)), fmt.Sprint(ended[0]), fmt.Sprint(ended[1]), fmt.Sprint(ended[2])})
	return fmt.Sprintf("A child process applies, reverts or confirms and is ended at one of the %d points named in the code, each time that it passes there; a new process then recovers and every object is read.\n\n", len(points)) +
		table([]string{"ended by", "runs", "before", "after", "between"}, rows), nil
}

func trialText(raw []byte) (string, error) {
	var r struct {
		Rows []struct{ Mode, Point, Signal string }
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	points, modes := map[string]bool{}, map[string]int{}
	for _, x := range r.Rows {
		points[x.Point] = true
		modes[x.Mode+", "+x.Signal]++
	}
	var rows [][]string
	for _, m := range sorted(modes) {
		rows = append(rows, []string{m, fmt.Sprint(modes[m])})
	}
	return fmt.Sprintf("A trial is ended at each of its %d named points; afterwards no server, folder or change of it is left. The test fails otherwise, so every run listed ended clean.\n\n", len(points)) +
		table([]string{"trial, ended by", "runs ended clean"}, rows), nil
}

func table(head []string, rows [][]string) string {
	var b strings.Builder
	b.WriteString("| " + strings.Join(head, " | ") + " |\n|" + strings.Repeat(" --- |", len(head)) + "\n")
	for _, r := range rows {
		b.WriteString("| " + strings.Join(r, " | ") + " |\n")
	}
	return b.String()
}

func sorted[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}
