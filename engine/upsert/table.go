package upsert

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/fail"
)

var (
	//go:embed table.sql
	tableSQL string
	//go:embed column.sql
	columnSQL string
	//go:embed index.sql
	indexSQL string
)

// Column is one column that is written.
type Column struct {
	Name    string
	Type    string // as format_type prints it
	NotNull bool

	schema, base  string // the type below any domain
	mod           int32  // its modifier, -1 if none
	num           int32
	enum          bool
	generated     bool
	always        bool // an identity that is GENERATED ALWAYS
	filled        bool // has a default
	deterministic bool // equal only if the bytes are
}

// Table is where rows go: its key and the other columns that are written.
type Table struct {
	Schema, Name string
	Key, Values  []Column
	Unlogged     bool // or one of its partitions is
	Partitioned  bool
	RowSecurity  bool
	Triggers     bool // of users

	version int // server_version_num
}

// SQL is the table's name for a statement.
func (t Table) SQL() string {
	if t.Schema == "" {
		return pgx.Identifier{t.Name}.Sanitize()
	}
	return pgx.Identifier{t.Schema, t.Name}.Sanitize()
}

// Describe looks at a table whose name is written as in a statement (names
// with capitals or spaces in double quotes). It checks that rows can be
// upserted by key: there is a unique index on exactly these columns that can
// decide conflicts, and no other column needs a value. Key and values are
// plain column names. Errors that more than a spelling mends carry a hint.
func Describe(ctx context.Context, conn *pgx.Conn, table string, key, values []string) (Table, error) {
	t, err := describe(ctx, conn, table, key, values)
	if err != nil {
		return Table{}, fmt.Errorf("describe table %s: %w", table, err)
	}
	return t, nil
}

func describe(ctx context.Context, conn *pgx.Conn, table string, key, values []string) (t Table, err error) {
	if len(key) == 0 {
		return t, fail.With(errors.New("no key column given"), fail.Usage)
	}
	oid, err := lookUp(ctx, conn, table)
	if err != nil {
		return t, err
	}
	var kind string
	var temp, rules bool
	err = conn.QueryRow(ctx, tableSQL, oid).Scan(&t.Schema, &t.Name, &kind, &t.Unlogged, &temp, &t.RowSecurity, &t.Triggers, &rules, &t.version)
	if err != nil {
		return t, fmt.Errorf("read the catalog: %w", err)
	}
	switch {
	case kind != "r" && kind != "p":
		return t, fmt.Errorf("it is a %s: only ordinary and partitioned tables can be upserted into", kinds[kind])
	case temp:
		return t, errors.New("it is a temporary table, which other connections do not see")
	case rules:
		return t, fail.Hint(errors.New("it has rules for INSERT or UPDATE, which ON CONFLICT does not work with"), "replace the rules by triggers")
	}
	t.Partitioned = kind == "p"
	all, err := columns(ctx, conn, oid)
	if err != nil {
		return t, err
	}
	if t.Key, err = pick(all, key); err != nil {
		return t, err
	}
	if t.Values, err = pick(all, values); err != nil {
		return t, err
	}
	if err := writable(t); err != nil {
		return t, err
	}
	if err := decides(ctx, conn, oid, t, all); err != nil {
		return t, err
	}
	return t, complete(t, all)
}

var kinds = map[string]string{"v": "view", "m": "materialized view", "f": "foreign table", "S": "sequence", "i": "index", "I": "index", "c": "type", "t": "toast table"}

// lookUp finds a table by its name as a statement would.
func lookUp(ctx context.Context, conn *pgx.Conn, table string) (uint32, error) {
	var oid *uint32
	err := conn.QueryRow(ctx, "SELECT pg_catalog.to_regclass($1)::oid", table).Scan(&oid)
	var pe *pgconn.PgError
	if errors.As(err, &pe) && (pe.Code == "42602" || pe.Code == "42601" || pe.Code == "0A000") {
		return 0, fail.With(fail.Hint(fmt.Errorf("not a name: %s", pe.Message), "quote names with spaces or special characters: %s", pgx.Identifier{table}.Sanitize()), fail.Usage)
	}
	if err != nil {
		return 0, fmt.Errorf("find it: %w", err)
	}
	if oid != nil {
		return *oid, nil
	}
	err = fmt.Errorf("no such table: %w", fail.ErrAbsent)
	var other string
	look := conn.QueryRow(ctx, `SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE lower(c.relname) = lower($1) AND c.relkind IN ('r', 'p') ORDER BY c.relname = $1 DESC, 1 LIMIT 1`, strings.Trim(table, `"`)).Scan(&other)
	if look == nil {
		return 0, fail.Hint(err, "there is %s: write it so", other)
	}
	return 0, fail.Hint(err, "create it, or let ingest do so with --create")
}

func columns(ctx context.Context, conn *pgx.Conn, oid uint32) ([]Column, error) {
	rows, err := conn.Query(ctx, columnSQL, oid)
	if err != nil {
		return nil, fmt.Errorf("read the catalog: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (c Column, err error) {
		return c, r.Scan(&c.num, &c.Name, &c.Type, &c.NotNull, &c.generated, &c.always, &c.filled, &c.schema, &c.base, &c.enum, &c.mod, &c.deterministic)
	})
	if err != nil {
		return nil, fmt.Errorf("read the catalog: %w", err)
	}
	return all, nil
}

// pick finds columns by name.
func pick(all []Column, names []string) ([]Column, error) {
	var out []Column
	for _, n := range names {
		i := slices.IndexFunc(all, func(c Column) bool { return c.Name == n })
		if i < 0 {
			err := fmt.Errorf("it has no column %q", n)
			if j := slices.IndexFunc(all, func(c Column) bool { return strings.EqualFold(c.Name, n) }); j >= 0 {
				return nil, fail.Hint(err, "there is %q: names are taken as they are, capitals included", all[j].Name)
			}
			var have []string
			for _, c := range all {
				have = append(have, c.Name)
			}
			return nil, fail.Hint(err, "it has %s", strings.Join(have, ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}

// writable says why the columns cannot be written as asked.
func writable(t Table) error {
	seen := map[string]bool{}
	for _, c := range slices.Concat(t.Key, t.Values) {
		if seen[c.Name] {
			return fail.With(fmt.Errorf("column %q is named twice", c.Name), fail.Usage)
		}
		seen[c.Name] = true
		if c.generated {
			return fmt.Errorf("column %q is generated by the table and cannot be written", c.Name)
		}
	}
	for _, c := range t.Values {
		if c.always {
			return fmt.Errorf("column %q is an identity that is generated always: it can be a key, but not be updated", c.Name)
		}
	}
	return nil
}

// complete checks that no column is left out that needs a value.
func complete(t Table, all []Column) error {
	written := slices.Concat(t.Key, t.Values)
	for _, c := range all {
		if c.NotNull && !c.filled && !c.generated && !slices.ContainsFunc(written, func(w Column) bool { return w.num == c.num }) {
			return fail.Hint(fmt.Errorf("column %q may not be NULL, has no default, and is not among those written", c.Name), "write it too, or give it a default")
		}
	}
	return nil
}

// decides checks that a unique index on exactly the key can decide conflicts.
func decides(ctx context.Context, conn *pgx.Conn, oid uint32, t Table, all []Column) error {
	var want []int32
	var names []string
	for _, c := range t.Key {
		want, names = append(want, c.num), append(names, pgx.Identifier{c.Name}.Sanitize())
	}
	slices.Sort(want)
	rows, err := conn.Query(ctx, indexSQL, oid)
	if err != nil {
		return fmt.Errorf("read the catalog: %w", err)
	}
	defer rows.Close()
	var why []string
	for rows.Next() {
		var name string
		var valid, immediate, partial, exprs bool
		var cols []int32
		if err := rows.Scan(&name, &valid, &immediate, &partial, &exprs, &cols); err != nil {
			return fmt.Errorf("read the catalog: %w", err)
		}
		slices.Sort(cols)
		switch {
		case exprs:
			why = append(why, fmt.Sprintf("%q is on an expression", name))
		case !slices.Equal(cols, want):
			why = append(why, fmt.Sprintf("%q is on (%s)", name, nameAll(all, cols)))
		case !valid:
			why = append(why, fmt.Sprintf("%q is invalid (a build that failed: REINDEX it)", name))
		case !immediate:
			why = append(why, fmt.Sprintf("%q is deferrable", name))
		case partial:
			why = append(why, fmt.Sprintf("%q is partial", name))
		default:
			return nil
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the catalog: %w", err)
	}
	cause := fmt.Errorf("no unique index on (%s) that can decide conflicts", strings.Join(names, ", "))
	if len(why) > 0 {
		cause = fmt.Errorf("%w: %s", cause, strings.Join(why, "; "))
	}
	concurrently := " CONCURRENTLY"
	if t.Partitioned {
		concurrently = ""
	}
	return fail.Hint(cause, "CREATE UNIQUE INDEX%s ON %s (%s)", concurrently, t.SQL(), strings.Join(names, ", "))
}

func nameAll(all []Column, nums []int32) string {
	var out []string
	for _, n := range nums {
		for _, c := range all {
			if c.num == n {
				out = append(out, c.Name)
			}
		}
	}
	return strings.Join(out, ", ")
}

// Create makes a table with its key as primary key; each column's Type
// is one as in CREATE TABLE. It is unlogged for Memory. Where the table exists it is left
// as it is, and Describe says whether it fits.
func Create(ctx context.Context, conn *pgx.Conn, t Table, d Durability) error {
	for _, c := range slices.Concat(t.Key, t.Values) {
		var known bool
		// Only what the server itself reads as one type gets into the statement.
		err := conn.QueryRow(ctx, "SELECT pg_catalog.to_regtype($1) IS NOT NULL", c.Type).Scan(&known)
		if err != nil || !known {
			err = errors.Join(fmt.Errorf("create table %s: column %q: unknown type %q", t.SQL(), c.Name, c.Type), err)
			return fail.With(fail.Hint(err, "write it as in CREATE TABLE, such as bigint, text, uuid, timestamptz"), fail.Usage)
		}
	}
	var b strings.Builder
	b.WriteString("CREATE ")
	if d == Memory {
		b.WriteString("UNLOGGED ")
	}
	fmt.Fprintf(&b, "TABLE IF NOT EXISTS %s (", t.SQL())
	for _, c := range slices.Concat(t.Key, t.Values) {
		fmt.Fprintf(&b, "%s %s", pgx.Identifier{c.Name}.Sanitize(), c.Type)
		if c.NotNull {
			b.WriteString(" NOT NULL")
		}
		b.WriteString(", ")
	}
	var key []string
	for _, c := range t.Key {
		key = append(key, pgx.Identifier{c.Name}.Sanitize())
	}
	fmt.Fprintf(&b, "PRIMARY KEY (%s))", strings.Join(key, ", "))
	if _, err := conn.Exec(ctx, b.String(), pgx.QueryExecModeExec); err != nil {
		return fmt.Errorf("create table %s: %w", t.SQL(), err)
	}
	return nil
}
