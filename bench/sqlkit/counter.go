package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"headroom/engine/sqlkit"
	"headroom/pglocal"
	"headroom/stats"
)

// counted is one way to add to one hot counter; additions per second, each in
// a durable transaction of its own, one entry per round.
type counted struct {
	Way     string    `json:"way"`
	Writers int       `json:"writers"`
	Rates   []float64 `json:"additions_per_second"`
	Median  float64   `json:"median_per_second"`
}

const (
	writers     = 8
	counterTime = 2 * time.Second
	counterRuns = 4
)

// counters compares the slotted counter with one row that all update.
func counters(ctx context.Context, srv *pglocal.Server) ([]counted, error) {
	c, err := sqlkit.Open(ctx, srv.DSN())
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, "create table plain (key text primary key, value bigint not null)"); err != nil {
		return nil, err
	}
	if _, err := c.Exec(ctx, "insert into plain values ('hot', 0)"); err != nil {
		return nil, err
	}
	if _, err := c.Exec(ctx, "select headroom.counter_create('slotted')"); err != nil {
		return nil, err
	}
	out := []counted{{Way: "headroom.counter_add", Writers: writers}, {Way: "UPDATE of one row", Writers: writers}}
	statements := []string{"select headroom.counter_add('slotted', 'hot')", "update plain set value = value + 1 where key = 'hot'"}
	var added [2]int64
	for range counterRuns {
		for i := range out {
			n, err := addFor(ctx, srv, statements[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", out[i].Way, err)
			}
			added[i] += n
			out[i].Rates = append(out[i].Rates, float64(n)/counterTime.Seconds())
		}
	}
	var total int64
	if err := c.QueryRow(ctx, "select headroom.counter_read('slotted', 'hot')::bigint").Scan(&total); err != nil {
		return nil, err
	}
	if total != added[0] {
		return nil, fmt.Errorf("the counter says %d after %d additions", total, added[0])
	}
	fmt.Printf("one counter, %d writers, durable\n", writers)
	for i := range out {
		out[i].Median = stats.Quantile(out[i].Rates, 0.5)
		fmt.Printf("  %-36s %9.0f /s\n", out[i].Way, out[i].Median)
	}
	return out, nil
}

// addFor runs the statement on all writers' connections for a while.
func addFor(ctx context.Context, srv *pglocal.Server, sql string) (int64, error) {
	var n atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, writers)
	for range writers {
		conn, err := sqlkit.Open(ctx, srv.DSN())
		if err != nil {
			return 0, err
		}
		defer conn.Close(ctx)
		wg.Go(func() {
			for end := time.Now().Add(counterTime); time.Now().Before(end); n.Add(1) {
				if _, err := conn.Exec(ctx, sql); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return 0, err
	default:
		return n.Load(), nil
	}
}
