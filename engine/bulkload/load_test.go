package bulkload_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"headroom/engine/bulkload"
	"headroom/engine/record"
	"headroom/fail"
)

const people = `create table people (id varchar(36) primary key, client_id int not null, first text, last text, born date);
create index people_client on people (client_id);
create index people_names on people using gin (to_tsvector('simple', coalesce(first, '') || ' ' || coalesce(last, '')));`

// lines makes records of the people table.
func lines(from, to int, sep string) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "%08d-0000-4000-8000-000000000000%s%d%sAnna%d%sSmith%s19%02d-0%d-1%d\n", i, sep, i%100, sep, i%1000, sep, sep, i%100, i%9+1, i%10)
	}
	return b.String()
}

func TestLoadDropsAndRebuilds(t *testing.T) {
	b := newBench(t)
	b.exec(people)
	before := b.text(definitions)
	path := b.file("people.tsv", lines(0, 60_000, "\t"))
	plan, err := bulkload.Make(t.Context(), b.options(path, "people"))
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Drops()) != 3 || plan.Way != bulkload.Chunks || plan.Input.Rows < 55_000 || plan.Input.Rows > 65_000 {
		t.Errorf("plan: %d drops, %s, %d rows", len(plan.Drops()), plan.Way, plan.Input.Rows)
	}
	r := b.load(b.options(path, "people"))
	if r.Rows != 60_000 || r.Rejected != 0 || len(r.Rebuilt) != 3 || r.Rejects != "" {
		t.Errorf("%+v", r)
	}
	b.want("select count(*), count(distinct id), min(client_id), max(client_id) from people", "60000|60000|0|99")
	if after := b.text(definitions); after != before {
		t.Errorf("definitions differ:\n%s\n---\n%s", before, after)
	}
	b.want("select state, (select count(*) from headroom.load_chunk) from headroom.load", "done|0")
	b.want("set enable_seqscan = off; select count(*) from people where to_tsvector('simple', coalesce(first, '') || ' ' || coalesce(last, '')) @@ 'anna7'", "60")
}

// However the input is written and packed, the same rows come in.
func TestLoadFormats(t *testing.T) {
	b := newBench(t)
	text := lines(0, 5000, "\t")
	csv := "client_id,id,last,first,born\n"
	json := ""
	for i, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		f := strings.Split(l, "\t")
		csv += fmt.Sprintf("%s,\"%s\",%s,\"%s\",%s\r\n", f[1], f[0], f[3], f[2], f[4])
		json += fmt.Sprintf("{\"id\":%q,\"client_id\":%s,\"name\":{\"first\":%q},\"last\":%q,\"born\":%q}\n", f[0], f[1], f[2], f[3], f[4])
		if i == 10 {
			json += "\n"
		}
	}
	csv = strings.Replace(csv, "born\n", "born\r\n", 1)
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	fmt.Fprint(w, csv)
	w.Close()
	zw, _ := zstd.NewWriter(nil)
	zst := zw.EncodeAll([]byte(text), nil)
	var first string
	for name, c := range map[string]struct {
		content string
		columns []string
	}{
		"a.tsv": {text, nil}, "b.csv": {csv, nil}, "c.csv.gz": {gz.String(), nil}, "d.tsv.zst": {string(zst), nil},
		"e.ndjson": {json, []string{"id", "client_id", "first=name.first", "last", "born"}},
		"f.csv":    {strings.ReplaceAll(lines(0, 5000, "|x|"), "|x|", "|junk|"), []string{"id", "-", "client_id", "-", "first", "-", "last", "-", "born"}},
	} {
		b.exec("drop table if exists people; " + people)
		o := b.options(b.file(name, c.content), "people")
		o.Columns = c.columns
		if r := b.load(o); r.Rows != 5000 {
			t.Errorf("%s: %+v", name, r)
		}
		sum := b.text("select md5(string_agg(people::text, '' order by id)) from people")
		if first == "" {
			first = sum
		}
		if sum != first {
			t.Errorf("%s: other rows came in: %s", name, b.text("select * from people order by id limit 2"))
		}
	}
}

func TestLoadFromStdin(t *testing.T) {
	b := newBench(t)
	b.exec(people)
	o := b.options("-", "people")
	o.Stdin = strings.NewReader(lines(0, 30_000, "\t"))
	format := record.TSV
	o.Format = &format
	if r := b.load(o); r.Rows != 30_000 {
		t.Errorf("%+v", r)
	}
}

// Bad records go to the rejects with line, column and reason; the rest loads,
// whether indexes are kept or not, and whoever finds them.
func TestBadRecords(t *testing.T) {
	for _, indexes := range []string{"keep", "drop"} {
		t.Run(indexes, func(t *testing.T) {
			b := newBench(t)
			b.exec(people)
			all := strings.Split(strings.TrimSuffix(lines(0, 40_000, "\t"), "\n"), "\n")
			bad := map[int]string{
				5: "x\tnot-a-number\tA\tB\t2000-01-01", 77: "y\t1\tA\tB\t2000-02-30", 5000: "z\t1\tA", 5001: "z\t1\tA\tB\t2000-01-01\textra",
				12345: strings.Repeat("k", 40) + "\t1\tA\tB\t2000-01-01", 20000: "w\t\\N\tA\tB\t2000-01-01", 33333: "v\t1\tA\xff\tB\t2000-01-01", 39999: "u\t1\tA\tB\tyesterdayish",
			}
			for i, l := range bad {
				all[i] = l
			}
			o := b.options(b.file("p.tsv", strings.Join(all, "\n")+"\n"), "people")
			o.Indexes = indexes
			r := b.load(o)
			if r.Rows != 40_000-int64(len(bad)) || r.Rejected != int64(len(bad)) {
				t.Errorf("%+v", r)
			}
			b.want("select count(*) from people", fmt.Sprint(40_000-len(bad)))
			got := b.rejects()
			for i, column := range map[int]string{5: "client_id", 77: "born", 5000: "last", 5001: "", 12345: "id", 20000: "client_id", 33333: "first", 39999: "born"} {
				if !strings.Contains(got, fmt.Sprintf("\n%d\t%s\t", i+1, column)) {
					t.Errorf("line %d, column %s is not in the rejects:\n%s", i+1, column, got)
				}
			}
		})
	}
}

// What only the server can find is found by the line that it names, or by
// halving where it names none.
func TestServerFindsBadRecords(t *testing.T) {
	b := newBench(t)
	b.exec(`create table ref (id int primary key); insert into ref select generate_series(0, 99);
		create table t (id int primary key, r int references ref, j jsonb, n numeric(4,1), check (id <> 4242))`)
	var in strings.Builder
	for i := range 10_000 {
		j, r, n := `{"a": 1}`, i%100, "1.5"
		switch i {
		case 100:
			j = `{"a": `
		case 2500:
			r = 777
		case 2600:
			r = 778
		case 7000:
			n = "12345.6"
		}
		fmt.Fprintf(&in, "%d;%d;\"%s\";%s\n", i, r, strings.ReplaceAll(j, `"`, `""`), n)
		if i == 5000 {
			fmt.Fprintln(&in, "17;1;{};1.5")
		}
	}
	o := b.options(b.file("t.csv", in.String()), "t")
	o.Indexes, o.Delimiter = "keep", ';'
	r := b.load(o)
	if r.Rows != 9995 || r.Rejected != 6 {
		t.Errorf("%+v", r)
	}
	got := b.rejects()
	for _, want := range []string{"\n101\tj\t", "\n2501\t", "\n2601\t", "\n4243\t", "\n5002\t", "\n7002\t"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in the rejects:\n%s", want, got)
		}
	}
}

func TestMaxRejectsPutsBack(t *testing.T) {
	b := newBench(t)
	b.exec(people + "insert into people values ('old', 1)")
	before := b.text(definitions)
	in := lines(0, 30_000, "\t") + strings.Repeat("a\tb\tc\td\te\n", 20)
	o := b.options(b.file("p.tsv", in), "people")
	o.MaxRejects, o.Indexes = 10, "drop"
	_, err := bulkload.Run(t.Context(), o)
	if fail.Code(err) != fail.Reverted || !strings.Contains(err.Error(), "as it was") {
		t.Errorf("%v", err)
	}
	b.want("select id from people", "old")
	if after := b.text(definitions); after != before {
		t.Errorf("definitions differ:\n%s\n---\n%s", before, after)
	}
}

// Rows that a key forbids are named, and the table is left as it was.
func TestViolationAtRebuild(t *testing.T) {
	b := newBench(t)
	b.exec(people + "insert into people values ('old', 1)")
	before := b.text(definitions)
	in := lines(0, 30_000, "\t") + lines(17, 18, "\t") + "old\t1\ta\tb\t2000-01-01\n"
	o := b.options(b.file("p.tsv", in), "people")
	o.Indexes = "drop"
	_, err := bulkload.Run(t.Context(), o)
	if fail.Code(err) != fail.Reverted {
		t.Fatal(err)
	}
	for _, want := range []string{"people_pkey", "(00000017-0000-4000-8000-000000000000) at (", "lines 18 and 30001", "(old) at (0,1)", "line 30002", "the table is as it was"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	b.want("select id from people", "old")
	if after := b.text(definitions); after != before {
		t.Errorf("definitions differ:\n%s\n---\n%s", before, after)
	}
	b.want("select state from headroom.load", "undone")
}

func TestAtomic(t *testing.T) {
	b := newBench(t)
	b.exec(people + "insert into people values ('old', 1)")
	before := b.text(definitions)
	o := b.options(b.file("p.tsv", lines(0, 20_000, "\t")+"a\tb\tc\td\te\n"), "people")
	o.Atomic = true
	_, err := bulkload.Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "line 20001, column client_id") {
		t.Errorf("%v", err)
	}
	b.want("select id from people", "old")
	o.Path, o.Truncate = b.file("q.tsv", lines(0, 20_000, "\t")), true
	if r := b.load(o); r.Rows != 20_000 || len(r.Rebuilt) != 3 {
		t.Errorf("%+v", r)
	}
	b.want("select count(*) from people", "20000")
	if after := b.text(definitions); after != before {
		t.Errorf("definitions differ:\n%s\n---\n%s", before, after)
	}
}

func TestCreate(t *testing.T) {
	b := newBench(t)
	in := "id,name,born,seen,price,on,uid\n" + strings.Repeat("", 0)
	for i := range 2000 {
		in += fmt.Sprintf("%d,n%d,1990-01-%02d,2020-01-01 10:00:00+01,%d.5,true,%08d-0000-4000-8000-000000000000\n", i, i, i%28+1, i, i)
	}
	o := b.options(b.file("made.csv", in), `"My Schema"."New Table"`)
	b.exec(`create schema "My Schema"`)
	o.Create = &bulkload.Create{Key: []string{"id"}}
	if r := b.load(o); r.Rows != 2000 {
		t.Errorf("%+v", r)
	}
	b.want(`select string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' order by attnum) from pg_attribute where attrelid = '"My Schema"."New Table"'::regclass and attnum > 0`,
		"id bigint, name text, born date, seen timestamp with time zone, price numeric, on boolean, uid uuid")
	b.want(`select pg_get_constraintdef(oid) from pg_constraint where conrelid = '"My Schema"."New Table"'::regclass and contype = 'p'`, "PRIMARY KEY (id)")
}

func TestPartition(t *testing.T) {
	b := newBench(t)
	b.exec(`create table site (id int primary key); insert into site values (1);
		create table m (id bigint, at date not null, site int references site, primary key (id, at)) partition by range (at);
		create index m_site on m (site);
		create table m_1 partition of m for values from ('2026-01-01') to ('2026-02-01')`)
	in := ""
	for i := range 5000 {
		in += fmt.Sprintf("%d,2026-02-%02d,1\n", i, i%28+1)
	}
	o := b.options(b.file("m.csv", in+"7,2026-03-01,1\n"), "m_2")
	o.PartitionOf, o.Values = "m", "FROM ('2026-02-01') TO ('2026-03-01')"
	r := b.load(o)
	if r.Rows != 5000 || r.Rejected != 1 {
		t.Errorf("%+v", r)
	}
	b.want("select count(*), tableoid::regclass from m group by 2", "5000|m_2")
	b.want("select count(*) from pg_inherits i join pg_class c on c.oid = i.inhrelid where c.relkind = 'i' and c.relname like 'm\\_2%'", "2")
	b.want("select conname from pg_constraint where conrelid = 'm_2'::regclass and contype = 'c'", "")
	if !strings.Contains(b.rejects(), "\n5001\t") {
		t.Error(b.rejects())
	}
}

func TestLoadsIntoPartitionedTable(t *testing.T) {
	b := newBench(t)
	b.exec(`create table m (id bigint, at date not null, primary key (id, at)) partition by range (at);
		create table m_1 partition of m for values from ('2026-01-01') to ('2026-02-01')`)
	in := "1,2026-01-05\n2,2026-05-05\n3,2026-01-06\n"
	r := b.load(b.options(b.file("m.csv", in), "m"))
	if r.Rows != 2 || r.Rejected != 1 || !strings.Contains(b.rejects(), "\n2\t") {
		t.Errorf("%+v", r)
	}
}

func TestEmptyInput(t *testing.T) {
	b := newBench(t)
	b.exec(people)
	for _, content := range []string{"", "id,client_id\n"} {
		if r := b.load(b.options(b.file("e.csv", content), "people")); r.Rows != 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestJournalIsStored(t *testing.T) {
	b := newBench(t)
	b.exec(people)
	o := b.options(b.file("p.tsv", lines(0, 3000, "\t")), "people")
	o.Indexes = "drop"
	r := b.load(o)
	raw, err := os.ReadFile(filepath.Join(b.dir, "state", "load", r.ID+".json"))
	if err != nil || !strings.Contains(string(raw), "people_pkey") || !strings.Contains(string(raw), `"state": "done"`) {
		t.Errorf("%v\n%s", err, raw)
	}
	all, err := bulkload.List(t.Context(), b.options("", ""))
	if err != nil || len(all) != 1 || all[0].State != bulkload.Done {
		t.Errorf("%v %v", all, err)
	}
}

// A record that is too large is one bad record, however much else there is.
func TestHugeRecords(t *testing.T) {
	b := newBench(t)
	b.exec("create table t (a int, b text)")
	o := b.options(b.file("t.csv", "1,a\n2,"+strings.Repeat("x", 3<<20)+"\n3,c\n4,"+strings.Repeat("y", 1<<20)+"\n"), "t")
	o.MaxRecord = 2 << 20
	if r := b.load(o); r.Rows != 3 || r.Rejected != 1 || !strings.Contains(b.rejects(), "\n2\t") {
		t.Errorf("%+v", r)
	}
	b.want("select a, length(b) from t order by a", "1|1\n3|1\n4|1048576")
}

// Members of documents that no column takes are named, not dropped in silence.
func TestDocumentsLeftOut(t *testing.T) {
	b := newBench(t)
	b.exec("create table t (id int primary key, doc jsonb)")
	path := b.file("t.ndjson", `{"id": 1, "doc": {"a": [1, "x\ty"]}, "colour": "red"}`+"\n"+`{"id": 2, "doc": "text \"q\""}`+"\n"+`{"id": 3, "doc": null}`+"\n"+`{"id": "four"`+"\n")
	r := b.load(b.options(path, "t"))
	if r.Rows != 3 || r.Rejected != 1 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "colour") {
		t.Errorf("%+v", r)
	}
	b.want("select id, doc from t order by id", `1|{"a": [1, "x\ty"]}`+"\n"+`2|"text \"q\""`+"\n3|")
}
