// Command store measures the store on a private server with stock settings:
// what writing and packing cost in processor time, bytes for a point of
// recorded host metrics, and how long questions take with two weeks of minutes
// and two years of days. Processor time is given for ours and for the server's
// processes apart; wall time only where a person waits.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"strings"
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
	out := flag.String("out", "", "result file (default bench/results/store-DATE.json; - for standard output)")
	day := flag.String("date", time.Now().UTC().Format(time.DateOnly), "date in the result file's name")
	only := flag.String("only", "writes,sizes,fleet,history", "which parts; the others stay as they are in the result file")
	series := flag.Int("series", 2000, "series with two weeks of minutes")
	flag.Parse()
	if *rec != "" {
		return record(ctx, *rec, *long)
	}
	if *out == "" {
		*out = "bench/results/store-" + *day + ".json"
	}
	f := file{}
	if old, err := os.ReadFile(*out); err == nil {
		if err := json.Unmarshal(old, &f); err != nil {
			return fmt.Errorf("read %s: %w", *out, err)
		}
	}
	load, _ := os.ReadFile("/proc/loadavg")
	srv, err := pglocal.Start(ctx, pglocal.Options{Name: "store bench"})
	if err != nil {
		return err
	}
	defer srv.Stop()
	f.Date, f.Server, f.Go, f.Cores, f.Load = *day, srv.Version, runtime.Version(), runtime.NumCPU(), strings.TrimSpace(string(load))
	if err := f.parts(&bench{ctx: ctx, srv: srv}, *only, *sample, *series); err != nil {
		return err
	}
	text, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return err
	}
	if *out == "-" {
		fmt.Println(string(text))
		return nil
	}
	return os.WriteFile(*out, append(text, '\n'), 0o644)
}

func (f *file) parts(b *bench, only, sample string, series int) error {
	for part := range strings.SplitSeq(only, ",") {
		var err error
		switch part {
		case "writes":
			f.Writes, err = b.writes()
		case "sizes":
			f.Sizes, err = b.sizes(sample)
		case "fleet":
			f.Fleet, err = b.fleet()
		case "history":
			f.History, f.Queries, err = b.history(series)
		default:
			err = errors.New("no such part")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	return nil
}
