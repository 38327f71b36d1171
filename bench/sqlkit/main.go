// Command sqlkit measures the SQL kit beside what one writes by hand, on one
// private server with its default settings, the ways of each task in turns and
// in a new order each round, and writes medians and ratios to a file.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/engine/sqlkit"
	"headroom/pglocal"
	"headroom/stats"
)

// way is one way to do a task. Slow ones take part in the first rounds only.
type way struct {
	Name  string
	sql   string
	ours  bool
	first int // rounds; 0: all
}

// task is what the ways do; all must give the same answer.
type task struct {
	Name  string
	setup string // settings
	ways  []way
}

// figure is the result of one way; Seconds has one entry per round, Ratios how
// many times slower than ours the others were (median against median).
type figure struct {
	Way     string             `json:"way"`
	Ours    bool               `json:"ours"`
	Seconds []float64          `json:"seconds"`
	Median  float64            `json:"median_seconds"`
	CPU     float64            `json:"median_cpu_seconds"` // of the session's process, without parallel workers; steadier on a busy machine
	Ratios  map[string]float64 `json:"ours_is_faster_by,omitempty"`
}

type result struct {
	Task    string   `json:"task"`
	Figures []figure `json:"figures"`
}

type file struct {
	Date      string    `json:"date"`
	Server    string    `json:"server"`
	Go        string    `json:"go"`
	Cores     int       `json:"cores"`
	Rounds    int       `json:"rounds"`
	Keys      int       `json:"distinct_table_rows"`
	Counts    int       `json:"counts_table_rows"`
	Results   []result  `json:"results"`
	FirstRow  []figure  `json:"first_row"`
	Counter   []counted `json:"counters"`
	TookTotal float64   `json:"took_seconds"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "sqlkit:", err)
		os.Exit(1)
	}
}

func run() error {
	rounds := flag.Int("rounds", 11, "rounds")
	major := flag.Int("major", 0, "major version of the server; 0: the newest installed")
	keys := flag.Int("keys", 10_000_000, "rows of the table whose distinct keys are listed")
	counts := flag.Int("counts", 1_000_000, "rows of the table whose values are counted")
	out := flag.String("out", "", "result file (default bench/results/sqlkit-DATE.json, with -pgMAJOR where one was asked for; - for none)")
	date := flag.String("date", time.Now().UTC().Format(time.DateOnly), "date in the result file's name")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	start := time.Now()
	srv, err := pglocal.Start(ctx, pglocal.Options{Major: *major})
	if err != nil {
		return err
	}
	defer srv.Stop()
	c, err := sqlkit.Open(ctx, srv.DSN())
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	if err := fill(ctx, c, *keys, *counts); err != nil {
		return err
	}
	f := file{Date: *date, Server: srv.Version, Go: runtime.Version(), Cores: runtime.NumCPU(), Rounds: *rounds, Keys: *keys, Counts: *counts}
	for _, t := range tasks() {
		r, err := measure(ctx, c, t, *rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		f.Results = append(f.Results, r)
	}
	if f.FirstRow, err = firstRow(ctx, c, *rounds); err != nil {
		return err
	}
	if f.Counter, err = counters(ctx, srv); err != nil {
		return err
	}
	f.TookTotal = time.Since(start).Seconds()
	return f.write(*out, *major)
}

func (f file) write(out string, major int) error {
	if out == "-" {
		return nil
	}
	if out == "" {
		out = "bench/results/sqlkit-" + f.Date
		if major != 0 {
			out += fmt.Sprintf("-pg%d", major)
		}
		out += ".json"
	}
	b, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(b, '\n'), 0o644)
}

// fill makes the tables: values in no order, as they come in life.
func fill(ctx context.Context, c *pgx.Conn, keys, counts int) error {
	if _, err := sqlkit.Install(ctx, c); err != nil {
		return err
	}
	for _, sql := range []string{
		fmt.Sprintf("create table c as select (i::bigint * 7919 %% 1000)::int as n, 'value ' || (i::bigint * 7919 %% 1000) as s from generate_series(1, %d) i", counts),
		fmt.Sprintf("create table k as select (i %% 1000)::int as device, 'device ' || i %% 1000 as name, i as ts from generate_series(1, %d) i", keys),
		"alter table k alter device set not null", "alter table k alter name set not null",
		"create index on k (device, ts)", "create index on k (name)", "vacuum analyze c", "vacuum analyze k",
		`create function naive_add(state jsonb, x anyelement) returns jsonb language sql immutable strict parallel safe as
			$$ select state || jsonb_build_object(x::text, coalesce((state ->> x::text)::bigint, 0) + 1) $$`,
		"create aggregate naive_counts(anyelement) (sfunc = naive_add, stype = jsonb, initcond = '{}')",
	} {
		if _, err := c.Exec(ctx, sql); err != nil {
			return fmt.Errorf("fill: %s: %w", sql, err)
		}
	}
	return nil
}

func tasks() []task {
	count := func(name, setup, col string) task {
		return task{Name: name, setup: setup, ways: []way{
			{Name: "headroom.value_counts(table, column)", ours: true, sql: "select headroom.value_counts('c', '" + col + "')"},
			{Name: "headroom.value_counts(x)", ours: true, sql: "select headroom.value_counts(" + col + ") from c"},
			{Name: "GROUP BY + jsonb_object_agg", sql: "select jsonb_object_agg(" + col + ", times) from (select " + col + ", count(*) as times from c group by " + col + ") s"},
		}}
	}
	// The naive way takes minutes for a million rows: its time is linear in the
	// rows once all values were seen, so the ratio is that of fewer rows.
	const some = " from (select n from c limit 20000) s"
	naive := task{Name: "value_counts, integer, the first 20,000 rows", ways: []way{
		{Name: "headroom.value_counts(x)", ours: true, sql: "select headroom.value_counts(n)" + some},
		{Name: "naive aggregate", sql: "select naive_counts(n)" + some, first: 3},
	}}
	distinct := func(col string) task {
		hand := strings.ReplaceAll("with recursive t as ((select X from k order by X limit 1) union all select (select X from k where X > t.X order by X limit 1) from t where t.X is not null) select count(*), max(X)::text from t where X is not null", "X", col)
		return task{Name: "distinct, 1,000 keys, " + col, ways: []way{
			{Name: "headroom.distinct_keys", ours: true, sql: "select count(*), max(k ->> '" + col + "') from headroom.distinct_keys('k', '" + col + "') k"},
			{Name: "headroom.distinct_rows", ours: true, sql: "select count(*), max(" + col + ")::text from headroom.distinct_rows(null::k, '" + col + "')"},
			{Name: "headroom.distinct_after, one page", ours: true, sql: "select count(*), max(k ->> '" + col + "') from headroom.distinct_after('k', null, 2000, '" + col + "') k"},
			{Name: "headroom.distinct_query", ours: true, sql: "query:" + col},
			{Name: "recursive query by hand", sql: hand},
			{Name: "SELECT DISTINCT", sql: "select count(*), max(" + col + ")::text from (select distinct " + col + " from k) s", first: 3},
		}}
	}
	const serial = "set max_parallel_workers_per_gather = 0"
	return []task{count("value_counts, integer, default settings", "", "n"), count("value_counts, integer, one process", serial, "n"),
		count("value_counts, text, default settings", "", "s"), count("value_counts, text, one process", serial, "s"), naive,
		distinct("device"), distinct("name")}
}

// measure runs the ways in turns after a round that only warms up.
func measure(ctx context.Context, c *pgx.Conn, t task, rounds int) (result, error) {
	r := result{Task: t.Name}
	if _, err := c.Exec(ctx, "reset all"); err != nil {
		return r, err
	}
	if _, err := c.Exec(ctx, t.setup, pgx.QueryExecModeSimpleProtocol); err != nil {
		return r, err
	}
	for i, w := range t.ways {
		if col, ok := strings.CutPrefix(w.sql, "query:"); ok {
			var q string
			if err := c.QueryRow(ctx, "select headroom.distinct_query('k', $1)", col).Scan(&q); err != nil {
				return r, err
			}
			t.ways[i].sql = "select count(*), max(" + col + ")::text from (" + q + ") s"
		}
		r.Figures = append(r.Figures, figure{Way: w.Name, Ours: w.ours})
	}
	cpu := make([][]float64, len(t.ways))
	for round := -1; round < rounds; round++ {
		for _, i := range rand.Perm(len(t.ways)) {
			w := t.ways[i]
			if w.first > 0 && (round < 0 || round >= w.first) {
				continue
			}
			before := cpuOf(c)
			took, err := once(ctx, c, w.sql)
			if err != nil {
				return r, fmt.Errorf("%s: %w", w.Name, err)
			}
			if round >= 0 {
				r.Figures[i].Seconds = append(r.Figures[i].Seconds, took)
				cpu[i] = append(cpu[i], cpuOf(c)-before)
			}
		}
	}
	for i := range r.Figures {
		r.Figures[i].CPU = stats.Quantile(cpu[i], 0.5)
	}
	r.compare()
	return r, nil
}

// compare fills in medians and ratios and prints them.
func (r *result) compare() {
	fmt.Println(r.Task)
	for i := range r.Figures {
		r.Figures[i].Median = stats.Quantile(r.Figures[i].Seconds, 0.5)
	}
	for i, f := range r.Figures {
		line := fmt.Sprintf("  %-36s %9.1f ms (CPU %8.1f ms)", f.Way, 1000*f.Median, 1000*f.CPU)
		if f.Ours {
			r.Figures[i].Ratios = map[string]float64{}
			for _, peer := range r.Figures {
				if !peer.Ours {
					r.Figures[i].Ratios[peer.Way] = peer.Median / f.Median
					line += fmt.Sprintf("   %.2f × %s", peer.Median/f.Median, peer.Way)
				}
			}
		}
		fmt.Println(line)
	}
}

func once(ctx context.Context, c *pgx.Conn, sql string) (float64, error) {
	start := time.Now()
	rows, err := c.Query(ctx, sql)
	if err != nil {
		return 0, err
	}
	for rows.Next() {
	}
	return time.Since(start).Seconds(), rows.Err()
}

// cpuOf is the processor time that the session's process has used, in seconds;
// 0 where the kernel does not tell.
func cpuOf(c *pgx.Conn) float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", c.PgConn().PID()))
	var ns float64
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscan(string(raw), &ns); err != nil {
		return 0
	}
	return ns / 1e9
}
