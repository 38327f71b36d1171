package sqlkit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"
)

// sorts are types of key columns, with values in a few ways.
var sorts = map[string]string{
	"integer": "(array[1, 2, 3, -7, null])[%s]", "text": "(array['a', 'B', 'ä', '', null])[%s]", `text collate "C"`: "(array['a', 'B', 'ä', '', null])[%s]",
	"numeric": "(array[1.5, 'NaN', -2, 10, null]::numeric[])[%s]", "timestamptz": "(array['2024-01-01', '2024-01-02 00:00:00.000001+00', 'infinity', '-infinity', null]::timestamptz[])[%s]",
	"uuid": "(array['00000000-0000-0000-0000-000000000001', null]::uuid[])[%s %% 2 + 1]", "double precision": "(array[0.1, 0.30000000000000004, 'NaN', 1e300, null]::float8[])[%s]",
	"boolean": "(array[true, false, null])[%s %% 3 + 1]", "macaddr": "(array['00:00:00:00:00:01', '00:00:00:00:00:02', null]::macaddr[])[%s %% 3 + 1]",
	"integer[]": "(array['{1,2}', '{}', '{null}', '{3}', null])[%s]::integer[]", "bytea": `(array['\x00', '\xff', null]::bytea[])[%s %% 3 + 1]`,
	"char(4)": "(array['a', 'b ', null]::char(4)[])[%s %% 3 + 1]", "interval": "(array['1 day', '1 mon -3 days', null]::interval[])[%s %% 3 + 1]",
	"mood": "(array['m2', 'm1', null]::mood[])[%s %% 3 + 1]", `"char"`: `(array['a', 'b', null]::"char"[])[%s %% 3 + 1]`,
}

// distinctCase is a random table with an index that begins with some columns.
type distinctCase struct {
	table, ddl string
	cols       []string // of the index, in its order
	asked      []string
}

func drawDistinct(r *rapid.T) distinctCase {
	names := rapid.SliceOfNDistinct(hostile, 4, 4, func(s string) string { return s }).Draw(r, "names")
	d := distinctCase{table: hostile.Draw(r, "table")}
	n := rapid.IntRange(1, 3).Draw(r, "columns")
	rows := rapid.SampledFrom([]int{0, 1, 7, 300}).Draw(r, "rows")
	var columns, values, index []string
	for i := range n {
		typ := rapid.SampledFrom(keys(sorts)).Draw(r, "type")
		notNull := rapid.Bool().Draw(r, "not null")
		value := fmt.Sprintf(sorts[typ], fmt.Sprintf("((i * %d / 3) %% 5 + 1)", 7+i))
		column := quote(names[i]) + " " + typ
		if notNull {
			column += " not null"
			first := "1"
			if strings.Contains(sorts[typ], "%%") {
				first = "0"
			}
			value = fmt.Sprintf("coalesce(%s, %s)", value, fmt.Sprintf(sorts[typ], first))
		}
		columns, values = append(columns, column), append(values, value)
		key := quote(names[i])
		if strings.HasPrefix(typ, "text") {
			key += rapid.SampledFrom([]string{"", ` collate "C"`, ` collate "POSIX"`, " text_pattern_ops"}).Draw(r, "class")
		}
		index = append(index, key+rapid.SampledFrom([]string{"", " desc", " nulls first", " desc nulls last"}).Draw(r, "order"))
		d.cols = append(d.cols, names[i])
	}
	columns, values = append(columns, quote(names[n])+" int"), append(values, "i")
	if rapid.Bool().Draw(r, "longer index") {
		index = append(index, quote(names[n]))
	}
	d.asked = rapid.Permutation(d.cols).Draw(r, "asked")
	d.ddl = fmt.Sprintf("drop schema if exists h cascade; create schema h; create table h.%s (%s); insert into h.%[1]s select %[3]s from generate_series(1, %[4]d) i; create index on h.%[1]s (%[5]s); analyze h.%[1]s",
		quote(d.table), strings.Join(columns, ", "), strings.Join(values, ", "), rows, strings.Join(index, ", "))
	return d
}

// TestDistinctOracle compares all ways with SELECT DISTINCT, on random tables
// with hostile names; and the batches of one key at a time with all at once.
func TestDistinctOracle(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := kit(t, major)
		must(t, c, "create type mood as enum ('m1', 'm2'); set client_min_messages = warning; set timezone = 'Asia/Kolkata'")
		rapid.Check(t, func(r *rapid.T) {
			d := drawDistinct(r)
			must(r, c, d.ddl)
			tbl := "h." + quote(d.table)
			var quoted, parts []string
			for i, n := range d.asked {
				quoted = append(quoted, "t."+quote(n))
				parts = append(parts, fmt.Sprintf("$%d::text, t.%s", i+2, quote(n)))
			}
			args := []any{tbl}
			for _, n := range d.asked {
				args = append(args, n)
			}
			list := strings.Join(quoted, ", ")
			must(r, c, "set extra_float_digits = 1")
			want := one(r, c, fmt.Sprintf("select string_agg(k::text, ' ' order by k) from (select distinct jsonb_build_object(%s) as k from %s t where $1::text is not null group by %s) s", strings.Join(parts, ", "), tbl, list), args...)
			must(r, c, "set extra_float_digits = 0") // which a batch's last key must survive
			call := "headroom.distinct_keys($1::regclass, variadic $2::text[])"
			if got := one(r, c, "select string_agg(k::text, ' ' order by k) from "+call+" k", tbl, d.asked); got != want {
				r.Fatalf("%s\n got %s\nwant %s", d.ddl, got, want)
			}
			rows := one(r, c, fmt.Sprintf("select count(*) || ' ' || count(distinct row(%s)) from headroom.distinct_rows(null::%s, variadic $1::text[]) t", list, tbl), d.asked)
			count := one(r, c, fmt.Sprintf("select count(*) from (select distinct %s from %s t) s", list, tbl))
			if rows != count+" "+count {
				r.Fatalf("%s\n%s rows, want %s", d.ddl, rows, count)
			}
			query := one(r, c, "select headroom.distinct_query($1::regclass, variadic $2::text[])", tbl, d.asked)
			if got := one(r, c, "select count(*) from ("+query+") s"); got != count {
				r.Fatalf("%s\n%s: %s rows, want %s", d.ddl, query, got, count)
			}
			// One key at a time: each batch, and each page, goes on exactly where
			// the last ended.
			small := `with recursive b as (select x.keys, x.last, x.step from headroom._distinct_keys_first($1::regclass, $2::text[]) x
				union all select x.keys, x.last, b.step from b cross join lateral headroom._distinct_keys(b.step, b.last, 1, '1 h') x where b.last is not null)
				select string_agg(k::text, ' ' order by k) from (select unnest(keys) as k from b) s`
			pages := `with recursive b as (select x.k, 1 as n from headroom.distinct_after($1::regclass, null, 1, variadic $2::text[]) x(k)
				union all select x.k, b.n + 1 from b cross join lateral headroom.distinct_after($1::regclass, b.k, 1, variadic $2::text[]) x(k) where n < 1000)
				select string_agg(k::text, ' ' order by k) from b`
			for _, q := range []string{small, pages} {
				if got := one(r, c, q, tbl, d.asked); got != want {
					r.Fatalf("%s\n%s\n got %s\nwant %s", d.ddl, q, got, want)
				}
			}
		})
	})
}

func TestDistinctStreams(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := kit(t, major)
		must(t, c, "create table k (a int not null, b int); insert into k select i, i from generate_series(1, 20000) i; create index on k (a); analyze k")
		for _, q := range []string{"select * from headroom.distinct_keys('k', 'a')", "select * from headroom.distinct_rows(null::k, 'a')"} {
			if plan := explain(t, c, q); !strings.Contains(plan, "ProjectSet") || strings.Contains(plan, "Function Scan on distinct_") {
				t.Errorf("%s does not stream:\n%s", q, plan)
			}
			// A cursor reads one batch for its first row, not 20,000 keys: the
			// other nineteen thousand were never looked up.
			must(t, c, "begin; declare s cursor for "+q)
			must(t, c, "fetch 1 from s")
			must(t, c, "commit")
			if got := one(t, c, "select count(*) from ("+q+") s"); got != "20000" {
				t.Errorf("%s: %s rows", q, got)
			}
			if got := one(t, c, "select count(*) from ("+q+" limit 5) s"); got != "5" {
				t.Error(got)
			}
		}
		// The order is that of the index.
		if got := one(t, c, "select bool_and(a = n) from (select a, row_number() over () as n from headroom.distinct_rows(null::k, 'a')) s"); got != "true" {
			t.Error("not in the order of the index")
		}
	})
}

func TestDistinctTables(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := kit(t, major)
		must(t, c, `create table p (a int, b int) partition by hash (b); create table p0 partition of p for values with (modulus 2, remainder 0); create table p1 partition of p for values with (modulus 2, remainder 1);
			create index on p (a); insert into p select i % 7, i from generate_series(1, 1000) i;
			create materialized view m as select a from p; create index on m (a);
			create table dropped (x int, a int, y text); alter table dropped drop column x; create index on dropped (a, y); insert into dropped values (1, 'z'), (1, 'z'), (2, null);
			create role "reader `+c.Config().Database+`" login; grant select on p to "reader `+c.Config().Database+`";
			create table secret (a int, who name default current_user); create index on secret (a); insert into secret values (1, 'postgres'), (2, 'somebody');
			alter table secret enable row level security; create policy own on secret using (a = 2); grant select on secret to "reader `+c.Config().Database+`"`)
		for q, want := range map[string]string{
			"select string_agg(k->>'a', ',') from headroom.distinct_keys('p', 'a') k":                   "0,1,2,3,4,5,6",
			"select string_agg(a::text, ',') from headroom.distinct_rows(null::m, 'a')":                 "0,1,2,3,4,5,6",
			"select string_agg(d::text, ' ') from headroom.distinct_rows(null::dropped, 'y', 'a') d":    "(1,z) (2,)",
			"select string_agg(k::text, ' ') from headroom.distinct_keys('dropped', 'a') k":             `{"a": 1} {"a": 2}`,
			"select string_agg(k::text, ' ') from headroom.distinct_keys('dropped', 'y', 'a') k":        `{"a": 1, "y": "z"} {"a": 2, "y": null}`,
			"select count(*) from p0, lateral headroom.distinct_keys('p', 'a') k where p0.b < 10":       one(t, c, "select 7 * count(*) from p0 where b < 10"),
			"select string_agg(k->>'a', ',') from headroom.distinct_keys('p', 'a') k where k->>'a'>'4'": "5,6",
		} {
			if got := one(t, c, q); got != want {
				t.Errorf("%s: %s, want %s", q, got, want)
			}
		}
		reader := again(t, c, `'reader `+c.Config().Database+`'`)
		if got := one(t, reader, "select string_agg(k->>'a', ',') from headroom.distinct_keys('secret', 'a') k"); got != "2" {
			t.Errorf("row security: %s", got)
		}
		refused(t, reader, "42501", "select * from headroom.distinct_keys('m', 'a')")
	})
}

func TestDistinctRefuses(t *testing.T) {
	c := kit(t, 0)
	must(t, c, `create table "My t" (a int, "b c" text, device int); create index on "My t" (a) where a > 0; create index on "My t" using hash ("b c"); create index on "My t" (abs(device)); create index on "My t" ("b c", a);
		create view v as select 1 as a; create table parent (a int); create index on parent (a); create table child () inherits (parent);
		create table many (a int, b int, c int, d int, e int, f int); create index on many (a, b, c, d, e, f)`)
	for _, x := range []struct{ call, state, hint string }{
		{`'"My t"', 'a'`, "42704", `CREATE INDEX CONCURRENTLY ON public."My t" (a);`},
		{`'"My t"', 'device'`, "42704", `CREATE INDEX`}, {`'"My t"', 'a', 'device'`, "42704", `(a, device)`},
		{`'"My t"', 'devcie'`, "42703", `Did you mean device?`}, {`'"My t"', 'zzzzzzzzzz'`, "42703", `There are: a, b c, device`}, {`'"My t"', null`, "42703", "There are"},
		{`'"My t"', 'a', 'a'`, "42701", ""}, {`'v', 'a'`, "42809", "table that has the index"}, {`'parent', 'a'`, "0A000", "union"},
		{`'many', 'a', 'b', 'c', 'd', 'e', 'f'`, "0A000", "NOT NULL"}, {`'nosuch', 'a'`, "42P01", ""}, {`'"My t"', variadic '{}'`, "22023", "Write"},
	} {
		pe := refused(t, c, x.state, "select * from headroom.distinct_keys("+x.call+")")
		if !strings.Contains(pe.Hint, x.hint) {
			t.Errorf("%s: hint %q, want %q", x.call, pe.Hint, x.hint)
		}
	}
	refused(t, c, "42809", "select * from headroom.distinct_rows(1, 'a')")
	must(t, c, `select * from headroom.distinct_keys('"My t"', 'b c')`)
	must(t, c, `select * from headroom.distinct_keys('many', 'a', 'b', 'c', 'd', 'e')`)
}

// TestDistinctSeesOneSnapshot: rows that come while a cursor is open are not
// seen by it, although it reads in batches.
func TestDistinctSeesOneSnapshot(t *testing.T) {
	c := kit(t, 0)
	must(t, c, "create table k (a int not null); insert into k select i * 2 from generate_series(1, 10000) i; create index on k (a)")
	other := again(t, c, "postgres")
	must(t, c, "begin; declare s cursor for select (k->>'a')::int from headroom.distinct_keys('k', 'a') k")
	must(t, c, "fetch 10 from s")
	must(t, other, "insert into k select i * 2 + 1 from generate_series(1, 10000) i")
	rows, err := c.Query(t.Context(), "fetch all from s")
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil || len(got) != 9990 {
		t.Errorf("%d rows, %v", len(got), err)
	}
	must(t, c, "commit")
}
