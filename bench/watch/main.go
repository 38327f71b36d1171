// Command watch measures the whole way of a sample, from HTTP over the queue
// into the store, with the program itself as its user starts it:
//
//	ingest   sustained rate, beside VictoriaMetrics, interleaved
//	hosts    1,000 hosts × 200 series at one minute: CPU, memory, lag
//	outage   the store away for six hours at that load, compressed
//	kill     random kill -9 of agent, server and PostgreSQL under load
//	soak     twelve times the rate of 1,000 hosts for a while: slopes of memory, files, goroutines
//
// Results go to bench/results/watch-PART-DATE.json.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"time"

	"headroom/host"
	"headroom/probe/proc"
)

// head is what every result file begins with.
type head struct {
	Date, Part, Go, Server string
	Cores                  int
}

// bench is what all parts share.
type bench struct {
	program string // the built headroom
	dir     string // scratch
	seconds time.Duration
	rounds  int
	runs    int
	note    func(format string, args ...any)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	seconds := flag.Duration("for", 20*time.Second, "length of a round")
	rounds := flag.Int("rounds", 5, "rounds of each side")
	runs := flag.Int("runs", 500, "kills")
	date := flag.String("date", time.Now().UTC().Format(time.DateOnly), "date in the file's name")
	out := flag.String("out", "", "result file; - for none")
	flag.Parse()
	parts := map[string]func(context.Context, *bench) (any, error){"ingest": ingest, "hosts": hosts, "outage": outage, "kill": kills, "soak": soak}
	part, ok := parts[flag.Arg(0)]
	if !ok {
		return fmt.Errorf("no part %q; there are ingest, hosts, outage, kill, soak", flag.Arg(0))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.MkdirTemp("", "hr-watch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	b := &bench{dir: dir, program: filepath.Join(dir, "headroom"), seconds: *seconds, rounds: *rounds, runs: *runs,
		note: func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
		}}
	if text, err := exec.Command("go", "build", "-trimpath", "-o", b.program, "./cmd/headroom").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w: %s", err, text)
	}
	res, err := part(ctx, b)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(struct {
		head
		Result any
	}{head{*date, flag.Arg(0), runtime.Version(), proc.Model(host.Open(host.Options{})).Value, runtime.NumCPU()}, res}, "", " ")
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	if *out == "" {
		*out = "bench/results/watch-" + flag.Arg(0) + "-" + *date + ".json"
	}
	if *out == "-" {
		return nil
	}
	return os.WriteFile(*out, append(text, '\n'), 0o644)
}
