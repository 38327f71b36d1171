package pgscript

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/engine/loop"
)

// whole are scripts that write what they saw into the table seen; both programs
// must leave the same there, and an error must be an error in both.
var whole = []struct {
	protocol Protocol
	src      string
}{
	{Simple, "\\set a 5\ninsert into seen values (':a');"},
	{Simple, "\\set a 5\ninsert into seen values ('x:a:b:a12:30');"},
	{Simple, "\\set a 5\ninsert into seen values ('it''s :a');"},
	{Simple, "\\set a 5\ninsert into seen values ($$:a$$);"},
	{Simple, "\\set a 5\ninsert into seen values ($q$ :a $q$);"},
	{Simple, "\\set a 5\ninsert into seen select \"c:a\" from (select 7 as c5) x;"},
	{Simple, "\\set a 5\ninsert into seen values (E'\\t:a');"},
	{Prepared, "\\set a 5\ninsert into seen values (':a');"},
	{Extended, "\\set a 5\ninsert into seen values (':a' || (:a)::text);"},
	{Simple, "insert into seen values ('{\"k\":true}');"},
	{Simple, "select 7 as x \\gset\ninsert into seen values (':x');"},
	{Simple, "select 7 as x, 8 as y \\gset p_\ninsert into seen values (:p_x + :p_y);"},
	{Simple, "select 7 as x \\; select 9 as x \\gset\ninsert into seen values (:x);"},
	{Simple, "select 7 as x \\; select 9 as y \\aset\ninsert into seen values (:x + :y);"},
	{Simple, "select null as x \\gset\ninsert into seen values ('none:x');"},
	{Simple, "\\set a 1\n\\if :a\ninsert into seen values ('yes');\n\\else\ninsert into seen values ('no');\n\\endif"},
	{Simple, "\\set a 0\n\\if :a > 0\nselect 1/0;\n\\elif :a = 0\ninsert into seen values ('elif');\n\\else\nselect 1/0;\n\\endif"},
	{Simple, "\\if false\n\\if true\nselect 1/0;\n\\endif\n\\else\ninsert into seen values ('inner');\n\\endif"},
	{Simple, "-- a comment\n\\set a 1 \n/* more */ insert into seen values (:a); -- behind\ninsert into seen values (:a)"},
	{Simple, "\\set a 1 + \\\n  2\ninsert into seen values (:a);"},
	{Simple, "\\SET a 3\ninsert into seen values (:a);"},
	{Simple, "\\set A 3\n\\set a 4\ninsert into seen values (:A - :a);"},
	{Simple, "\\set a :b\ninsert into seen values (:a);"},
	{Simple, "\\set a 1e308 * 10\ninsert into seen values (':a');"},
	{Simple, "\\set a -1e308 * 10\ninsert into seen values (':a');"},
	{Simple, "\\set a sqrt(-1)\ninsert into seen select ':a'::float8;"},
	{Simple, "\\set a 1.0 / 0\ninsert into seen select ':a'::float8;"},
	{Simple, "\\set a 0.1 + 0.2\ninsert into seen values (:a);"},
	{Simple, "\\set a 1.0 / 0\ninsert into seen values (':a');"},
	{Simple, "\\set a 1e15 + 0.5\ninsert into seen values (:a);"},
	{Simple, "\\set a true\ninsert into seen values (:a);"},
	{Simple, "\\set a null\ninsert into seen values (coalesce((:a)::text, 'none'));"},
	{Prepared, "\\set a 41\ninsert into seen values ((:a + 1)::text);"},
	{Prepared, "\\set a 41\ninsert into seen select :a::int + g from generate_series(1, 2) g;"},
	{Extended, "\\set a 1\n\\startpipeline\ninsert into seen values ((:a)::text);\ninsert into seen values ('two');\n\\endpipeline"},
	{Simple, "begin;\ninsert into seen values ('a');\nend;"},
	{Simple, "\\sleep 1 ms\n\\sleep 5us\n\\sleep 0\ninsert into seen values ('slept');"},
	{Simple, "\\set a 1\ninsert into seen values ((array[5,6,7])[:a:2]::text);"},
	{Simple, "\\set ü 3\ninsert into seen values (:ü);"},
	{Simple, "\r\n\\set a 3\r\ninsert into seen values (:a);\r\n"},
	{Simple, "\\set a debug(3)\ninsert into seen values (:a);"},
	{Simple, "\\set a1 3\ninsert into seen values (:a1);"},
	{Simple, "\\set _a 3\ninsert into seen values (:_a);"},
	{Simple, "\\set a abs(-:b)\ninsert into seen values (1);"},
	{Simple, "select 1 as x where false \\gset\ninsert into seen values (1);"},
	{Simple, "select generate_series(1,2) as x \\gset\ninsert into seen values (1);"},
	{Simple, "select generate_series(1,2) as x \\aset\ninsert into seen values (:x);"},
	{Simple, ";;\ninsert into seen values (1);;"},
	{Simple, "\\set a greatest(1, 2) ; \ninsert into seen values (:a);"},
	{Simple, "\\foo\ninsert into seen values (1);"},
	{Simple, "\\endif\ninsert into seen values (1);"},
	{Simple, "begin;\ninsert into seen values ('open');"},
	{Simple, "insert into seen values (':client_id');"},
	{Simple, "insert into seen values (':scale');"},
}

// TestScriptsAgreeWithPgbench runs each script once in both programs.
func TestScriptsAgreeWithPgbench(t *testing.T) {
	query(t, "drop table if exists seen; create table seen(v text)")
	take := "with d as (delete from seen returning v) select string_agg(v, ',' order by v) from d"
	file := filepath.Join(t.TempDir(), "x.sql")
	for _, w := range whole {
		if err := os.WriteFile(file, []byte(w.src), 0o644); err != nil {
			t.Fatal(err)
		}
		err := pgbench("-n", "-t", "1", "-M", string(w.protocol), "-f", file)
		theirs := query(t, take)
		if err != nil || theirs == "" {
			theirs = "an error"
		}
		ours, why := playOnce(w.protocol, w.src), ""
		got := query(t, take)
		if ours != nil || got == "" {
			got, why = "an error", fmt.Sprint(ours)
		}
		if got != theirs {
			t.Errorf("%s %q: ours %s (%s), pgbench's %s (%v)", w.protocol, w.src, got, why, theirs, err)
		}
	}
}

func playOnce(p Protocol, src string) error {
	s, err := Parse("x", src)
	if err != nil {
		return err
	}
	d, err := Open(context.Background(), Options{Options: loop.Options{Clients: 1, Transactions: 1}, DSN: server.DSN(), Protocol: p, Scripts: []Weighted{{s, 1}}})
	if err != nil {
		return err
	}
	defer d.Close()
	r, err := d.Run(context.Background(), 0)
	if err == nil && r.Failed > 0 {
		err = r.First
	}
	return err
}

// What \gset brings is known only when it has come.
func TestAVariableInsideQuotesNeedsTheSimpleProtocol(t *testing.T) {
	query(t, "drop table if exists seen; create table seen(v text)")
	err := playOnce(Prepared, "select 7 as x \\gset\ninsert into seen values (':x');")
	if err == nil || !strings.Contains(err.Error(), "x:2:1: the variable :x stands inside quotes") {
		t.Error(err)
	}
	if err := playOnce(Prepared, "\\set a 1\ninsert into seen values ('10:30:b::a');"); err != nil {
		t.Error(err)
	}
	if got := query(t, "select v from seen"); got != "10:30:b::a" {
		t.Errorf("%q", got)
	}
}
