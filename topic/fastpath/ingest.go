package fastpath

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"headroom/engine/sample"
	"headroom/engine/upsert"
	"headroom/lab"
)

// writer opens what `headroom ingest` writes with, on a table of the stand.
func writer(ctx context.Context, s *lab.Stand, table string, key, values []string, o upsert.Options) (*upsert.Writer, error) {
	c, err := s.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close(context.WithoutCancel(ctx))
	if o.Table, err = upsert.Describe(ctx, c, table, key, values); err != nil {
		return nil, err
	}
	if o.Config, err = s.Config(); err != nil {
		return nil, err
	}
	return upsert.Open(ctx, o)
}

// feed adds rows for d and waits until all of them are acknowledged.
func feed(ctx context.Context, w *upsert.Writer, d time.Duration, next func() upsert.Row) error {
	for end, n := time.Now().Add(d), 0; n%256 != 0 || time.Now().Before(end); n++ {
		if err := w.Add(ctx, next()); err != nil {
			return err
		}
	}
	return w.Flush(ctx)
}

// ingest is the arm of the product: one writer that finds batch and way by
// itself. Rows of the same key in a batch count once, as they are written once.
func (w writing) ingest(k kind, o upsert.Options) func(context.Context, *lab.Turn) error {
	return func(ctx context.Context, t *lab.Turn) error {
		if err := w.fresh(ctx, t.Stand, k); err != nil {
			return err
		}
		o.Connections = int(w.clients)
		up, err := writer(ctx, t.Stand, documentsTable, []string{"k"}, []string{"doc"}, o)
		if err != nil {
			return err
		}
		rng := rand.New(rand.NewPCG(t.Seed, 0))
		var key, doc []byte
		seq := int64(0)
		next := func() upsert.Row {
			seq++
			id := rng.Int64N(w.keys)
			key, doc = strconv.AppendInt(key[:0], id, 10), sample.Reading(doc[:0], t.Seed, id, seq, int(w.bytes))
			return upsert.Row{Key: [][]byte{key}, Values: [][]byte{doc}}
		}
		err = t.Time(ctx, func(ctx context.Context) (int64, error) {
			err := feed(ctx, up, w.time("seconds"), next)
			return up.Stats().Written, err
		})
		if err = errors.Join(err, up.Close(context.WithoutCancel(ctx))); err != nil {
			return err
		}
		return w.check(ctx, t)
	}
}

// ingest raises counters in mode add: increments of a row are summed up in
// memory, and each flush writes the sum.
func (h hot) ingest(spread func(seed uint64) *sample.Keys) func(context.Context, *lab.Turn) error {
	return func(ctx context.Context, t *lab.Turn) error {
		if err := h.fresh(ctx, t.Stand); err != nil {
			return err
		}
		w, err := writer(ctx, t.Stand, "counters", []string{"id"}, []string{"n"}, upsert.Options{Mode: upsert.Add, Adds: []string{"n"}, Connections: int(h.int("writers"))})
		if err != nil {
			return err
		}
		keys, i := spread(t.Seed), int64(0)
		var key []byte
		one := []byte("1")
		next := func() upsert.Row {
			key = strconv.AppendInt(key[:0], keys.At(i), 10)
			i++
			return upsert.Row{Key: [][]byte{key}, Values: [][]byte{one}}
		}
		var acked int64
		err = t.Time(ctx, func(ctx context.Context) (int64, error) {
			err := feed(ctx, w, h.time("seconds"), next)
			acked = w.Acked()
			return acked, err
		})
		if err = errors.Join(err, w.Close(context.WithoutCancel(ctx))); err != nil {
			return err
		}
		if acked != i {
			return fmt.Errorf("check the counters: %d of %d increments were acknowledged", acked, i)
		}
		return added(ctx, t, "select sum(n)::text from counters", acked)
	}
}
