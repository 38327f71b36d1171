package bulkload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"headroom/pglocal"
	"headroom/testkit/need"
)

// What the checker calls bad, the server refuses: never is a good record lost.
func TestCheckerIsNeverStricterThanTheServer(t *testing.T) {
	need.Have(t, "pg")
	sv, err := pglocal.Start(t.Context(), pglocal.Options{Name: "oracle", NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sv.Stop(); err != nil {
			t.Error(err)
		}
	})
	conn, err := pgx.Connect(t.Context(), sv.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	types := []string{"smallint", "integer", "bigint", "real", "double precision", "numeric", "numeric(6,2)", "boolean", "uuid", "date", "timestamp", "timestamptz", "varchar(5)", "char(4)", "text", "jsonb"}
	if sv.Major >= 15 {
		types = append(types, "numeric(3,5)")
	}
	known := map[string]Column{}
	for _, typ := range types {
		c := Column{}
		if err := conn.QueryRow(t.Context(), "select format_type(t.oid, null), t.typname from pg_type t where t.oid = $1::text::regtype", strings.SplitN(typ, "(", 2)[0]).Scan(&c.Type, &c.Base); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "create temp table "+pgx.Identifier{typ}.Sanitize()+" (v "+typ+")"); err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(t.Context(), "select atttypmod from pg_attribute where attrelid = $1::text::regclass and attname = 'v'", pgx.Identifier{typ}.Sanitize()).Scan(&c.Mod); err != nil {
			t.Fatal(err)
		}
		known[typ] = c
	}
	rapid.Check(t, func(rt *rapid.T) {
		typ := rapid.SampledFrom(types).Draw(rt, "type")
		for _, v := range rapid.SliceOfN(anyValue(), 30, 30).Draw(rt, "values") {
			c := checker{utf8: true, columns: []Column{known[typ]}}
			c.ready()
			why := c.value(0, []byte(v), false)
			if why == "" {
				continue
			}
			sql := fmt.Sprintf("copy %s from stdin", pgx.Identifier{typ}.Sanitize())
			_, err := conn.PgConn().CopyFrom(t.Context(), strings.NewReader(string(appendText(nil, []byte(v)))+"\n"), sql)
			var pe *pgconn.PgError
			if err == nil || !errors.As(err, &pe) {
				rt.Fatalf("the server takes %q as %s; the checker says: %s (%v)", v, typ, why, err)
			}
		}
	})
}

// anyValue draws texts that are nearly values of the types.
func anyValue() *rapid.Generator[string] {
	digits := rapid.StringMatching(`[0-9]{1,20}`)
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", " ", "0", "-0", "+1", "1e5", ".5", "5.", "NaN", "inf", "-Infinity", "infinity", "0x1F", "0b101", "0o17", "1_000", "t", "TRUE", "on", "of", "yes", "n", "now", "today", "epoch",
			"2020-02-29", "2019-02-29", "2020-13-01", "2020-00-01", "0001-01-01 BC", "0005-02-29 BC", "2020-02-30 10:00", "20200101", "Jan 5 2020", "2020-1-5", "2020-01-01T10:00:00Z", "allballs", "J2451187",
			"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "{a0eebc999c0b4ef8bb6d6bb9bd380a11}", "a0eebc999c0b4ef8bb6d6bb9bd380a1", "abcde", "abcde   ", "äöüäö", "äöüäöü", "ab   ", "999.995", "9999.99", "9999.999", "0.00099",
			"32767", "32768", "-32768", "-32769", "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e400", "nan(x)", "12a4"}),
		digits, rapid.Map(digits, func(s string) string { return "-" + s + "." + s }),
		rapid.StringMatching(`[ \t]?[-+]?[0-9]{0,7}[.]?[0-9]{0,4}(e[-+]?[0-9]{1,2})?[ ]?`),
		rapid.StringMatching(`[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2})?( BC)?`),
		rapid.StringMatching(`[{]?[0-9a-fA-F]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}[}]?`),
		rapid.StringMatching(`[{\[]?("[a-z\\\\u0d8]{0,6}"[:,])?[-0-9.e]{1,6}[}\]]?`), rapid.SampledFrom([]string{`{"a":1}`, `[1,2,`, `"\u0000"`, `"\ud800"`, `"\ud83d\ude00"`, `1e400`, `1e200000`, `nul`, `null`, `{"a":1,"a":2}`, ` {} `, `01`, `-`, `"\x"`, "\"\t\""}),
		rapid.StringMatching(`[a-zé ]{0,8}`), rapid.Map(rapid.String(), func(s string) string { return strings.ReplaceAll(s, "\x00", "") }),
	)
}

// Whatever the server's context holds, finding the line does not fail.
func FuzzLineOf(f *testing.F) {
	f.Add("COPY people, line 5, column age: \"x\"", "people")
	f.Add("PL/pgSQL function f() line 3 at RAISE\nCOPY people, line 5", "people")
	f.Add("COPY people, Zeile 12, Spalte a: »COPY people, line 7«", "people")
	f.Add("COPY x, line 7, line 9: \"\"", "x, line 7")
	f.Add("COPY , line 99999999999999999999", "")
	f.Fuzz(func(t *testing.T, where, table string) {
		err := &pgconn.PgError{Where: where}
		if n := lineOf(err, table); n < 0 {
			t.Errorf("line %d", n)
		}
		_ = columnOf(err, table, []Column{{Name: table}})
	})
}

func TestLineOf(t *testing.T) {
	for _, c := range []struct {
		where, table string
		want         int64
	}{
		{"COPY people, line 5, column age: \"x\"", "people", 5},
		{"PL/pgSQL function f() line 3 at RAISE\nCOPY people, line 6", "people", 6},
		{"COPY people, Zeile 12, Spalte a: »COPY people, line 7«", "people", 12},
		{"COPY x, line 7, line 9: \"\"", "x, line 7", 9},
		{"COPY other, line 5", "people", 0},
		{"SQL statement \"select 1\"", "people", 0},
	} {
		if got := lineOf(&pgconn.PgError{Where: c.where}, c.table); got != c.want {
			t.Errorf("%q: %d, want %d", c.where, got, c.want)
		}
	}
}

// A value comes through the text format as it was.
func FuzzAppendText(f *testing.F) {
	f.Add([]byte("a\tb\\n\r\n"))
	f.Fuzz(func(t *testing.T, v []byte) {
		out := appendText(nil, v)
		for _, c := range out {
			if c == '\n' || c == '\t' || c == '\r' {
				t.Fatalf("%q is written as %q", v, out)
			}
		}
	})
}
