package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"headroom/unit"
)

// lockoutText tells of interrupted applies of rules that let nobody in.
func lockoutText(raw []byte) (string, error) {
	var r struct {
		Runs    int     `json:"runs"`
		Shut    int     `json:"while_shut"`
		Within  float64 `json:"confirm_within_seconds"`
		Slowest float64 `json:"slowest_seconds"`
		Rows    []struct {
			Tool, Point, Way string
			Shut             bool
			Out              bool `json:"locked_out"`
			Half             bool `json:"half_applied"`
		}
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	if r.Runs == 0 || len(r.Rows) != r.Runs {
		return "", fmt.Errorf("%d runs, %d rows", r.Runs, len(r.Rows))
	}
	count := func(name string, of func(i int) bool) []string {
		n, shut, out, half := 0, 0, 0, 0
		for i, row := range r.Rows {
			if of(i) {
				n, shut, out, half = n+1, shut+one(row.Shut), out+one(row.Out), half+one(row.Half)
			}
		}
		return []string{name, fmt.Sprint(n), fmt.Sprint(shut), fmt.Sprint(out), fmt.Sprint(half)}
	}
	var ways, tools, points []string
	for _, row := range r.Rows {
		ways, tools = append(ways, row.Way), append(tools, row.Tool)
		if name, _, _ := strings.Cut(row.Point, ":"); strings.HasPrefix(name, "change.") {
			points = append(points, name)
		}
	}
	var rows [][]string
	for _, w := range compacted(ways) {
		rows = append(rows, count(w, func(i int) bool { return r.Rows[i].Way == w }))
	}
	for _, t := range compacted(tools) {
		rows = append(rows, count("rules of "+t, func(i int) bool { return r.Rows[i].Tool == t }))
	}
	rows = append(rows, count("all", func(int) bool { return true }))
	return fmt.Sprintf("A machine in a namespace is given rules that let nobody in, by `headroom apply --confirm-within %s` on a terminal of its own. "+
		"The apply is interrupted at one of %d named points, or while it waits to be confirmed; then somebody tries to come in from another namespace, and the rules are read. "+
		"Open again %s after the interruption at the latest.\n\n", time.Duration(r.Within*float64(time.Second)), len(compacted(points)), unit.Seconds(r.Slowest)) +
		table([]string{"interrupted by", "runs", "of these while nobody could come in", "locked out for good", "rules not as before"}, rows), nil
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// compacted lists the different ones of names.
func compacted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
