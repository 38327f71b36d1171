package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"

	"headroom/trial"
	"headroom/unit"
)

// Upsert writes documents by key: inserts new ones and replaces those that are
// there, many rows in one statement. It is what a store of records does all
// day, and the work that checkpoint and WAL settings show on (S1).
var Upsert = &trial.Workload{
	Name: "pg.upsert",
	Doc: "Writes a table of bigint key and jsonb document with INSERT … SELECT FROM unnest(…) ON CONFLICT DO UPDATE, one transaction per batch. " +
		"Each client has keys of its own, in order within a batch, so writers neither wait for each other nor deadlock. " +
		"The table is filled before, and its pages keep room for new versions (fillfactor), so its size stays as it is.",
	Uses: trial.Server,
	Params: []trial.Param{
		{Name: "keys", Doc: "rows in the table", Default: "3000000", Check: whole(1000, 1_000_000_000)},
		{Name: "bytes", Doc: "size of a document as text", Default: "130", Check: whole(64, 1<<20)},
		{Name: "batch", Doc: "rows per transaction", Default: "1000", Check: whole(1, 100_000)},
		{Name: "clients", Doc: "connections", Default: "2", Check: whole(1, 1000)},
		{Name: "keydist", Doc: "which keys are written: uniform, or zipf (few keys get most)", Default: "uniform", Check: oneOf("uniform", "zipf")},
		{Name: "table", Doc: "logged, or unlogged: no WAL, emptied after a crash", Default: "logged", Check: oneOf("logged", "unlogged")},
		{Name: "durability", Doc: "on, or off: synchronous_commit = off, a crash may lose the last transactions", Default: "on", Check: oneOf("on", "off")},
		{Name: "fillfactor", Doc: "how full pages are filled at first, %", Default: "80", Check: whole(10, 100)},
		{Name: "autovacuum", Doc: "on, or off for this table, so that its runs do not fall on one arm and not on the other", Default: "off", Check: oneOf("on", "off")},
	},
	Measures: append([]trial.Measure{{Name: "rate", Unit: unit.PerSecond, Higher: true, Noun: "upserts/s"}}, latencyMeasures("a batch")...),
	New: func(p map[string]string) (trial.Work, error) {
		u := upsert{home: &schema{}, zipf: p["keydist"] == "zipf", unlogged: p["table"] == "unlogged", lazy: p["durability"] == "off", autovacuum: p["autovacuum"] == "on"}
		for name, to := range map[string]*int{"keys": &u.keys, "bytes": &u.bytes, "batch": &u.batch, "clients": &u.clients, "fillfactor": &u.fill} {
			n, err := strconv.Atoi(p[name])
			if err != nil {
				return nil, fmt.Errorf("read parameter %s: %w", name, err)
			}
			*to = n
		}
		if u.batch*u.clients*2 > u.keys {
			return nil, fmt.Errorf("read parameters of pg.upsert: batch × clients = %d, want at most half the keys (%d)", u.batch*u.clients, u.keys)
		}
		return u, nil
	},
}

type upsert struct {
	keys, bytes, batch, clients, fill int
	zipf, unlogged, lazy, autovacuum  bool
	home                              *schema
}

const upsertTable = trialSchema + ".upsert"

// Size is about what the table and its key take on disk, in bytes.
func (u upsert) Size() int64 {
	return int64(u.keys) * (int64(u.bytes+60)*100/int64(u.fill) + 30)
}

// Setup implements trial.Work.
func (u upsert) Setup(ctx context.Context, s *trial.Stand, say func(string)) error {
	kind := ""
	if u.unlogged {
		kind = "unlogged "
	}
	say(fmt.Sprintf("filling a table with %s documents", unit.Format(float64(u.keys), unit.Count)))
	err := u.home.make(ctx, s, say)
	if err == nil {
		err = script(ctx, s.DSN, fmt.Sprintf("create %stable %s (k bigint not null, doc jsonb not null) with (fillfactor = %d, autovacuum_enabled = %t)", kind, upsertTable, u.fill, u.autovacuum))
	}
	if err == nil {
		err = u.fillAll(ctx, s.DSN)
	}
	if err == nil {
		err = script(ctx, s.DSN, "alter table "+upsertTable+" add primary key (k)", "vacuum (analyze, freeze) "+upsertTable)
	}
	if err != nil {
		return fmt.Errorf("set up pg.upsert: %w", err)
	}
	return nil
}

// fillAll fills the table over a connection for each core: making the rows is
// what takes the time.
func (u upsert) fillAll(ctx context.Context, dsn string) error {
	parts := min(runtime.NumCPU(), 8)
	errs := make([]error, parts)
	var all sync.WaitGroup
	for i := range parts {
		from, to := u.keys*i/parts, u.keys*(i+1)/parts-1
		all.Go(func() {
			errs[i] = script(ctx, dsn, fmt.Sprintf(`insert into %s select k, jsonb_build_object('id', k, 'seq', 0, 'note', left(%s, %d)) from generate_series(%d, %d) k`,
				upsertTable, filler(u.bytes), u.bytes-len(documentHead)-len(documentTail), from, to))
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// filler is an expression for random text of at least size bytes that depends
// on k. Text that compresses well would make the first rows smaller than those
// that replace them.
func filler(size int) string {
	const md5 = 32 // letters
	parts := size/md5 + 1
	if parts > 8 {
		return fmt.Sprintf("(select string_agg(md5(k::text || i), '') from generate_series(1, %d) i)", parts)
	}
	text := "md5(k::text)"
	for i := range parts - 1 {
		text += fmt.Sprintf(" || md5((k + %d)::text)", (i+1)*1_000_000_007)
	}
	return text
}

// Teardown implements trial.Work.
func (u upsert) Teardown(ctx context.Context, s *trial.Stand) error {
	return u.home.remove(ctx, s)
}
