package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/fail"
)

// Freezing is what it costs to make an unlogged table survive a crash.
type Freezing struct {
	Table  string   `json:"table"`
	Parts  []string `json:"parts"`     // unlogged tables: the table itself, or its partitions
	Bytes  int64    `json:"bytes"`     // of data and indexes: written anew
	WAL    int64    `json:"wal_bytes"` // to the log; 0 with wal_level = minimal
	Level  string   `json:"wal_level"`
	AtRate float64  `json:"estimated_seconds"` // at FreezeRate
}

// FreezeRate is the rate, in bytes per second, that the estimate of the time
// rests on: rewriting and logging on an ordinary SSD.
const FreezeRate = 100 << 20

// FreezeCost says what Freeze would cost. It changes nothing. No Parts: all of
// the table survives a crash already.
func FreezeCost(ctx context.Context, conn *pgx.Conn, table string) (Freezing, error) {
	f, err := freezeCost(ctx, conn, table)
	if err != nil {
		return f, fmt.Errorf("look at table %s: %w", table, err)
	}
	return f, nil
}

func freezeCost(ctx context.Context, conn *pgx.Conn, table string) (f Freezing, err error) {
	var oid uint32
	var kind string
	err = conn.QueryRow(ctx, `SELECT c.oid, c.relkind::text, pg_catalog.format('%I.%I', n.nspname, c.relname), pg_catalog.current_setting('wal_level')
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = pg_catalog.to_regclass($1)`, table).Scan(&oid, &kind, &f.Table, &f.Level)
	if errors.Is(err, pgx.ErrNoRows) {
		return f, fail.Hint(fmt.Errorf("no such table: %w", fail.ErrAbsent), "names with capitals or spaces stand in double quotes")
	}
	if err != nil {
		return f, err
	}
	if kind != "r" && kind != "p" {
		return f, errors.New("it is no table")
	}
	rows, err := conn.Query(ctx, `SELECT pg_catalog.format('%I.%I', n.nspname, c.relname), pg_catalog.pg_total_relation_size(c.oid)
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relpersistence = 'u' AND c.relkind = 'r' AND (c.oid = $1 OR c.oid IN (SELECT relid FROM pg_catalog.pg_partition_tree($1)))
		ORDER BY 1`, oid)
	if err != nil {
		return f, err
	}
	var name string
	var size int64
	_, err = pgx.ForEachRow(rows, []any{&name, &size}, func() error {
		f.Parts, f.Bytes = append(f.Parts, name), f.Bytes+size
		return nil
	})
	if f.Level != "minimal" {
		f.WAL = f.Bytes
	}
	f.AtRate = float64(f.Bytes+f.WAL) / FreezeRate
	return f, err
}

// Freeze makes the table, or each of its unlogged partitions, crash-safe: each
// is rewritten and logged while it is locked against all others. It gives up
// after wait where others hold a lock; what was done before stays.
func Freeze(ctx context.Context, conn *pgx.Conn, f Freezing, wait time.Duration, say func(string)) error {
	limits := fmt.Sprintf("SET statement_timeout = 0; SET lock_timeout = %d", wait.Milliseconds())
	if _, err := conn.Exec(ctx, limits, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("freeze %s: %w", f.Table, err)
	}
	for i, part := range f.Parts {
		say(fmt.Sprintf("freezing %s (%d of %d)", part, i+1, len(f.Parts)))
		// The names are quoted by the server's own format().
		_, err := conn.Exec(ctx, "ALTER TABLE "+part+" SET LOGGED")
		var pe *pgconn.PgError
		if errors.As(err, &pe) && pe.Code == "55P03" {
			return fail.Hint(fmt.Errorf("freeze %s: %w", part, err), "others use it: SELECT pid, state, query FROM pg_stat_activity; wait for longer with --lock-timeout")
		}
		if errors.As(err, &pe) && pe.Code == "42P16" {
			return fail.Hint(fmt.Errorf("freeze %s: %w", part, err), "freeze the table that it refers to first")
		}
		if err != nil {
			return fmt.Errorf("freeze %s: %w", part, err)
		}
	}
	return nil
}
