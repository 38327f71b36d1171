// Command pgcollect measures what the collectors of topic postgres cost a
// server with many tables: time and CPU of each round, on the server's side
// and on ours, the longest statement, and what is left of a load's
// transactions per second while they run, in interleaved pairs of windows. It
// writes a result file.
//
// All of it runs best on one CPU, before everybody else there: then the
// server, its load and the collectors share what they have, others do not come
// between, and what the collectors take shows most:
//
//	taskset -c 3 nice -n -20 pgcollect -out FILE
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/host"
	"headroom/metric"
	"headroom/pglocal"
	"headroom/stats"
	"headroom/topic/postgres"
)

// result is the file; times in seconds unless the name says otherwise.
type result struct {
	Date, Server, Go     string
	Cores                int
	Tables, Statements   int     // what the server holds
	Sessions             int     // that are idle on it
	Rounds               int     // of each collector
	Collectors           []cost  // one by one
	ServerCPUPer10s      float64 // of all at their intervals
	OurCPUPer10s         float64
	ServerShareOfOneCore float64
	LongestStatementMS   []statement // in the server's own words, slowest first
	Note                 string
	Trials               []trial `json:",omitempty"`
}

// cost is what one round of one collector takes: median, and the worst.
type cost struct {
	Name        string
	Every       float64
	Samples     int
	WallMS      float64
	WorstWallMS float64
	ServerCPUMS float64 // mean, of the session that reads
	OurCPUMS    float64 // mean, of this process
}

type statement struct {
	Begins        string
	MeanMS, MaxMS float64
	Calls         int64
}

type options struct {
	major, tables, rounds, sessions int
	trials, out                     string
}

func main() {
	var o options
	flag.IntVar(&o.major, "major", 18, "major version of the server")
	flag.IntVar(&o.tables, "tables", 1000, "tables on the server")
	flag.IntVar(&o.rounds, "rounds", 60, "rounds of each collector")
	flag.IntVar(&o.sessions, "sessions", 50, "idle sessions on the server")
	flag.StringVar(&o.trials, "trials", "select:10:40:5,tpcb:10:40:5,select:1:12:10",
		"trials LOAD:SPEED:PAIRS:SECONDS, where SPEED is how many times as often as usual the collectors run; \"\": none")
	flag.StringVar(&o.out, "out", "", "result file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o options) (err error) {
	s, err := pglocal.Start(ctx, pglocal.Options{Name: "pgcollect", Major: o.major, Settings: map[string]string{
		"shared_preload_libraries": "pg_stat_statements", "track_io_timing": "on", "max_connections": "200", "shared_buffers": "256MB",
		"synchronous_commit": "off", "max_wal_size": "8GB", "checkpoint_timeout": "1h", "max_locks_per_transaction": "512"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	if err := fill(ctx, s.DSN(), o.tables); err != nil {
		return err
	}
	idle, err := sessions(ctx, s.DSN(), o.sessions)
	if err != nil {
		return err
	}
	defer idle()
	r := &result{Date: time.Now().UTC().Format(time.RFC3339), Server: s.Version, Go: runtime.Version(), Cores: runtime.NumCPU(),
		Tables: o.tables, Sessions: o.sessions, Rounds: o.rounds, Note: "CPUs that this process may use: " + allowed()}
	if err := r.costs(ctx, s, o.rounds); err != nil {
		return err
	}
	r.print()
	if o.trials != "" {
		if err := r.trials(ctx, s, o.trials); err != nil {
			return err
		}
	}
	return r.write(o.out)
}

// fill makes tables with an index more than they need, dead rows, and many
// different statements in pg_stat_statements.
func fill(ctx context.Context, dsn string, tables int) error {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, "create extension pg_stat_statements; create role watcher login; grant pg_monitor to watcher"); err != nil {
		return err
	}
	for i := range tables {
		_, err := c.Exec(ctx, fmt.Sprintf(`create table t%d (k bigint primary key, v text); create index t%d_v on t%d (v);
			insert into t%d select g, 'x' from generate_series(1, 100) g; update t%d set v = 'y' where k < 50`, i, i, i, i, i))
		if err != nil {
			return err
		}
	}
	_, err = c.Exec(ctx, "analyze")
	return err
}

func sessions(ctx context.Context, dsn string, n int) (end func(), err error) {
	var list []*pgx.Conn
	end = func() {
		for _, c := range list {
			_ = c.Close(context.Background())
		}
	}
	for range n {
		c, err := pgx.Connect(ctx, dsn)
		if err != nil {
			end()
			return nil, err
		}
		list = append(list, c)
	}
	return end, nil
}

func interval(c *metric.Collector) time.Duration { return cmp.Or(c.Every, 10*time.Second) }

// costs runs each collector alone, round after round, on one session.
func (r *result) costs(ctx context.Context, s *pglocal.Server, rounds int) error {
	l := host.Open(host.Options{DSN: s.DSN() + " user=watcher", WithPG: true})
	defer l.Close()
	pid, err := backend(ctx, l)
	if err != nil {
		return err
	}
	for _, c := range postgres.Topic.Collectors {
		one := cost{Name: c.Name, Every: interval(c).Seconds()}
		memory := &metric.Memory{}
		var walls []float64
		var server, ours time.Duration
		for i := range rounds + 3 { // the first fill caches
			out := metric.NewOut(c, time.Now(), metric.Label{Name: "host", Value: "bench"}, metric.Label{Name: "server", Value: "5432"})
			out.Memory = memory
			cpu, own, start := onCPU(pid), ownCPU(), time.Now()
			if err := c.Collect(ctx, l, out); err != nil {
				return err
			}
			if i < 3 {
				continue
			}
			walls = append(walls, 1000*time.Since(start).Seconds())
			server += onCPU(pid) - cpu
			ours += ownCPU() - own
			one.Samples = len(out.Rows)
		}
		one.WallMS, one.WorstWallMS = stats.Quantile(slices.Sorted(slices.Values(walls)), 0.5), slices.Max(walls)
		one.ServerCPUMS, one.OurCPUMS = 1000*server.Seconds()/float64(rounds), 1000*ours.Seconds()/float64(rounds)
		r.Collectors = append(r.Collectors, one)
		r.ServerCPUPer10s += one.ServerCPUMS / 1000 * 10 / one.Every
		r.OurCPUPer10s += one.OurCPUMS / 1000 * 10 / one.Every
	}
	r.ServerShareOfOneCore = r.ServerCPUPer10s / 10
	return r.longest(ctx, s.DSN())
}

// backend is the process of the session that a Reader uses.
func backend(ctx context.Context, l *host.Local) (pid int, err error) {
	err = l.PG(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, "select pg_backend_pid()").Scan(&pid)
	})
	return pid, err
}

// onCPU is how long a process has run, from the scheduler's own account.
func onCPU(pid int) time.Duration {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	var ns int64
	_, _ = fmt.Sscan(string(b), &ns)
	return time.Duration(ns)
}

// allowed is the list of CPUs that we, and with us the server, may run on.
func allowed() string {
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return strings.TrimSpace(list)
		}
	}
	return "unknown"
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// longest asks the server which of our statements took longest.
func (r *result) longest(ctx context.Context, dsn string) error {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	if err := c.QueryRow(ctx, "select count(*) from pg_stat_statements(false)").Scan(&r.Statements); err != nil {
		return err
	}
	rows, err := c.Query(ctx, `select query, mean_exec_time, max_exec_time, calls from pg_stat_statements
		where userid = 'watcher'::regrole order by max_exec_time desc limit 8`)
	if err != nil {
		return err
	}
	r.LongestStatementMS, err = pgx.CollectRows(rows, pgx.RowToStructByPos[statement])
	for i := range r.LongestStatementMS {
		s := &r.LongestStatementMS[i]
		s.Begins = postgres.Redact(s.Begins, 90)
	}
	return err
}

func (r *result) print() {
	fmt.Printf("PostgreSQL %s, %d tables, %d statements counted, %d idle sessions\n", r.Server, r.Tables, r.Statements, r.Sessions)
	for _, c := range r.Collectors {
		fmt.Printf("%-22s every %4.0f s  %4d samples  wall %6.2f ms (worst %6.2f)  server CPU %6.2f ms  ours %5.2f ms\n",
			c.Name, c.Every, c.Samples, c.WallMS, c.WorstWallMS, c.ServerCPUMS, c.OurCPUMS)
	}
	fmt.Printf("at their intervals: server %.2f ms CPU in 10 s = %.3f %% of one core, ours %.2f ms\n",
		1000*r.ServerCPUPer10s, 100*r.ServerShareOfOneCore, 1000*r.OurCPUPer10s)
	for _, s := range r.LongestStatementMS {
		fmt.Printf("  %6.2f ms (mean %5.2f, %d calls) %s\n", s.MaxMS, s.MeanMS, s.Calls, strings.TrimSpace(s.Begins))
	}
}

func (r *result) write(file string) error {
	if file == "" {
		return nil
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(raw, '\n'), 0o644)
}
