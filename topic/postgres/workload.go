package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"headroom/engine/loop"
	"headroom/engine/pgwire"
	"headroom/trial"
	"headroom/unit"
)

// Workloads lists the work that PostgreSQL changes can be tried on.
var Workloads = []*trial.Workload{Upsert, TPCB, Select, Script}

// whole checks for a whole number from lo to hi.
func whole(lo, hi int) func(string) error {
	return func(v string) error {
		if n, err := strconv.Atoi(v); err != nil || n < lo || n > hi {
			return fmt.Errorf("%q is not a whole number from %d to %d", v, lo, hi)
		}
		return nil
	}
}

// oneOf checks for one of a few words.
func oneOf(words ...string) func(string) error {
	return func(v string) error {
		if !slices.Contains(words, v) {
			return fmt.Errorf("%q is not one of %s", v, strings.Join(words, ", "))
		}
		return nil
	}
}

// latencyMeasures are the figures that every round of a server workload yields
// beside its rate.
func latencyMeasures(of string) []trial.Measure {
	return []trial.Measure{
		{Name: "p50", Unit: unit.Second, Noun: "median latency of " + of},
		{Name: "p99", Unit: unit.Second, Noun: "99th percentile latency of " + of},
	}
}

// roundOf makes a round of what a loop did; per is the operations per
// transaction for those that did not succeed.
func roundOf(r *loop.Result, per int64) trial.Round {
	out := trial.Round{Seconds: r.Seconds, Done: r.Units, Failed: r.Failed * per, Skipped: r.Skipped * per,
		Latency: r.Latency, Figures: map[string]float64{}}
	if r.First != nil {
		out.Why = r.First.Error()
	}
	if r.Done > 0 && r.Seconds > 0 {
		out.Figures["rate"] = float64(r.Units) / r.Seconds
		out.Figures["p50"], out.Figures["p99"] = r.Quantile(0.5), r.Quantile(0.99)
	}
	return out
}

// script runs statements, one after the other, on a connection of its own.
// Each may take as long as it takes.
func script(ctx context.Context, dsn string, statements ...string) error {
	c, err := pgwire.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, sql := range append([]string{"set statement_timeout = 0", "set client_min_messages = warning"}, statements...) {
		if _, err := c.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", firstWords(sql), err)
		}
	}
	return nil
}

func firstWords(sql string) string {
	f := strings.Fields(sql)
	return strings.Join(f[:min(len(f), 5)], " ")
}
