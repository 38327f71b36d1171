package sqlkit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"
)

// countable are types with the text of values of each; %d is a small number.
var countable = map[string]string{
	"integer": "%d", "bigint": "%d00000000000", "smallint": "%d", "text": "it's \"%d\"", "varchar(9)": "v%d", "char(5)": "c%d", "name": "n%d",
	"boolean": "%d", "numeric": "%d.50", "double precision": "%d.25", "real": "%d.5", "uuid": "00000000-0000-0000-0000-00000000000%d",
	"date": "2024-01-0%d", "timestamp": "2024-01-0%d 10:00:00.123456", "timestamptz": "2024-01-0%d 10:00:00+02", "time": "10:0%d", "interval": "%d days",
	"bytea": "\\x0%d", "inet": "10.0.0.%d", "macaddr": "00:00:00:00:00:0%d", "bit(4)": "000%d", "jsonb": `{"a": %d}`, "json": `{"a": %d}`, "xml": "<a>%d</a>",
	"point": "(%d,1)", "box": "(%d,1),(0,0)", "int4range": "[%d,99)", "tsvector": "'w%d'", "mood": "m%d", "positive": "%d", "pair": "(%d,b)", "odd": `("{""a"": %d}",1)`,
	"oid": "%d", "regclass": "pg_class", "money": "%d.00", `"char"`: "%d", "citext_like": "x%d",
}

const countTypes = `create type mood as enum ('m0', 'm1', 'm2', 'm3', 'm4', 'm5', 'm6', 'm7', 'm8', 'm9');
	create domain positive as int check (value >= 0); create type pair as (a int, b text); create type odd as (j json, n int);
	create domain citext_like as text`

// TestValueCountsOracle compares with a count by text of values that are equal
// exactly if their texts are.
func TestValueCountsOracle(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := kit(t, major)
		must(t, c, countTypes)
		rapid.Check(t, func(r *rapid.T) {
			typ := rapid.SampledFrom(keys(countable)).Draw(r, "type")
			ns := rapid.SliceOfN(rapid.IntRange(-1, 9), 0, 40).Draw(r, "values")
			var in []*string
			want := map[string]int{}
			for _, n := range ns {
				if n < 0 || typ == "boolean" && n > 1 || typ == "bit(4)" && n > 1 || n == 0 && (strings.HasPrefix(typ, "date") || strings.HasPrefix(typ, "timestamp")) {
					in = append(in, nil)
					continue
				}
				v := strings.ReplaceAll(countable[typ], "%d", fmt.Sprint(n))
				in = append(in, &v)
				want[v]++
			}
			key := "v::text"
			if strings.HasPrefix(typ, "date") || strings.HasPrefix(typ, "timestamp") {
				key = "to_jsonb(v) #>> '{}'"
			}
			oracle := fmt.Sprintf("select coalesce(jsonb_object_agg(k, n), '{}') from (select %s as k, count(*) as n from (select x::%s as v from unnest($1::text[]) x) s where v is distinct from null group by 1) g", key, typ)
			got := one(r, c, fmt.Sprintf("select headroom.value_counts(x::%s) from unnest($1::text[]) x", typ), in)
			expect := one(r, c, oracle, in)
			if got != expect {
				r.Fatalf("%s: %s, want %s", typ, got, expect)
			}
			// The same of a table's column; and there of arrays, too.
			must(r, c, "drop table if exists counted")
			must(r, c, fmt.Sprintf("create table counted (\"v'\" %s, a %[1]s[])", typ))
			must(r, c, fmt.Sprintf("insert into counted select x::%s, case when x is not null then array[x::%[1]s] end from unnest($1::text[]) x", typ), in)
			if got := one(r, c, "select headroom.value_counts('counted', $$v'$$)"); got != expect {
				r.Fatalf("%s in a table: %s, want %s", typ, got, expect)
			}
			expect = one(r, c, "select coalesce(jsonb_object_agg(k, n), '{}') from (select a::text as k, count(*) as n from counted where a is not null group by 1) g")
			if got := one(r, c, "select headroom.value_counts('counted', 'a')"); got != expect {
				r.Fatalf("%s[] in a table: %s, want %s", typ, got, expect)
			}
		})
	})
}

func keys(m map[string]string) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	return sorted(out)
}

func TestValueCounts(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := kit(t, major)
		for _, x := range []struct{ query, want string }{
			{"select headroom.value_counts(x) from (select 1 as x where false) s", "{}"},
			{"select headroom.value_counts(null::int)", "{}"},
			{"select headroom.value_counts(x) from (values (1.0), (1.00), (2)) v(x)", `{"2": 1, "1.0": 2}`},
			{"select headroom.value_counts(x) from (values ('a '::char(3)), ('a')) v(x)", `{"a": 2}`},
			{"select headroom.value_counts(x) from (values (row(null, null)::pair), (null)) v(x)", `{"(,)": 1}`},
			{"select headroom.value_counts(x) from (values (interval '24 hours'), ('1 day')) v(x)", `{"24:00:00": 2}`},
			{"select headroom.value_counts(distinct x) from (values (1), (1), (2)) v(x)", `{"1": 1, "2": 1}`},
			{"select headroom.value_counts(x) filter (where x > 1) from (values (1), (1), (2)) v(x)", `{"2": 1}`},
			{"select headroom.value_counts(x > 1) from (values (1), (1), (2), (null)) v(x)", `{"true": 1, "false": 2}`},
			{"select string_agg(g || ':' || n, ' ' order by g) from (select x % 2 as g, headroom.value_counts(x) as n from generate_series(1, 3) x group by 1) s", `0:{"2": 1} 1:{"1": 1, "3": 1}`},
			{"select string_agg(n::text, ' ') from (select headroom.value_counts(x) over (order by x) as n from generate_series(1, 2) x) s", `{"1": 1} {"1": 1, "2": 1}`},
			{"select headroom.value_counts('2024-03-31 23:30+00'::timestamptz)", `{"2024-04-01T01:30:00+02:00": 1}`},
			{"select headroom.value_counts('2024-03-31'::date)", `{"2024-03-31": 1}`},
			{"select headroom.value_counts(array[x, 2]::text) from generate_series(1, 2) x", `{"{1,2}": 1, "{2,2}": 1}`},
		} {
			must(t, c, "drop type if exists pair; create type pair as (a int, b text); set timezone = 'Europe/Berlin'; set datestyle = 'german'")
			got, err := value(c, x.query)
			if err != nil {
				got = err.Error()
			}
			if got != x.want {
				t.Errorf("%s:\n got %s\nwant %s", x.query, got, x.want)
			}
		}
	})
}

// TestValueCountsParallel makes the planner share the work out and compares.
func TestValueCountsParallel(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := kit(t, major)
		must(t, c, `create table v as select case when i % 10 > 0 then (i * 7919) % 1000 end as n, 't' || i % 97 as s, json_build_object('a', i % 3) as j from generate_series(1, 50000) i; analyze v;
			set parallel_setup_cost = 0; set parallel_tuple_cost = 0; set min_parallel_table_scan_size = 0; set max_parallel_workers_per_gather = 3`)
		for _, x := range []string{"n", "s", "j"} {
			q := "select headroom.value_counts(" + x + ") from v"
			if plan := explain(t, c, q); !strings.Contains(plan, "Partial Aggregate") {
				t.Errorf("%s is not shared out:\n%s", x, plan)
			}
			oracle := fmt.Sprintf("select jsonb_object_agg(k, n) from (select %s::text as k, count(*) as n from v where %s is not null group by 1) g", x, x)
			if one(t, c, "select ("+q+") = ("+oracle+")") != "true" {
				t.Errorf("%s: other counts when shared out", x)
			}
		}
	})
}

// TestValueCountsOfATableParallel: what a query may not do in parallel mode
// fails, which shows that it is in it.
func TestValueCountsOfATableParallel(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := kit(t, major)
		must(t, c, `create function alone(x int) returns int language plpgsql stable parallel safe as $$ begin perform set_config('a.b', x::text, true); return x; end $$;
			create table v as select i % 7 as n from generate_series(1, 5000) i; analyze v; create view shy as select alone(n) as n from v`)
		const want = `{"0": 714, "1": 715, "2": 715, "3": 714, "4": 714, "5": 714, "6": 714}`
		must(t, c, "set max_parallel_workers_per_gather = 0")
		if got := one(t, c, "select headroom.value_counts('shy', 'n')"); got != want {
			t.Error(got)
		}
		must(t, c, "set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0; set parallel_tuple_cost = 0; set min_parallel_table_scan_size = 0")
		refused(t, c, "25000", "select headroom.value_counts('shy', 'n')")
		if got := one(t, c, "select headroom.value_counts('v', 'n')"); got != want {
			t.Error(got)
		}
		pe := refused(t, c, "42703", "select headroom.value_counts('v', 'm')")
		if pe.Hint == "" {
			t.Error("no hint at the column")
		}
	})
}

// TestValueCountsOfEveryType takes each type that the server brings.
func TestValueCountsOfEveryType(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := kit(t, major)
		rows, err := c.Query(t0, `select format_type(oid, null) from pg_type
			where typnamespace = 'pg_catalog'::regnamespace and typarray <> 0 and typtype in ('b', 'r', 'm', 'e', 'd') order by 1`)
		if err != nil {
			t.Fatal(err)
		}
		types, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(types) < 60 {
			t.Fatalf("%d types, %v", len(types), err)
		}
		for _, typ := range types {
			if got, err := value(c, "select headroom.value_counts(x) from (values (null::"+typ+"), (null)) v(x)"); got != "{}" {
				t.Errorf("%s: %s %v", typ, got, err)
			}
			must(t, c, "drop table if exists one; create table one as select null::"+typ+" as v, null::"+typ+"[] as a, array[null]::"+typ+"[] as b")
			if got, err := value(c, "select concat(headroom.value_counts('one', 'v'), headroom.value_counts('one', 'a'), headroom.value_counts('one', 'b'))"); got != `{}{}{"{NULL}": 1}` {
				t.Errorf("%s in a table: %s %v", typ, got, err)
			}
		}
	})
}

func explain(t fataler, c *pgx.Conn, query string) string {
	t.Helper()
	rows, err := c.Query(t0, "explain (costs off) "+query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return strings.Join(lines, "\n")
}
