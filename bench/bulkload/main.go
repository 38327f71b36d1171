// Command bulkload measures `headroom load` beside COPY with indexes in place,
// the best recipe by hand, and pgloader, with the people table on one private
// server with default settings, in interleaved rounds, and writes the times to
// a file.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/engine/bulkload"
	"headroom/engine/sample"
	"headroom/host"
	"headroom/pglocal"
	"headroom/probe/proc"
	"headroom/stats"
)

// row is one arm of one experiment. Seconds are of each round; Ratio is the
// arm's time by that of `headroom load` in the same round (above 1: ours is
// faster).
type row struct {
	Experiment, Arm  string
	Seconds          []float64
	Ratio            []float64
	Min, Median, Max float64 // of Ratio
	// Predicted is what `load --plan` says, in seconds, and Factor the median
	// of it by the real time: above 1 the plan is too pessimistic. Of ours only.
	Predicted []float64 `json:",omitempty"`
	Factor    float64   `json:",omitempty"`
	Note      string    `json:",omitempty"`
	PeakRSS   int64     `json:",omitempty"` // bytes, of `headroom load`: the largest of all rounds
}

type file struct {
	Date, Server, CPU, Pgloader string
	Cores                       int
	Records, Bytes              int64
	Rounds                      int
	Rows                        []row
}

// lab is where all is measured.
type lab struct {
	ctx     context.Context
	sv      *pglocal.Server
	conn    *pgx.Conn
	dir     string
	prog    string // headroom
	records int64
	peak    int64
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bulkload:", err)
		os.Exit(1)
	}
}

func run() error {
	rounds := flag.Int("rounds", 5, "rounds of each experiment, after one that only warms up")
	records := flag.Int64("records", 600_000, "rows of the people table")
	only := flag.String("only", "", "only experiments with this in their name: load, append, bad, analyzed; the others stay in the result file as they are")
	date := flag.String("date", time.Now().UTC().Format(time.DateOnly), "date in the result file's name")
	out := flag.String("out", "", "result file (default bench/results/bulkload-DATE.json; - for none)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	l, err := open(ctx, *records)
	if err != nil {
		return err
	}
	defer l.close()
	f := file{Date: *date, CPU: proc.Model(host.Open(host.Options{})).Value, Cores: runtime.NumCPU(), Records: *records, Rounds: *rounds, Server: l.sv.Version, Pgloader: l.pgloaderVersion()}
	if st, err := os.Stat(l.path("people.tsv")); err == nil {
		f.Bytes = st.Size()
	}
	for _, e := range l.experiments() {
		if !strings.Contains(e.name, *only) {
			continue
		}
		rows, err := l.measure(e, *rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		f.Rows = append(f.Rows, rows...)
	}
	if *out == "-" {
		return nil
	}
	if *out == "" {
		*out = "bench/results/bulkload-" + *date + ".json"
	}
	if *only != "" {
		if err := f.keep(*out, l.experiments()); err != nil {
			return err
		}
	}
	b, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(*out, append(b, '\n'), 0o644)
}

// keep takes over the rows of a result file whose experiment was not run now,
// in the order in which all would have run.
func (f *file) keep(path string, all []experiment) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var was file
	if err == nil {
		err = json.Unmarshal(raw, &was)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	ran, rows := f.Rows, []row(nil)
	for _, e := range all {
		other := func(r row) bool { return r.Experiment != e.name }
		found := slices.DeleteFunc(slices.Clone(ran), other)
		if len(found) == 0 {
			found = slices.DeleteFunc(slices.Clone(was.Rows), other)
		}
		rows = append(rows, found...)
	}
	f.Rows = rows
	return nil
}

// open starts the server with its default settings, builds the program and
// writes the inputs.
func open(ctx context.Context, records int64) (*lab, error) {
	l := &lab{ctx: ctx, records: records}
	var err error
	if l.dir, err = os.MkdirTemp("", "headroom-bench-"); err != nil {
		return nil, err
	}
	if err := os.Chmod(l.dir, 0o755); err != nil {
		return nil, err
	}
	l.prog = l.path("headroom")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", l.prog, "./cmd/headroom").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build headroom: %w: %s", err, out)
	}
	if err := l.inputs(); err != nil {
		return nil, err
	}
	if l.sv, err = pglocal.Start(ctx, pglocal.Options{Name: "bulkload"}); err != nil {
		return nil, err
	}
	l.conn, err = pgx.Connect(ctx, l.sv.DSN())
	return l, err
}

func (l *lab) close() {
	_ = l.conn.Close(context.Background())
	if err := l.sv.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = os.RemoveAll(l.dir)
}

func (l *lab) path(name string) string { return filepath.Join(l.dir, name) }

// inputs writes the files: all, the twentieth that is appended, and all with
// one record in a thousand bad.
func (l *lab) inputs() error {
	good := sample.People(1)
	for _, f := range []struct {
		name     string
		gen      *sample.PeopleGen
		from, to int64
	}{{"people.tsv", good, 0, l.records}, {"more.tsv", good, l.records, l.records + l.records/20}, {"bad.tsv", good.WithBad(0.001), 0, l.records}} {
		var b []byte
		for i := f.from; i < f.to; i++ {
			b = f.gen.AppendTSV(b, i)
		}
		if err := os.WriteFile(l.path(f.name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// experiment is a set of arms that start from the same table.
type experiment struct {
	name string
	base []string // statements that make the table anew before each round
	file string   // what ours loads
	arms []arm
}

type arm struct {
	name string
	run  func() error
}

// measure runs the arms in rounds, in an order that turns with each round.
// The first arm is ours.
func (l *lab) measure(e experiment, rounds int) ([]row, error) {
	rows := make([]row, len(e.arms))
	for i, a := range e.arms {
		rows[i] = row{Experiment: e.name, Arm: a.name}
	}
	l.peak = 0
	for n := -1; n < rounds; n++ {
		took := make([]float64, len(e.arms))
		for k := range e.arms {
			i := (k + n + len(e.arms)) % len(e.arms)
			if err := l.exec(append(slices.Clone(e.base), "checkpoint")...); err != nil {
				return nil, err
			}
			if i == 0 && n >= 0 {
				if err := l.predict(&rows[0], e.file); err != nil {
					return nil, err
				}
			}
			start := time.Now()
			if err := e.arms[i].run(); err != nil {
				return nil, fmt.Errorf("%s: %w", e.arms[i].name, err)
			}
			took[i] = time.Since(start).Seconds()
		}
		for i := range e.arms {
			if n >= 0 {
				rows[i].Seconds = append(rows[i].Seconds, took[i])
				rows[i].Ratio = append(rows[i].Ratio, took[i]/took[0])
			}
		}
	}
	rows[0].PeakRSS = l.peak
	var factors []float64
	for i, s := range rows[0].Predicted {
		factors = append(factors, s/rows[0].Seconds[i])
	}
	rows[0].Factor = stats.Quantile(factors, 0.5)
	fmt.Printf("%-44s the plan's estimate is %.2f of the real time\n", e.name, rows[0].Factor)
	for i := range rows {
		r := &rows[i]
		r.Min, r.Median, r.Max = slices.Min(r.Ratio), stats.Quantile(r.Ratio, 0.5), slices.Max(r.Ratio)
		fmt.Printf("%-44s %-34s %7.2f s   ratio min %.2f  median %.2f  max %.2f\n", r.Experiment, r.Arm, stats.Quantile(r.Seconds, 0.5), r.Min, r.Median, r.Max)
	}
	if l.peak > 0 {
		fmt.Printf("%-44s peak memory of headroom load %d MiB\n", e.name, l.peak>>20)
	}
	return rows, nil
}

// predict notes what the plan says of a load.
func (l *lab) predict(r *row, file string) error {
	cfg, err := pgx.ParseConfig(l.sv.DSN())
	if err != nil {
		return err
	}
	p, err := bulkload.Make(l.ctx, bulkload.Options{Config: cfg, Path: l.path(file), Table: "people", MaxRejects: -1, Rejects: l.path("rejects")})
	if err != nil {
		return err
	}
	r.Predicted = append(r.Predicted, p.Seconds())
	return nil
}

func (l *lab) exec(sqls ...string) error {
	for _, sql := range sqls {
		if _, err := l.conn.Exec(l.ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// count checks that an arm loaded what it should.
func (l *lab) count(want int64) error {
	var n int64
	if err := l.conn.QueryRow(l.ctx, "select count(*) from people").Scan(&n); err != nil {
		return err
	}
	if n != want {
		return fmt.Errorf("%d rows are in, not %d", n, want)
	}
	return nil
}

// headroom runs the program as a user would and notes its memory.
func (l *lab) headroom(args ...string) error {
	c := exec.CommandContext(l.ctx, l.prog, append([]string{"load", "--db", l.sv.DSN(), "--into", "people"}, args...)...)
	c.Env = append(os.Environ(), "HEADROOM_STATE="+l.path("state"))
	c.Dir = l.dir
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		return err
	}
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { l.watch(c.Process.Pid, stop) })
	err := c.Wait()
	close(stop)
	watch.Wait()
	if err != nil {
		return fmt.Errorf("headroom load: %w: %s", err, out.String())
	}
	return nil
}

// watch notes the largest memory of a process. What the kernel tells at its
// end would count ours, from before it became another program.
func (l *lab) watch(pid int, stop <-chan struct{}) {
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // gone: nothing to note
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		for line := range strings.Lines(string(b)) {
			var kb int64
			if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kb); n == 1 && exe == l.prog {
				l.peak = max(l.peak, kb<<10)
			}
		}
	}
}

// copyIn is a plain COPY over one connection.
func (l *lab) copyIn(name string) error {
	f, err := os.Open(l.path(name))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = l.conn.PgConn().CopyFrom(l.ctx, f, "copy people from stdin")
	return err
}
