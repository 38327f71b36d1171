// Command store measures the store on a private server with stock settings:
// what writing and packing cost in processor time, bytes for a point of
// recorded host metrics, and how long questions take with two weeks of minutes
// and two years of days. Processor time is given for ours and for the server's
// processes apart; wall time only where a person waits.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"time"

	"headroom/pglocal"
)

type file struct {
	Date    string     `json:"date"`
	Server  string     `json:"server"`
	Go      string     `json:"go"`
	Cores   int        `json:"cores"`
	Load    string     `json:"load_at_start"` // of the machine: others may have used it
	Writes  []writing  `json:"writes"`
	Sizes   *sizes     `json:"bytes_per_point"`
	Fleet   *fleet     `json:"fleet"`
	History *history   `json:"history"`
	Queries []question `json:"queries"`
	Took    float64    `json:"took_seconds"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal("store: ", err)
	}
}

func run(ctx context.Context) error {
	rec := flag.String("record", "", "record this machine's host metrics to this file, and do nothing else")
	long := flag.Duration("for", time.Hour, "how long to record")
	sample := flag.String("sample", "bench/store/testdata/host-10s.txt.gz", "recorded host metrics")
	out := flag.String("out", "", "result file (default bench/results/store-DATE.json; - for none)")
	day := flag.String("date", time.Now().UTC().Format(time.DateOnly), "date in the result file's name")
	series := flag.Int("series", 2000, "series with two weeks of minutes")
	flag.Parse()
	if *rec != "" {
		return record(ctx, *rec, *long)
	}
	start := time.Now()
	load, _ := os.ReadFile("/proc/loadavg")
	srv, err := pglocal.Start(ctx, pglocal.Options{Name: "store bench"})
	if err != nil {
		return err
	}
	defer srv.Stop()
	b := &bench{ctx: ctx, srv: srv}
	f := file{Date: *day, Server: srv.Version, Go: runtime.Version(), Cores: runtime.NumCPU(), Load: string(load)}
	if f.Writes, err = b.writes(); err != nil {
		return fmt.Errorf("writes: %w", err)
	}
	if f.Sizes, err = b.sizes(*sample); err != nil {
		return fmt.Errorf("sizes: %w", err)
	}
	if f.Fleet, err = b.fleet(); err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	if f.History, f.Queries, err = b.history(*series); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	f.Took = time.Since(start).Seconds()
	text, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return err
	}
	if *out == "-" {
		fmt.Println(string(text))
		return nil
	}
	if *out == "" {
		*out = "bench/results/store-" + *day + ".json"
	}
	return os.WriteFile(*out, append(text, '\n'), 0o644)
}
