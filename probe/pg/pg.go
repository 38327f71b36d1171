// Package pg reads what is true of a PostgreSQL server, through
// host.Reader.PG: read-only transactions, one connection, every statement
// limited in time. A role with pg_monitor sees everything; with less, what
// cannot be seen says which GRANT opens it.
//
// Each source stands alone: where one cannot be read, the others still are.
// Query texts, passwords and connection strings never enter a fact.
//
// The SQL lies in sql/. Where catalogs differ between versions the file name
// carries the lowest major version that it is for: checkpoints.17.sql.
package pg

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/fact"
	"headroom/fail"
	"headroom/host"
)

// Oldest and Newest are the major versions that the SQL was tried on. Others
// are asked in the same way as their nearest neighbour.
const (
	Oldest = 13
	Newest = 18
)

// Sources lists all facts of this package.
func Sources() []fact.Any {
	return []fact.Any{Servers, Settings, Folders, Checkpoints, WAL, Tables, Databases, Activity, Extensions, Statements, Replication}
}

//go:embed sql
var files embed.FS

// statement returns the SQL called name for a server of the given major
// version.
func statement(name string, major int64) (string, error) {
	return SQL(files, "sql", name, major)
}

// look runs f in a read-only transaction. Its errors are told so that they
// can stand as a reason by themselves: too few rights name the GRANT.
func look(ctx context.Context, r host.Reader, what string, f func(ctx context.Context, tx pgx.Tx) error) error {
	err := r.PG(ctx, f)
	var pe *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fail.ErrDenied):
		return fail.Hint(fmt.Errorf("%s: %w (open it with: GRANT pg_monitor TO %s)", what, err, role(ctx, r)), "GRANT pg_monitor TO the user that Headroom connects as")
	case errors.As(err, &pe) && pe.Code == "57014":
		return fmt.Errorf("%s: given up, the server took too long (time limit): %w", what, err)
	case errors.As(err, &pe) && (pe.Code == "42703" || pe.Code == "42P01" || pe.Code == "42883"):
		return fmt.Errorf("%s: this server's catalog is not as expected: %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// role is the current user, quoted, for a GRANT.
func role(ctx context.Context, r host.Reader) string {
	name := "the user"
	_ = r.PG(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, "select pg_catalog.quote_ident(current_user)").Scan(&name)
	})
	return name
}

// one runs the named statement, which yields one row, and scans it.
func one(ctx context.Context, in *fact.In, what, name string, to ...any) error {
	s, err := From(ctx, in)
	if err != nil {
		return err
	}
	sql, err := statement(name, s.Major)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return look(ctx, in, what, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql).Scan(to...)
	})
}

// From returns the server that the facts are read from.
func From(ctx context.Context, in *fact.In) (Server, error) { return fact.From(ctx, in, Servers) }

// opt makes an Opt of a value that may be NULL.
func opt[T any](v *T, because string) fact.Opt[T] {
	if v == nil {
		return fact.Unknown[T](because)
	}
	return fact.Known(*v)
}
