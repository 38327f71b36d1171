package bulkload_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"
)

// name draws identifiers that are legal and nasty.
func name() *rapid.Generator[string] {
	nasty := rapid.SampledFrom([]string{`a"b`, `a.b`, "select", `"; drop table t; --`, "MiXed", "ä ö ü", "日本語", "😀", "%s", `\`, `\n`, "'", "''", "$1", "$$", ":x",
		"tab\there", "line\nbreak", "x, line 7", `", column "`, " lead", "trail ", "headroom", "xmin_", "piece", "-"})
	part := rapid.OneOf(nasty, rapid.StringMatching(`[a-z"'.\\ ]{1,8}`), rapid.String())
	return rapid.Custom(func(t *rapid.T) string {
		s := strings.ReplaceAll(strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "parts"), ""), "\x00", "")
		if rapid.Bool().Draw(t, "long") {
			s = strings.Repeat(s+"é", 40)
		}
		s = strings.ToValidUTF8(s, "")
		for len(s) > 58 { // room for a suffix that keeps names apart
			_, n := utf8.DecodeLastRuneInString(s)
			s = s[:len(s)-n]
		}
		if s == "" || s == "-" {
			return "x"
		}
		return s
	})
}

// Any legal name of schema, table, column, index, constraint and trigger works,
// and none is more than a name (P22).
func TestHostileNames(t *testing.T) {
	b := newBench(t)
	q := func(s ...string) string { return pgx.Identifier(s).Sanitize() }
	b.exec("create table guard (a int)")
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		draw := func(label string) string { return name().Draw(rt, label) }
		schema, table := draw("schema")+fmt.Sprint(n%10), draw("table")
		key, col, index, constraint, foreign, trigger := draw("key")+"1", draw("col")+"2", draw("index")+"3", draw("constraint")+"4", draw("foreign")+"5", draw("trigger")
		full := q(schema, table)
		b.exec(fmt.Sprintf(`drop schema if exists %[1]s cascade; create schema %[1]s; create table %[2]s (%[3]s int not null, %[4]s text check (%[4]s <> 'worse'));
			alter table %[2]s add constraint %[6]s primary key (%[3]s); create index %[5]s on %[2]s (lower(%[4]s), %[3]s) where %[3]s > 0;
			alter table %[2]s add constraint %[7]s foreign key (%[3]s) references %[2]s (%[3]s);
			create or replace function nothing() returns trigger language plpgsql as 'begin return new; end';
			create trigger %[8]s before insert on %[2]s for each row execute function nothing();
			comment on constraint %[6]s on %[2]s is %[9]s; comment on index %[10]s is %[9]s`,
			q(schema), full, q(key), q(col), q(index), q(constraint), q(foreign), q(trigger), "'"+strings.NewReplacer("'", "''").Replace(table)+"'", q(schema, index)))
		before := b.text(definitions)
		var in strings.Builder
		for i := range 40 {
			fmt.Fprintf(&in, "%d\tvalue\n", i)
		}
		in.WriteString("100\tworse\n101\tgood\nbad\tvalue\n")
		o := b.options(b.file("in.tsv", in.String()), full)
		o.Indexes, o.NoTriggers = "drop", true
		r := b.load(o)
		if r.Rows != 41 || r.Rejected != 2 {
			rt.Fatalf("%s: %+v\n%s", full, r, b.rejects())
		}
		if got := b.text("select count(*) from " + full); got != "41" {
			rt.Fatalf("%s: %s rows", full, got)
		}
		if after := b.text(definitions); after != before {
			rt.Fatalf("%s: definitions differ:\n%s\n---\n%s", full, after, before)
		}
		if got := b.rejects(); !strings.Contains(got, "\n41\t") || !strings.Contains(got, "\n43\t") {
			rt.Fatalf("%s: %s", full, got)
		}
		if err := os.Remove(o.Rejects); err != nil {
			rt.Fatal(err)
		}
		b.exec("drop schema " + q(schema) + " cascade")
	})
	b.want("select count(*) from guard", "0")
}
