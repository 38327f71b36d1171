package ingest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"headroom/engine/ingest"
	"headroom/engine/readtable"
	"headroom/engine/record"
	"headroom/engine/upsert"
	"headroom/fail"
	"headroom/pglocal"
	"headroom/testkit/need"
)

var shared struct {
	sync.Once
	s   *pglocal.Server
	err error
}

func TestMain(m *testing.M) {
	if told := os.Getenv(childEnv); told != "" {
		var c child
		err := json.Unmarshal([]byte(told), &c)
		if err == nil {
			err = c.run()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if shared.s != nil {
		if err := shared.s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// config leads to a server that all tests share.
func config(t testing.TB) *pgx.ConnConfig {
	t.Helper()
	need.Have(t, "pg")
	shared.Do(func() {
		shared.s, shared.err = pglocal.Start(context.Background(), pglocal.Options{Name: "ingest"})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	cfg, err := pgx.ParseConfig(shared.s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// place is that, and a connection to it.
func place(t testing.TB) (*pgx.ConnConfig, *pgx.Conn) {
	t.Helper()
	cfg := config(t)
	conn, err := ingest.Connect(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return cfg, conn
}

func ask(t testing.TB, conn *pgx.Conn, sql string) (s string) {
	t.Helper()
	if err := conn.QueryRow(context.Background(), sql).Scan(&s); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return s
}

func fields(t testing.TB, s string) []ingest.Field {
	t.Helper()
	f, err := ingest.ParseFields("--key", s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// run ingests a text from standard input.
func run(t testing.TB, in string, o ingest.Options) (ingest.Summary, error) {
	t.Helper()
	o.Config = config(t)
	o.Stdin = io.MultiReader(strings.NewReader(in)) // a stream
	return ingest.Run(t.Context(), o)
}

func TestTypesAreGuessed(t *testing.T) {
	_, conn := place(t)
	in := `{"i":1,"t":"2026-01-01T00:00:00.5Z","u":"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11","s":"x","n":1,"b":true,"o":{"a":1},"j":"text","big":99999999999999999999,"mixed":1}
{"i":-2,"t":"2026-01-01T00:00:00+02:00","u":"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A12","s":"1","n":1.5,"b":false,"o":[],"j":null,"big":1,"mixed":"x"}
`
	_, err := run(t, in, ingest.Options{Into: `"Guess ed"`, Create: true, Key: fields(t, "i, t,u"), Columns: fields(t, `s,n,b,o,j,big,mixed,m2 integer=o.a,none`)})
	if err != nil {
		t.Fatal(err)
	}
	got := ask(t, conn, `select string_agg(attname || ' ' || format_type(atttypid, -1), ', ' order by attnum) from pg_attribute where attrelid = '"Guess ed"'::regclass and attnum > 0`)
	want := "i bigint, t timestamp with time zone, u uuid, s text, n numeric, b boolean, o jsonb, j text, big numeric, mixed text, m2 integer, none text"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := ask(t, conn, `select string_agg(concat_ws('|', i, s, n, b, o, j, big, mixed, m2), ';' order by i desc) from "Guess ed"`); got != `1|x|1|t|{"a": 1}|text|99999999999999999999|1|1;-2|1|1.5|f|[]|1|x` {
		t.Error(got)
	}
}

// A column of JSON takes values as they are written, texts in their quotes.
func TestColumnsOfJSON(t *testing.T) {
	_, conn := place(t)
	in := `{"id":1,"j":"a\"b"}` + "\n" + `{"id":2,"j":[1]}` + "\n" + `{"id":3}` + "\n"
	if _, err := run(t, in, ingest.Options{Into: "jcol", Create: true, Key: fields(t, "id"), Columns: fields(t, "j jsonb")}); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, conn, "select string_agg(coalesce(j::text, '-'), ' ' order by id) from jcol"); got != `"a\"b" [1] -` {
		t.Error(got)
	}
}

// CSV into a document: all columns, as texts.
func TestDocumentOfCSV(t *testing.T) {
	_, conn := place(t)
	in := "id,na\"\"me,x\n1,\"a\n\"\"b\",\n"
	in = "id,\"na\"\"me\",x\n1,\"a\n\"\"b\t\\\",\n"
	if _, err := run(t, in, ingest.Options{Into: "csvdoc", Create: true, Key: fields(t, "id"), Doc: "body", Format: "csv", Header: ptr(true)}); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, conn, `select (body->>'na"me') || '|' || coalesce(body->>'x', '-') || '|' || (body->>'id') from csvdoc where id = 1`); got != "a\n\"b\t\\|-|1" {
		t.Errorf("%q", got)
	}
}

func ptr[T any](v T) *T { return &v }

func TestParseFields(t *testing.T) {
	got := fields(t, `id, "a,b" numeric(10,2) = meta."x=y", c=d , "q""q" text`)
	want := []ingest.Field{{Name: "id"}, {Name: "a,b", Type: "numeric(10,2)", From: `meta."x=y"`}, {Name: "c", From: "d"}, {Name: `q"q`, Type: "text"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v", got)
	}
	for _, s := range []string{",", "a,", "=x", "a=", `"a`, `""`} {
		if f, err := ingest.ParseFields("--key", s); fail.Code(err) != fail.Usage {
			t.Errorf("%q: %+v, %v", s, f, err)
		}
	}
}

func FuzzParseFields(f *testing.F) {
	f.Add(`id bigint, "a,b"=x."y"`)
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ingest.ParseFields("--key", s)
		for _, x := range got {
			if err == nil && x.Name == "" {
				t.Fatalf("%q has a column without a name", s)
			}
		}
	})
}

// slow gives its text, then waits until it is told to go on.
type slow struct {
	text io.Reader
	open chan struct{}
}

func (s *slow) Read(b []byte) (int, error) {
	if n, err := s.text.Read(b); err == nil {
		return n, nil
	}
	<-s.open
	return 0, io.EOF
}

// An interrupt while the input says nothing: what was read is in, and known
// to the byte.
func TestInterruptOfASilentInput(t *testing.T) {
	cfg, conn := place(t)
	ctx, stop := context.WithCancel(t.Context())
	in := &slow{strings.NewReader("{\"id\":1}\n{\"id\":2}\nnot json\n{\"id\":3}\n{\"id\":4"), make(chan struct{})}
	t.Cleanup(func() { close(in.open) })
	dir := t.TempDir()
	type end struct {
		s   ingest.Summary
		err error
	}
	ended := make(chan end, 1)
	go func() {
		s, err := ingest.Run(ctx, ingest.Options{Config: cfg, Into: "silent", Key: fields(t, "id"), Create: true, Stdin: in, Rejects: dir + "/r", MaxRejects: -1, Checkpoint: dir + "/c",
			Upsert: upsert.Options{FlushEvery: time.Hour}})
		ended <- end{s, err}
	}()
	need.Eventually(t, 20*time.Second, "the rejects file holds the bad line", func() bool {
		b, err := os.ReadFile(dir + "/r")
		return err == nil && bytes.Contains(b, []byte("not json")) || ask(t, conn, "select (to_regclass('silent') is not null)::text") == "true"
	})
	time.Sleep(100 * time.Millisecond) // more likely in the middle; right at any moment
	stop()
	e := <-ended
	if !errors.Is(e.err, context.Canceled) || e.s.Complete {
		t.Fatalf("%+v, %v", e.s, e.err)
	}
	rows := ask(t, conn, "select count(*)::text from silent")
	if want := fmt.Sprint(e.s.Rows); rows != want {
		t.Errorf("%s rows are in, %s were told", rows, want)
	}
	if e.s.Rows == 3 && (e.s.Acked.Offset != 36 || e.s.Acked.Line != 5 || e.s.Rejected != 1) {
		t.Errorf("%+v", e.s)
	}
	// The same stream again: only what is missing is read.
	s, err := ingest.Run(t.Context(), ingest.Options{Config: cfg, Into: "silent", Key: fields(t, "id"), Stdin: io.MultiReader(strings.NewReader("{\"id\":1}\n{\"id\":2}\nnot json\n{\"id\":3}\n{\"id\":4}\n")), Rejects: dir + "/r", MaxRejects: -1, Checkpoint: dir + "/c"})
	if err != nil || !s.Complete || s.Rows != 4-e.s.Rows || ask(t, conn, "select count(*)::text from silent") != "4" {
		t.Errorf("%+v, %v", s, err)
	}
}

// Checkpoints of another table, of other input, or damaged, are refused.
func TestCheckpointsAreChecked(t *testing.T) {
	dir := t.TempDir()
	a, c := filepath.Join(dir, "a.ndjson"), filepath.Join(dir, "c")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(a, "{\"id\":1}\n")
	o := ingest.Options{Into: "checked", Key: fields(t, "id"), Create: true, Inputs: []string{a}, Checkpoint: c}
	if _, err := run(t, "", o); err != nil {
		t.Fatal(err)
	}
	write(a, "{\"id\":1}\n{\"id\":2}\n") // grown: goes on
	if s, err := run(t, "", o); err != nil || s.Rows != 1 || s.Resumed == nil {
		t.Errorf("%+v, %v", s, err)
	}
	write(a, "{\"id\":3}\n{\"id\":2}\n")
	if _, err := run(t, "", o); err == nil || !strings.Contains(err.Error(), "another file") {
		t.Error(err)
	}
	write(a, "{\"id\":1}\n")
	if _, err := run(t, "", o); err == nil || !strings.Contains(err.Error(), "another file") {
		t.Error("shorter:", err)
	}
	other := o
	other.Into = "checked2"
	if _, err := run(t, "", other); err == nil || !strings.Contains(err.Error(), "it is of table") {
		t.Error(err)
	}
	whole, err := os.ReadFile(c)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) - 2 {
		write(c, string(whole[:n]))
		if _, err := run(t, "", o); err == nil || fail.HintOf(err) == "" {
			t.Fatalf("cut at %d of %d: %v", n, len(whole), err)
		}
	}
}

func TestReadTableIsKept(t *testing.T) {
	_, conn := place(t)
	for _, way := range []readtable.Way{readtable.Merge, readtable.MatView} {
		table := "kept_" + string(way)
		var b strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&b, "{\"id\":%d,\"host\":\"h%d\"}\n", i%1000, i)
		}
		s, err := run(t, b.String(), ingest.Options{Into: table, Key: fields(t, "id"), Create: true, ReadTable: way, Refresh: 20 * time.Millisecond, Indexes: []string{"(doc->>'host')", "USING gin (doc)"}})
		if err != nil || s.Refreshes < 1 || s.Last.Rows != 1000 {
			t.Fatalf("%+v, %v", s, err)
		}
		if got := ask(t, conn, fmt.Sprintf("select count(*)::text from %s_read where doc->>'host' like 'h4___'", table)); got != "1000" {
			t.Errorf("%s: %s", way, got)
		}
	}
}

func TestFreeze(t *testing.T) {
	_, conn := place(t)
	for _, sql := range []string{
		"create unlogged table cold (id int primary key)", "create table warm (id int)",
		"create table parts (id int primary key) partition by range (id)", "create unlogged table parts1 partition of parts for values from (0) to (10)", "create table parts2 partition of parts for values from (10) to (20)",
		"create unlogged table ref (id int references cold)",
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		table string
		parts int
		want  string
	}{{"ref", 1, "refers to first"}, {"cold", 1, ""}, {"ref", 1, ""}, {"warm", 0, ""}, {"parts", 1, ""}} {
		f, err := ingest.FreezeCost(t.Context(), conn, c.table)
		if err != nil || len(f.Parts) != c.parts || c.table == "cold" && (f.Bytes == 0 || f.WAL != f.Bytes) {
			t.Fatalf("%s: %+v, %v", c.table, f, err)
		}
		err = ingest.Freeze(t.Context(), conn, f, time.Second, func(string) {})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(fail.HintOf(err), c.want) {
			t.Errorf("%s: %v, %s", c.table, err, fail.HintOf(err))
		}
	}
	if n := ask(t, conn, "select count(*)::text from pg_class where relpersistence = 'u' and relkind = 'r'"); n != "0" {
		t.Errorf("%s tables are unlogged", n)
	}
	if _, err := ingest.FreezeCost(t.Context(), conn, "nothing_here"); !errors.Is(err, fail.ErrAbsent) {
		t.Error(err)
	}
}

// Any legal names work, and none injects.
func TestHostileNames(t *testing.T) {
	_, conn := place(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		word := rapid.OneOf(
			rapid.SampledFrom([]string{`a"b`, `a.b`, "select", `"; drop table canary; --`, `$1`, `%s`, `\`, "é", "🦉", "Capital", " space ", strings.Repeat("é", 30), "excluded", "doc"}),
			rapid.StringOfN(rapid.RuneFrom([]rune(`abZ"'.;$%\ é🦉,=(`)), 1, 20, 50))
		n++
		table, key, col := fmt.Sprint(n, word.Draw(rt, "table")), word.Draw(rt, "key"), ""
		col = word.Filter(func(s string) bool { return s != key }).Draw(rt, "column") // a table's columns differ
		if len(table) > 63 {
			table = strings.ToValidUTF8(table[:63], "")
		}
		q := func(s string) string { return pgx.Identifier{s}.Sanitize() }
		key2, err := ingest.ParseFields("--key", q(key))
		if err != nil {
			rt.Fatal(err)
		}
		doc := fmt.Sprintf("{%s: 7, %s: \"x\"}\n", quoteJSON(key), quoteJSON(col))
		if _, err := run(t, doc, ingest.Options{Into: q(table), Key: key2, Columns: []ingest.Field{{Name: col}}, Create: true}); err != nil {
			rt.Fatal(err)
		}
		if got := ask(t, conn, "select "+q(key)+" || "+q(col)+" from "+q(table)); got != "7x" {
			rt.Fatal(got)
		}
		if _, err := conn.Exec(t.Context(), "drop table "+q(table)); err != nil {
			rt.Fatal(err)
		}
	})
}

func quoteJSON(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// Several inputs of different forms; the rejects name the right one.
func TestSeveralInputs(t *testing.T) {
	_, conn := place(t)
	dir := t.TempDir()
	var in []string
	for name, text := range map[string]string{"a.ndjson": "{\"id\":1,\"v\":\"a\"}\n{\"id\":\"x\",\"v\":\"no\"}\n", "b.csv": "v,id\nb,2\nno,y\n", "c.tsv": "id\tv\n3\tc\nz\tno\n"} {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		in = append(in, p)
	}
	rej := filepath.Join(dir, "rej")
	s, err := run(t, "", ingest.Options{Into: "several", Key: fields(t, "id bigint"), Columns: fields(t, "v"), Create: true, Inputs: in, Rejects: rej, MaxRejects: -1, Read: record.Options{}})
	if err != nil || s.Rejected != 3 {
		t.Fatalf("%+v, %v", s, err)
	}
	if got := ask(t, conn, "select string_agg(v, '' order by id) from several"); got != "abc" {
		t.Error(got)
	}
	b, err := os.ReadFile(rej)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{"a.ndjson": "2\t.*x", "b.csv": "3\t.*y", "c.tsv": "3\t.*z"} {
		line, _, _ := strings.Cut(bad, "\t")
		ok := false
		for _, l := range strings.Split(string(b), "\n") {
			ok = ok || strings.HasPrefix(l, line+"\t") && strings.Contains(l, name)
		}
		if !ok {
			t.Errorf("no line for %s in\n%s", name, b)
		}
	}
}
