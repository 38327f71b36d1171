package fastpath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"headroom/engine/loop"
	"headroom/engine/readtable"
	"headroom/engine/sample"
	"headroom/engine/upsert"
	"headroom/lab"
	"headroom/trial"
)

// documentsTable is what the upsert labs write.
const documentsTable = "documents"

// upsertParams are shared by the labs that upsert documents.
var upsertParams = []trial.Param{
	{Name: "keys", Doc: "rows in the table", Default: "50000", Check: whole(100, 100_000_000)},
	{Name: "bytes", Doc: "size of a document as text", Default: "130", Check: whole(sample.MinDocument, 1<<20)},
	{Name: "batch", Doc: "rows per transaction, where more than one", Default: "1000", Check: whole(2, 100_000)},
	clientsParam, secondsParam,
	{Name: "shared_buffers", Doc: "of the arm with the source's settings, which had 3GB", Default: "1GB"},
}

// Upsert is the story of S1: from one durable row per commit to as many as the
// source reached.
var Upsert = &lab.Lab{
	Name:     "upsert",
	Budget:   5 * time.Minute, // under six rounds there is no verdict
	Title:    "Upserts of documents: what each step of the source brings",
	Question: "How many documents per second can be upserted, and what do batches, late commits, unlogged tables, indexes and settings do to it?",
	Doc: "Clients write random documents by key with INSERT … ON CONFLICT DO UPDATE into a table of bigint key and jsonb document. " +
		"Each turn begins with a fresh table that holds all keys, right after a checkpoint, so the first change of each page logs the whole page. " +
		"After each turn the table must hold all keys, and each document its own.",
	Source:   "S1",
	Then:     "a server of its time, with millions of keys and several writers",
	Uses:     trial.Server,
	Measures: []trial.Measure{lab.Rate("upserts/s"), lab.WAL},
	Params:   upsertParams,
	New: func(p map[string]string) (lab.Experiment, error) {
		u := upserts(p)
		if u.batch*u.clients*2 > u.keys {
			return lab.Experiment{}, fmt.Errorf("read parameters of lab upsert: batch × clients = %d, want at most half the keys (%d)", u.batch*u.clients, u.keys)
		}
		single, settings := u, map[string]string{"shared_buffers": p["shared_buffers"], "effective_io_concurrency": "8", "commit_delay": "100000",
			"max_wal_size": "10GB", "min_wal_size": "1GB"}
		single.batch = 1
		return lab.Experiment{
			Size: fmt.Sprintf("%d keys, documents of %d bytes, %d clients, %s s a turn; the source had millions of keys and ran for minutes", u.keys, u.bytes, u.clients, p["seconds"]),
			Arms: []lab.Arm{
				{Name: "single", Doc: "One row per transaction, each commit synced.", Run: single.run(kind{})},
				{Name: "batched", Doc: "A batch per transaction, as arrays through unnest.", Run: u.run(kind{})},
				{Name: "async", Doc: "Batched, with synchronous_commit = off: a crash may lose the last commits.", Then: 50e3, As: "≈ 50 k/s", Run: u.run(kind{lazy: true})},
				{Name: "unlogged", Doc: "Batched into an UNLOGGED table: emptied after a crash.", Then: 85e3, As: "85 k/s", Run: u.run(kind{unlogged: true})},
				{Name: "8 indexes", Doc: "Unlogged, with eight more indexes on expressions of the document.", Then: 35e3, As: "35 k/s", Run: u.run(kind{unlogged: true, indexes: true})},
				{Name: "read table, view", Doc: "Unlogged with its key only; a materialized view carries the eight indexes and is refreshed CONCURRENTLY beside the writers, again and again.",
					Run: u.run(kind{unlogged: true, copy: readtable.MatView})},
				{Name: "read table, merge", Doc: "The same with a copy into which each refresh merges the keys that changed (`headroom ingest --read-table merge`).",
					Run: u.run(kind{unlogged: true, copy: readtable.Merge})},
				{Name: "S1's settings", Doc: "Batched and logged, with the source's shared_buffers, WAL size, commit_delay and effective_io_concurrency.", Then: 85e3, As: "80–90 k/s",
					Settings: settings, Run: u.run(kind{})},
				{Name: "ingest", Doc: "`headroom ingest`, logged, each batch synced; it finds size and form of its batches by itself, from its first rows on.", Run: u.ingest(kind{}, upsert.Options{})},
			},
			Claims: []lab.Claim{
				{Text: "eight more indexes", Arm: "8 indexes", Over: "unlogged", Then: 35.0 / 85},
				{Text: "a view for reading, against eight indexes on the table itself", Arm: "read table, view", Over: "8 indexes"},
				{Text: "a merged copy for reading, against eight indexes on the table itself", Arm: "read table, merge", Over: "8 indexes"},
				{Text: "a logged table with the source's settings, against an unlogged one", Arm: "S1's settings", Over: "unlogged", Then: 1},
				{Text: "`headroom ingest`, against batches by hand with the same durability", Arm: "ingest", Over: "batched"},
			},
			Setup: u.template,
			Disk:  8 * u.keys * (u.bytes + 200),
		}, nil
	},
}

// writing is the work of the upsert labs.
type writing struct {
	numbers
	keys, bytes, batch, clients int64
}

func upserts(p map[string]string) writing {
	n := numbers(p)
	return writing{n, n.int("keys"), n.int("bytes"), n.int("batch"), n.int("clients")}
}

// kind is how an arm writes.
type kind struct {
	unlogged, lazy, indexes bool
	copy                    readtable.Way // a copy for reading, with the indexes; "" is none
	from                    string        // the template; "" is the upsert lab's own
}

// template makes a table that each turn's own is copied from.
func (w writing) template(ctx context.Context, s *lab.Stand, say func(string)) error {
	say(fmt.Sprintf("making %d documents", w.keys))
	return fill(ctx, s, "template", w.keys, int(w.bytes))
}

// fill makes a table of key and document with keys 0 to keys-1.
func fill(ctx context.Context, s *lab.Stand, table string, keys int64, size int) error {
	g, err := connect(ctx, s, 1, "create unlogged table "+table+" (k bigint not null, doc jsonb not null)")
	if err != nil {
		return err
	}
	defer g.close()
	src := &documents{keys: keys, size: size}
	if _, err := g[0].PgConn().CopyFrom(ctx, src, "copy "+table+" from stdin"); err != nil {
		return fmt.Errorf("fill the table: %w", err)
	}
	return nil
}

// documents reads as COPY text: key and document. No document holds a
// character that COPY would have escaped.
type documents struct {
	keys, next int64
	size       int
	buf, rest  []byte
}

// Read implements io.Reader.
func (d *documents) Read(p []byte) (int, error) {
	if len(d.rest) == 0 {
		if d.next >= d.keys {
			return 0, io.EOF
		}
		d.rest = d.buf[:0]
		for d.next < d.keys && len(d.rest) < 1<<16 {
			d.rest = fmt.Appendf(d.rest, "%d\t", d.next)
			d.rest = append(sample.Document(d.rest, 0, d.next, d.size), '\n')
			d.next++
		}
		d.buf = d.rest
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// readIndexes are the eight indexes of the source: expressions of the document.
var readIndexes = []string{"((doc->>'hits')::int)", "((doc->>'temp')::numeric)", "(doc->>'ts')", "(doc->>'note')", "(left(doc->>'note', 8))",
	"((doc->>'id')::bigint)", "((doc->>'hits')::int), (doc->>'ts')", "(doc->>'ts'), ((doc->>'temp')::numeric)"}

func indexAll(table string) (out []string) {
	for _, x := range readIndexes {
		out = append(out, fmt.Sprintf("create index on %s (%s)", table, strings.TrimSpace(x)))
	}
	return out
}

const (
	upsertMany = `insert into documents (k, doc) select * from unnest($1::bigint[], $2::jsonb[]) on conflict (k) do update set doc = excluded.doc`
	upsertOne  = `insert into documents (k, doc) values ($1, $2) on conflict (k) do update set doc = excluded.doc`
)

// fresh makes the table anew from the template.
func (w writing) fresh(ctx context.Context, s *lab.Stand, k kind) error {
	unlogged, from := "", "template"
	if k.unlogged {
		unlogged = "unlogged "
	}
	if k.from != "" {
		from = k.from
	}
	sql := []string{"drop table if exists " + documentsTable,
		"create " + unlogged + "table " + documentsTable + " (k bigint not null, doc jsonb not null) with (autovacuum_enabled = off)",
		"insert into " + documentsTable + " select * from " + from,
		"alter table " + documentsTable + " add primary key (k)"}
	if k.indexes {
		sql = append(sql, indexAll(documentsTable)...)
	}
	return s.Exec(ctx, append(sql, "analyze "+documentsTable)...)
}

// run is an arm: batches of w.batch rows, or single rows.
func (w writing) run(k kind) func(context.Context, *lab.Turn) error {
	return func(ctx context.Context, t *lab.Turn) error {
		if err := w.fresh(ctx, t.Stand, k); err != nil {
			return err
		}
		var session []string
		if k.lazy {
			session = append(session, "set synchronous_commit = off")
		}
		g, err := connect(ctx, t.Stand, int(w.clients), session...)
		if err != nil {
			return err
		}
		if k.copy == "" {
			err = w.write(ctx, t, g, nil)
		} else {
			err = w.writeAndRead(ctx, t, g, k.copy)
		}
		if err = errors.Join(err, g.close()); err != nil {
			return err
		}
		return w.check(ctx, t)
	}
}

// write is the timed part. With refresh it is called again and again
// meanwhile.
func (w writing) write(ctx context.Context, t *lab.Turn, g group, refresh func(context.Context) error) error {
	sql := upsertMany
	if w.batch == 1 {
		sql = upsertOne
	}
	from := make([]*batcher, len(g))
	for i, c := range g {
		if _, err := c.Prepare(ctx, "upsert", sql); err != nil {
			return fmt.Errorf("prepare the upsert: %w", err)
		}
		from[i] = newBatcher(t.Seed, i, len(g), w.keys, int(w.bytes))
	}
	return t.Time(ctx, func(ctx context.Context) (int64, error) {
		return beside(ctx, refresh, w.time("seconds"), g, func(ctx context.Context, i int) (int, error) {
			b := from[i]
			b.draw(int(w.batch))
			args := []any{b.ids, b.docs}
			if w.batch == 1 {
				args = []any{b.ids[0], b.docs[0]}
			}
			_, err := g[i].Exec(ctx, "upsert", args...)
			return len(b.ids), err
		})
	})
}

// beside works for d while refresh runs again and again, if there is one, and
// goes on until the last refresh, which began within d, has ended: so no
// moment is without one.
func beside(ctx context.Context, refresh func(context.Context) error, d time.Duration, g group, work loop.Work) (int64, error) {
	if refresh == nil {
		return g.during(ctx, d, work)
	}
	done, end := make(chan error, 1), time.Now().Add(d)
	go func() {
		var err error
		for err == nil && time.Now().Before(end) {
			err = refresh(ctx)
		}
		done <- err
	}()
	for all := int64(0); ; d = 50 * time.Millisecond {
		n, err := g.during(ctx, d, work)
		all += n
		if err != nil {
			return all, errors.Join(err, <-done)
		}
		select {
		case err := <-done:
			return all, err
		default:
		}
	}
}

// writeAndRead writes beside refreshes of a copy that carries the indexes, and
// takes the copy away again.
func (w writing) writeAndRead(ctx context.Context, t *lab.Turn, g group, way readtable.Way) error {
	c, err := t.Connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	read, err := readtable.Setup(ctx, c, documentsTable, way, readIndexes)
	if err != nil {
		return err
	}
	refresh := func(ctx context.Context) error { _, err := read.Refresh(ctx, c); return err }
	if err := w.write(ctx, t, g, refresh); err != nil {
		return err
	}
	if err := refresh(ctx); err != nil {
		return err
	}
	stale, err := one(ctx, t.Stand, "select count(*)::text from documents d full join "+read.SQL()+" r using (k) where d.doc is distinct from r.doc")
	if err != nil {
		return err
	}
	if stale != "0" {
		return fmt.Errorf("check the read table: %s rows are not those of the table", stale)
	}
	return readtable.Drop(ctx, c, documentsTable)
}

// check holds an arm to what it was to do: all keys there, each once, with
// their own documents.
func (w writing) check(ctx context.Context, t *lab.Turn) error {
	rows, err := one(ctx, t.Stand, "select count(*)::text from documents where (doc->>'id')::bigint = k")
	if err == nil && rows != fmt.Sprint(w.keys) {
		err = fmt.Errorf("check the table: %s rows with their own document, want %d", rows, w.keys)
	}
	return err
}
