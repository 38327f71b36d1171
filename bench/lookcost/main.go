// Command lookcost measures what looking costs: `headroom check` on a private
// server with 1,000 tables (time, memory, connections, longest statement) and
// the start of `headroom --help`. It writes a result file.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/pglocal"
	"headroom/stats"
)

// result is the file; times in seconds, memory in bytes.
type result struct {
	When        string    `json:"when"`
	Tables      int       `json:"tables"`
	CheckWall   []float64 `json:"check_wall_seconds"`
	CheckRSS    []int64   `json:"check_peak_rss_bytes"`
	NoProbeWall []float64 `json:"check_without_disk_probe_wall_seconds"`
	Connections int       `json:"connections_most_at_once"`
	Statements  int       `json:"statements_per_check"`
	Longest     float64   `json:"longest_statement_seconds"`
	HelpWall    []float64 `json:"help_wall_seconds"`
	Server      string    `json:"server"`
}

func main() {
	bin := flag.String("bin", "bin/headroom", "the program")
	out := flag.String("out", "", "result file")
	tables := flag.Int("tables", 1000, "tables on the server")
	runs := flag.Int("runs", 7, "runs of each")
	flag.Parse()
	if err := run(*bin, *out, *tables, *runs); err != nil {
		log.Fatal(err)
	}
}

func run(bin, out string, tables, runs int) error {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Minute)
	defer stop()
	s, err := pglocal.Start(ctx, pglocal.Options{Name: "lookcost", Settings: map[string]string{
		"log_connections": "on", "log_disconnections": "on", "log_min_duration_statement": "0", "log_line_prefix": "%p %a ", "max_locks_per_transaction": "2000"}})
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }()
	if err := fill(ctx, s.DSN(), tables); err != nil {
		return err
	}
	r := result{When: time.Now().UTC().Format(time.RFC3339), Tables: tables, Server: s.Version}
	before := len(s.Log(1 << 20))
	for range runs {
		wall, rss, err := once(bin, "check", "--db", s.DSN())
		if err != nil {
			return err
		}
		r.CheckWall, r.CheckRSS = append(r.CheckWall, wall), append(r.CheckRSS, rss)
	}
	r.readLog(s.Log(1 << 20)[before:], runs)
	for range runs {
		wall, _, err := once(bin, "check", "--no-probe", "--db", s.DSN())
		if err != nil {
			return err
		}
		r.NoProbeWall = append(r.NoProbeWall, wall)
		if wall, _, err = once(bin, "--help"); err != nil {
			return err
		}
		r.HelpWall = append(r.HelpWall, wall)
	}
	return r.write(out)
}

func fill(ctx context.Context, dsn string, tables int) error {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	for i := range tables {
		_, err := c.Exec(ctx, fmt.Sprintf("create table t%d (k bigint primary key, doc jsonb); insert into t%d select g, '{}' from generate_series(1, 100) g; update t%d set doc = '[]'", i, i, i))
		if err != nil {
			return err
		}
	}
	return nil
}

// once runs the program and returns wall time and peak memory. Findings are
// not a failure.
func once(bin string, args ...string) (float64, int64, error) {
	cmd := exec.Command(bin, args...)
	start := time.Now()
	outText, err := cmd.CombinedOutput()
	wall := time.Since(start).Seconds()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 3) {
		return 0, 0, fmt.Errorf("%s %v: %w: %s", bin, args, err, outText)
	}
	ru := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return wall, ru.Maxrss * 1024, nil
}

var durations = regexp.MustCompile(`^(\d+) headroom .*duration: ([0-9.]+) ms`)

// readLog counts statements and finds the longest, and how many connections
// of ours were open at once.
func (r *result) readLog(lines []string, runs int) {
	open := 0
	for _, l := range lines {
		if m := durations.FindStringSubmatch(l); m != nil {
			ms, _ := strconv.ParseFloat(m[2], 64)
			r.Longest = max(r.Longest, ms/1000)
			r.Statements++
		}
		switch {
		case strings.Contains(l, "connection authorized") && strings.Contains(l, "application_name=headroom"):
			open++
			r.Connections = max(r.Connections, open)
		case strings.Contains(l, " headroom ") && strings.Contains(l, "disconnection:"):
			open--
		}
	}
	r.Statements /= runs
}

func (r *result) write(out string) error {
	fmt.Printf("check with %d tables: %.2f s median (without the disk probe %.2f s), peak memory %d MB, %d connection, %d statements, longest %.0f ms; --help %.0f ms\n",
		r.Tables, stats.Quantile(r.CheckWall, 0.5), stats.Quantile(r.NoProbeWall, 0.5), most(r.CheckRSS)>>20, r.Connections, r.Statements, 1000*r.Longest, 1000*stats.Quantile(r.HelpWall, 0.5))
	if out == "" {
		return nil
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(raw, '\n'), 0o644)
}

func most(v []int64) (m int64) {
	for _, x := range v {
		m = max(m, x)
	}
	return m
}
