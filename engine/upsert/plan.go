package upsert

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"headroom/fail"
	"headroom/host"
)

// form is how a batch is put into statements.
type form string

const (
	conflictForm form = "conflict" // INSERT … ON CONFLICT from arrays
	mergeForm    form = "merge"    // MERGE from arrays: no row lock before the update
	stagingForm  form = "staging"  // COPY, then INSERT … ON CONFLICT
	stagedMerge  form = "staged-merge"
	singleForm   form = "single" // INSERT … VALUES … ON CONFLICT for each row
)

// plan is all that is known before the first row.
type plan struct {
	mode   Mode
	skip   bool
	table  Table
	key    []*column
	values []*column
	all    []*column
	roles  []role   // of values
	fields []string // of a document, to be added up
	vague  bool     // only the server knows which keys are equal
}

const stage = "pg_temp.headroom_batch"

func newPlan(o Options, t Table, zone string) (*plan, error) {
	p := &plan{mode: o.Mode, skip: o.SkipUnchanged, table: t}
	for _, c := range t.Key {
		k := newColumn(c, keyCodec(c), zone)
		p.vague = p.vague || k.vague
		p.key = append(p.key, k)
	}
	docs, named := 0, 0
	for _, c := range t.Values {
		v := newColumn(c, valueCodec(c), zone)
		r := replaces
		switch {
		case o.Mode == Add && slices.Contains(o.Adds, c.Name):
			r = adds
			named++
		case (o.Mode == Merge || o.Mode == Add) && v.elem == jsonbOID:
			r = merges
			docs++
		case o.Mode == Merge:
			r = keeps
		}
		p.values, p.roles = append(p.values, v), append(p.roles, r)
	}
	p.all = slices.Concat(p.key, p.values)
	for _, a := range o.Adds {
		if slices.ContainsFunc(t.Values, func(c Column) bool { return c.Name == a }) {
			continue
		}
		if docs != 1 {
			return nil, fail.With(fail.Hint(fmt.Errorf("add to %q: no such column among those written, and %d jsonb columns whose field it could be", a, docs),
				"name a number column that is written, or a field of the one jsonb column"), fail.Usage)
		}
		p.fields = append(p.fields, a)
	}
	for i, r := range p.roles {
		if r == adds && !number[p.values[i].base] {
			return nil, fail.With(fmt.Errorf("add to %q: its type is %s and not a number", p.values[i].Name, p.values[i].Type), fail.Usage)
		}
	}
	return p, nil
}

var number = map[string]bool{"int2": true, "int4": true, "int8": true, "numeric": true, "float4": true, "float8": true}

// mergeable says that MERGE does what INSERT … ON CONFLICT does on this table.
func (p *plan) mergeable() error {
	switch {
	case p.table.version < 150000:
		return errors.New("MERGE needs PostgreSQL 15")
	case p.mode == Ignore || len(p.values) == 0:
		return errors.New("nothing is updated")
	case p.table.Triggers:
		return errors.New("the table has triggers, which would be called differently")
	case p.table.RowSecurity:
		return errors.New("the table has row security, which would be applied differently")
	}
	for _, c := range p.key {
		if c.vague || c.enum || !c.own && !strings.Contains(" text varchar bpchar numeric ", " "+c.base+" ") {
			return fmt.Errorf("key column %q is of type %s", c.Name, c.Type)
		}
	}
	return nil
}

// statement is the SQL of a form; with nulls it stands without parameters.
func (p *plan) statement(f form, nulls bool) string {
	if f == mergeForm || f == stagedMerge {
		return p.mergeSQL(p.source(f, nulls))
	}
	return p.insertSQL(p.source(f, nulls), f, nulls)
}

// source is a query for the rows of a batch, each column with its own type.
func (p *plan) source(f form, nulls bool) string {
	var list []string
	arrays := f == conflictForm || f == mergeForm
	for i, c := range p.all {
		from := fmt.Sprintf("$%d", i+1)
		if nulls {
			from = "NULL"
		}
		switch {
		case f == stagingForm || f == stagedMerge:
			from = fmt.Sprintf("s.c%d", i)
		case arrays:
			from = fmt.Sprintf("pg_catalog.unnest(%s::%s)", from, c.array)
		default:
			from += "::" + strings.TrimSuffix(c.array, "[]")
		}
		if !c.own && c.cast != `"pg_catalog"."text"` {
			from += "::" + c.cast
		}
		list = append(list, from+" AS "+c.sql)
	}
	q := "SELECT " + strings.Join(list, ", ")
	if f == stagingForm || f == stagedMerge {
		q += " FROM " + stage + " AS s"
	}
	return q
}

func names(cols []*column, prefix string) string {
	var out []string
	for _, c := range cols {
		out = append(out, prefix+c.sql)
	}
	return strings.Join(out, ", ")
}

func (p *plan) overriding() string {
	for _, c := range p.key {
		if c.always {
			return " OVERRIDING SYSTEM VALUE"
		}
	}
	return ""
}

func (p *plan) insertSQL(source string, f form, nulls bool) string {
	q := fmt.Sprintf("INSERT INTO %s AS t (%s)%s %s ON CONFLICT (%s) DO ", p.table.SQL(), names(p.all, ""), p.overriding(), source, names(p.key, ""))
	if p.mode == Ignore || len(p.values) == 0 {
		return q + "NOTHING"
	}
	set, changed := p.updates()
	q += "UPDATE SET " + set
	if p.skip {
		q += " WHERE " + changed
	}
	return q
}

// mergeSQL calls the source excluded, so that the expressions of both kinds of
// statement are the same.
func (p *plan) mergeSQL(source string) string {
	var on []string
	for _, c := range p.key {
		on = append(on, fmt.Sprintf("t.%s OPERATOR(pg_catalog.=) excluded.%s", c.sql, c.sql))
	}
	set, changed := p.updates()
	when := ""
	if p.skip {
		when = " AND (" + changed + ")"
	}
	only := "ONLY "
	if p.table.Partitioned {
		only = "" // partitions belong to it; tables that inherit do not
	}
	return fmt.Sprintf("MERGE INTO "+only+"%s AS t USING (%s) AS excluded ON %s WHEN MATCHED%s THEN UPDATE SET %s WHEN NOT MATCHED THEN INSERT (%s)%s VALUES (%s)",
		p.table.SQL(), source, strings.Join(on, " AND "), when, set, names(p.all, ""), p.overriding(), names(p.all, "excluded."))
}

// updates is what SET does, and the condition under which that changes a row.
func (p *plan) updates() (set, changed string) {
	var sets, diffs []string
	for i, c := range p.values {
		x := p.update(c, p.roles[i])
		sets = append(sets, c.sql+" = "+x)
		old := "t." + c.sql
		if c.base == "json" || c.base == "xml" { // these have no equality
			old, x = old+"::pg_catalog.text", "("+x+")::pg_catalog.text"
		}
		diffs = append(diffs, fmt.Sprintf("%s IS DISTINCT FROM %s", old, x))
	}
	return strings.Join(sets, ", "), strings.Join(diffs, " OR ")
}

func (p *plan) update(c *column, r role) string {
	old, add := "t."+c.sql, "excluded."+c.sql
	switch r {
	case keeps:
		return fmt.Sprintf("coalesce(%s, %s)", add, old)
	case adds:
		return fmt.Sprintf("coalesce(%s, 0) + %s", old, add)
	case merges:
		x := fmt.Sprintf("%s || %s", old, add)
		if len(p.fields) > 0 {
			var pairs []string
			for _, f := range p.fields {
				l := host.Literal(f)
				pairs = append(pairs, fmt.Sprintf("%s, coalesce((%s ->> %s)::pg_catalog.numeric, 0) + (%s ->> %s)::pg_catalog.numeric", l, old, l, add, l))
			}
			x += " || pg_catalog.jsonb_build_object(" + strings.Join(pairs, ", ") + ")"
		}
		// Something else than an object cannot be merged into: it is replaced.
		return fmt.Sprintf("CASE WHEN %s IS NULL THEN %s WHEN pg_catalog.jsonb_typeof(%s) = 'object' THEN %s ELSE %s END", add, old, old, x, add)
	}
	return add
}

// stageSQL makes the table that COPY fills.
func (p *plan) stageSQL() string {
	var cols []string
	for i, c := range p.all {
		cols = append(cols, fmt.Sprintf("c%d %s", i, strings.TrimSuffix(c.array, "[]")))
	}
	return fmt.Sprintf("CREATE TEMPORARY TABLE IF NOT EXISTS %s (%s) ON COMMIT DELETE ROWS", strings.TrimPrefix(stage, "pg_temp."), strings.Join(cols, ", "))
}

func copySQL() string { return "COPY " + stage + " FROM STDIN (FORMAT binary)" }

// keyText names a row in a message.
func (p *plan) keyText(r Row) string {
	var parts []string
	for i, k := range r.Key {
		if i >= len(p.key) {
			break
		}
		v := "NULL"
		if k != nil {
			v = string(k[:min(len(k), 100)])
		}
		parts = append(parts, fmt.Sprintf("%s=%q", p.key[i].Name, v))
	}
	return strings.Join(parts, " ")
}

// explain asks the server whether it would run the statements: rights, rules
// and conflicts show here, before the first row.
func explain(f form, p *plan) string { return "EXPLAIN " + p.statement(f, true) }
