// Command queue measures the durable queue: how fast messages of 1,000 points
// are acknowledged and read back, for our own log and for embedded JetStream in
// turns; and whether anything acknowledged is lost when the process that puts
// and reads is killed. It writes a result file.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"time"

	"headroom/queue"
	"headroom/queue/jetstream"
)

// file is the result; times in seconds. A run holds speeds or kills.
type file struct {
	When     string   `json:"when"`
	Go       string   `json:"go"`
	Cores    int      `json:"cores"`
	Points   int      `json:"points_per_message,omitempty"`
	Bytes    int      `json:"bytes_per_message,omitempty"`
	Seconds  float64  `json:"round_seconds,omitempty"`
	Rounds   int      `json:"rounds,omitempty"`
	FsyncP50 float64  `json:"bare_fsync_p50_seconds,omitempty"` // of an append of one message to a file, without any queue
	Speeds   []speed  `json:"throughput,omitempty"`
	Kills    []killed `json:"kills,omitempty"`
}

// openers are the kinds of queue that are measured.
var openers = map[string]func(context.Context, queue.Options) (queue.Queue, error){
	"log": queue.Open, "embedded": jetstream.OpenEmbedded,
}

var kinds = []string{"log", "embedded"}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "queue:", err)
		os.Exit(1)
	}
}

func run() error {
	if dir := os.Getenv(childDir); dir != "" {
		return child(context.Background(), dir, os.Getenv(childKind), os.Getenv(childRun))
	}
	out := flag.String("out", "", "result file")
	seconds := flag.Float64("seconds", 3, "length of a round")
	rounds := flag.Int("rounds", 5, "rounds of each")
	kills := flag.Int("kills", 0, "how often each kind is killed, instead of measuring speed")
	dir := flag.String("dir", "", "where the queues lie; the temporary folder if empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	at, err := os.MkdirTemp(*dir, "queue")
	if err != nil {
		return err
	}
	defer os.RemoveAll(at)
	f := file{When: time.Now().UTC().Format(time.RFC3339), Go: runtime.Version(), Cores: runtime.NumCPU()}
	if *kills > 0 {
		err = f.kill(ctx, at, *kills)
	} else {
		err = f.measure(ctx, at, time.Duration(*seconds*float64(time.Second)), *rounds)
	}
	if err != nil {
		return err
	}
	if *out == "" {
		return nil
	}
	raw, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(*out, append(raw, '\n'), 0o644)
}

func (f *file) kill(ctx context.Context, dir string, times int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		k, err := killMany(ctx, self, dir, kind, times)
		if err != nil {
			return err
		}
		fmt.Println(k)
		f.Kills = append(f.Kills, k)
	}
	return nil
}
