package sqlkit_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"headroom/engine/sqlkit"
	"headroom/fail"
)

func TestInstallTwiceAndUninstall(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := base(t, major)
		before := catalog(t, c)
		d := install(t, c)
		if d.Nothing || d.After.Version != sqlkit.Version || !d.After.Current || len(d.After.Installed) < 30 {
			t.Errorf("first: %+v", d)
		}
		if got := one(t, c, "select count(*) from pg_proc where pronamespace = 'headroom'::regnamespace and oid::regprocedure::text not in (select identity from headroom.kit_object)"); got != "0" {
			t.Errorf("%s functions are not written down", got)
		}
		if got := one(t, c, "select count(*) from pg_proc where pronamespace = 'headroom'::regnamespace and obj_description(oid, 'pg_proc') is null"); got != "0" {
			t.Errorf("%s functions have no comment", got)
		}
		if d = install(t, c); !d.Nothing || !d.After.Current {
			t.Errorf("second: %+v", d)
		}
		r, err := sqlkit.Uninstall(t.Context(), c, false)
		if err != nil || !r.SchemaGone {
			t.Fatalf("%+v, %v", r, err)
		}
		if after := catalog(t, c); after != before {
			t.Errorf("left behind: before %s, after %s", before, after)
		}
		r, err = sqlkit.Uninstall(t.Context(), c, false)
		if err != nil || r.Before.Version != 0 {
			t.Errorf("a second time: %+v, %v", r, err)
		}
	})
}

// catalog counts everything that a database can hold of ours.
func catalog(t *testing.T, c *pgx.Conn) string {
	return one(t, c, `select concat_ws(' ', (select count(*) from pg_proc), (select count(*) from pg_class), (select count(*) from pg_type), (select count(*) from pg_namespace),
		(select count(*) from pg_constraint), (select count(*) from pg_trigger), (select count(*) from pg_description), (select count(*) from pg_depend))`)
}

func TestOthersObjectsStay(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := base(t, major)
		must(t, c, `create schema headroom; create table headroom.load (x int); create function headroom.mine() returns int language sql as 'select 1'`)
		install(t, c)
		must(t, c, `create table headroom.load_two (x int)`)
		r, err := sqlkit.Uninstall(t.Context(), c, false)
		if err != nil || r.SchemaGone {
			t.Fatalf("%+v, %v", r, err)
		}
		if got := one(t, c, "select string_agg(relname, ',' order by relname) from pg_class where relnamespace = 'headroom'::regnamespace"); got != "load,load_two" {
			t.Errorf("tables left: %s", got)
		}
		if got := one(t, c, "select headroom.mine()"); got != "1" {
			t.Error(got)
		}
		must(t, c, "drop schema headroom cascade")
		install(t, c)
		must(t, c, `create table headroom.load (x int)`)
		if r, err = sqlkit.Uninstall(t.Context(), c, false); err != nil || r.SchemaGone {
			t.Fatalf("%+v, %v", r, err)
		}
		must(t, c, "select * from headroom.load")
	})
}

func TestForeignNamesRefused(t *testing.T) {
	for _, ddl := range []string{
		"create function headroom.bucket(text) returns int language sql as 'select 1'",
		"create function headroom.value_counts(int) returns int language sql as 'select 1'",
		"create table headroom.json_field (x int)",
		"create view headroom.kit as select 1 as version",
	} {
		c := base(t, 0)
		must(t, c, "create schema headroom; "+ddl)
		before := catalog(t, c)
		_, err := sqlkit.Install(t.Context(), c)
		if err == nil || !strings.Contains(err.Error(), "did not make") || fail.HintOf(err) == "" {
			t.Errorf("%s: %v", ddl, err)
		}
		if after := catalog(t, c); after != before {
			t.Errorf("%s: changed %s to %s", ddl, before, after)
		}
	}
}

func TestDependentsAreNamed(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := kit(t, major)
		must(t, c, `create table t (mac text, n int, constraint is_mac check (headroom.is_mac12(mac)));
			create view counts as select headroom.value_counts(n) from t;
			create view upon as select * from counts;
			create index hexed on t (headroom.is_hex(mac));
			create view known as select * from headroom.json_field`)
		_, err := sqlkit.Uninstall(t.Context(), c, false)
		if err == nil {
			t.Fatal("uninstalled under others' feet")
		}
		for _, want := range []string{"view public.counts", "constraint is_mac on table public.t", "index public.hexed", "view public.known"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not named: %v", want, err)
			}
		}
		if !strings.Contains(fail.HintOf(err), "--cascade") {
			t.Errorf("hint: %q", fail.HintOf(err))
		}
		if d := install(t, c); !d.Nothing {
			t.Error("the refused uninstall changed something")
		}
		if _, err := sqlkit.Uninstall(t.Context(), c, true); err != nil {
			t.Fatal(err)
		}
		if got := one(t, c, "select to_regclass('upon') is null and to_regclass('t') is not null"); got != "true" {
			t.Error("cascade dropped too little or too much")
		}
	})
}

func TestUpgradeInPlace(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := kit(t, major)
		// What an older version could have left: another body, another result,
		// an object that is gone since; and a view on what stays.
		must(t, c, `create view v as select headroom.is_mac('x') as is;
			create or replace function headroom.is_hex(x text) returns boolean language sql as 'select false';
			create function headroom.old_one(int) returns int language sql as 'select 1';
			insert into headroom.kit_object values ('function', 'headroom.old_one(integer)', '');
			insert into headroom.json_field values ('headroom.kit', 'x', '{a}');
			update headroom.kit set version = 0, digest = 'old'`)
		s, err := sqlkit.Look(t.Context(), c)
		if err != nil || s.Current || len(s.Changed) != 2 || len(s.Dependents) != 1 || s.Fields != 1 {
			t.Errorf("%+v, %v", s, err)
		}
		must(t, c, "update headroom.kit set version = 1")
		d := install(t, c)
		if d.Nothing || !d.After.Current || len(d.After.Dependents) != 1 || d.After.Fields != 1 {
			t.Errorf("%+v", d.After)
		}
		if got := one(t, c, "select headroom.is_hex('00')::text || (to_regproc('headroom.old_one') is null)"); got != "truetrue" {
			t.Error(got)
		}
		must(t, c, `drop view v; drop function headroom.is_hex(text); create function headroom.is_hex(x text) returns int language sql as 'select 1'`)
		if d = install(t, c); !d.After.Current {
			t.Errorf("after another result type: %+v", d.After)
		}
		must(t, c, "drop function headroom.is_hex(text)")
		if s, err = sqlkit.Look(t.Context(), c); err != nil || len(s.Missing) != 1 || s.Current {
			t.Errorf("%+v, %v", s, err)
		}
		if d = install(t, c); !d.After.Current || len(d.After.Missing) != 0 {
			t.Errorf("%+v", d.After)
		}
		must(t, c, "update headroom.kit set version = 1000")
		if _, err := sqlkit.Install(t.Context(), c); err == nil || !strings.Contains(err.Error(), "version 1000") {
			t.Errorf("downgrade: %v", err)
		}
	})
}

func TestNeedsOnlyCreateOnTheDatabase(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		c := base(t, major)
		db := c.Config().Database
		must(t, c, `create role "maker `+db+`" login; create role "other `+db+`" login`)
		maker, other := again(t, c, `'maker `+db+`'`), again(t, c, `'other `+db+`'`)
		_, err := sqlkit.Install(t.Context(), maker)
		if err == nil || !strings.Contains(fail.HintOf(err), "GRANT CREATE ON DATABASE") {
			t.Fatalf("%v (%s)", err, fail.HintOf(err))
		}
		must(t, c, "grant create on database "+db+` to "maker `+db+`"`)
		install(t, maker)
		if got := one(t, other, "select headroom.value_counts(x) from generate_series(1, 2) x"); got != `{"1": 1, "2": 1}` {
			t.Error(got)
		}
		if _, err := sqlkit.Uninstall(t.Context(), other, true); err == nil {
			t.Error("somebody else uninstalled it")
		}
		if s, err := sqlkit.Look(t.Context(), other); err != nil || !s.Current {
			t.Errorf("%+v, %v", s, err)
		}
		if _, err := sqlkit.Uninstall(t.Context(), maker, false); err != nil {
			t.Error(err)
		}
	})
}

func TestReadOnlyAndOldServers(t *testing.T) {
	c := base(t, 0)
	must(t, c, "set default_transaction_read_only = on")
	install(t, c) // asks for a transaction that writes
	if _, err := sqlkit.SQL(12); err == nil || fail.HintOf(err) == "" {
		t.Error(err)
	}
	if _, err := sqlkit.Open(t.Context(), "host=/nowhere port="); err == nil || fail.HintOf(err) == "" && fail.Code(err) != fail.Usage && !strings.Contains(err.Error(), "connect") {
		t.Error(err)
	}
	for major, want := range map[int]string{13: "anyelement", 14: "anycompatible", 18: "anycompatible"} {
		os, err := sqlkit.Objects(major)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, o := range os {
			found = found || o.Identity == "headroom.value_counts("+want+")"
		}
		if !found {
			t.Errorf("PostgreSQL %d: no value_counts(%s)", major, want)
		}
	}
}

func TestCanceledInstallLeavesNothing(t *testing.T) {
	c := base(t, 0)
	blocker := again(t, c, "postgres")
	must(t, blocker, "begin; create schema headroom")
	before := catalog(t, c)
	_, err := sqlkit.Install(t.Context(), c)
	if err == nil || errors.Is(err, t.Context().Err()) {
		t.Errorf("%v", err)
	}
	must(t, blocker, "rollback")
	if after := catalog(t, c); after != before {
		t.Errorf("changed %s to %s", before, after)
	}
	install(t, c)
}

func TestTwoInstallAtOnce(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		a := base(t, major)
		b := again(t, a, "postgres")
		first := make(chan error, 1)
		go func() {
			_, err := sqlkit.Install(t0, a)
			first <- err
		}()
		d, err := sqlkit.Install(t.Context(), b)
		if err = errors.Join(err, <-first); err != nil || !d.After.Current {
			t.Errorf("%+v, %v", d, err)
		}
	})
}
