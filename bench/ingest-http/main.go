// Command ingest-http measures how fast samples are taken over HTTP: JSON
// lines, JSON lines with many points, Prometheus remote-write and encoded
// batches, each acknowledged when it is on disk in the queue. The server is a
// process of its own, bound to two processors' worth of Go threads, with the
// guard, a token, and a reader that empties the queue; the client sends bodies
// that were made before. Formats and connections take turns.
//
//	go run ./bench/ingest-http [-rounds 5] [-for 4s] [-out FILE]
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"headroom/stats"
)

// file is the result. Times are seconds.
type file struct {
	Date   string  `json:"date"`
	Go     string  `json:"go"`
	Cores  int     `json:"cores"`
	Server int     `json:"server_gomaxprocs"`
	Round  float64 `json:"round_seconds"`
	Rounds int     `json:"rounds"`
	Points int     `json:"points_per_request"`
	Series int     `json:"series"`
	Disk   string  `json:"queue_lies_on"`
	Load   string  `json:"load_average_at_start"` // of the machine: others may work on it
	Lines  []line  `json:"results"`
}

// line is one format with a number of connections.
type line struct {
	Format      string    `json:"format"`
	Queue       string    `json:"queue"` // disk, or none: what is read is thrown away
	Connections int       `json:"connections"`
	BodyBytes   int       `json:"body_bytes"`
	Rates       []float64 `json:"points_per_second_by_round"`
	Rate        float64   `json:"points_per_second"`      // median
	CPU         float64   `json:"server_cpu_per_million"` // seconds for a million points, median
	cpus        []float64
	P50         float64 `json:"request_p50_seconds"`
	P99         float64 `json:"request_p99_seconds"`
	times       []float64
}

func main() {
	if dir := os.Getenv(serveDir); dir != "" {
		if err := serve(dir, os.Getenv(serveQueue)); err != nil {
			fmt.Fprintln(os.Stderr, "serve:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "ingest-http:", err)
		os.Exit(1)
	}
}

func run() error {
	rounds := flag.Int("rounds", 5, "rounds of each")
	length := flag.Duration("for", 4*time.Second, "length of a round")
	out := flag.String("out", "", "result file; standard output if empty")
	dir := flag.String("dir", "", "where the queue lies; the temporary folder if empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	f := file{Date: time.Now().UTC().Format(time.DateOnly), Go: runtime.Version(), Cores: runtime.NumCPU(), Server: serverProcs,
		Round: length.Seconds(), Rounds: *rounds, Points: hosts * metrics, Series: hosts * metrics, Disk: *dir}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		f.Load = strings.TrimSpace(string(load))
	}
	if f.Disk == "" {
		f.Disk = os.TempDir()
	}
	for _, q := range []string{"disk", "none"} {
		for _, b := range bodies() {
			for _, n := range []int{1, 4, 16} {
				if q == "disk" || n == 4 {
					f.Lines = append(f.Lines, line{Format: b.format, Queue: q, Connections: n, BodyBytes: len(b.body(0))})
				}
			}
		}
	}
	for round := range *rounds {
		for i := range f.Lines {
			l := &f.Lines[(i+round)%len(f.Lines)]
			if err := measure(ctx, l, *dir, *length); err != nil {
				return fmt.Errorf("%s, %d connections: %w", l.Format, l.Connections, err)
			}
		}
	}
	for i := range f.Lines {
		l := &f.Lines[i]
		l.Rate, l.CPU = stats.Quantile(l.Rates, 0.5), stats.Quantile(l.cpus, 0.5)
		l.P50, l.P99 = stats.Quantile(l.times, 0.5), stats.Quantile(l.times, 0.99)
		fmt.Fprintf(os.Stderr, "%-14s %-4s %2d connections: %9.0f points/s, %.2f CPU s per million, p50 %.1f ms, p99 %.1f ms\n",
			l.Format, l.Queue, l.Connections, l.Rate, l.CPU, 1000*l.P50, 1000*l.P99)
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if *out == "" {
		_, err = os.Stdout.Write(append(text, '\n'))
		return err
	}
	return os.WriteFile(*out, append(text, '\n'), 0o644)
}

// measure starts a server and sends one format to it for a while.
func measure(ctx context.Context, l *line, dir string, length time.Duration) error {
	s, err := startServer(ctx, dir, l.Queue)
	if err != nil {
		return err
	}
	defer s.stop()
	var b made
	for _, b = range bodies() {
		if b.format == l.Format {
			break
		}
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: l.Connections}}
	defer client.CloseIdleConnections()
	if _, err := s.post(ctx, client, b, 0); err != nil { // the series are met
		return err
	}
	cpu, began := s.cpu(), time.Now()
	var points, number atomic.Int64
	var mu sync.Mutex
	var all sync.WaitGroup
	var failed error
	for range l.Connections {
		all.Go(func() {
			var times []float64
			for time.Since(began) < length && ctx.Err() == nil {
				at := time.Now()
				n, err := s.post(ctx, client, b, number.Add(1))
				if err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					return
				}
				points.Add(int64(n))
				times = append(times, time.Since(at).Seconds())
			}
			mu.Lock()
			defer mu.Unlock()
			l.times = append(l.times, times...)
		})
	}
	all.Wait()
	took := time.Since(began).Seconds()
	if failed != nil {
		return failed
	}
	l.Rates = append(l.Rates, float64(points.Load())/took)
	l.cpus = append(l.cpus, (s.cpu()-cpu)/float64(points.Load())*1e6)
	return ctx.Err()
}

// post sends one body and returns how many points were taken: all, or it is an
// error.
func (s *server) post(ctx context.Context, c *http.Client, b made, number int64) (int, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", s.url+b.path, bytes.NewReader(b.body(number)))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	for name, v := range b.headers {
		req.Header.Set(name, v)
	}
	res, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	var r struct{ Accepted, Rejected int }
	if err := json.Unmarshal(text, &r); err != nil || res.StatusCode != http.StatusOK || r.Accepted != hosts*metrics {
		return 0, fmt.Errorf("%s: %.300s", res.Status, text)
	}
	return r.Accepted, nil
}
