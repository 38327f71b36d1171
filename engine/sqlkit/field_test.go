package sqlkit_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFieldCheck(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := kit(t, major)
		must(t, c, `create table readings (id int primary key, doc jsonb); create index on readings ((doc ->> 'name'));
			insert into readings select i, jsonb_build_object('name', 'n' || i, 'temperature', i, 'meta', jsonb_build_object('site', 'a', 'deep', jsonb_build_object('er', jsonb_build_object('est', 1)))) from generate_series(1, 2000) i;
			insert into readings values (0, '[1]'), (-1, null), (-2, '"x"'); analyze readings`)
		pe := refused(t, c, "55000", "select * from readings where doc ->> headroom.json_field_check('readings', 'doc', 'name') = 'n5'")
		if !strings.Contains(pe.Hint, "json_fields_learn('readings', 'doc')") && !strings.Contains(pe.Hint, "json_fields_learn('public.readings', 'doc')") {
			t.Errorf("hint: %s", pe.Hint)
		}
		if got := one(t, c, "select headroom.json_fields_learn('readings', 'doc')"); got != "6" {
			t.Errorf("learned %s: %s", got, one(t, c, "select string_agg(path::text, ' ' order by path) from headroom.json_field"))
		}
		query := "select id from readings where doc ->> headroom.json_field_check('readings', 'doc', 'name') = 'n5'"
		if got := one(t, c, query); got != "5" {
			t.Error(got)
		}
		if plan := explain(t, c, query); !strings.Contains(plan, "readings_expr_idx") || strings.Contains(plan, "json_field_check") {
			t.Errorf("the index is not used:\n%s", plan)
		}
		for field, hint := range map[string]string{"nmae": "Did you mean name?", "Name": "Did you mean name?", "temprature": "Did you mean temperature?", "zzz": "There are: meta, name, temperature."} {
			pe := refused(t, c, "42703", "explain select 1 from readings where doc ->> headroom.json_field_check('readings', 'doc', $$"+field+"$$) = 'n5'")
			if pe.Hint != hint || !strings.Contains(pe.Message, field) {
				t.Errorf("%s: %s (%s)", field, pe.Message, pe.Hint)
			}
		}
		if got := one(t, c, "select count(*) from readings where doc #>> headroom.json_path_check('readings', 'doc', 'meta', 'site') = 'a'"); got != "2000" {
			t.Error(got)
		}
		if pe := refused(t, c, "42703", "select headroom.json_path_check('readings', 'doc', 'meta', 'siet')"); pe.Hint != "Did you mean site?" || !strings.Contains(pe.Message, "meta.siet") {
			t.Errorf("%+v", pe)
		}
		if pe := refused(t, c, "42703", "select headroom.json_path_check('readings', 'doc', 'mta', 'site')"); pe.Hint != "Did you mean meta?" {
			t.Errorf("%+v", pe)
		}
		must(t, c, "select headroom.json_fields_declare('readings', 'doc', 'fresh', 'name'); select headroom.json_path_declare('readings', 'doc', 'meta', 'deep', 'er', 'est')")
		must(t, c, "select headroom.json_field_check('readings', 'doc', 'fresh'), headroom.json_path_check('readings', 'doc', 'meta', 'deep', 'er', 'est')")
		refused(t, c, "42703", "select headroom.json_field_check('readings', 'dco', 'name')")
		refused(t, c, "42804", "select headroom.json_field_check('readings', 'id', 'name')")
		refused(t, c, "22023", "select headroom.json_path_check('readings', 'doc', variadic '{}')")
		refused(t, c, "42703", "select headroom.json_field_check('readings', 'doc', null)")
	})
}

func TestFieldsLearnBigAndOdd(t *testing.T) {
	c := kit(t, 0)
	must(t, c, `create table big (doc json); insert into big select json_build_object('f' || i % 50, 1) from generate_series(1, 30000) i; analyze big;
		create table maps (doc jsonb); insert into maps select jsonb_build_object('key ' || i, 1) from generate_series(1, 10001) i;
		create view v as select doc from big; create table gone (doc jsonb); insert into gone values ('{"a": 1}')`)
	if got := one(t, c, "select headroom.json_fields_learn('big', 'doc', sample => 10000)"); got != "50" {
		t.Errorf("learned %s", got)
	}
	if got := one(t, c, "select headroom.json_fields_learn('v', 'doc')"); got != "50" {
		t.Errorf("learned %s of a view", got)
	}
	if pe := refused(t, c, "54000", "select headroom.json_fields_learn('maps', 'doc')"); !strings.Contains(pe.Hint, "json_fields_declare") {
		t.Errorf("%+v", pe)
	}
	must(t, c, "select headroom.json_fields_learn('gone', 'doc'); drop table gone; select headroom.json_fields_learn('big', 'doc')")
	if got := one(t, c, "select count(*) from headroom.json_field where tbl not in ('big'::regclass, 'v'::regclass)"); got != "0" {
		t.Errorf("%s fields of a table that is gone", got)
	}
}

func TestFieldsBelongToTheOwner(t *testing.T) {
	c := kit(t, 0)
	db := c.Config().Database
	must(t, c, `create role "a `+db+`" login; create role "b `+db+`" login; create schema w; grant all on schema w to public`)
	a, b := again(t, c, `'a `+db+`'`), again(t, c, `'b `+db+`'`)
	must(t, a, `create table w.t (doc jsonb); grant select on w.t to public; insert into w.t values ('{"x": 1}'); select headroom.json_fields_learn('w.t', 'doc')`)
	must(t, b, "select doc ->> headroom.json_field_check('w.t', 'doc', 'x') from w.t")
	refused(t, b, "42501", "select headroom.json_fields_declare('w.t', 'doc', 'y')")
	refused(t, b, "42501", "delete from headroom.json_field")
	refused(t, b, "42501", "update headroom.json_field set path = '{z}'")
	refused(t, b, "42501", "truncate headroom.json_field")
	must(t, a, "delete from headroom.json_field where tbl = 'w.t'::regclass")
}

func TestFieldsHostileNames(t *testing.T) {
	c := kit(t, 0)
	rapid.Check(t, func(r *rapid.T) {
		table, col, outer, inner := hostile.Draw(r, "table"), hostile.Draw(r, "column"), hostile.Draw(r, "outer"), hostile.Draw(r, "inner")
		must(r, c, "drop schema if exists h cascade; create schema h; create table h."+quote(table)+" ("+quote(col)+" jsonb)")
		tbl := "h." + quote(table)
		must(r, c, "insert into "+tbl+" values (jsonb_build_object($1::text, jsonb_build_object($2::text, 1)))", outer, inner)
		must(r, c, "select headroom.json_fields_learn($1::regclass, $2)", tbl, col)
		if got := one(r, c, "select headroom.json_field_check($1::regclass, $2, $3)", tbl, col, outer); got != outer {
			r.Fatalf("%q, want %q", got, outer)
		}
		if got := one(r, c, "select "+quote(col)+" #>> headroom.json_path_check($1::regclass, $2, $3, $4) from "+tbl, tbl, col, outer, inner); got != "1" {
			r.Fatal(got)
		}
		refused(r, c, "42703", "select headroom.json_field_check($1::regclass, $2, $3)", tbl, col, outer+"x")
	})
}

// TestHostileSearchPath: a schema in front of pg_catalog, with operators and
// functions of the same names, does not change what the kit does.
func TestHostileSearchPath(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := kit(t, major)
		must(t, c, `create schema evil;
			create function evil.bad(int, int) returns int language plpgsql as 'begin raise exception ''evil''; end';
			create function evil.bad(text, text) returns boolean language plpgsql as 'begin raise exception ''evil''; end';
			create function evil.lower(text) returns text language plpgsql as 'begin raise exception ''evil''; end';
			create function evil.unnest(anyarray) returns setof anyelement language plpgsql as 'begin raise exception ''evil''; end';
			create function evil.floor(double precision) returns double precision language plpgsql as 'begin raise exception ''evil''; end';
			create operator evil.+ (leftarg = int, rightarg = int, function = evil.bad); create operator evil.- (leftarg = int, rightarg = int, function = evil.bad);
			create operator evil.% (leftarg = int, rightarg = int, function = evil.bad); create operator evil.~ (leftarg = text, rightarg = text, function = evil.bad); create operator evil.= (leftarg = text, rightarg = text, function = evil.bad);
			create table t (a int not null, b text, doc jsonb); insert into t values (1, 'x', '{"f": 1}'); create index on t (a); create index on t (b);
			select headroom.counter_create('hits'); select headroom.json_fields_learn('t', 'doc');
			set search_path = evil, public, pg_catalog`)
		for q, want := range map[string]string{
			"select headroom.bucket(17, 10)": "10", "select headroom.bucket('2024-05-07 13:45'::timestamp, '1 hour')": "2024-05-07 13:00:00", "select headroom.is_mac12('00163e5a0f1b')": "true",
			"select headroom.is_lower('a')": "true", "select headroom.mac12('00163e5a0f1b')": "00163e5a0f1b", "select headroom.value_counts(a) from t": `{"1": 1}`,
			"select k from headroom.distinct_keys('t', 'a') k": `{"a": 1}`, "select k from headroom.distinct_keys('t', 'b') k": `{"b": "x"}`, "select a from headroom.distinct_rows(null::t, 'a')": "1",
			"select headroom.counter_add('hits', 'k')": "", "select headroom.json_field_check('t', 'doc', 'f')": "f", "select headroom.bucket(5, array[1, 3])": "[3,)",
		} {
			got, err := value(c, q)
			if err != nil || got != want {
				t.Errorf("%s: %s, %v", q, got, err)
			}
		}
		must(t, c, "call headroom.add_check('t', 'b', 'lower')")
	})
}
