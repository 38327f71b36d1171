// Command pgbench measures our script driver beside pgbench on one private
// server, in interleaved pairs of rounds, and writes the ratios to a file.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"headroom/engine/loop"
	"headroom/engine/pgscript"
	"headroom/engine/pgwire"
	"headroom/host"
	"headroom/pglocal"
	"headroom/probe/proc"
	"headroom/stats"
)

// setup is one thing to compare.
type setup struct {
	Name     string
	script   *pgscript.Script
	flags    []string // pgbench's
	protocol pgscript.Protocol
	connect  bool
}

// row is one line of the result file. Rates are transactions per second,
// without the time to connect unless Name says so; Ratio is ours by pgbench's
// of the same pair.
type row struct {
	Name             string
	Pgbench, Ours    []float64
	Ratio            []float64
	Min, Median, Max float64
}

type file struct {
	Date, Server, Pgbench, Go, CPU string
	Cores, Clients, Scale          int
	Seconds                        float64
	Rows                           []row
}

func setups() []setup {
	return []setup{
		{"select, prepared", pgscript.SelectOnly(), []string{"-S", "-M", "prepared"}, pgscript.Prepared, false},
		{"select, simple", pgscript.SelectOnly(), []string{"-S", "-M", "simple"}, pgscript.Simple, false},
		{"tpcb, prepared", pgscript.TPCB(), []string{"-M", "prepared"}, pgscript.Prepared, false},
		{"tpcb, simple", pgscript.TPCB(), []string{"-M", "simple"}, pgscript.Simple, false},
		{"select, simple, new connection each", pgscript.SelectOnly(), []string{"-S", "-C", "-M", "simple"}, pgscript.Simple, true},
	}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "pgbench:", err)
		os.Exit(1)
	}
}

func run() error {
	pairs := flag.Int("pairs", 6, "pairs of rounds")
	length := flag.Duration("round", 3*time.Second, "length of a round, whole seconds")
	only := flag.String("only", "", "only setups with this in their name")
	threads := flag.Int("j", 2, "threads of pgbench")
	clients := flag.Int("c", 4, "clients")
	date := flag.String("date", time.Now().UTC().Format(time.DateOnly), "date in the result file's name")
	out := flag.String("out", "", "result file (default bench/results/pgdriver-DATE.json; - for none)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	const scale = 10
	srv, err := pglocal.Start(ctx, pglocal.Options{Settings: map[string]string{
		"shared_buffers": "512MB", "max_wal_size": "4GB", "checkpoint_timeout": "1h", "autovacuum": "off"}})
	if err != nil {
		return err
	}
	defer srv.Stop()
	f := file{Date: *date, Go: runtime.Version(), CPU: proc.Model(host.Open(host.Options{})).Value, Cores: runtime.NumCPU(), Clients: *clients, Scale: scale, Seconds: length.Seconds()}
	if f.Server, err = fill(ctx, srv, scale); err != nil {
		return err
	}
	v, err := exec.CommandContext(ctx, "pgbench", "--version").Output()
	if err != nil {
		return fmt.Errorf("run pgbench: %w", err)
	}
	f.Pgbench = strings.TrimSpace(string(v))
	for _, s := range setups() {
		if !strings.Contains(s.Name, *only) {
			continue
		}
		r, err := compare(ctx, srv, s, *pairs, *clients, *threads, *length)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		fmt.Printf("%-36s  pgbench %8.0f  ours %8.0f  ratio min %.3f  median %.3f  max %.3f\n", r.Name, stats.Quantile(r.Pgbench, 0.5), stats.Quantile(r.Ours, 0.5), r.Min, r.Median, r.Max)
		f.Rows = append(f.Rows, r)
	}
	if *out == "-" {
		return nil
	}
	if *out == "" {
		*out = "bench/results/pgdriver-" + *date + ".json"
	}
	b, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(*out, append(b, '\n'), 0o644)
}

func fill(ctx context.Context, srv *pglocal.Server, scale int) (version string, err error) {
	c, err := pgwire.Connect(ctx, srv.DSN())
	if err != nil {
		return "", err
	}
	defer c.Close()
	return c.Parameter("server_version"), pgscript.Init(ctx, c, scale)
}

// compare runs pairs of rounds after one pair that only warms up, the order
// swapped each time.
func compare(ctx context.Context, srv *pglocal.Server, s setup, pairs, clients, threads int, length time.Duration) (row, error) {
	r := row{Name: s.Name}
	d, err := pgscript.Open(ctx, pgscript.Options{Options: loop.Options{Clients: clients, Seed: 1}, DSN: srv.DSN(),
		Scripts: []pgscript.Weighted{{Script: s.script, Weight: 1}}, Protocol: s.protocol, NewConnEach: s.connect})
	if err != nil {
		return r, err
	}
	defer d.Close()
	for i := -1; i < pairs; i++ {
		var peer, ours float64
		both := []func() error{
			func() (err error) { peer, err = pgbench(ctx, srv, s.flags, clients, threads, length); return },
			func() error {
				res, err := d.Run(ctx, length)
				if err == nil && res.Failed > 0 {
					err = errors.Join(fmt.Errorf("%d transactions failed", res.Failed), res.First)
				}
				if err == nil {
					ours = res.Rate()
				}
				return err
			},
		}
		if i%2 == 0 {
			slices.Reverse(both)
		}
		for _, one := range both {
			if err := one(); err != nil {
				return r, err
			}
		}
		if i >= 0 {
			r.Pgbench, r.Ours, r.Ratio = append(r.Pgbench, peer), append(r.Ours, ours), append(r.Ratio, ours/peer)
		}
	}
	r.Min, r.Median, r.Max = slices.Min(r.Ratio), stats.Quantile(r.Ratio, 0.5), slices.Max(r.Ratio)
	return r, nil
}

var tps = regexp.MustCompile(`tps = ([0-9.]+)`)

func pgbench(ctx context.Context, srv *pglocal.Server, flags []string, clients, threads int, length time.Duration) (float64, error) {
	args := append([]string{"-n", "-c", strconv.Itoa(clients), "-j", strconv.Itoa(threads), "-T", strconv.Itoa(int(length.Seconds()))}, flags...)
	out, err := exec.CommandContext(ctx, "pgbench", append(args, srv.DSN())...).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("run pgbench: %w: %s", err, out)
	}
	m := tps.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("no tps in pgbench's output: %s", out)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}
