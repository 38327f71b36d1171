package bulkload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"headroom/engine/record"
	"headroom/fail"
)

// newTable plans the table that --create asks for: columns and types after the
// first records.
func (j *job) newTable(ctx context.Context) (*Table, []string, error) {
	o := j.o
	t, err := j.name(ctx)
	if err != nil {
		return nil, nil, err
	}
	if o.Header == nil && len(o.Columns) == 0 {
		j.src.Header = j.src.opts.Header
	}
	sm, err := j.src.sample()
	if err != nil {
		return nil, nil, err
	}
	if t.Columns, err = guessColumns(j.src, sm, o); err != nil {
		return nil, nil, err
	}
	kind := "table"
	if t.Persistence = "p"; o.Create.Unlogged {
		t.Persistence, kind = "u", "unlogged table"
	}
	var lines []string
	for i, c := range t.Columns {
		if slices.Contains(o.Create.Key, c.Name) {
			t.Columns[i].NotNull = true
			lines = append(lines, ident(c.Name)+" "+c.Type+" not null")
			continue
		}
		lines = append(lines, ident(c.Name)+" "+c.Type)
	}
	if err := t.addKey(o.Create.Key); err != nil {
		return nil, nil, err
	}
	return t, []string{fmt.Sprintf("create %s %s (%s)", kind, t.ident(), strings.Join(lines, ", "))}, nil
}

// name reads the name of a table that is not there yet, as SQL would.
func (j *job) name(ctx context.Context) (*Table, error) {
	var parts []string
	var schema *string
	var there bool
	err := j.conn.QueryRow(ctx, "select pg_catalog.parse_ident($1), pg_catalog.current_schema()::pg_catalog.text, pg_catalog.to_regclass($1) is not null", j.o.Table).Scan(&parts, &schema, &there)
	if err != nil || len(parts) > 2 {
		return nil, fail.With(fail.Hint(fmt.Errorf("read table name %s: %w", j.o.Table, orErr(err)), `write it as in SQL: people, sales.people or "My Schema"."My Table"`), fail.Usage)
	}
	if there {
		return nil, fail.With(fail.Hint(fmt.Errorf("create table %s: it is there already", j.o.Table), "leave out --create to load into it"), fail.Usage)
	}
	t := &Table{Kind: "r", Persistence: "p", MayInsert: true, MayTruncate: true, Owned: true, Replica: "d", Name: parts[len(parts)-1]}
	switch {
	case len(parts) == 2:
		t.Schema = parts[0]
	case schema != nil:
		t.Schema = *schema
	default:
		return nil, fail.Hint(fmt.Errorf("create table %s: no schema of the search_path is there", j.o.Table), "name the schema: schema.table")
	}
	return t, nil
}

func orErr(err error) error {
	if err == nil {
		return errors.New("it has more than two parts")
	}
	return err
}

// addKey gives the table to be made its primary key, which is built after the rows.
func (t *Table) addKey(key []string) error {
	if len(key) == 0 {
		return nil
	}
	for _, k := range key {
		if !slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Name == k }) {
			return fail.With(fail.Hint(fmt.Errorf("read --key: the input has no column %q", k), "it has: %s", strings.Join(t.names(), ", ")), fail.Usage)
		}
	}
	name := t.Name
	for len(name) > 63-len("_pkey") || !utf8.ValidString(name) {
		name = name[:len(name)-1]
	}
	name += "_pkey"
	var exprs []string
	for _, k := range key {
		exprs = append(exprs, ident(k))
	}
	t.Objects = append(t.Objects, Object{Kind: PrimaryKey, Name: name, Method: "btree", IsUnique: true, Valid: true, New: true, Exprs: exprs,
		Def: "PRIMARY KEY (" + idents(key) + ")", IndexDef: fmt.Sprintf("create unique index %s on %s (%s)", ident(name), t.ident(), idents(key))})
	return nil
}

// guessColumns names the columns by header, --columns or the documents, and
// finds the narrowest type that fits every sampled value.
func guessColumns(src *source, sm sample, o *Options) ([]Column, error) {
	names, value, err := guessNames(src, sm, o)
	if err != nil {
		return nil, err
	}
	var out []Column
	for i, name := range names {
		if len(name) > 63 {
			return nil, fail.With(fmt.Errorf("create a column %q: its name has %d bytes, at most 63 fit", name, len(name)), fail.Usage)
		}
		if name == "-" {
			continue
		}
		var values [][]byte
		for n := range sm.raw {
			if v := value(n, i); v != nil {
				values = append(values, v)
			}
		}
		typ := guessType(values)
		base := map[string]string{"bigint": "int8", "boolean": "bool", "timestamp with time zone": "timestamptz", "timestamp without time zone": "timestamp"}[typ]
		out = append(out, Column{Name: name, Type: typ, Base: orElse(base, typ), Mod: -1})
	}
	return out, nil
}

// guessNames returns the columns' names and how to read a sampled value.
func guessNames(src *source, sm sample, o *Options) ([]string, func(n, i int) []byte, error) {
	if src.opts.Format == record.NDJSON {
		return documentNames(sm, o)
	}
	value := func(n, i int) []byte {
		if i < len(sm.records[n]) {
			return sm.records[n][i]
		}
		return nil
	}
	names := sm.names
	if len(o.Columns) > 0 {
		names = o.Columns
	}
	if names == nil && len(sm.records) > 0 {
		for i := range sm.records[0] {
			names = append(names, fmt.Sprintf("c%d", i+1))
		}
	}
	if len(names) == 0 {
		return nil, nil, fail.With(fail.Hint(errors.New("create a table: the input holds nothing to take columns from"), "make the table yourself"), fail.Usage)
	}
	return names, value, nil
}

func documentNames(sm sample, o *Options) ([]string, func(n, i int) []byte, error) {
	var names []string
	var paths []record.Path
	for _, spec := range o.Columns {
		name, text, given := strings.Cut(spec, "=")
		path := record.PathOf(name)
		if given && text == "." {
			path = record.Path{}
		} else if given {
			var err error
			if path, err = record.ParsePath(text); err != nil {
				return nil, nil, err
			}
		}
		names, paths = append(names, name), append(paths, path)
	}
	for _, raw := range sm.raw {
		if len(o.Columns) > 0 {
			break
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
			continue
		}
		for dec.More() {
			tok, err := dec.Token()
			var skip json.RawMessage
			if err != nil || dec.Decode(&skip) != nil {
				break
			}
			if name, ok := tok.(string); ok && !slices.Contains(names, name) && name != "" {
				names, paths = append(names, name), append(paths, record.PathOf(name))
			}
		}
	}
	if len(names) == 0 {
		return nil, nil, fail.With(fail.Hint(errors.New("create a table: no document in the input has members"), "make the table yourself"), fail.Usage)
	}
	return names, func(n, i int) []byte {
		if slices.Contains(o.Columns, names[i]+"=.") {
			return sm.raw[n]
		}
		text, kind, err := paths[i].Get(sm.raw[n])
		if err != nil || kind == record.Missing || kind == record.Null {
			return nil
		}
		if kind == record.Object || kind == record.Array {
			return append([]byte("{"), text...) // only jsonb takes it
		}
		return append([]byte{}, text...)
	}, nil
}

// guesses are the types that are guessed, the narrowest first.
var guesses = []struct {
	name string
	fits func([]byte) bool
}{
	{"boolean", func(v []byte) bool { return slices.Contains([]string{"true", "false", "t", "f"}, string(v)) }},
	{"bigint", func(v []byte) bool {
		_, err := strconv.ParseInt(string(v), 10, 64)
		return err == nil && (len(v) == 1 || v[0] != '0') && v[0] != '+' // 007 is a name, not a number
	}},
	{"numeric", func(v []byte) bool {
		_, err := strconv.ParseFloat(string(v), 64)
		leading := len(v) > 1 && v[0] == '0' && v[1] != '.'
		return err == nil && hasDigit(v) && !leading && !bytes.ContainsAny(v, "xXpP_+")
	}},
	{"uuid", func(v []byte) bool { return len(v) == 36 && wrongUUID(v) == "" && v[8] == '-' && v[13] == '-' }},
	{"date", func(v []byte) bool { return len(v) == 10 && isDate(v) }},
	{"timestamp without time zone", func(v []byte) bool { return isMoment(v) && zone(v) == "" }},
	{"timestamp with time zone", func(v []byte) bool { return isMoment(v) && zone(v) != "" }},
	{"jsonb", func(v []byte) bool { return len(v) > 0 && (v[0] == '{' || v[0] == '[') }},
}

func isDate(v []byte) bool {
	return len(v) >= 10 && v[4] == '-' && v[7] == '-' && number(v[:4]) > 0 && number(v[5:7]) > 0 && number(v[8:10]) > 0 && wrongDate(v[:10], "") == ""
}

func isMoment(v []byte) bool {
	return len(v) >= 16 && isDate(v) && (v[10] == ' ' || v[10] == 'T') && v[13] == ':' && number(v[11:13]) >= 0 && number(v[14:16]) >= 0
}

// zone is the time zone at the end of a moment, or "".
func zone(v []byte) string {
	if i := bytes.LastIndexAny(v[11:], "+-Z"); i >= 0 {
		return string(v[11+i:])
	}
	return ""
}

func guessType(values [][]byte) string {
	if len(values) == 0 {
		return "text"
	}
	for _, g := range guesses {
		if !slices.ContainsFunc(values, func(v []byte) bool { return len(v) == 0 || !g.fits(v) }) {
			return g.name
		}
	}
	return "text"
}

// Attach is how a loaded table becomes a partition.
type Attach struct {
	Parent    string `json:"parent"` // as SQL
	ParentOID uint32 `json:"parent_oid"`
	Values    string `json:"values"` // what follows FOR VALUES
	Check     string `json:"check"`  // name of the constraint that stands for the bound until then; "" if there is none
}

// newPartition plans a partition that is loaded beside its table. What the
// bound demands is a CHECK from the start, so that rows of other partitions
// are bad records, and attaching looks at no row.
func (j *job) newPartition(ctx context.Context) (*Table, []string, error) {
	t, err := j.name(ctx)
	if err != nil {
		return nil, nil, err
	}
	oid, err := resolve(ctx, j.conn, j.o.PartitionOf)
	if err != nil {
		return nil, nil, err
	}
	parent, err := lookTable(ctx, j.conn, oid)
	if err != nil {
		return nil, nil, err
	}
	if parent.Kind != "p" {
		return nil, nil, fail.With(fmt.Errorf("load a partition of %s: it is not a partitioned table", parent), fail.Usage)
	}
	tx, err := j.conn.Begin(ctx) // never committed: to see what the server makes of it
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	a := &Attach{Parent: parent.ident(), ParentOID: oid, Values: bound(j.o.Values)}
	statements := []string{fmt.Sprintf("create table %s (like %s including all excluding identity)", t.ident(), parent.ident())}
	check, err := a.boundCheck(ctx, tx, t, parent)
	if err != nil {
		return nil, nil, err
	}
	if check != "" {
		a.Check = "headroom_bound"
		statements = append(statements, fmt.Sprintf("alter table %s add constraint %s check (%s)", t.ident(), ident(a.Check), check))
	}
	for _, o := range parent.Objects {
		if o.Kind == ForeignKey {
			statements = append(statements, fmt.Sprintf("alter table %s add constraint %s %s", t.ident(), ident(o.Name), o.Def))
		}
	}
	for _, sql := range statements {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return nil, nil, fmt.Errorf("create partition %s: %w", t, err)
		}
	}
	var made uint32
	if err := tx.QueryRow(ctx, "select $1::pg_catalog.regclass::pg_catalog.oid", t.ident()).Scan(&made); err != nil {
		return nil, nil, err
	}
	if t, err = lookIn(ctx, tx, made); err != nil {
		return nil, nil, err
	}
	t.OID, t.Rows = 0, 0 // it is gone in a moment
	j.o.attach = a
	return t, statements, nil
}

// bound is what follows FOR VALUES.
func bound(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > 10 && strings.EqualFold(s[:10], "for values") {
		s = strings.TrimSpace(s[10:])
	}
	return s
}

// boundCheck asks the server what the bound means as a condition, by way of a
// copy of the parent, so that the parent itself is not locked. It is empty for
// hash partitions, whose condition names the parent.
func (a *Attach) boundCheck(ctx context.Context, tx pgx.Tx, t, parent *Table) (string, error) {
	var by, strategy, check string
	err := inCatalog(ctx, tx, func() error {
		return tx.QueryRow(ctx, "select pg_get_partkeydef($1), (select partstrat::text from pg_partitioned_table where partrelid = $1)", parent.OID).Scan(&by, &strategy)
	})
	if err != nil || strategy == "h" {
		return "", err
	}
	twin, leaf := ident(t.Schema, "headroom twin"), ident(t.Schema, "headroom leaf")
	for _, sql := range []string{
		fmt.Sprintf("create table %s (like %s) partition by %s", twin, parent.ident(), by),
		fmt.Sprintf("create table %s partition of %s for values %s", leaf, twin, a.Values),
	} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return "", fail.With(fail.Hint(fmt.Errorf("read --values %s: %w", a.Values, err), "write it as CREATE TABLE … FOR VALUES does: FROM ('2026-01-01') TO ('2026-02-01'), IN (1, 2)"), fail.Usage)
		}
	}
	err = inCatalog(ctx, tx, func() error {
		return tx.QueryRow(ctx, "select pg_get_partition_constraintdef($1::regclass)", leaf).Scan(&check)
	})
	if err != nil {
		return "", err
	}
	_, err = tx.Exec(ctx, "drop table "+twin)
	return check, err
}

// attach makes the loaded table a partition, if that is what it is for.
func (j *job) attach(ctx context.Context) error {
	if j.Plan.Attach == nil {
		return nil
	}
	j.enter("attach")
	return j.patiently(ctx, "attach the partition", func() error {
		tx, err := j.conn.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		if _, err := tx.Exec(ctx, "set local lock_timeout = '5s'"); err != nil {
			return err
		}
		if err := j.attachIn(ctx, tx); err != nil {
			return err
		}
		return tx.Commit(ctx)
	})
}

func (j *job) attachIn(ctx context.Context, tx pgx.Tx) error {
	a := j.Plan.Attach
	if a == nil {
		return nil
	}
	var there bool
	err := tx.QueryRow(ctx, "select exists (select from pg_catalog.pg_inherits where inhrelid = $1 and inhparent = $2)", j.table().OID, a.ParentOID).Scan(&there)
	if err != nil || there {
		return err
	}
	statements := []string{fmt.Sprintf("alter table %s attach partition %s for values %s", a.Parent, j.table().ident(), a.Values)}
	if a.Check != "" {
		statements = append(statements, fmt.Sprintf("alter table %s drop constraint %s", j.table().ident(), ident(a.Check)))
	}
	for _, sql := range statements {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return fmt.Errorf("attach partition %s: %w", j.table(), err)
		}
	}
	return nil
}
