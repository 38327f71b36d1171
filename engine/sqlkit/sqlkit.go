// Package sqlkit installs and removes the SQL kit: functions in plain SQL and
// PL/pgSQL, in the schema headroom of one database, for PostgreSQL 13 and
// newer. It needs no extension and no superuser, only CREATE on the database.
//
// Installing is one transaction. It is done in place, over an older version,
// without touching what was built on it; it refuses to replace an object that
// it did not make. Uninstalling removes what was installed and nothing else.
//
// The SQL lies in sql/*.sql; where servers differ, the file's name carries the
// lowest version that it is for. Each object has a COMMENT ON line, from which
// this package also learns what there is.
package sqlkit

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/fail"
	"headroom/host"
)

// Version is the version of the SQL kit in this program. It rises when an
// object changes.
const Version = 1

// Schema is where the kit lives. Other parts of Headroom keep tables there, too.
const Schema = "headroom"

// oldest is the lowest server version that the kit is written for.
const oldest = 13

//go:embed sql/*.sql
var files embed.FS

// parts are the files in the order in which they are run; of those with a
// version, the highest that the server has.
var parts = [][]string{{"kit.sql"}, {"counts.sql"}, {"counts.14.sql", "counts.13.sql"}, {"bucket.sql"}, {"distinct.sql"}, {"counter.sql"}, {"form.sql"}, {"field.sql"}}

var fileVersion = regexp.MustCompile(`\.(\d+)\.sql$`)

// SQL is the text that Install runs on a server of a major version, after
// making the schema. Errors: a version before 13.
func SQL(major int) (string, error) {
	if major < oldest {
		return "", fail.Hint(fmt.Errorf("install the SQL kit: the server is PostgreSQL %d", major), "it is written for PostgreSQL %d and newer", oldest)
	}
	var b strings.Builder
	for _, choice := range parts {
		for _, name := range choice {
			if m := fileVersion.FindStringSubmatch(name); m != nil && len(m[1]) == 2 && m[1] > fmt.Sprint(major) && major < 100 {
				continue
			}
			raw, err := files.ReadFile("sql/" + name)
			if err != nil {
				return "", fmt.Errorf("read the SQL kit: %w", err)
			}
			b.Write(raw)
			b.WriteByte('\n')
			break
		}
	}
	return b.String(), nil
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

var commented = regexp.MustCompile(`(?m)^comment on (function|aggregate|procedure|table) (headroom\.(\w+)[^']*?) is '((?:[^']|'')*)';$`)

// Object is one object of the kit.
type Object struct {
	Kind     string // function, aggregate, procedure or table
	Identity string // headroom.bucket(integer, integer, integer)
	Name     string // bucket
	Comment  string
}

// Internal says that the object is not for users and may change at any time.
func (o Object) Internal() bool {
	return strings.HasPrefix(o.Name, "_") || strings.HasPrefix(o.Name, "kit")
}

// Objects lists what the kit has for a major version, in the order made.
func Objects(major int) ([]Object, error) {
	text, err := SQL(major)
	if err != nil {
		return nil, err
	}
	var out []Object
	for _, m := range commented.FindAllStringSubmatch(text, -1) {
		out = append(out, Object{Kind: m[1], Identity: m[2], Name: m[3], Comment: strings.ReplaceAll(m[4], "''", "'")})
	}
	return out, nil
}

// Open connects to a database for the calls below: application_name=headroom,
// time limits for locks and statements.
func Open(ctx context.Context, dsn string) (*pgx.Conn, error) {
	cfg, err := host.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "headroom"
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec // a pooler keeps no named statements
	cfg.ConnectTimeout = 10 * time.Second
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	return conn, nil
}

// lockKey keeps two installations of one database apart.
const lockKey = 0x68726b6974

// inTx runs f in a transaction that waits for no lock longer than 5 s and in
// which names mean the server's own. what begins an error message.
func inTx(ctx context.Context, conn *pgx.Conn, what string, write bool, f func(pgx.Tx) error) error {
	mode := pgx.ReadOnly
	if write {
		mode = pgx.ReadWrite
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{AccessMode: mode, IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit this does nothing
	_, err = tx.Exec(ctx, "set local lock_timeout = '5s'; set local statement_timeout = '60s'; set local client_min_messages = warning; set local search_path = pg_catalog, pg_temp",
		pgx.QueryExecModeSimpleProtocol)
	if err == nil && write {
		_, err = tx.Exec(ctx, "select pg_catalog.pg_advisory_xact_lock($1)", int64(lockKey))
	}
	if err == nil {
		err = f(tx)
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		return wayOut(fmt.Errorf("%s: %w", what, err))
	}
	return nil
}

// wayOut adds the hint that fits the server's refusal.
func wayOut(err error) error {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return err
	}
	switch {
	case pe.Hint != "":
		return fail.Hint(err, "%s", pe.Hint)
	case pe.Code == "42501":
		return fail.Hint(err, "ask the database's owner: GRANT CREATE ON DATABASE … TO the user that Headroom connects as; a kit that is there belongs to who installed it")
	case pe.Code == "55P03":
		return fail.Hint(err, "another session uses the kit; try again in a moment")
	case pe.Code == "25006":
		return fail.Hint(err, "this is a standby or a read-only session: connect to the primary")
	}
	return err
}

// names are the distinct names of objects.
func names(objects []Object) []string {
	var out []string
	for _, o := range objects {
		if !slices.Contains(out, o.Name) {
			out = append(out, o.Name)
		}
	}
	return out
}
