package main

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"headroom/engine/upsert"

	"github.com/jackc/pgx/v5"
)

// open opens a writer as the arms by hand work: given connections and batch.
func (b *bench) open(ctx context.Context, table string, values []string, o upsert.Options) (*upsert.Writer, error) {
	t, err := upsert.Describe(ctx, b.admin, table, []string{"id"}, values)
	if err != nil {
		return nil, err
	}
	if o.Config, err = pgx.ParseConfig(b.srv.DSN()); err != nil {
		return nil, err
	}
	o.Table = t
	return upsert.Open(ctx, o)
}

// ours feeds a writer from one goroutine.
func ours(name string, strategy upsert.Strategy, batch, size int, next func(b *bench, n int64) func() int64) arm {
	return arm{name, func(ctx context.Context, b *bench, d time.Duration) (int64, time.Duration, error) {
		n, err := b.count(ctx)
		if err != nil {
			return 0, 0, err
		}
		// By hand a batch of 100,000 rows is all in memory, too.
		w, err := b.open(ctx, "t", []string{"doc"}, upsert.Options{Strategy: strategy, Connections: b.conns, Batch: batch, MaxMemory: 1 << 30})
		if err != nil {
			return 0, 0, err
		}
		key := next(b, n)
		start := time.Now()
		r := upsert.Row{Key: make([][]byte, 1), Values: make([][]byte, 1)}
		var kbuf, doc []byte
		rows := int64(0)
		for rows%16 != 0 || time.Since(start) < d {
			k := key()
			kbuf = strconv.AppendInt(kbuf[:0], k, 10)
			doc = document(doc[:0], k, rows, size)
			r.Key[0], r.Values[0] = kbuf, doc
			if err := w.Add(ctx, r); err != nil {
				return 0, 0, err
			}
			rows++
		}
		err = w.Close(ctx)
		return rows, time.Since(start), err
	}}
}

func permuted(_ *bench, n int64) func() int64 { return deal(0, 1, n, turn.Add(1)*7919).next }

func uniform(b *bench, n int64) func() int64 {
	r := rand.New(rand.NewPCG(b.rng.Uint64(), 1))
	return func() int64 { return r.Int64N(n) }
}

func zipf(b *bench, n int64) func() int64 {
	z := rand.NewZipf(rand.New(rand.NewPCG(b.rng.Uint64(), 2)), 1.2, 1, uint64(n-1))
	return func() int64 { return int64(z.Uint64()*1_000_003) % n }
}

// counters makes the table of the hot-row part.
func counters(ctx context.Context, b *bench) error {
	return b.exec(ctx, "DROP TABLE IF EXISTS t", "CREATE TABLE t (id bigint PRIMARY KEY, hits bigint NOT NULL)",
		"INSERT INTO t SELECT i, 0 FROM generate_series(0, 99999) i", "VACUUM ANALYZE t")
}

const hotWriters = 8

// hotUpdate is eight writers, each commit adding one to the same row.
func hotUpdate(name string, hot bool) arm {
	return arm{name, func(ctx context.Context, b *bench, d time.Duration) (int64, time.Duration, error) {
		return b.workers(ctx, hotWriters, d, "", func(ctx context.Context, c *pgx.Conn, keys *keysOf) (int64, error) {
			k := int64(0)
			if !hot {
				k = keys.next()
			}
			_, err := c.Exec(ctx, "UPDATE t SET hits = hits + 1 WHERE id = $1", k)
			return 1, err
		})
	}}
}

// hotAdd is eight writers that add one through a writer.
func hotAdd(name string, hot bool) arm {
	return arm{name, func(ctx context.Context, b *bench, d time.Duration) (int64, time.Duration, error) {
		w, err := b.open(ctx, "t", []string{"hits"}, upsert.Options{Mode: upsert.Add, Adds: []string{"hits"}, Connections: hotWriters})
		if err != nil {
			return 0, 0, err
		}
		start := time.Now()
		errs := make([]error, hotWriters)
		counts := make([]int64, hotWriters)
		var all sync.WaitGroup
		for i := range hotWriters {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(i), 3))
				r := upsert.Row{Key: [][]byte{[]byte("0")}, Values: [][]byte{[]byte("1")}}
				for n := 0; (n%16 != 0 || time.Since(start) < d) && errs[i] == nil; n++ {
					if !hot {
						r.Key[0] = strconv.AppendInt(r.Key[0][:0], rng.Int64N(100_000), 10)
					}
					errs[i] = w.Add(ctx, r)
					counts[i]++
				}
			})
		}
		all.Wait()
		rows := int64(0)
		for i := range hotWriters {
			rows += counts[i]
			if errs[i] != nil {
				return 0, 0, errs[i]
			}
		}
		err = w.Close(ctx)
		return rows, time.Since(start), err
	}}
}

func parts() []comparison {
	var out []comparison
	for _, batch := range []int{100, 1000, 10_000, 100_000} {
		c := comparison{name: "batch " + strconv.Itoa(batch), arms: []arm{ours("ours", upsert.Auto, batch, 130, permuted),
			handUnnest(batch, 130), handStaging(batch, 130), handPipeline(batch, 130)},
			pairs: []ratio{{Ours: "ours", Peer: "best", Goal: 0.95}}}
		out = append(out, c)
	}
	for _, steady := range []bool{false, true} {
		name := "beside simple ways, after a checkpoint"
		if steady {
			name = "beside simple ways, between checkpoints"
		}
		const self = "ours, batches of its own size"
		out = append(out, comparison{name: name, steady: steady, arms: []arm{handValues(1000, 130), handSingle(130), ours("ours", upsert.Auto, 1000, 130, permuted), ours(self, upsert.Auto, 0, 130, permuted)},
			pairs: []ratio{{Ours: "ours", Peer: "multi-VALUES"}, {Ours: self, Peer: "multi-VALUES", Goal: 2}, {Ours: self, Peer: "one row per commit", Goal: 40}}})
	}
	out = append(out, comparison{name: "hot row", setup: counters, arms: []arm{hotUpdate("plain UPDATE, hot row", true), hotAdd("add, hot row", true), hotAdd("add, uniform", false)},
		pairs: []ratio{{Ours: "add, hot row", Peer: "plain UPDATE, hot row", Goal: 50}, {Ours: "add, hot row", Peer: "add, uniform"}}})
	out = append(out, comparison{name: "zipf", arms: []arm{ours("zipf 1.2", upsert.Auto, 0, 130, zipf), ours("uniform", upsert.Auto, 0, 130, uniform)},
		pairs: []ratio{{Ours: "zipf 1.2", Peer: "uniform", Goal: 0.9}}})
	for _, size := range []int{1000, 10_000, 100_000} {
		batch := max(min(1000, 1_000_000/size), 10)
		out = append(out, comparison{name: "documents of " + strconv.Itoa(size), setup: standard(size), arms: []arm{ours("ours", upsert.Auto, batch, size, permuted), handUnnest(batch, size), handStaging(batch, size)},
			pairs: []ratio{{Ours: "ours", Peer: "best", Goal: 0.95}}})
	}
	return append(out, fillPart(true), fillPart(false), splitPart(), indexedPart())
}

// forms compares our own strategies: what Auto begins with was chosen so.
func forms() []comparison {
	var out []comparison
	for _, batch := range []int{100, 1000, 10_000} {
		c := comparison{name: "forms " + strconv.Itoa(batch)}
		for _, s := range []upsert.Strategy{upsert.Unnest, upsert.UnnestMerge, upsert.Staging, upsert.StagingMerge, upsert.Pipeline} {
			c.arms = append(c.arms, ours(string(s), s, batch, 130, permuted))
		}
		c.pairs = []ratio{{Ours: "unnest-merge", Peer: "unnest"}, {Ours: "staging", Peer: "unnest"}, {Ours: "staging-merge", Peer: "unnest"}}
		out = append(out, c)
	}
	return out
}
