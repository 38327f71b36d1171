package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/engine/upsert"
)

// standard makes table t with all keys and documents of about the given size.
func standard(size int) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		keys := b.keys
		if size > 1000 {
			keys = max(min(keys, 200_000_000/int64(size)), 1000)
		}
		return b.exec(ctx, "DROP TABLE IF EXISTS t", "CREATE TABLE t (id bigint PRIMARY KEY, doc jsonb)",
			fmt.Sprintf("INSERT INTO t SELECT i, '%s'::jsonb FROM generate_series(0, %d) i", document(nil, 0, 0, size), keys-1), "VACUUM ANALYZE t")
	}
}

func (b *bench) exec(ctx context.Context, sql ...string) error {
	for _, q := range sql {
		if _, err := b.admin.Exec(ctx, q); err != nil {
			return fmt.Errorf("%.80s: %w", q, err)
		}
	}
	return nil
}

// document appends a document of about size bytes.
func document(buf []byte, k, n int64, size int) []byte {
	from := len(buf)
	buf = strconv.AppendInt(append(buf, `{"device": `...), k, 10)
	buf = strconv.AppendInt(append(buf, `, "seq": `...), n, 10)
	buf = append(buf, `, "temperature": 21.5, "state": "running", "note": "`...)
	for i := uint64(n); len(buf)-from < size-2; i = i*6364136223846793005 + 1442695040888963407 {
		buf = strconv.AppendUint(buf, i>>20, 36)
	}
	return append(buf, `"}`...)
}

// keysOf deals keys out: all of them once, in an order like chance, then
// again; no key twice in a batch and none in two workers, so that arms that
// could not bear that need not.
type keysOf struct{ at, step, n int64 }

func deal(worker, workers int, n int64, start int64) *keysOf {
	return &keysOf{at: start*int64(workers) + int64(worker), step: int64(workers), n: n}
}

func (k *keysOf) next() int64 {
	v := k.at % k.n * 1_000_003 % k.n
	k.at += k.step
	return v
}

var turn atomic.Int64 // rounds begin at other keys

// byHand runs one goroutine with a connection for each worker until the time
// is over; work writes one transaction and returns its rows.
func byHand(setup string, work func(ctx context.Context, c *pgx.Conn, keys *keysOf) (int64, error)) func(context.Context, *bench, time.Duration) (int64, time.Duration, error) {
	return func(ctx context.Context, b *bench, d time.Duration) (int64, time.Duration, error) {
		return b.workers(ctx, b.conns, d, setup, work)
	}
}

func (b *bench) workers(ctx context.Context, n int, d time.Duration, setup string, work func(ctx context.Context, c *pgx.Conn, keys *keysOf) (int64, error)) (int64, time.Duration, error) {
	keys, err := b.count(ctx)
	if err != nil {
		return 0, 0, err
	}
	conns := make([]*pgx.Conn, n)
	for i := range conns {
		c, err := pgx.Connect(ctx, b.srv.DSN())
		if err != nil {
			return 0, 0, err
		}
		defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
		if setup != "" {
			if _, err := c.Exec(ctx, setup); err != nil {
				return 0, 0, err
			}
		}
		conns[i] = c
	}
	var rows atomic.Int64
	errs := make([]error, n)
	var all sync.WaitGroup
	from := turn.Add(1) * 7919
	start := time.Now()
	for i, c := range conns {
		all.Go(func() {
			k := deal(i, n, keys, from)
			for time.Since(start) < d && errs[i] == nil {
				var done int64
				done, errs[i] = work(ctx, c, k)
				rows.Add(done)
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, 0, err
		}
	}
	return rows.Load(), time.Since(start), nil
}

func (b *bench) count(ctx context.Context) (n int64, err error) {
	return n, b.admin.QueryRow(ctx, "SELECT max(id) + 1 FROM t").Scan(&n)
}

const conflict = " ON CONFLICT (id) DO UPDATE SET doc = excluded.doc"

// handUnnest is two arrays and one prepared statement.
func handUnnest(batch, size int) arm {
	return arrays("pgx unnest", "INSERT INTO t SELECT * FROM "+unnest+conflict, batch, size)
}

const unnest = "unnest($1::bigint[], $2::jsonb[])"

// arrays hands keys and documents over in two arrays.
func arrays(name, sql string, batch, size int) arm {
	return arm{name, byHand("", func(ctx context.Context, c *pgx.Conn, keys *keysOf) (int64, error) {
		ids, docs := make([]int64, batch), make([]string, batch)
		for i := range ids {
			ids[i] = keys.next()
			docs[i] = string(document(nil, ids[i], keys.at, size))
		}
		_, err := c.Exec(ctx, sql, ids, docs)
		return int64(batch), err
	})}
}

// splitPart shows what of an upsert costs how much: the same rows handed over
// and parsed only, with the key looked up as well, written to a table without
// write-ahead log, and written in full.
func splitPart() comparison {
	setup := func(ctx context.Context, b *bench) error {
		if err := standard(130)(ctx, b); err != nil {
			return err
		}
		return b.exec(ctx, "DROP TABLE IF EXISTS u", "CREATE UNLOGGED TABLE u (LIKE t INCLUDING ALL)", "INSERT INTO u TABLE t", "VACUUM ANALYZE u")
	}
	return comparison{name: "where a row's time goes", setup: setup, arms: []arm{
		arrays("handed over and parsed", "SELECT count(d) FROM "+unnest+" AS x(k, d)", 1000, 130),
		arrays("and its key looked up", "INSERT INTO t SELECT * FROM "+unnest+" ON CONFLICT (id) DO NOTHING", 1000, 130),
		arrays("and written, without log", "INSERT INTO u SELECT * FROM "+unnest+conflict, 1000, 130),
		arrays("and written, with log", "INSERT INTO t SELECT * FROM "+unnest+conflict, 1000, 130),
		ours("ours, batches of its own size", upsert.Auto, 0, 130, permuted),
	}}
}

// handStaging is COPY in binary form to a temporary table and one statement.
func handStaging(batch, size int) arm {
	return arm{"pgx staging", byHand("CREATE TEMP TABLE s (id bigint, doc jsonb) ON COMMIT DELETE ROWS", func(ctx context.Context, c *pgx.Conn, keys *keysOf) (int64, error) {
		err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			i := 0
			_, err := tx.CopyFrom(ctx, pgx.Identifier{"s"}, []string{"id", "doc"}, pgx.CopyFromFunc(func() ([]any, error) {
				if i++; i > batch {
					return nil, nil
				}
				k := keys.next()
				return []any{k, document(nil, k, keys.at, size)}, nil
			}))
			if err == nil {
				_, err = tx.Exec(ctx, "INSERT INTO t SELECT id, doc FROM s"+conflict)
			}
			return err
		})
		return int64(batch), err
	})}
}

// handPipeline is a prepared statement for each row, one transaction.
func handPipeline(batch, size int) arm {
	return arm{"pgx pipeline", byHand("", func(ctx context.Context, c *pgx.Conn, keys *keysOf) (int64, error) {
		var p pgx.Batch
		for range batch {
			k := keys.next()
			p.Queue("INSERT INTO t VALUES ($1, $2)"+conflict, k, string(document(nil, k, keys.at, size)))
		}
		return int64(batch), c.SendBatch(ctx, &p).Close()
	})}
}

// handValues is one INSERT with a thousand rows of VALUES, prepared.
func handValues(batch, size int) arm {
	var sql strings.Builder
	sql.WriteString("INSERT INTO t VALUES ")
	for i := range batch {
		if i > 0 {
			sql.WriteByte(',')
		}
		fmt.Fprintf(&sql, "($%d,$%d)", 2*i+1, 2*i+2)
	}
	q := sql.String() + conflict
	return arm{"multi-VALUES", byHand("", func(ctx context.Context, c *pgx.Conn, keys *keysOf) (int64, error) {
		args := make([]any, 0, 2*batch)
		for range batch {
			k := keys.next()
			args = append(args, k, string(document(nil, k, keys.at, size)))
		}
		_, err := c.Exec(ctx, q, args...)
		return int64(batch), err
	})}
}

// handSingle is one row per commit.
func handSingle(size int) arm {
	return arm{"one row per commit", byHand("", func(ctx context.Context, c *pgx.Conn, keys *keysOf) (int64, error) {
		k := keys.next()
		_, err := c.Exec(ctx, "INSERT INTO t VALUES ($1, $2)"+conflict, k, string(document(nil, k, keys.at, size)))
		return 1, err
	})}
}
