package upsert_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/engine/upsert"
)

var (
	oracleRounds = flag.Int("oracle.rounds", 1, "random sequences of rows for each key type, mode and strategy")
	oracleSeed   = flag.Uint64("oracle.seed", 0, "seed of such a sequence")
)

// keyType is a type of key with texts, many of which are the same value, and
// some of which are none.
type keyType struct {
	sql   string
	texts []string
}

var keyTypes = []keyType{
	{"smallint", []string{"1", "01", " 1", "+1", "-0", "0", "-7", "32767", "32768", "x", ""}},
	{"integer", []string{"1", "01", "1 ", "-1", "2147483647", "2147483648", "1.0"}},
	{"bigint", []string{"1", "0001", "+1", "-1", "9223372036854775807", "09223372036854775807", "9223372036854775808"}},
	{"text", []string{"", "a", "A", "a ", "ä", "日本", "a\x00b", "\xff", "\\N", "NULL"}},
	{"varchar(3)", []string{"abc", "abc ", "abc   ", "ab", "ab ", "abcd", "äöü", "äöü "}},
	{"char(4)", []string{"ab", "ab ", "ab  ", "abcd", "abcd ", "abcde", ""}},
	{"uuid", []string{"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
		"a0eebc999c0b4ef8bb6d6bb9bd380a11", "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11", "a0eebc99", "00000000-0000-0000-0000-000000000000"}},
	{"timestamptz", []string{"2024-03-31 01:30:00+00", "2024-03-31T03:30:00+02:00", "2024-03-31 02:30+01", "2024-03-31T01:30:00.000Z", "March 31 2024 01:30 UTC",
		"2024-03-31 01:30:00", "infinity", "0044-03-15 BC", "2024-02-30 00:00+00", "now-ish", "2024-01-01 24:00+00", "2024-01-02 00:00+00", "2000-01-01 00:00:00.0000005+00", "2024-01-01 00:00:60+00"}},
	{"timestamptz(1)", []string{"2024-01-01 00:00:00.04Z", "2024-01-01 00:00:00.01Z", "2024-01-01 00:00:00.05Z", "2024-01-01 00:00:00.1Z", "1999-01-01 00:00:00.05Z", "1999-01-01 00:00:00.1Z"}},
	{"timestamp", []string{"2024-03-31 01:30:00", "2024-03-31T01:30", "2024-03-31 01:30:00+05", "20240331 013000", "-infinity", "1582-10-04 00:00", "4713-01-01 00:00 BC", "294276-12-31 23:59:59"}},
	{"date", []string{"2024-03-31", "20240331", "31 Mar 2024", "2024-03-31 12:00", "infinity", "0001-01-01", "0001-01-01 BC", "1900-02-29", "5874897-12-31"}},
	{"macaddr", []string{"08:00:2b:01:02:03", "08-00-2B-01-02-03", "08002b:010203", "08002b-010203", "0800.2b01.0203", "0800-2b01-0203", "08002b010203", "8:0:2b:1:2:3", "08:00:2b:01:02:0g"}},
	{"numeric", []string{"1", "1.0", "1.00", "10e-1", "0.1e1", "01", "-0", "0", "0.0", "NaN", "nan", "Infinity", "inf", "1e400", ".5", "5e-1", "0x10", "1_000", "--1"}},
	{"numeric(5,2)", []string{"1.004", "1.001", "1", "0.999", "0.995", "0.994", "-1.005", "-1.01", "999.994", "999.995", "9.999e1", "100"}},
	{"bytea", []string{"abc", `\x616263`, `\x61 62 63`, `\141bc`, `\\`, `\x5c`, `\x`, "", `\x6`, `a\`}},
	{"bool", []string{"t", "true", "TRUE", "yes", "on", "1", "f", "FALSE", "off", "0", "tru", "maybe", " t "}},
	{"real", []string{"1", "1.0", "1e0", "-0", "0", "NaN", "nan", "Infinity", "-inf", "0.1", "0.10000000149", "1e39", "0x1p-2"}},
	{"double precision", []string{"1", "1.0", "1e0", "-0", "0", "NaN", "Infinity", "1e309", "1_0"}},
	{"inet", []string{"10.0.0.1", "10.0.0.1/32", "10.0.0.1/8", "::1", "0::1", "10.0.0"}},
	{"interval", []string{"1 day", "24 hours", "1 mon", "30 days", "P1D", "one"}},
	{"text collate ci", []string{"abc", "ABC", "Abc", "b", "B", "ä", "Ä"}},
	{"mood", []string{"happy", "sad", "Happy"}},
	{"positive", []string{"1", "01", "-1", "0", "2"}},
}

func prepareTypes(t *testing.T, c *pgx.Conn) {
	exec(t, c, `DO $$ BEGIN
		CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
		CREATE TYPE mood AS ENUM ('sad', 'happy');
		CREATE DOMAIN positive AS int CHECK (value > 0);
		EXCEPTION WHEN duplicate_object THEN END $$`)
}

// oneByOne applies a row as the modes are defined, by statements of its own.
func oneByOne(c *pgx.Conn, name, typ string, mode upsert.Mode, skip bool, key, doc string, n *string) error {
	set := map[upsert.Mode]string{
		upsert.Replace: "doc = excluded.doc, n = excluded.n",
		upsert.Merge:   "doc = CASE WHEN jsonb_typeof(t.doc) = 'object' THEN t.doc || excluded.doc ELSE excluded.doc END, n = coalesce(excluded.n, t.n)",
		upsert.Add:     "doc = t.doc || excluded.doc || jsonb_build_object('hits', (t.doc->>'hits')::numeric + (excluded.doc->>'hits')::numeric), n = t.n + excluded.n",
	}[mode]
	action := "NOTHING"
	if set != "" {
		action = "UPDATE SET " + set
	}
	if mode == upsert.Add {
		zero := "0"
		if n == nil {
			n = &zero
		}
		if doc == "{}" || strings.Contains(doc, `"a"`) && !strings.Contains(doc, `"hits"`) {
			doc = strings.TrimSuffix(doc, "}") + map[bool]string{true: "", false: ","}[doc == "{}"] + `"hits":0}`
		}
	}
	typ = strings.TrimSuffix(typ, " collate ci")
	if i := strings.IndexByte(typ, '('); i > 0 {
		typ = typ[:i] // a cast to a length cuts, storing does not
	}
	if typ == "char" {
		typ = "bpchar"
	}
	_, err := c.Exec(context.Background(), "INSERT INTO "+name+" AS t (k, doc, n) VALUES ($1::text::"+typ+", $2::text::jsonb, $3::text::bigint) ON CONFLICT (k) DO "+action,
		pgx.QueryExecModeExec, key, doc, n)
	return err
}

var docs = map[upsert.Mode][]string{
	upsert.Replace: {`{"a":1}`, `{"a": 2}`, `[]`, `7`, `{"a":`, `{"s":"\u0000"}`},
	upsert.Ignore:  {`{"a":1}`, `{"a": 2}`, `[]`, `7`, `{"a":`, `{"s":"\u0000"}`},
	upsert.Merge: {`{"a":1}`, `{"a": 2, "b": [1, {"c":"}"}]}`, `{"b":null, "x\u0041\\": "\"\\"}`, `{"xA\\": 1}`, ` {"d":{"e":1}} `, `{}`, `{"d":{"f":2},"d":{"g":3}}`,
		`{"a":3, "s":"\ud800"}`, `{"a":4,}`, `{"a":5} {}`, `{"big":1e400}`, `{"s":"\ud83d\ude00 \u00e4"}`},
	upsert.Add: {`{"hits":1}`, `{"hits":2.50}`, `{"hits":-1,"a":1}`, `{"a":2}`, `{}`, `{"hits":1e2,"hits":3}`, `{"a":[1,{"hits":9}],"hits":9223372036854775807}`, `{"hits":1,"s":"\u0000"}`},
}

// Whatever the mode, strategy and type: the table is what it would be had the
// rows been written one by one, and what the server refuses is refused.
func TestSameAsOneByOne(t *testing.T) {
	c := connect(t)
	prepareTypes(t, c)
	for _, kt := range keyTypes {
		for _, mode := range upsert.Modes() {
			for _, form := range forms() {
				t.Run(kt.sql+"/"+string(mode)+"/"+form, func(t *testing.T) { sameAsOneByOne(t, c, kt, mode, form) })
			}
		}
	}
}

func sameAsOneByOne(t *testing.T, c *pgx.Conn, kt keyType, mode upsert.Mode, form string) {
	columns := "k " + kt.sql + " primary key, doc jsonb, n bigint"
	ours, theirs := table(t, c, columns), table(t, c, columns)
	for range *oracleRounds {
		seed := rand.Uint64()
		if *oracleSeed != 0 {
			seed = *oracleSeed
		}
		exec(t, c, "TRUNCATE "+ours+", "+theirs)
		if sequence(t, c, kt, mode, form, ours, theirs, rand.New(rand.NewPCG(seed, 0))); t.Failed() {
			t.Fatalf("again with -oracle.seed %d", seed)
		}
	}
}

func sequence(t *testing.T, c *pgx.Conn, kt keyType, mode upsert.Mode, form, ours, theirs string, r *rand.Rand) {
	o := upsert.Options{Mode: mode, Connections: 2, Batch: 1 + r.IntN(30), SkipUnchanged: r.IntN(2) == 0}
	if mode == upsert.Add {
		o.Adds = []string{"n", "hits"}
	}
	var refused []int64
	o.Reject = func(x upsert.Row, err error) error { refused = append(refused, x.Seq); return nil }
	w := open(t, c, ours, []string{"k"}, []string{"doc", "n"}, o)
	defer func() {
		ctx, stop := context.WithCancel(context.Background())
		stop()
		_ = w.Close(ctx)
	}()
	if !w.UseForm(form) { // only MERGE may be out, and not for common keys
		common := kt.sql == "bigint" || kt.sql == "text" || kt.sql == "uuid"
		if !strings.Contains(form, "merge") || common && mode != upsert.Ignore {
			t.Fatalf("%s is not allowed for keys of type %s", form, kt.sql)
		}
		return
	}
	var wrong []int64
	count := 1 + r.IntN(60)
	for i := range count {
		key := kt.texts[r.IntN(len(kt.texts))]
		doc := docs[mode][r.IntN(len(docs[mode]))]
		n := numbers[mode == upsert.Add][r.IntN(len(numbers[mode == upsert.Add]))]
		x := upsert.Row{Key: [][]byte{[]byte(key)}, Values: [][]byte{[]byte(doc), nil}, Seq: int64(i + 1)}
		if n != nil {
			x.Values[1] = []byte(*n)
		}
		if err := w.Add(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		if err := oneByOne(c, theirs, kt.sql, mode, o.SkipUnchanged, key, doc, n); err != nil {
			var pe *pgconn.PgError
			if !errors.As(err, &pe) {
				t.Fatal(err)
			}
			wrong = append(wrong, x.Seq)
		}
	}
	if err := w.Close(t.Context()); err != nil || w.Acked() != int64(count) {
		t.Fatal(err, w.Acked())
	}
	q := "SELECT coalesce(k::text, '') || ' | ' || doc::text || ' | ' || coalesce(n::text, '-') FROM %s ORDER BY 1"
	if slices.Contains([]string{"numeric", "real", "double precision"}, kt.sql) || kt.sql == "interval" || strings.Contains(kt.sql, "collate") { // which of equal spellings is kept is not said
		q = "SELECT row_number() OVER (ORDER BY k) || ' | ' || doc::text || ' | ' || coalesce(n::text, '-') FROM %s ORDER BY 1"
	}
	got, want := all(t, c, fmt.Sprintf(q, ours)), all(t, c, fmt.Sprintf(q, theirs))
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// A bad row may go unnoticed where a later one replaces it unseen.
	slices.Sort(refused)
	for _, s := range refused {
		if !slices.Contains(wrong, s) {
			t.Errorf("row %d is refused, but PostgreSQL takes it", s)
		}
	}
	if mode == upsert.Merge || mode == upsert.Add {
		if !slices.Equal(refused, wrong) {
			t.Errorf("refused %v, want %v", refused, wrong)
		}
	}
}

// Near the end of the range a sum can be in it although not each step was.
var numbers = map[bool][]*string{
	true:  {nil, ptr("1"), ptr("-5"), ptr("4000000000000"), ptr("x")},
	false: {nil, ptr("1"), ptr("-5"), ptr("9223372036854775807"), ptr("9223372036854775808"), ptr("x")},
}

func ptr(s string) *string { return &s }
