package readtable_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"headroom/engine/readtable"
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
	code := m.Run()
	if shared.s != nil {
		if err := shared.s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// connect gives a connection to a server that all tests share.
func connect(t testing.TB) *pgx.Conn {
	t.Helper()
	need.Have(t, "pg")
	shared.Do(func() {
		shared.s, shared.err = pglocal.Start(context.Background(), pglocal.Options{Name: "readtable"})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	conn, err := pgx.Connect(context.Background(), shared.s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func run(t testing.TB, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func ask(t testing.TB, conn *pgx.Conn, sql string) (s string) {
	t.Helper()
	if err := conn.QueryRow(context.Background(), sql).Scan(&s); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return s
}

// fresh makes a table and its copy.
func fresh(t testing.TB, conn *pgx.Conn, name string, way readtable.Way, rows int) readtable.Table {
	t.Helper()
	run(t, conn, "drop table if exists "+name+" cascade")
	run(t, conn, "drop table if exists "+name+"_read")
	run(t, conn, "create table "+name+" (id bigint, part text, doc jsonb, note json, primary key (id, part))")
	run(t, conn, fmt.Sprintf("insert into %s select i, 'p', jsonb_build_object('n', i), '{}' from generate_series(1, %d) i", name, rows))
	tab, err := readtable.Setup(t.Context(), conn, name, way, []string{"(doc->>'n')", "USING gin (doc)", "part, id"})
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// equal checks that the copy holds what the table does.
func equal(t testing.TB, conn *pgx.Conn, tab readtable.Table) {
	t.Helper()
	w := pgx.Identifier{tab.Schema, tab.Write}.Sanitize()
	differ := ask(t, conn, "select count(*)::text from "+w+" w full join "+tab.SQL()+" r using (id, part) where w.* is null or r.* is null or w.doc is distinct from r.doc or w.note::text is distinct from r.note::text")
	if differ != "0" {
		t.Fatalf("%s rows differ", differ)
	}
}

func refresh(t testing.TB, conn *pgx.Conn, tab readtable.Table) readtable.Done {
	t.Helper()
	d, err := tab.Refresh(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestBothWaysFollow(t *testing.T) {
	conn := connect(t)
	for _, way := range []readtable.Way{readtable.MatView, readtable.Merge} {
		t.Run(string(way), func(t *testing.T) {
			name := "follow_" + string(way)
			tab := fresh(t, conn, name, way, 1000)
			equal(t, conn, tab)
			if n := ask(t, conn, "select count(*)::text from pg_indexes where tablename = '"+name+"_read'"); n != "4" {
				t.Errorf("%s indexes", n)
			}
			for i, change := range []string{
				"update NAME set doc = '{}' where id <= 10",
				"insert into NAME values (2000, 'q', null, null)",
				"delete from NAME where id between 20 and 25",
				"update NAME set id = -id where id = 30",
				"update NAME set note = '{\"a\":  1}' where id = 31",
				"select 1",
				"truncate NAME",
				"insert into NAME select i, 'z', null, null from generate_series(1, 100) i",
				"vacuum full NAME",
				"vacuum freeze NAME",
				"alter table NAME set unlogged",
				"delete from NAME_read where id < 50",
			} {
				if way == readtable.MatView && i == 11 {
					continue // nobody can
				}
				run(t, conn, strings.ReplaceAll(change, "NAME", name))
				d := refresh(t, conn, tab)
				equal(t, conn, tab)
				if way == readtable.Merge && i == 0 && (d.Changed != 10 || d.Deleted != 0 || d.Whole || d.Rows != 1000) {
					t.Errorf("%s: %+v", change, d)
				}
				if way == readtable.Merge && i == 2 && (d.Deleted != 6 || !d.Whole) {
					t.Errorf("%s: %+v", change, d)
				}
				if way == readtable.Merge && i == 5 && (d.Deleted != 0 || d.Changed != 0 || d.Whole) {
					t.Errorf("%s: %+v", change, d)
				}
			}
			again, err := readtable.Setup(t.Context(), conn, name, way, nil)
			if err != nil || again.Way != way {
				t.Error("a second set-up:", again, err)
			}
			if err := readtable.Drop(t.Context(), conn, name); err != nil {
				t.Fatal(err)
			}
			if err := readtable.Drop(t.Context(), conn, name); !errors.Is(err, fail.ErrAbsent) {
				t.Error(err)
			}
		})
	}
}

// Writers with short, long, nested and aborted transactions go on while the
// copy is refreshed. What a refresh leaves out, a later one must bring; at the
// end both are equal, and nothing was ever in the copy that had not been in
// the table.
func TestMergeUnderConcurrentWriters(t *testing.T) {
	conn := connect(t)
	tab := fresh(t, conn, "busy", readtable.Merge, 2000)
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	fault := make(chan error, 8)
	for n := range 4 {
		c := connect(t)
		rnd := rand.New(rand.NewPCG(uint64(n), 7))
		writers.Go(func() {
			for ctx.Err() == nil {
				if err := write(ctx, c, rnd, n); err != nil && ctx.Err() == nil {
					fault <- err
					return
				}
			}
		})
	}
	whole := 0
	for range 60 {
		d := refresh(t, conn, tab)
		if d.Whole {
			whole++
		}
		// The copy is one moment of the table: each writer's two rows are of one transaction.
		if torn := ask(t, conn, "select count(*)::text from busy_read a join busy_read b on b.id = a.id + 1000000 and b.part = a.part where a.doc <> b.doc"); torn != "0" {
			t.Fatalf("%s pairs are torn", torn)
		}
	}
	stop()
	writers.Wait()
	select {
	case err := <-fault:
		t.Fatal(err)
	default:
	}
	refresh(t, conn, tab)
	equal(t, conn, tab)
	t.Logf("%d of 60 refreshes compared all", whole)
}

// write is one transaction of a writer: pairs of rows with the same document,
// in parts of its own.
func write(ctx context.Context, c *pgx.Conn, rnd *rand.Rand, n int) error {
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	for i := range 1 + rnd.IntN(4) {
		id, doc := rnd.IntN(500), fmt.Sprintf(`{"v": %d}`, rnd.Int64())
		sql := "insert into busy values ($1::bigint, $2, $3), ($1::bigint + 1000000, $2, $3) on conflict (id, part) do update set doc = excluded.doc"
		args := []any{id, fmt.Sprint("w", n), doc}
		if rnd.IntN(5) == 0 {
			sql, args = "delete from busy where id in ($1::bigint, $1::bigint + 1000000) and part = $2", args[:2]
		}
		if rnd.IntN(3) == 0 { // a transaction within: its number is not in a snapshot's list
			if _, err := tx.Exec(ctx, fmt.Sprintf("savepoint s%d", i)); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, sql, args...); err != nil {
			return err
		}
		if rnd.IntN(4) == 0 {
			if _, err := tx.Exec(ctx, fmt.Sprintf("select pg_sleep(%f)", rnd.Float64()*0.02)); err != nil {
				return err
			}
		}
	}
	if rnd.IntN(6) == 0 {
		return nil // aborted
	}
	return tx.Commit(ctx)
}

// A transaction that is open during a refresh, and a savepoint in it whose
// number lies behind the snapshot's, are both found by the next one.
func TestOpenTransactionsAreFoundLater(t *testing.T) {
	conn, other, third := connect(t), connect(t), connect(t)
	tab := fresh(t, conn, "later", readtable.Merge, 10)
	for _, sql := range []string{"begin", "update later set doc = '1' where id = 1", "savepoint a", "update later set doc = '2' where id = 2"} {
		run(t, other, sql)
	}
	run(t, third, "update later set doc = '3' where id = 3")
	refresh(t, conn, tab)
	run(t, other, "commit")
	d := refresh(t, conn, tab)
	equal(t, conn, tab)
	if d.Changed != 2 || d.Whole {
		t.Errorf("%+v", d)
	}
}

// A horizon is not believed for another table of the same name, and not if it
// lies in the future, as after a restore into another server.
func TestHorizonOfAnotherLife(t *testing.T) {
	conn := connect(t)
	tab := fresh(t, conn, "life", readtable.Merge, 10)
	run(t, conn, "update headroom.read_table set horizon = '99999999999' where name = 'life_read'")
	run(t, conn, "update life set doc = '7' where id = 7")
	if d := refresh(t, conn, tab); !d.Whole || d.Changed != 1 {
		t.Errorf("%+v", d)
	}
	equal(t, conn, tab)
	run(t, conn, "update headroom.read_table set write = 1 where name = 'life_read'")
	run(t, conn, "update life set doc = '8' where id = 8")
	if d := refresh(t, conn, tab); !d.Whole || d.Changed != 1 {
		t.Errorf("%+v", d)
	}
	equal(t, conn, tab)
}

func TestRefreshIsPolite(t *testing.T) {
	conn, other := connect(t), connect(t)
	for _, way := range []readtable.Way{readtable.MatView, readtable.Merge} {
		tab := fresh(t, conn, "polite_"+string(way), way, 10)
		run(t, other, "select pg_advisory_lock(hashtextextended('headroom read table ' || $1, 0))", tab.SQL())
		if _, err := tab.Refresh(t.Context(), conn); !errors.Is(err, readtable.ErrBusy) {
			t.Error(err)
		}
		run(t, other, "select pg_advisory_unlock_all()")
		run(t, other, "begin")
		run(t, other, "lock table "+pgx.Identifier{tab.Schema, tab.Write}.Sanitize())
		begun := time.Now()
		_, err := tab.Refresh(t.Context(), conn)
		var pe *pgconn.PgError
		if !errors.As(err, &pe) || pe.Code != "55P03" || fail.HintOf(err) == "" || time.Since(begun) > 20*time.Second {
			t.Errorf("%s: %v after %s", way, err, time.Since(begun))
		}
		run(t, other, "rollback")
		refresh(t, conn, tab)
		if locks := ask(t, conn, "select count(*)::text from pg_locks where locktype = 'advisory'"); locks != "0" {
			t.Errorf("%s advisory locks are left", locks)
		}
	}
}

func TestRefusals(t *testing.T) {
	conn := connect(t)
	run(t, conn, "create table nokey (id bigint unique)")
	run(t, conn, "create table parted (id bigint primary key) partition by range (id)")
	run(t, conn, "create view v as select 1 as id")
	run(t, conn, "create table taken (id bigint primary key)")
	run(t, conn, "create table taken_read (id bigint primary key)")
	run(t, conn, "create table moved (id bigint primary key)")
	if _, err := readtable.Setup(t.Context(), conn, "moved", readtable.Merge, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := readtable.Setup(t.Context(), conn, "moved", readtable.MatView, nil); err == nil || !strings.Contains(fail.HintOf(err), "unread") {
		t.Error(err)
	}
	run(t, conn, "alter table moved add column x int")
	for table, want := range map[string]string{"nokey": "no unique key", "parted": "partitioned", "v": "no ordinary table", "taken": "not made by headroom", "none": "no such table", "moved": "columns"} {
		_, err := readtable.Setup(t.Context(), conn, table, readtable.Merge, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want …%s…", table, err, want)
		}
	}
	run(t, conn, "create table ok (id bigint primary key)")
	if _, err := readtable.Setup(t.Context(), conn, "ok", readtable.Merge, []string{"id); drop table ok; --"}); err == nil {
		t.Error("a second statement is taken as an index")
	}
	if n := ask(t, conn, "select count(*)::text from pg_class where relname in ('ok', 'ok_read')"); n != "1" {
		t.Errorf("%s tables are left", n)
	}
	if _, err := readtable.ParseWay("x"); fail.Code(err) != fail.Usage {
		t.Error(err)
	}
}

// Any legal names work, and none injects.
func TestHostileNames(t *testing.T) {
	conn := connect(t)
	run(t, conn, "create table canary (n int)")
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.OneOf(
			rapid.SampledFrom([]string{`a"b`, `a.b`, "select", `"; drop table canary; --`, `'; drop table canary; --`, `$$`, `%s`, `\`, "é", "🦉", "Capital", " space ", "new\nline", strings.Repeat("x", 63), strings.Repeat("é", 31), "all", "r", "w", "excluded"}),
			rapid.StringOfN(rapid.RuneFrom([]rune(`abZ"'.;$%\ é🦉`)), 1, 20, 40))
		n++
		table, key, col := fmt.Sprint(n)+name.Draw(rt, "table"), name.Draw(rt, "key"), name.Draw(rt, "column")
		for len(table) > 63 {
			table = table[:len(table)-1]
		}
		table = strings.ToValidUTF8(table, "")
		if key == col { // a table's columns differ
			col = "other"
		}
		q := func(s string) string { return pgx.Identifier{s}.Sanitize() }
		run(t, conn, "create table "+q(table)+" ("+q(key)+" text primary key, "+q(col)+" text)")
		for _, way := range []readtable.Way{readtable.Merge, readtable.MatView} {
			tab, err := readtable.Setup(t.Context(), conn, q(table), way, []string{q(col)})
			if err != nil {
				rt.Fatal(err)
			}
			run(t, conn, "insert into "+q(table)+" values ($1, 'b') on conflict do nothing", string(way))
			if d := refresh(t, conn, tab); d.Rows == 0 {
				rt.Fatal(d)
			}
			if err := readtable.Drop(t.Context(), conn, q(table)); err != nil {
				rt.Fatal(err)
			}
		}
		run(t, conn, "drop table "+q(table))
	})
	run(t, conn, "select * from canary")
	if got := readtable.ReadName(strings.Repeat("é", 31)); len(got) > 63 || !strings.HasSuffix(got, "é_read") {
		t.Error(got)
	}
}
