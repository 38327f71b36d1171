package fastpath

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/engine/loop"
	"headroom/engine/sample"
	"headroom/lab"
	"headroom/trial"
)

// whole checks for a whole number from lo to hi.
func whole(lo, hi int64) func(string) error {
	return func(v string) error {
		if n, err := strconv.ParseInt(v, 10, 64); err != nil || n < lo || n > hi {
			return fmt.Errorf("%q is not a whole number from %d to %d", v, lo, hi)
		}
		return nil
	}
}

// seconds checks for a length of time in seconds.
func seconds(v string) error {
	if s, err := strconv.ParseFloat(v, 64); err != nil || !(s >= 0.01 && s <= 3600) {
		return fmt.Errorf("%q is not a number of seconds from 0.01 to 3600", v)
	}
	return nil
}

// numbers reads parameters that were checked before, or are defaults.
type numbers map[string]string

func (n numbers) int(name string) int64 {
	v, _ := strconv.ParseInt(n[name], 10, 64) // checked by whole
	return v
}

func (n numbers) time(name string) time.Duration {
	v, _ := strconv.ParseFloat(n[name], 64) // checked by seconds
	return time.Duration(v * float64(time.Second))
}

// Parameters that several labs have.
var (
	clientsParam = trial.Param{Name: "clients", Doc: "connections that write", Default: "2", Check: whole(1, 60)}
	secondsParam = trial.Param{Name: "seconds", Doc: "how long each turn works", Default: "1.5", Check: seconds}
)

// group are connections that work side by side.
type group []*pgx.Conn

// connect opens n connections and runs statements on each.
func connect(ctx context.Context, s *lab.Stand, n int, statements ...string) (group, error) {
	var g group
	for range n {
		c, err := s.Connect(ctx)
		if err != nil {
			return nil, errors.Join(err, g.close())
		}
		g = append(g, c)
		if err := lab.Exec(ctx, c, statements...); err != nil {
			return nil, errors.Join(err, g.close())
		}
	}
	return g, nil
}

// close works after an interruption, too.
func (g group) close() error {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	var errs []error
	for _, c := range g {
		errs = append(errs, c.Close(ctx))
	}
	return errors.Join(errs...)
}

// during runs work on all connections for d and returns what it did in all.
func (g group) during(ctx context.Context, d time.Duration, work loop.Work) (int64, error) {
	res, err := loop.Run(ctx, loop.Options{Clients: len(g), Duration: d}, work)
	if err != nil {
		return 0, err
	}
	return res.Units, nil
}

// batcher makes the batches of one client: keys of its own, sorted, each once,
// so that clients neither wait for each other nor deadlock.
type batcher struct {
	rng             *rand.Rand
	client, clients int64
	keys            int64 // in the table
	size            int   // of a document
	seed            uint64
	seq             int64
	ids             []int64
	docs            []string
	buf             []byte
}

func newBatcher(seed uint64, client, clients int, keys int64, size int) *batcher {
	return &batcher{rng: rand.New(rand.NewPCG(seed, uint64(client))), client: int64(client), clients: int64(clients), keys: keys, size: size, seed: seed}
}

// draw fills ids and docs for up to n rows.
func (b *batcher) draw(n int) {
	b.ids = b.ids[:0]
	own := (b.keys - b.client + b.clients - 1) / b.clients
	for range n {
		b.ids = append(b.ids, b.rng.Int64N(own)*b.clients+b.client)
	}
	slices.Sort(b.ids)
	b.ids = slices.Compact(b.ids)
	b.docs = b.docs[:0]
	b.seq++
	for _, k := range b.ids {
		b.buf = sample.Reading(b.buf[:0], b.seed, k, b.seq, b.size)
		b.docs = append(b.docs, string(b.buf))
	}
}

// one reads a single text.
func one(ctx context.Context, s *lab.Stand, sql string, args ...any) (v string, err error) {
	c, err := s.Connect(ctx)
	if err != nil {
		return "", err
	}
	defer c.Close(context.WithoutCancel(ctx))
	if err := c.QueryRow(ctx, sql, args...).Scan(&v); err != nil {
		return "", fmt.Errorf("check the table: %w", err)
	}
	return v, nil
}
