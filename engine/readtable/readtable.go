// Package readtable keeps an indexed copy of a table that is written fast: the
// write table has its key and nothing else to keep up to date; the copy, named
// like it with _read behind, carries the indexes and is brought up to date in
// one transaction from time to time. Readers of the copy see the write table
// as it was at one moment, and lag by the time between two refreshes.
//
// Two ways. MatView is a materialized view and REFRESH … CONCURRENTLY: the
// server compares all of both sides each time. Merge is a table of its own,
// into which only what changed is merged:
//
//   - A row that changed since the last refresh has an xmin that had not ended
//     when the last refresh took its snapshot: it is at or above the xmin of
//     that snapshot, the horizon kept in headroom.read_table. So one scan of
//     the write table finds the changes (and some rows more, where an old
//     transaction was open; they compare equal and are left alone). Nothing is
//     added to the write path: no trigger, no index.
//   - After that the copy holds every key of the write table. If both then
//     have the same number of rows, in the same snapshot, they hold the same
//     keys; if not, keys are gone (deleted, truncated, changed) or the copy was
//     damaged (unlogged and emptied by a crash), and all keys are compared.
//
// The horizon is only believed for the very table that it was taken of, and
// never if it lies in the future, so that a restored dump is compared whole.
package readtable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/fail"
)

// Way is how the copy is kept.
type Way string

// The ways.
const (
	MatView Way = "matview"
	Merge   Way = "merge"
)

// ParseWay reads a way's name; the error is a usage error.
func ParseWay(s string) (Way, error) {
	if w := Way(s); w == MatView || w == Merge {
		return w, nil
	}
	return "", fail.With(fail.Hint(fmt.Errorf("read way %q: unknown", s), "there are: matview, merge"), fail.Usage)
}

// Table is a write table and its copy.
type Table struct {
	Schema, Write, Read string
	Way                 Way
	Columns             []string // of the copy
	Key                 []string
	Unlogged            bool // the write table
	oid                 uint32
	version             int // server_version_num
}

// Done says what one refresh did.
type Done struct {
	Took             time.Duration
	Rows             int64 // in the copy now
	Changed, Deleted int64 // rows written and removed; -1: the server does not say (MatView)
	Whole            bool  // all was compared, not only what changed
}

// Limits of what the statements may wait and take.
const (
	lockLimit    = 5 * time.Second
	refreshLimit = time.Hour
)

func quote(names ...string) string { return pgx.Identifier(names).Sanitize() }

func (t Table) write() string { return quote(t.Schema, t.Write) }

// SQL is the copy's name for a statement.
func (t Table) SQL() string { return quote(t.Schema, t.Read) }

// ReadName is the copy's name: the table's with _read, cut at a character so
// that it fits into PostgreSQL's 63 bytes.
func ReadName(table string) string {
	const behind = "_read"
	for len(table)+len(behind) > 63 {
		_, n := utf8.DecodeLastRuneInString(table)
		table = table[:len(table)-n]
	}
	return table + behind
}

// Find looks at a table (its name written as in a statement) and at its copy,
// if there is one; Way is empty if there is none. The key is that of its
// primary key, or of a unique index on columns that may not be NULL.
func Find(ctx context.Context, conn *pgx.Conn, table string) (Table, error) {
	t, err := find(ctx, conn, table)
	if err != nil {
		return t, fmt.Errorf("look at the read table of %s: %w", table, err)
	}
	return t, nil
}

func find(ctx context.Context, conn *pgx.Conn, table string) (t Table, err error) {
	var kind string
	err = conn.QueryRow(ctx, `
		SELECT c.oid, n.nspname, c.relname, c.relkind::text, c.relpersistence = 'u', current_setting('server_version_num')::int
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE c.oid = pg_catalog.to_regclass($1)`, table).Scan(&t.oid, &t.Schema, &t.Write, &kind, &t.Unlogged, &t.version)
	if errors.Is(err, pgx.ErrNoRows) {
		return t, fail.Hint(fmt.Errorf("no such table: %w", fail.ErrAbsent), "names with capitals or spaces stand in double quotes")
	}
	if err != nil {
		return t, err
	}
	switch {
	case kind == "p":
		return t, fail.Hint(errors.New("it is partitioned"), "keep a read table for each partition; a partition that is attached brings rows that no refresh would see as new")
	case kind != "r":
		return t, errors.New("it is no ordinary table")
	}
	t.Read = ReadName(t.Write)
	if t.Columns, err = names(ctx, conn, "SELECT attname FROM pg_catalog.pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped ORDER BY attnum", t.oid); err != nil {
		return t, err
	}
	t.Key, err = names(ctx, conn, `
		SELECT a.attname FROM (
			SELECT i.indkey FROM pg_catalog.pg_index i
			WHERE i.indrelid = $1 AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
			AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = $1 AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) AND NOT a.attnotnull)
			ORDER BY i.indisprimary DESC, i.indexrelid LIMIT 1) x,
		unnest(x.indkey::int2[]) WITH ORDINALITY k(num, place)
		JOIN pg_catalog.pg_attribute a ON a.attrelid = $1 AND a.attnum = k.num ORDER BY k.place`, t.oid)
	if err != nil {
		return t, err
	}
	if len(t.Key) == 0 {
		return t, fail.Hint(errors.New("it has no unique key that may not be NULL"), "give it a primary key")
	}
	return t, t.findCopy(ctx, conn)
}

// findCopy finds out how the copy is kept.
func (t *Table) findCopy(ctx context.Context, conn *pgx.Conn) error {
	var kind string
	err := conn.QueryRow(ctx, `SELECT c.relkind::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = $2`, t.Schema, t.Read).Scan(&kind)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	case kind == "m":
		t.Way = MatView
	case kind == "r":
		t.Way = Merge
	default:
		return fmt.Errorf("%s is something else", t.SQL())
	}
	var source string
	err = conn.QueryRow(ctx, "SELECT coalesce(pg_catalog.obj_description($1::regclass), '')", t.SQL()).Scan(&source)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(source, madeBy) {
		return fail.Hint(fmt.Errorf("%s was not made by headroom", t.SQL()), "rename it, or drop it")
	}
	have, err := names(ctx, conn, "SELECT attname FROM pg_catalog.pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum", t.SQL())
	if err != nil {
		return err
	}
	if !slices.Equal(have, t.Columns) {
		return fail.Hint(fmt.Errorf("the columns of %s are not those of the table any more", t.SQL()), "make it anew: headroom ingest unread %s, and --read-table again", t.write())
	}
	return nil
}

// madeBy begins the comment on every copy.
const madeBy = "headroom: read table"

func names(ctx context.Context, conn *pgx.Conn, sql string, args ...any) ([]string, error) {
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// list writes columns for a statement, each with what stands before it.
func list(before string, columns []string) string {
	var out []string
	for _, c := range columns {
		out = append(out, before+quote(c))
	}
	return strings.Join(out, ", ")
}

// same joins two tables on the key.
func (t Table) same(a, b string) string {
	var out []string
	for _, k := range t.Key {
		out = append(out, a+"."+quote(k)+" = "+b+"."+quote(k))
	}
	return strings.Join(out, " AND ")
}

// Setup makes the copy, fills it and builds its indexes, in one transaction:
// readers see it whole or not at all. Each index is what stands in CREATE
// INDEX ON copy ( … ), or from USING on. A copy that is there already and is
// kept the same way is left as it is, its indexes included.
func Setup(ctx context.Context, conn *pgx.Conn, table string, way Way, indexes []string) (Table, error) {
	t, err := Find(ctx, conn, table)
	if err != nil {
		return t, err
	}
	if t.Way == way {
		return t, nil
	}
	if t.Way != "" {
		return t, fail.Hint(fmt.Errorf("make the read table of %s: it is there, as a %s", t.write(), t.Way), "remove it first: headroom ingest unread %s", t.write())
	}
	t.Way = way
	if err := t.setup(ctx, conn, indexes); err != nil {
		return t, fmt.Errorf("make the read table of %s: %w", t.write(), err)
	}
	return t, nil
}

func (t Table) setup(ctx context.Context, conn *pgx.Conn, indexes []string) error {
	return inTx(ctx, conn, func(tx pgx.Tx) error {
		if err := makeState(ctx, tx, t.Way); err != nil {
			return err
		}
		create := "CREATE MATERIALIZED VIEW " + t.SQL() + " AS SELECT " + list("", t.Columns) + " FROM ONLY " + t.write()
		kind := "MATERIALIZED VIEW "
		if t.Way == Merge {
			unlogged := ""
			if t.Unlogged {
				unlogged = "UNLOGGED "
			}
			kind = "TABLE "
			create = "CREATE " + unlogged + "TABLE " + t.SQL() + " (LIKE " + t.write() + " INCLUDING STORAGE)"
		}
		if err := do(ctx, tx, create); err != nil {
			return err
		}
		if t.Way == Merge {
			if err := do(ctx, tx, "INSERT INTO "+t.SQL()+" SELECT "+list("", t.Columns)+" FROM ONLY "+t.write()); err != nil {
				return err
			}
			if err := t.keep(ctx, tx); err != nil {
				return err
			}
		}
		if err := do(ctx, tx, "CREATE UNIQUE INDEX ON "+t.SQL()+" ("+list("", t.Key)+")"); err != nil {
			return err
		}
		for _, x := range indexes {
			if err := do(ctx, tx, "CREATE INDEX ON "+t.SQL()+" "+indexText(x)); err != nil {
				return fail.Hint(err, "an --index is what stands in the parentheses of CREATE INDEX: host, ts or (doc->>'host') or USING gin (doc)")
			}
		}
		comment := madeBy + ", brought up to date by: headroom ingest refresh"
		return errors.Join(do(ctx, tx, "COMMENT ON "+kind+t.SQL()+" IS '"+comment+"'"), do(ctx, tx, "ANALYZE "+t.SQL()))
	})
}

func indexText(x string) string {
	x = strings.TrimSpace(x)
	if f := strings.Fields(x); len(f) > 0 && strings.EqualFold(f[0], "using") {
		return x
	}
	return "(" + x + ")"
}

// do sends one statement, by a protocol that takes no second one behind it.
func do(ctx context.Context, tx pgx.Tx, sql string) error {
	err := tx.Conn().PgConn().ExecParams(ctx, sql, nil, nil, nil, nil).Read().Err
	var pe *pgconn.PgError
	if errors.As(err, &pe) && pe.Code == "55P03" {
		return fail.Hint(fmt.Errorf("wait for a lock: %w", err), "another session holds it; see pg_stat_activity, and try again")
	}
	return err
}

// inTx runs f in a transaction that sees one moment, with time limits and
// without the filters of row security (a copy must be whole).
func inTx(ctx context.Context, conn *pgx.Conn, f func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		limits := fmt.Sprintf("SET LOCAL lock_timeout = %d; SET LOCAL statement_timeout = %d; SET LOCAL row_security = off; SET LOCAL idle_in_transaction_session_timeout = 0",
			lockLimit.Milliseconds(), refreshLimit.Milliseconds())
		if _, err := tx.Exec(ctx, limits, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		return f(tx)
	})
}

// Drop removes the copy and what is kept of it.
func Drop(ctx context.Context, conn *pgx.Conn, table string) error {
	t, err := Find(ctx, conn, table)
	if err != nil {
		return err
	}
	if t.Way == "" {
		return fmt.Errorf("drop the read table of %s: %w", t.write(), fail.ErrAbsent)
	}
	kind := "TABLE "
	if t.Way == MatView {
		kind = "MATERIALIZED VIEW "
	}
	err = inTx(ctx, conn, func(tx pgx.Tx) error {
		if err := t.forget(ctx, tx); err != nil {
			return err
		}
		return do(ctx, tx, "DROP "+kind+t.SQL())
	})
	if err != nil {
		return fmt.Errorf("drop the read table of %s: %w", t.write(), err)
	}
	return nil
}
