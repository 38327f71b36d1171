package bulkload

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/fail"
	"headroom/host"
)

var (
	//go:embed look_table.sql
	tableSQL string
	//go:embed look_columns.sql
	columnsSQL string
	//go:embed look_indexes.sql
	indexesSQL string
	//go:embed look_foreign.sql
	foreignSQL string
	//go:embed look_triggers.sql
	triggersSQL string
	//go:embed look_server.sql
	serverSQL string
)

// Server is what of the server decides how to load.
type Server struct {
	Version     int    `json:"version"` // server_version_num, such as 150018
	Recovery    bool   `json:"in_recovery"`
	ReadOnly    bool   `json:"read_only"`
	WALLevel    string `json:"wal_level"`
	Buffers     int64  `json:"shared_buffers"`       // bytes
	Maintenance int64  `json:"maintenance_work_mem"` // bytes
	Workers     int    `json:"max_parallel_workers"`
	Slots       int    `json:"free_connections"`
	Encoding    string `json:"encoding"`
	System      string `json:"system"`             // what tells this cluster from others
	Local       bool   `json:"local"`              // on this machine: its cores and memory are known
	Cores       int    `json:"cores,omitempty"`    // of this machine, if Local
	Memory      int64  `json:"memory,omitempty"`   // available bytes, if Local
	DataDir     string `json:"data_dir,omitempty"` // if the user may know it
	Free        int64  `json:"free"`               // bytes that can be written there; -1 if not known
}

// smallTable is the size up to which rows are counted instead of estimated:
// a moment's work.
const smallTable = 16 << 20

// dial connects for loading. what goes into application_name.
func dial(ctx context.Context, cfg *pgx.ConnConfig, params map[string]string) (*pgx.Conn, error) {
	c := cfg.Copy()
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "headroom"
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = 10 * time.Second
	}
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, fail.Hint(fmt.Errorf("connect to PostgreSQL at %s:%d as %s: %w", c.Host, c.Port, c.User, plain(err)),
			"is the server running there? name it with --db DSN or PGHOST, PGPORT, PGUSER, PGDATABASE")
	}
	var sql strings.Builder
	sql.WriteString("set standard_conforming_strings = on")
	for name, value := range params {
		fmt.Fprintf(&sql, "; set %s = %s", ident(name), host.Literal(value))
	}
	if _, err := conn.Exec(ctx, sql.String(), pgx.QueryExecModeSimpleProtocol); err != nil {
		_ = conn.Close(ctx)
		return nil, fmt.Errorf("prepare a connection: %w", err)
	}
	// English messages tell the line of a bad record; only a superuser may ask for them.
	_, _ = conn.Exec(ctx, "set lc_messages = 'C'")
	return conn, nil
}

// plain keeps the server's or the kernel's own words, never the connection string.
func plain(err error) error {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe
	}
	var ce *pgconn.ConnectError
	if errors.As(err, &ce) && ce.Unwrap() != nil {
		return ce.Unwrap()
	}
	return err
}

// lookServer reads what decides how to load. It refuses a server that cannot
// take rows, and a pooler in its place.
func lookServer(ctx context.Context, conn *pgx.Conn) (Server, error) {
	var s Server
	var pid uint32
	err := conn.QueryRow(ctx, serverSQL).Scan(&s.Version, &s.Recovery, &s.ReadOnly, &s.WALLevel, &s.Buffers, &s.Maintenance,
		&s.Workers, &s.Slots, &s.Encoding, &s.DataDir, &pid)
	if err == nil {
		err = conn.QueryRow(ctx, systemSQL).Scan(&s.System)
	}
	if err != nil {
		return s, fmt.Errorf("look at the server: %w", err)
	}
	switch {
	case pid != conn.PgConn().PID():
		return s, fail.Hint(errors.New("load: a connection pooler answers in the server's place"), "connect to the server itself: its own port or socket in --db")
	case s.Recovery:
		return s, fail.Hint(errors.New("load: the server is a standby and takes no rows"), "name the primary with --db")
	case s.ReadOnly:
		return s, fail.Hint(errors.New("load: the connection is read-only (default_transaction_read_only)"), "connect as a user, or to a database, that may write")
	}
	s.Local = strings.HasPrefix(conn.Config().Host, "/") || conn.Config().Host == "localhost" || conn.Config().Host == "127.0.0.1" || conn.Config().Host == "::1"
	s.Free = -1
	if s.Local {
		s.Cores, s.Memory = machine()
		s.Free = freeSpace(s.DataDir)
	}
	return s, nil
}

// resolve finds a table by its name as SQL has it, the way the connection's
// search_path does. fail.ErrAbsent if there is none.
func resolve(ctx context.Context, conn *pgx.Conn, name string) (uint32, error) {
	var oid *uint32
	var parts []string // newer servers call a malformed name absent; this is an error for all
	if err := conn.QueryRow(ctx, "select pg_catalog.to_regclass($1)::pg_catalog.oid, pg_catalog.parse_ident($1)", name).Scan(&oid, &parts); err != nil {
		return 0, fail.With(fail.Hint(fmt.Errorf("find table %s: %w", name, err),
			`write it as in SQL: people, sales.people or "My Schema"."My Table"`), fail.Usage)
	}
	if oid == nil {
		return 0, fail.Hint(fmt.Errorf("find table %s: %w", name, fail.ErrAbsent), "make it first, or let it be made: --create")
	}
	return *oid, nil
}

// queryer is a connection or a transaction.
type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// inCatalog runs f with a search_path in which nothing but the catalog is
// found unqualified, so that definitions come out qualified throughout.
func inCatalog(ctx context.Context, tx queryer, f func() error) error {
	var was string
	if err := tx.QueryRow(ctx, "select pg_catalog.current_setting('search_path')").Scan(&was); err != nil {
		return err
	}
	set := func(path string) error {
		_, err := tx.Exec(ctx, "select pg_catalog.set_config('search_path', $1, true)", path)
		return err
	}
	if err := set("pg_catalog"); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	return set(was)
}

// lookTable reads all that the catalog has on a table, in one snapshot of a
// transaction of its own.
func lookTable(ctx context.Context, conn *pgx.Conn, oid uint32) (*Table, error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, fmt.Errorf("look at the table: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, "set local statement_timeout = '30s'; set local lock_timeout = '2s'", pgx.QueryExecModeSimpleProtocol); err != nil {
		return nil, fmt.Errorf("look at the table: %w", err)
	}
	t, err := lookIn(ctx, tx, oid)
	if err != nil {
		return nil, err
	}
	return t, countSmall(ctx, tx, t)
}

// countSmall counts the rows where that is a moment's work.
func countSmall(ctx context.Context, tx queryer, t *Table) error {
	if t.Kind != "r" || t.Bytes > smallTable || t.Bytes == 0 {
		return nil
	}
	err := tx.QueryRow(ctx, "select pg_catalog.count(*) from "+t.ident()).Scan(&t.Rows)
	var pe *pgconn.PgError
	if errors.As(err, &pe) && pe.Code == "42501" { // may insert, may not read
		return nil
	}
	return err
}

// lookIn is lookTable inside a transaction; the rows are the catalog's estimate.
func lookIn(ctx context.Context, tx queryer, oid uint32) (*Table, error) {
	t := &Table{}
	err := inCatalog(ctx, tx, func() error {
		var rows float64
		err := tx.QueryRow(ctx, tableSQL, oid).Scan(&t.OID, &t.Schema, &t.Name, &t.Kind, &t.Persistence, &rows, &t.Bytes, &t.Dead, &t.Partition,
			&t.Replica, &t.RowSecurity, &t.MayInsert, &t.MayTruncate, &t.Owned, &t.Referenced, &t.Published, &t.RowTriggers, &t.DeleteTriggers)
		if errors.Is(err, pgx.ErrNoRows) {
			return fail.ErrAbsent
		}
		if err != nil {
			return err
		}
		if t.Rows = int64(rows); rows < 0 { // never analyzed: about 100 bytes a row
			t.Rows = t.Bytes / 100
		}
		for _, part := range []func(context.Context, queryer, *Table) error{lookColumns, lookIndexes, lookForeign, lookTriggers} {
			if err := part(ctx, tx, t); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look at the table: %w", err)
	}
	return t, nil
}

func lookColumns(ctx context.Context, tx queryer, t *Table) error {
	rows, err := tx.Query(ctx, columnsSQL, t.OID)
	if err != nil {
		return err
	}
	t.Columns, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (c Column, err error) {
		return c, r.Scan(&c.Name, &c.Type, &c.Base, &c.Mod, &c.NotNull, &c.Generated, &c.Identity, &c.Default)
	})
	return err
}

var constraintKinds = map[string]Kind{"": Index, "p": PrimaryKey, "u": Unique, "x": Exclusion}

func lookIndexes(ctx context.Context, tx queryer, t *Table) error {
	rows, err := tx.Query(ctx, indexesSQL, t.OID)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (o Object, err error) {
		var kind string
		err = r.Scan(&kind, &o.Name, &o.OID, &o.Def, &o.IndexDef, &o.Method, &o.IsUnique, &o.Deferrable, &o.Deferred, &o.Valid,
			&o.Comment, &o.IndexComment, &o.Tablespace, &o.Stats, &o.Clustered, &o.ReplicaID, &o.Bytes, &o.Exprs, &o.Where, &o.NullsEqual, &o.Fixed)
		o.Kind = constraintKinds[kind]
		return o, err
	})
	for _, o := range found {
		switch {
		case o.ReplicaID:
			o.Needed = "logical replication names rows by it"
		case o.Kind == PrimaryKey && t.Replica == "d" && len(t.Published) > 0:
			o.Needed = "the publication " + t.Published[0] + " names rows by it"
		}
		t.Objects = append(t.Objects, o)
	}
	return err
}

func lookForeign(ctx context.Context, tx queryer, t *Table) error {
	rows, err := tx.Query(ctx, foreignSQL, t.OID)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Object, error) {
		o := Object{Kind: ForeignKey}
		return o, r.Scan(&o.Name, &o.OID, &o.Index, &o.Def, &o.Valid, &o.Comment, &o.Refers, &o.Columns, &o.RefColumns, &o.Self, &o.Fixed)
	})
	t.Objects = append(t.Objects, found...)
	return err
}

func lookTriggers(ctx context.Context, tx queryer, t *Table) error {
	rows, err := tx.Query(ctx, triggersSQL, t.OID)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Object, error) {
		o := Object{Kind: Trigger, Valid: true}
		return o, r.Scan(&o.Name, &o.OID, &o.Enabled, &o.Def, &o.Fixed)
	})
	t.Objects = append(t.Objects, found...)
	return err
}

// refuse says why the table cannot be loaded into at all; nil if it can.
func (t *Table) refuse() error {
	switch {
	case t.Kind != "r" && t.Kind != "p":
		what := map[string]string{"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence", "i": "an index"}[t.Kind]
		return fmt.Errorf("load into %s: it is %s, not a table", t, orElse(what, "not a table but relkind "+t.Kind))
	case t.RowSecurity:
		return fail.Hint(fmt.Errorf("load into %s: row-level security applies to this user, and COPY cannot check it", t),
			"load as the table's owner or as a role with BYPASSRLS")
	case !t.MayInsert:
		return fail.Hint(fmt.Errorf("load into %s: %w", t, fail.ErrDenied), "GRANT INSERT ON %s TO the user that loads", t)
	}
	return nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// clamp keeps an estimate inside what can be counted.
func clamp(v float64) int64 {
	if math.IsNaN(v) || v < 0 {
		return 0
	}
	return int64(min(v, math.MaxInt64/4))
}
