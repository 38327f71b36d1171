package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/engine/readtable"
	"headroom/engine/upsert"
)

// eight are the indexes that readers want.
var eight = []string{"(doc->>'device')", "(doc->>'seq')", "(doc->>'state')", "(doc->>'temperature')", "(doc->>'note')",
	"((doc->>'seq')::bigint)", "((doc->>'device')::bigint)", "(doc->>'state'), (doc->>'seq')"}

// indexedTables makes table t, its copy with the indexes, and table t8, which
// has the indexes itself.
func indexedTables(ctx context.Context, b *bench) error {
	whole := b.keys
	b.keys = min(b.keys, 100_000)
	defer func() { b.keys = whole }()
	if err := standard(130)(ctx, b); err != nil {
		return err
	}
	if err := b.exec(ctx, "DROP TABLE IF EXISTS t8", "CREATE TABLE t8 (id bigint PRIMARY KEY, doc jsonb)", "INSERT INTO t8 TABLE t"); err != nil {
		return err
	}
	for _, x := range eight {
		if err := b.exec(ctx, "CREATE INDEX ON t8 ("+x+")"); err != nil {
			return err
		}
	}
	if _, err := readtable.Setup(ctx, b.admin, "t", readtable.Merge, eight); err != nil {
		return err
	}
	return b.exec(ctx, "VACUUM ANALYZE")
}

// feed writes into a table for a time, and returns when all is committed.
func (b *bench) feed(ctx context.Context, table string, d time.Duration) (int64, time.Duration, error) {
	n, err := b.count(ctx)
	if err != nil {
		return 0, 0, err
	}
	w, err := b.open(ctx, table, []string{"doc"}, upsert.Options{Connections: b.conns})
	if err != nil {
		return 0, 0, err
	}
	next := permuted(b, n)
	start := time.Now()
	r := upsert.Row{Key: make([][]byte, 1), Values: make([][]byte, 1)}
	rows := int64(0)
	for rows%16 != 0 || time.Since(start) < d {
		k := next()
		r.Key[0] = strconv.AppendInt(r.Key[0][:0], k, 10)
		r.Values[0] = document(r.Values[0][:0], k, rows, 130)
		if err := w.Add(ctx, r); err != nil {
			return 0, 0, errors.Join(err, w.Close(ctx))
		}
		rows++
	}
	err = w.Close(ctx)
	return rows, time.Since(start), err
}

// refreshed writes into the key-only table while another connection refreshes
// the copy again and again; to the end of the writes, or, with wait, until the
// copy has all of them.
func refreshed(name string, every time.Duration, wait bool) arm {
	return arm{name, func(ctx context.Context, b *bench, d time.Duration) (int64, time.Duration, error) {
		c, err := pgx.Connect(ctx, b.srv.DSN())
		if err != nil {
			return 0, 0, err
		}
		defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
		t, err := readtable.Find(ctx, c, "t")
		if err != nil {
			return 0, 0, err
		}
		stop, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			for {
				select {
				case <-stop:
					ended <- nil
					return
				case <-time.After(every):
				}
				if _, err := t.Refresh(ctx, c); err != nil {
					ended <- fmt.Errorf("refresh: %w", err)
					return
				}
			}
		}()
		start := time.Now()
		rows, took, err := b.feed(ctx, "t", 3*d)
		close(stop)
		if rerr := <-ended; err == nil {
			err = rerr
		}
		if err == nil { // the next round begins with a copy that has all
			_, err = t.Refresh(ctx, c)
		}
		if wait {
			took = time.Since(start)
		}
		return rows, took, err
	}}
}

func indexedPart() comparison {
	plain := arm{"8 indexes on the table", func(ctx context.Context, b *bench, d time.Duration) (int64, time.Duration, error) {
		return b.feed(ctx, "t8", 3*d)
	}}
	const beside, waited = "read table, every 2 s", "read table, last refresh waited for"
	return comparison{name: "8 indexes", setup: indexedTables, rounds: 5,
		arms:  []arm{plain, refreshed(beside, 2*time.Second, false), refreshed(waited, 2*time.Second, true)},
		pairs: []ratio{{Ours: beside, Peer: plain.Name, Goal: 2.5}, {Ours: waited, Peer: plain.Name}}}
}
