// Command upsert measures engine/upsert beside what a careful programmer
// writes by hand with pgx, on one private server: interleaved rounds, the same
// rows, connections and durability. It writes the ratios to a file.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/host"
	"headroom/pglocal"
	"headroom/probe/proc"
	"headroom/stats"
)

// bench is what all arms share.
type bench struct {
	srv    *pglocal.Server
	admin  *pgx.Conn
	conns  int
	keys   int64
	round  time.Duration
	rounds int
	rng    *rand.Rand
	file   file
}

// arm is one way to do the same work: it works for about the given time and
// returns the rows done and the time it took until the last was durable.
type arm struct {
	Name string
	run  func(ctx context.Context, b *bench, d time.Duration) (rows int64, took time.Duration, err error)
}

// ratio is ours by a peer's: rows per second of paired rounds.
type ratio struct {
	Ours, Peer string
	Goal       float64 // 0: none
	stats.Comparison
}

// part is one comparison.
type part struct {
	Name   string
	Rates  map[string][]float64 // rows per second of each arm, round by round
	Median map[string]float64
	Costs  map[string]cost // of one row
	Ratios []ratio
}

type file struct {
	Date, Server, Go, CPU string
	Cores, Connections    int
	Keys                  int64
	Seconds               float64 // of a round
	Settings              map[string]string
	Note                  string `json:",omitempty"` // what a reader must know of this run
	Parts                 []part
}

var settings = map[string]string{"shared_buffers": "3GB", "max_wal_size": "10GB", "checkpoint_timeout": "1h", "autovacuum": "off", "max_connections": "100"}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "upsert:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	quick := flag.Bool("quick", false, "a short run: fewer keys and rounds")
	rounds := flag.Int("rounds", 6, "rounds of each arm")
	length := flag.Duration("round", time.Second, "length of a round")
	conns := flag.Int("c", 2, "connections of each arm")
	keys := flag.Int64("keys", 2_000_000, "keys in the table")
	own := flag.Bool("forms", false, "compare our own strategies instead")
	only := flag.String("only", "", "only parts with this in their name; the others stay in the result file as they are")
	note := flag.String("note", "", "what a reader must know of this run, for the result file")
	date := flag.String("date", time.Now().UTC().Format(time.DateOnly), "date in the result file's name")
	out := flag.String("out", "", "result file (default bench/results/upsert-DATE.json; - for none)")
	flag.Parse()
	if *quick {
		*rounds, *length, *keys = 3, 500*time.Millisecond, 300_000
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	srv, err := pglocal.Start(ctx, pglocal.Options{Settings: settings, Name: "upsert bench"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.Stop()) }()
	admin, err := pgx.Connect(ctx, srv.DSN())
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close(context.WithoutCancel(ctx)) }()
	b := &bench{srv: srv, admin: admin, conns: *conns, keys: *keys, round: *length, rounds: *rounds, rng: rand.New(rand.NewPCG(1, 2)),
		file: file{Date: *date, Server: srv.Version, Go: runtime.Version(), CPU: proc.Model(host.Open(host.Options{})).Value, Cores: runtime.NumCPU(), Connections: *conns, Keys: *keys, Seconds: length.Seconds(), Settings: settings}}
	all := parts()
	if *own {
		all = forms()
	}
	for _, p := range all {
		if !strings.Contains(p.name, *only) {
			continue
		}
		if err := b.part(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if *out == "-" {
		return nil
	}
	if *out == "" {
		*out = "bench/results/upsert-" + *date + ".json"
	}
	b.file.Note = *note
	if *only != "" {
		if err := b.file.keep(*out); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(b.file, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(*out, append(text, '\n'), 0o644)
}

// keep takes over the parts of a result file that were not run now, in the
// order in which all would have run.
func (f *file) keep(path string) error {
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
	var all []part
	for _, c := range parts() {
		named := func(p part) bool { return p.Name == c.name }
		if i := slices.IndexFunc(f.Parts, named); i >= 0 {
			all = append(all, f.Parts[i])
		} else if i := slices.IndexFunc(was.Parts, named); i >= 0 {
			all = append(all, was.Parts[i])
		}
	}
	f.Parts = all
	return nil
}

// comparison is a part before it ran.
type comparison struct {
	name  string
	setup func(ctx context.Context, b *bench) error // nil: the standard table
	arms  []arm
	// pairs says which arm is held against which, and the goal; an arm "best"
	// is, round by round, the fastest of the arms that are not ours.
	pairs  []ratio
	rounds int // at most; 0: as asked
	// steady leaves out the checkpoint before each round: pages are in the log
	// whole already, as they are for most of the time between checkpoints.
	steady bool
}

func (b *bench) part(ctx context.Context, c comparison) error {
	setup := c.setup
	if setup == nil {
		setup = standard(130)
	}
	if err := setup(ctx, b); err != nil {
		return err
	}
	rounds := b.rounds
	if c.rounds > 0 {
		rounds = min(rounds, c.rounds)
	}
	p := part{Name: c.name, Rates: map[string][]float64{}, Median: map[string]float64{}, Costs: map[string]cost{}}
	costs := map[string][]cost{}
	for round := -1; round < rounds; round++ { // the first only warms up
		for _, i := range b.rng.Perm(len(c.arms)) {
			a := c.arms[i]
			if _, err := b.admin.Exec(ctx, "VACUUM"); err != nil {
				return err
			}
			if !c.steady {
				if _, err := b.admin.Exec(ctx, "CHECKPOINT"); err != nil {
					return err
				}
			}
			d := b.round
			if round < 0 {
				d /= 4
			}
			from, err := b.spent(ctx)
			if err != nil {
				return err
			}
			rows, took, err := a.run(ctx, b, d)
			if err != nil {
				return fmt.Errorf("%s: %w", a.Name, err)
			}
			to, err := b.spent(ctx)
			if err != nil {
				return err
			}
			if round >= 0 {
				costs[a.Name] = append(costs[a.Name], perRow(from, to, rows))
				p.Rates[a.Name] = append(p.Rates[a.Name], float64(rows)/took.Seconds())
			}
		}
	}
	for name, r := range p.Rates {
		p.Median[name] = stats.Quantile(r, 0.5)
		p.Costs[name] = middle(costs[name])
	}
	fmt.Printf("%s\n", c.name)
	for _, a := range c.arms {
		c := p.Costs[a.Name]
		fmt.Printf("  %-28s %10.0f rows/s   CPU of a row: client %6.2f µs, server %6.2f µs; log %5.0f bytes\n", a.Name, p.Median[a.Name], 1e6*c.Client, 1e6*c.Server, c.WAL)
	}
	for _, r := range c.pairs {
		var pairs []stats.Pair
		for i := range rounds {
			pairs = append(pairs, stats.Pair{Base: p.rate(r.Peer, r.Ours, i), Changed: p.Rates[r.Ours][i]})
		}
		var err error
		if r.Comparison, err = stats.Compare(pairs, 0.95); err != nil {
			return err
		}
		fmt.Printf("  %-28s %6.2f × %-20s [%.2f, %.2f]  goal %.2f\n", r.Ours, r.Ratio.Center, r.Peer, r.Ratio.Lo, r.Ratio.Hi, r.Goal)
		p.Ratios = append(p.Ratios, r)
	}
	b.file.Parts = append(b.file.Parts, p)
	return nil
}

// rate is an arm's rate in a round. "best" is the arm with the best median of
// those by hand: the best of each round would be flattered by chance.
func (p *part) rate(name, ours string, round int) float64 {
	if name == "best" {
		best := 0.0
		for n, m := range p.Median {
			if n != ours && m > best && strings.HasPrefix(n, "pgx") {
				best, name = m, n
			}
		}
	}
	return p.Rates[name][round]
}
