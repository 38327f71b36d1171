package pgscript

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"headroom/engine/loop"
	"headroom/engine/pgwire"
)

func TestGsetIfAndVariables(t *testing.T) {
	for _, p := range protocols {
		query(t, "drop table if exists r; create table r(n int, v text)")
		once(t, p, `
\set n 5
select :n + 1 as up, 'a''b' as word, null as nothing \gset got_
\if :got_up = 6 and :got_nothing is null
insert into r values (1, :got_up), (2, ':m'), (3, coalesce((:got_nothing)::text, 'NULL'));
\elif true
insert into r values (1, 'wrong branch');
\else
insert into r values (1, 'wrong branch');
\endif
select i, i * i as square from generate_series(1, 4) i \aset
\if :square = 16
insert into r values (4, :i::text);
\endif
select 1 as never where false \aset
`)
		if got := query(t, "select v from r order by n"); got != "6\n:m\nNULL\n4" {
			t.Errorf("%s: %q", p, got)
		}
	}
	query(t, "truncate r")
	once(t, Simple, "select 1 as a \\; select 2 as a, 3 as b \\gset\ninsert into r values (:a, :b) \\; insert into r values (9, 9);")
	if got := query(t, "select n, v from r order by n"); got != "2|3\n9|9" {
		t.Error(got)
	}
}

// Values with quotes and the like are data where the protocol has parameters.
func TestParametersCannotInject(t *testing.T) {
	for _, p := range []Protocol{Extended, Prepared} {
		query(t, "drop table if exists r; create table r(v text)")
		evil := "'); drop table r; -- $1 :v \\ \""
		d := open(t, Options{Options: loop.Options{Transactions: 2}, Protocol: p, Scripts: scripts(t, "insert into r values (:v);"), Vars: map[string]string{"v": evil}})
		run(t, d, 0)
		if got := query(t, "select distinct v from r"); got != evil {
			t.Error(got)
		}
	}
}

func TestPipeline(t *testing.T) {
	for _, p := range []Protocol{Extended, Prepared} {
		query(t, "drop table if exists r; create table r(v int primary key)")
		d := open(t, Options{Options: loop.Options{Transactions: 3}, Protocol: p, Statements: true, Scripts: scripts(t, `
\set a :client_id + random(1, 1000000000)
\startpipeline
begin;
insert into r values (:a);
\if :a > 0
insert into r values (-(:a)::int);
\endif
commit;
\endpipeline
`)})
		r := run(t, d, 0)
		if got := query(t, "select count(*), sum(v) from r"); got != "6|0" || r.Done != 3 {
			t.Error(p, got)
		}
		if len(r.Statements) != 1 || r.Statements[0].Count != 3 || r.Statements[0].Text != `\endpipeline` {
			t.Errorf("%+v", r.Statements)
		}
	}
	if _, err := Open(context.Background(), Options{Options: loop.Options{Clients: 1}, DSN: server.DSN(), Scripts: scripts(t, "\\startpipeline\nselect 1;\n\\endpipeline")}); err == nil || !strings.Contains(err.Error(), "s0.sql:1:1") {
		t.Error(err)
	}
}

func TestFailuresAreCountedByCode(t *testing.T) {
	for _, p := range protocols {
		query(t, "drop table if exists r; create table r(v int primary key); insert into r values (1)")
		d := open(t, Options{Options: loop.Options{Clients: 2, Transactions: 20, Seed: 1}, Protocol: p,
			Scripts: scripts(t, "begin;\ninsert into r values (1);\nend;", "select 1;")})
		r := run(t, d, 0)
		if r.All != 40 || r.Failed == 0 || r.Failures["23505"] != r.Failed || r.Done == 0 || !strings.Contains(r.First.Error(), "s0.sql:2") {
			t.Fatalf("%s: %+v", p, r.Result)
		}
		run(t, d, 0) // the connections are in order
	}
}

func TestSerializationFailuresAreTriedAgain(t *testing.T) {
	src := "\\set delta random(1, 100)\nbegin isolation level serializable;\nselect v from r \\gset\nupdate r set v = :v::int + :delta::int;\ninsert into log values (:delta);\nend;"
	for _, p := range protocols {
		query(t, "drop table if exists r, log; create table r(v int); create table log(v int); insert into r values (0)")
		d := open(t, Options{Options: loop.Options{Clients: 4, Transactions: 30}, Protocol: p, Scripts: scripts(t, src), MaxTries: 1000})
		r := run(t, d, 0)
		if r.Done != 120 || r.Retries == 0 || r.Retried == 0 || r.Retried > r.Retries {
			t.Fatalf("%s: %+v, %d, %d", p, r.Result, r.Retried, r.Retries)
		}
		if got := query(t, "select (select v from r) - (select sum(v) from log), (select count(*) from log)"); got != "0|120" {
			t.Error(p, got)
		}
	}
	d := open(t, Options{Options: loop.Options{Clients: 4, Transactions: 30}, Scripts: scripts(t, src)})
	if r := run(t, d, 0); r.Failures["40001"] == 0 || r.Retries != 0 || r.Failed != r.Failures["40001"] {
		t.Fatalf("%+v", r.Result)
	}
}

func TestWrongScriptsEndTheRun(t *testing.T) {
	for src, want := range map[string]string{
		"select 1;\nselect * from nosuch;":               "s0.sql:2: relation \"nosuch\" does not exist",
		"\\set a 1 / 0\nselect 1;":                       "s0.sql:1:10: division by zero",
		"begin;":                                         "ends inside a transaction",
		"select 1 where false \\gset":                    "expects one row, and 0 came",
		"select generate_series(1,2) as a \\gset":        "expects one row, and 2 came",
		"select 1 as a \\gset\nselect :b;":               "the variable :b is not set",
		"copy pg_am from stdin;":                         "COPY",
		"select pg_terminate_backend(pg_backend_pid());": "connection lost",
	} {
		d := open(t, Options{Options: loop.Options{Clients: 3}, Scripts: scripts(t, src)})
		start := time.Now()
		if _, err := d.Run(context.Background(), time.Minute); err == nil || !strings.Contains(err.Error(), want) || time.Since(start) > 5*time.Second {
			t.Errorf("%s: %v", src, err)
		}
		if _, err := d.Run(context.Background(), time.Second); err == nil || !strings.Contains(err.Error(), "was closed") {
			t.Error(err)
		}
	}
	for _, o := range []Options{
		{Scripts: scripts(t, "select :nosuch")}, {}, {Scripts: scripts(t, "select 1"), Protocol: "telepathy"},
		{Scripts: []Weighted{{SelectOnly(), 0}}}, {Scripts: scripts(t, "select 1 \\; select 2"), Protocol: Prepared},
	} {
		o.DSN, o.Clients = server.DSN(), 1
		if _, err := Open(context.Background(), o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

func TestCancelLeavesNothing(t *testing.T) {
	for _, each := range []bool{false, true} {
		before := runtime.NumGoroutine()
		d := open(t, Options{Options: loop.Options{Clients: 8}, NewConnEach: each,
			Scripts: scripts(t, "select pg_sleep(60);", "\\sleep 60 s\nselect 1;")})
		ctx, stop := context.WithCancel(context.Background())
		var ended time.Time
		time.AfterFunc(150*time.Millisecond, func() { ended = time.Now(); stop() })
		r, err := d.Run(ctx, time.Minute)
		took := time.Since(ended)
		if !errors.Is(err, context.Canceled) || r.All != r.Done+r.Failed+r.Skipped || r.Failed > 0 {
			t.Fatal(err, r.Result)
		}
		if took > 2*time.Second {
			t.Errorf("ended after %s", took)
		}
		t.Logf("ended after %s", took)
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			left := query(t, "select count(*) from pg_stat_activity where application_name = 'headroom' and pid <> pg_backend_pid()")
			if left == "0" && runtime.NumGoroutine() <= before {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s connections and %d goroutines left", left, runtime.NumGoroutine()-before)
			}
		}
	}
}

func TestRoundsAndNewConnections(t *testing.T) {
	backends := func(each bool, p Protocol) string {
		query(t, "drop table if exists r; create table r(pid int)")
		d := open(t, Options{Options: loop.Options{Clients: 2, Transactions: 5}, Protocol: p, NewConnEach: each, Scripts: scripts(t, "insert into r values (pg_backend_pid());")})
		for range 2 {
			if r := run(t, d, time.Minute); r.Done != 10 || r.Quantile(1) <= 0 {
				t.Fatalf("%+v", r.Result)
			}
		}
		return query(t, "select count(*), count(distinct pid) from r")
	}
	for _, p := range protocols {
		if got := backends(false, p); got != "20|2" {
			t.Error(p, got)
		}
		if got := backends(true, p); got != "20|20" {
			t.Error(p, got)
		}
	}
}

func TestSeedWeightsAndStatements(t *testing.T) {
	draw := func(seed uint64) string {
		query(t, "drop table if exists r; create table r(c int, n serial, v bigint)")
		s := scripts(t, "\\set v random_gaussian(1, 1000000, 3)\ninsert into r(c, v) values (:client_id, :v);", "insert into r(c) values (:client_id);")
		s[0].Weight = 3
		d := open(t, Options{Options: loop.Options{Clients: 2, Transactions: 200, Seed: seed}, Scripts: s, Statements: true})
		r := run(t, d, 0)
		if len(r.Statements) != 2 || r.Statements[0].Count+r.Statements[1].Count != 400 || r.Statements[0].Seconds <= 0 || r.Statements[0].Place != "s0.sql:2" {
			t.Fatalf("%+v", r.Statements)
		}
		if n := r.Statements[0].Count; n < 250 || n > 350 {
			t.Errorf("weight 3 of 4 ran %d of 400", n)
		}
		return query(t, "select c, string_agg(coalesce(v::text, '-'), ',' order by n) from r group by c order by c")
	}
	a := draw(7)
	if b := draw(7); a != b {
		t.Error("the same seed gives other numbers")
	}
	if b := draw(8); a == b {
		t.Error("another seed gives the same numbers")
	}
	lines := strings.Split(a, "\n")
	if lines[0][2:] == lines[1][2:] {
		t.Error("both clients draw the same")
	}
}

func TestRateAndThrottle(t *testing.T) {
	d := open(t, Options{Options: loop.Options{Clients: 4, Rate: 500, Even: true, Limit: time.Second, Throttle: 0.5}, Protocol: Prepared, Scripts: scripts(t, "select 1;")})
	if r := run(t, d, 400*time.Millisecond); r.All != 99 {
		t.Fatalf("%+v", r.Result)
	}
}

func TestDebugAndBuiltinVariables(t *testing.T) {
	var out strings.Builder
	d := open(t, Options{Options: loop.Options{Transactions: 1, Seed: 9}, Scripts: scripts(t, "\\set a debug(:random_seed + :scale + :client_id + :x)\nselect 1;"), Debug: &out, Vars: map[string]string{"x": "0.5"}})
	run(t, d, 0)
	if out.String() != "debug: double 10.5\n" {
		t.Error(out.String())
	}
}

func TestTransactionAllocatesNothing(t *testing.T) {
	for _, p := range protocols {
		query(t, "drop table if exists r; create table r(a int primary key, b int); insert into r select i, 0 from generate_series(1, 100) i")
		d := open(t, Options{Options: loop.Options{Transactions: 1}, Protocol: p, Scripts: scripts(t,
			"\\set a random(1, 100)\n\\set d random(-5000, 5000) * 2\nbegin;\nupdate r set b = b + :d where a = :a;\nselect b from r where a = :a;\nend;")})
		c := d.clients[0]
		ctx := context.Background()
		if n := testing.AllocsPerRun(50, func() {
			if err := c.transaction(ctx); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %.0f allocations", p, n)
		}
	}
}

func TestInitIsUndoneByCancel(t *testing.T) {
	c, err := pgwire.Connect(context.Background(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stop()
	if err := Init(ctx, c, 50); err == nil {
		t.Fatal("five million rows in 50 ms")
	}
	if got := query(t, "select count(*) from pg_class where relname like 'pgbench%'"); got != "0" {
		t.Error(fmt.Sprint("tables left: ", got))
	}
}
