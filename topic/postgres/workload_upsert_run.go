package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"headroom/engine/loop"
	"headroom/engine/pgwire"
	"headroom/trial"
)

const upsertSQL = `insert into ` + upsertTable + ` (k, doc) select * from unnest($1::bigint[], $2::jsonb[])
	on conflict (k) do update set doc = excluded.doc`

// Open implements trial.Work.
func (u upsert) Open(ctx context.Context, s *trial.Stand) (trial.Session, error) {
	if err := u.home.keep(ctx, s); err != nil {
		return nil, fmt.Errorf("open pg.upsert: %w", err)
	}
	out := &upserting{upsert: u}
	for i := range u.clients {
		c, err := u.connect(ctx, s.DSN)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open pg.upsert: %w", err), out.Close())
		}
		out.writers = append(out.writers, &writer{upsert: u, id: i, conn: c, keys: make([]int64, 0, u.batch)})
	}
	return out, nil
}

func (u upsert) connect(ctx context.Context, dsn string) (*pgwire.Conn, error) {
	c, err := pgwire.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	if u.lazy {
		if _, err := c.Exec(ctx, "set synchronous_commit = off"); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	if _, err := c.Prepare("upsert", upsertSQL); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

type upserting struct {
	upsert
	writers []*writer
}

// Close implements trial.Session.
func (s *upserting) Close() error {
	var err error
	for _, w := range s.writers {
		err = errors.Join(err, w.conn.Close())
	}
	return err
}

// Run implements trial.Session. An operation is a row; latency is a batch's.
func (s *upserting) Run(ctx context.Context, d time.Duration, o trial.RoundOptions) (trial.Round, error) {
	for _, w := range s.writers {
		w.seed(o.Seed)
		defer w.conn.Watch(ctx)()
	}
	r, err := loop.Run(ctx, loop.Options{Clients: s.clients, Duration: d, Rate: o.Rate / float64(s.batch), Seed: o.Seed, Throttle: o.Throttle},
		func(_ context.Context, client int) (int, error) { return s.writers[client].write() })
	if err != nil {
		return trial.Round{}, err
	}
	return roundOf(r, int64(s.batch)), nil
}

// writer is one client. Its buffers are kept from batch to batch.
type writer struct {
	upsert
	id      int
	conn    *pgwire.Conn
	rng     *rand.Rand
	zipf    *rand.Zipf
	seq     int64
	keys    []int64
	keyBuf  []byte
	docsBuf []byte
}

func (w *writer) seed(round uint64) {
	w.rng = rand.New(rand.NewPCG(round, uint64(w.id)))
	w.zipf = rand.NewZipf(w.rng, 1.1, 1, uint64(w.own()-1))
	w.seq = int64(round >> 16)
}

// own is how many keys belong to each client.
func (w *writer) own() int { return w.upsert.keys / w.clients }

// write sends one batch and returns its rows.
func (w *writer) write() (int, error) {
	w.draw()
	w.encode()
	w.conn.Bind("upsert", []pgwire.Param{{Value: w.keyBuf, Binary: true}, {Value: w.docsBuf, Binary: true}}, false)
	w.conn.Execute()
	w.conn.Sync()
	_, err := w.conn.Do(nil)
	var se *pgwire.ServerError
	if errors.As(err, &se) && !errors.Is(err, pgwire.ErrLost) {
		return 0, &loop.Failure{Code: se.Code, Err: err}
	}
	return len(w.keys), err
}

// scatter spreads neighbouring ranks of the zipf distribution over the table;
// a prime above any number of keys keeps them distinct.
const scatter = 2654435761

// draw picks the batch's keys: sorted, each once, all of this client's own
// share. A key drawn twice makes the batch a little shorter.
func (w *writer) draw() {
	own := w.own()
	w.keys = w.keys[:0]
	for range w.batch {
		var at int64
		if w.upsert.zipf {
			at = int64(w.zipf.Uint64() * scatter % uint64(own))
		} else {
			at = w.rng.Int64N(int64(own))
		}
		w.keys = append(w.keys, at*int64(w.clients)+int64(w.id))
	}
	slices.Sort(w.keys)
	w.keys = slices.Compact(w.keys)
}

// Type numbers in PostgreSQL's catalog.
const (
	oidInt8  = 20
	oidJSONB = 3802
)

// arrayHead begins the binary form of a one-dimensional array without NULLs.
func arrayHead(b []byte, oid, n int) []byte {
	for _, v := range []uint32{1, 0, uint32(oid), uint32(n), 1} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

func (w *writer) encode() {
	w.keyBuf = arrayHead(w.keyBuf[:0], oidInt8, len(w.keys))
	w.docsBuf = arrayHead(w.docsBuf[:0], oidJSONB, len(w.keys))
	for _, k := range w.keys {
		w.keyBuf = binary.BigEndian.AppendUint32(w.keyBuf, 8)
		w.keyBuf = binary.BigEndian.AppendUint64(w.keyBuf, uint64(k))
		w.seq++
		at := len(w.docsBuf)
		w.docsBuf = append(w.docsBuf, 0, 0, 0, 0, 1) // length, then the version of jsonb's binary form
		w.docsBuf = document(w.docsBuf, k, w.seq, w.bytes, w.rng)
		binary.BigEndian.PutUint32(w.docsBuf[at:], uint32(len(w.docsBuf)-at-4))
	}
}

// A document's fixed parts, with their numbers at nine digits or less.
const (
	documentHead = `{"id": 123456789, "seq": 123456789, "note": "`
	documentTail = `"}`
)

// document appends a JSON document of size bytes: the key, a number that rises
// and random text, so that no two are alike.
func document(b []byte, key, seq int64, size int, rng *rand.Rand) []byte {
	const digits = "0123456789abcdef"
	start := len(b)
	b = append(b, `{"id": `...)
	b = strconv.AppendInt(b, key, 10)
	b = append(b, `, "seq": `...)
	b = strconv.AppendInt(b, seq%1_000_000_000, 10)
	b = append(b, `, "note": "`...)
	for left := size - (len(b) - start) - len(documentTail); left > 0; {
		for bits, n := rng.Uint64(), min(left, 16); n > 0; n-- {
			b = append(b, digits[bits&15])
			bits >>= 4
			left--
		}
	}
	return append(b, documentTail...)
}
