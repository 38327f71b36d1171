package upsert

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/fail"
	"headroom/host"
)

// fence notes, in the transaction of each batch, that the batch is in. The
// number of a transaction does not tell that alone: a server that crashes
// forgets the numbers of transactions of which nothing was on disk, and gives
// them out again; "committed" may then be said of another batch.
//
// With Options.Source the note says more (fact), and lies in another table.
type fence struct {
	writer string
	lane   int
	batch  int64
	source string
	width  int // of source
}

const fenceTable = "headroom.upsert_batch"

// note is the statement that writes the note and returns the transaction's
// number.
func (f fence) note() string {
	return fmt.Sprintf("INSERT INTO %s AS b (writer, lane, batch) VALUES (%s, %d, %d) ON CONFLICT (writer, lane) DO UPDATE SET batch = excluded.batch, at = pg_catalog.now() RETURNING pg_catalog.pg_current_xact_id()::text",
		fenceTable, host.Literal(f.writer), f.lane, f.batch)
}

// noted says whether the note is there.
func (f fence) noted(ctx context.Context, conn *pgx.Conn) (there bool, err error) {
	if f.source != "" {
		err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+sourceTable+" WHERE source = $1 AND width = $2 AND lane = $3 AND writer = $4 AND batch >= $5)", f.source, f.width, f.lane, f.writer, f.batch).Scan(&there)
		return there, err
	}
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+fenceTable+" WHERE writer = $1 AND lane = $2 AND batch >= $3)", f.writer, f.lane, f.batch).Scan(&there)
	return there, err
}

// ours runs one statement whose commit need not wait for a standby: opening
// must not hang where there is none.
func ours(ctx context.Context, conn *pgx.Conn, sql string) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL synchronous_commit = local"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sql)
		return err
	})
}

const fenceSQL = "CREATE TABLE IF NOT EXISTS " + fenceTable + " (writer text, lane int, batch bigint NOT NULL, at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (writer, lane)) WITH (fillfactor = 50)"

// makeFence makes the table of notes, and forgets those of writers of long ago.
func makeFence(ctx context.Context, conn *pgx.Conn) error {
	if err := makeTable(ctx, conn, fenceTable, fenceSQL); err != nil {
		return err
	}
	if err := ours(ctx, conn, "DELETE FROM "+fenceTable+" WHERE at < pg_catalog.now() - interval '7 days'"); err != nil {
		return fmt.Errorf("write %s: %w", fenceTable, err)
	}
	return nil
}

// makeTable makes one of our tables if it is not there.
func makeTable(ctx context.Context, conn *pgx.Conn, table, create string) error {
	var there bool
	if err := conn.QueryRow(ctx, "SELECT pg_catalog.to_regclass($1) IS NOT NULL", table).Scan(&there); err != nil {
		return fmt.Errorf("find %s: %w", table, err)
	}
	if there {
		return nil
	}
	for _, sql := range []string{"CREATE SCHEMA IF NOT EXISTS headroom", create} {
		err := ours(ctx, conn, sql)
		var pe *pgconn.PgError
		switch {
		case errors.As(err, &pe) && pe.Code == "42501":
			return fail.Hint(fmt.Errorf("make %s, which keeps batches from being added twice: %w: %w", table, fail.ErrDenied, err),
				"GRANT CREATE ON DATABASE … TO the role that connects, or have its owner make that table")
		case errors.As(err, &pe) && (pe.Code == "23505" || pe.Code == "42P06" || pe.Code == "42P07"): // another writer was faster
		case err != nil:
			return fmt.Errorf("make %s: %w", table, err)
		}
	}
	return nil
}
