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

// What both must make the same of.
var expressions = []string{
	"1 + 2 * 3", "(1 + 2) * 3", "7 / 2", "-7 / 2", "-7 % 3", "7 % -3", "mod(7, 4)", "7.0 / 2", "1e3 + 1", ".5 * 4", "-2 * -3", "- 2 + 5", "+4",
	"6 | 1 + 2", "6 & 3 # 1", "1 << 4 | 1", "256 >> 2", "~5", "~1 * 2", "2 * ~1 + 3", "-8 >> 1",
	"1 < 2 and 2 <= 2 and not 3 > 4", "1 = 1.0", "1 <> 2", "1 != 1", "2 >= 3 or true", "not 1 = 2", "not true = false or true",
	"null", "null + 1", "null is null", "1 is not null", "true is true", "false is not false", "null is true", "1 = 2 is false", "1 isnull", "1 notnull",
	"null and false", "null and true", "null or true", "null or false", "abs(null)",
	"case when 1 > 2 then 'x' else 1 end", "case when 1 > 2 then 5 when 2 > 1 then 6 else 7 end", "case when false then 1 end", "case when null then 1 else 2 end", "case when 0 then 1 else 2 end",
	"abs(-17)", "abs(-1.5)", "int(5.4 + 3.8)", "int(2.5)", "int(3.5)", "int(-2.5)", "double(5432)", "sqrt(2.0)", "ln(2.718281828459045)", "exp(1.0)", "pi()", "pow(2, 10)", "power(2.5, -1)", "pow(2.0, 0.5)",
	"least(5, 4, 3.5)", "greatest(5, 4)", "least(2)", "greatest(1, 2.5, 2)", "1 + 2.5", "10 / 4.0", "123456789012345678 + 1", "1.0 / 3", "1e20 * 10",
	"hash(10)", "hash(10, 5432)", "hash_murmur2(-1, 7)", "hash_fnv1a(10)", "hash_fnv1a(10, 5432)", "hash_fnv1a(-9, -1)",
	"-9223372036854775808", "9223372036854775807", "-9223372036854775808 / 1", "-9223372036854775808 % -1", "CASE WHEN TRUE THEN Abs(-1) END", "random(3, 3)", "debug(4 + 4)",
	":text + 1", ":double * 2", ":bool and true", ":nil is null", ":client_id", ":default_seed",
	"9223372036854775807 + 1", "-9223372036854775808 - 1", "9223372036854775807 * 2", "-9223372036854775808 * -1", "-9223372036854775808 / -1", "3037000500 * 3037000500", "4611686018427387904 * -2",
	"1 / 0", "1 % 0", "1 + true", "true = false", "not 1", "1 and true", "int(1e30)", "random(2, 1)", "random(-9223372036854775808, 9223372036854775807)", "random_gaussian(1, 10, 1.9)", "random_zipfian(1, 10, 1.0)", "random_exponential(1, 10, 0.0)",
	"permute(1, 0)", ":word + 1", "1 < 2 < 3", "abs(1, 2)", "nosuch(1)", "1 +", "5 5", "1.5 & 1.2", "1.5 % 2", "true is null", "1 is true",
}

var given = map[string]string{"text": "41", "double": "2.5", "bool": "on", "nil": "null", "word": "abc", "default_seed": "42"}

// TestExpressionsAgreeWithPgbench runs each expression in both programs; a
// value must be the same, and an error must be an error in both.
func TestExpressionsAgreeWithPgbench(t *testing.T) {
	query(t, "drop table if exists theirs, ours; create table theirs(v text); create table ours(v text)")
	file := filepath.Join(t.TempDir(), "x.sql")
	for _, e := range expressions {
		src := "\\set v " + e + "\ninsert into %s values ((:v)::text);\n"
		if err := os.WriteFile(file, fmt.Appendf(nil, src, "theirs"), 0o644); err != nil {
			t.Fatal(err)
		}
		args := []string{"-n", "-t", "1", "-f", file}
		for k, v := range given {
			args = append(args, "-D", k+"="+v)
		}
		err := pgbench(args...)
		theirs := query(t, "with d as (delete from theirs returning v) select coalesce(v, 'null') from d")
		if err != nil || theirs == "" {
			theirs = "an error"
		}
		if ours := evaluate(t, fmt.Sprintf(src, "ours")); ours != theirs {
			t.Errorf("%s: ours %s, pgbench's %s", e, ours, theirs)
		}
	}
}

func evaluate(t *testing.T, src string) string {
	s, err := Parse("x", src)
	if err != nil {
		return "an error"
	}
	d, err := Open(context.Background(), Options{Options: loop.Options{Clients: 1, Transactions: 1}, DSN: server.DSN(), Scripts: []Weighted{{s, 1}}, Vars: given})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	_, err = d.Run(context.Background(), 0)
	got := query(t, "with d as (delete from ours returning v) select coalesce(v, 'null') from d")
	if err != nil {
		if !strings.Contains(err.Error(), "x:1:") {
			t.Errorf("%s: the error has no place: %v", src, err)
		}
		return "an error"
	}
	return got
}

// Same schema and same invariants as pgbench's own; and pgbench runs on ours.
func TestInitAndTPCB(t *testing.T) {
	init := func() {
		t.Helper()
		d := open(t, Options{Scripts: scripts(t, "select 1")})
		if err := Init(context.Background(), d.clients[0].conn, 2); err != nil {
			t.Fatal(err)
		}
	}
	schema := `select table_name, column_name, data_type, character_maximum_length, is_nullable from information_schema.columns where table_name like 'pgbench%' order by table_name, ordinal_position`
	keys := `select conrelid::regclass, pg_get_constraintdef(oid) from pg_constraint where conrelid::regclass::text like 'pgbench%' order by 1`
	data := `select count(*), sum(aid), sum(bid), sum(abalance), min(length(filler)) from pgbench_accounts union all select count(*), sum(tid), sum(bid), sum(tbalance), 0 from pgbench_tellers union all select count(*), sum(bid), 0, sum(bbalance), 0 from pgbench_branches`
	all := schema + ";" + keys + ";" + data
	if err := pgbench("-i", "-q", "-I", "dtGvp", "-s", "2"); err != nil {
		t.Fatal(err)
	}
	want := query(t, all)
	query(t, "drop table pgbench_accounts, pgbench_branches, pgbench_tellers, pgbench_history")
	init()
	if got := query(t, all); got != want {
		t.Errorf("ours\n%s\npgbench's\n%s", got, want)
	}
	done := int64(0)
	for _, p := range protocols {
		d := open(t, Options{Options: loop.Options{Clients: 4, Transactions: 50, Seed: 3}, Protocol: p, Scripts: []Weighted{{TPCB(), 1}}})
		r := run(t, d, 0)
		if r.Done != 200 {
			t.Fatalf("%s: %+v", p, r.Result)
		}
		done += r.Done
	}
	if err := pgbench("-n", "-t", "10", "-c", "2"); err != nil {
		t.Fatal(err)
	}
	got := query(t, `select count(distinct s), max(n) from (select sum(abalance) s, 0 n from pgbench_accounts union all select sum(tbalance), 0 from pgbench_tellers
		union all select sum(bbalance), 0 from pgbench_branches union all select sum(delta), count(*) from pgbench_history) x`)
	if got != fmt.Sprintf("1|%d", done+20) {
		t.Errorf("balances and history: %s", got)
	}
	if got := query(t, "select count(distinct bid), count(distinct tid), count(distinct delta) > 150, min(delta) >= -5000, max(delta) <= 5000, bool_and(aid between 1 and 200000) from pgbench_history"); got != "2|20|t|t|t|t" {
		t.Error(got)
	}
	d := open(t, Options{Scripts: scripts(t, "select 1")})
	if err := Init(context.Background(), d.clients[0].conn, 2); err == nil || d.clients[0].conn.TxStatus() != 'I' {
		t.Error("tables that are there were made again", err)
	}
	if _, err := d.clients[0].conn.Exec(context.Background(), "DROP TABLE pgbench_history, pgbench_tellers, pgbench_accounts, pgbench_branches"); err != nil {
		t.Error(err)
	}
}
