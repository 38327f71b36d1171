package fastpath

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/engine/sample"
	"headroom/lab"
	"headroom/trial"
)

// BulkLoad is the table of S19: INSERT and COPY, with indexes in place or
// dropped and rebuilt.
var BulkLoad = &lab.Lab{
	Name:     "bulk-load",
	Budget:   6 * time.Minute, // under six rounds there is no verdict
	Title:    "Bulk load of a table with a key, a btree and a full text index",
	Question: "How fast can many rows be loaded, and what does it bring to drop the indexes, or the key too, and to rebuild them afterwards?",
	Doc: "Loads the people table (varchar UUID primary key, btree on client_id, GIN over a full text expression of three names) into an empty table, with default server settings. " +
		"INSERT is one prepared statement per row. Dropping and rebuilding is in the time counted, and so is merging what the full text index has only noted. " +
		"After each turn the table must hold the same rows, by number and checksum, and the key and both indexes, valid.",
	Source:   "S19",
	Then:     "600,000 rows, 60 MB, hardware of 2010",
	Uses:     trial.Server,
	Measures: []trial.Measure{lab.Rate("rows/s"), lab.Seconds, lab.WAL},
	Params: []trial.Param{
		{Name: "rows", Doc: "rows to load; kept in memory", Default: "50000", Check: whole(100, 5_000_000)},
		{Name: "commit", Doc: "rows per transaction of the INSERT arms", Default: "1000", Check: whole(1, 1_000_000)},
		{Name: "seed", Doc: "of the people", Default: "1", Check: whole(0, 1<<62)},
	},
	New: func(p map[string]string) (lab.Experiment, error) {
		l := loading{numbers: p, data: &people{}}
		l.rows, l.commit, l.seed = l.int("rows"), l.int("commit"), uint64(l.int("seed"))
		const source = 600_000
		arm := func(name, doc, as string, secs float64, copies bool, drop int) lab.Arm {
			return lab.Arm{Name: name, Doc: doc, As: as, Then: source / secs, Run: l.run(copies, drop)}
		}
		return lab.Experiment{
			Size: fmt.Sprintf("%d rows, about %.0f MB; the source loaded 600,000 rows, 60 MB (-p rows=600000), and what a load costs once, such as notes, locks and connections, weighs less there", l.rows, float64(l.rows)*106e-6),
			Arms: []lab.Arm{
				arm("INSERT, in place", "One row per INSERT, all indexes in place.", "6:05", 365, false, dropNothing),
				arm("COPY, in place", "One COPY, all indexes in place.", "3:11", 191, true, dropNothing),
				arm("INSERT, indexes dropped", "Both indexes dropped before and rebuilt after.", "3:19", 199, false, dropIndexes),
				arm("COPY, indexes dropped", "Both indexes dropped before and rebuilt after.", "1:05", 65, true, dropIndexes),
				arm("INSERT, all dropped", "Both indexes and the primary key dropped before and rebuilt after.", "2:49", 169, false, dropAll),
				arm("COPY, all dropped", "Both indexes and the primary key dropped before and rebuilt after.", "0:21", 21, true, dropAll),
				{Name: "load", Doc: "`headroom load` with its own plan, over several connections, with nobody else using the table (--offline).", Run: l.load()},
			},
			Claims: []lab.Claim{
				{Text: "COPY, dropping all against leaving all in place", Arm: "COPY, all dropped", Over: "COPY, in place", Then: 191.0 / 21},
				{Text: "COPY instead of INSERT, with nothing in place", Arm: "COPY, all dropped", Over: "INSERT, all dropped", Then: 169.0 / 21},
				{Text: "`headroom load`, against COPY with all in place", Arm: "load", Over: "COPY, in place"},
				{Text: "`headroom load`, against the source's best recipe by hand", Arm: "load", Over: "COPY, all dropped"},
			},
			Disk: l.rows*1000 + 2<<30,
		}, nil
	},
}

// What an arm drops before it loads.
const (
	dropNothing = iota
	dropIndexes
	dropAll
)

// people are the rows as COPY text, made once for all turns.
type people struct {
	once sync.Once
	text []byte
}

func (p *people) lines(seed uint64, rows int64) []byte {
	p.once.Do(func() {
		g := sample.People(seed)
		p.text = make([]byte, 0, rows*112)
		for i := range rows {
			p.text = g.AppendTSV(p.text, i)
		}
	})
	return p.text
}

type loading struct {
	numbers
	rows, commit int64
	seed         uint64
	data         *people
}

// fresh makes the empty table with its key and indexes.
func (l loading) fresh(ctx context.Context, s *lab.Stand) error {
	sql := append([]string{"drop table if exists people", sample.PeopleDDL("people")}, sample.PeopleIndexes("people")...)
	return s.Exec(ctx, sql...)
}

// run is an arm: how it loads and what it drops meanwhile.
func (l loading) run(copies bool, drop int) func(context.Context, *lab.Turn) error {
	return func(ctx context.Context, t *lab.Turn) error {
		text := l.data.lines(l.seed, l.rows)
		if err := l.fresh(ctx, t.Stand); err != nil {
			return err
		}
		g, err := connect(ctx, t.Stand, 1)
		if err != nil {
			return err
		}
		err = t.Time(ctx, func(ctx context.Context) (int64, error) {
			if err := lab.Exec(ctx, g[0], dropped(drop)...); err != nil {
				return 0, err
			}
			load := l.inserts
			if copies {
				load = copyIn
			}
			n, err := load(ctx, g[0], text)
			if err != nil {
				return n, err
			}
			return n, lab.Exec(ctx, g[0], append(rebuilt(drop), mergePending)...)
		})
		if err = errors.Join(err, g.close()); err != nil {
			return err
		}
		return checkPeople(ctx, t, l.rows)
	}
}

func dropped(drop int) (sql []string) {
	if drop >= dropIndexes {
		sql = append(sql, "drop index people_client_id_idx, people_to_tsvector_idx")
	}
	if drop == dropAll {
		sql = append(sql, "alter table people drop constraint people_pkey")
	}
	return sql
}

func rebuilt(drop int) (sql []string) {
	if drop == dropAll {
		sql = append(sql, "alter table people add primary key (id)")
	}
	if drop >= dropIndexes {
		sql = append(sql, sample.PeopleIndexes("people")...)
	}
	return sql
}

// mergePending puts what a GIN index was only noted for into its tree, as
// vacuum or the next readers would have to.
const mergePending = "select gin_clean_pending_list('people_to_tsvector_idx')"

func copyIn(ctx context.Context, c *pgx.Conn, text []byte) (int64, error) {
	tag, err := c.PgConn().CopyFrom(ctx, bytes.NewReader(text), "copy people from stdin")
	if err != nil {
		return 0, fmt.Errorf("copy people: %w", err)
	}
	return tag.RowsAffected(), nil
}

// inserts sends one prepared statement for each row.
func (l loading) inserts(ctx context.Context, c *pgx.Conn, text []byte) (n int64, err error) {
	const sql = "insert into people (id, client_id, first_name, middle_name, last_name, born, balance, created) values ($1, $2, $3, $4, $5, $6, $7, $8)"
	if _, err := c.Prepare(ctx, "insert", sql); err != nil {
		return 0, fmt.Errorf("prepare the insert: %w", err)
	}
	for line := range bytes.Lines(text) {
		if n%l.commit == 0 && l.commit > 1 {
			if err := lab.Exec(ctx, c, "begin"); err != nil {
				return n, err
			}
		}
		fields := bytes.Split(bytes.TrimSuffix(line, []byte("\n")), []byte("\t"))
		for i, f := range fields {
			if string(f) == `\N` {
				fields[i] = nil
			}
		}
		if r := c.PgConn().ExecPrepared(ctx, "insert", fields, nil, nil).Read(); r.Err != nil {
			return n, fmt.Errorf("insert row %d: %w", n+1, r.Err)
		}
		n++
		if l.commit > 1 && (n%l.commit == 0 || n == l.rows) {
			if err := lab.Exec(ctx, c, "commit"); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// checkPeople holds an arm to what it was to do.
func checkPeople(ctx context.Context, t *lab.Turn, rows int64) error {
	sum, err := one(ctx, t.Stand, "select count(*) || ' rows, checksum ' || coalesce(sum(hashtextextended(p::text, 0)), 0) from people p")
	if err != nil {
		return err
	}
	indexes, err := one(ctx, t.Stand, `select string_agg(a.amname || case when i.indisprimary then ' key' else '' end, ', ' order by a.amname, i.indisprimary)
		from pg_index i join pg_class c on c.oid = i.indexrelid join pg_am a on a.oid = c.relam where i.indrelid = 'people'::regclass and i.indisvalid`)
	if err != nil {
		return err
	}
	t.Same("people", sum)
	t.Same("indexes", indexes)
	var n int64
	if _, err := fmt.Sscan(sum, &n); err != nil || n != rows {
		return fmt.Errorf("check the table: %s, want %d rows", sum, rows)
	}
	if indexes != "btree, btree key, gin" {
		return fmt.Errorf("check the table: its indexes are %q", indexes)
	}
	return nil
}
