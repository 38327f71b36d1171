package bulkload_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/engine/bulkload"
	"headroom/fail"
	"headroom/pglocal"
)

// other is a second session, with an open transaction that has run some SQL.
func (b *bench) other(app, sql string) *pgx.Conn {
	b.t.Helper()
	cfg := b.cfg.Copy()
	cfg.RuntimeParams["application_name"] = app
	c, err := pgx.ConnectConfig(b.t.Context(), cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Close(context.Background()) })
	if _, err := c.Exec(b.t.Context(), "begin; "+sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		b.t.Fatal(err)
	}
	return c
}

// Blocked by another session it gives up, says who it is, and nothing has
// changed (P17).
func TestBlockedGivesUp(t *testing.T) {
	b := newBench(t)
	b.exec(people + "insert into people values ('old', 1)")
	before := b.text(definitions)
	o := b.options(b.file("p.tsv", lines(0, 5000, "\t")), "people")
	o.Indexes, o.LockTimeout = "drop", 300*time.Millisecond
	blocker := b.other("nightly report", "select * from people")
	_, err := bulkload.Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "nightly report") || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", blocker.PgConn().PID())) {
		t.Errorf("%v", err)
	}
	if fail.HintOf(err) == "" {
		t.Error("no way out is named")
	}
	b.want("select id from people", "old")
	if after := b.text(definitions); after != before {
		t.Errorf("definitions differ:\n%s\n---\n%s", before, after)
	}
	b.want("select state from headroom.load", "undone")
	if _, err := blocker.Exec(t.Context(), "commit"); err != nil {
		t.Errorf("the other session was ended: %v", err)
	}
	if r := b.load(o); r.Rows != 5000 {
		t.Errorf("%+v", r)
	}
}

// Rows that others read keep their indexes unless the load is offline.
func TestOthersKeepTheirIndexes(t *testing.T) {
	b := newBench(t)
	b.exec(people)
	b.load(b.options(b.file("p.tsv", lines(0, 50_000, "\t")), "people"))
	b.exec("analyze people")
	o := b.options(b.file("q.tsv", lines(50_000, 300_000, "\t")), "people")
	plan, err := bulkload.Make(t.Context(), o)
	if err != nil || len(plan.Drops()) != 0 {
		t.Errorf("%d drops, %v", len(plan.Drops()), err)
	}
	o.Offline = true
	plan, err = bulkload.Make(t.Context(), o)
	if err != nil || len(plan.Drops()) < 2 {
		t.Errorf("offline: %d drops, %v", len(plan.Drops()), err)
	}
	if err == nil && (plan.Seconds() <= 0 || len(plan.Phases) < 3) {
		t.Errorf("no times: %+v", plan.Phases)
	}
}

// A small addition keeps all, however it is looked at.
func TestSmallAdditionKeeps(t *testing.T) {
	b := newBench(t)
	b.exec(people)
	b.load(b.options(b.file("p.tsv", lines(0, 50_000, "\t")), "people"))
	o := b.options(b.file("q.tsv", lines(50_000, 51_000, "\t")), "people")
	o.Offline = true
	plan, err := bulkload.Make(t.Context(), o)
	if err != nil || len(plan.Drops()) != 0 || plan.After != "" {
		t.Errorf("%d drops, then %q, %v", len(plan.Drops()), plan.After, err)
	}
	if r := b.load(o); r.Rows != 1000 {
		t.Errorf("%+v", r)
	}
}

func TestKeysThatOthersNeedStay(t *testing.T) {
	b := newBench(t)
	b.exec(people + `create table child (p varchar(36) references people);
		create view by_id as select id, first from people group by id`)
	o := b.options(b.file("p.tsv", lines(0, 50_000, "\t")), "people")
	o.Indexes, o.Offline = "drop", true
	plan, err := bulkload.Make(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range plan.Decisions {
		if d.Object.Kind == bulkload.PrimaryKey && (d.Drop || !strings.Contains(d.Why, "child") || !strings.Contains(d.Why, "by_id")) {
			t.Errorf("%+v", d)
		}
	}
	if r := b.load(o); r.Rows != 50_000 || len(r.Rebuilt) != 2 {
		t.Errorf("%+v", r)
	}
}

func TestRefusals(t *testing.T) {
	b := newBench(t)
	b.exec(people + `create view v as select 1 as a; alter table people enable row level security; create policy p on people for all using (true);
		drop role if exists bulk_guest; create role bulk_guest login; grant insert on people to bulk_guest; create table other (a int)`)
	path := b.file("p.tsv", lines(0, 10, "\t"))
	guest := b.options(path, "people")
	guest.Config = b.cfg.Copy()
	guest.Config.User = "bulk_guest"
	for name, c := range map[string]struct {
		o    bulkload.Options
		want string
		code int
	}{
		"view":       {b.options(path, "v"), "it is a view", fail.Failure},
		"absent":     {b.options(path, "nowhere"), "not there", fail.Failure},
		"bad name":   {b.options(path, "a..b"), "find table", fail.Usage},
		"rls":        {guest, "row-level security", fail.Failure},
		"columns":    {b.options(b.file("c.csv", "id,nonsense\n1,2\n"), "people"), `no column "nonsense"`, fail.Usage},
		"misfit":     {b.options(b.file("m.tsv", strings.Repeat("a\tb\tc\td\te\n", 50)), "people"), "50 of the first 50 records do not fit", fail.Failure},
		"folder":     {b.options(b.dir, "people"), "folder", fail.Usage},
		"no file":    {b.options(filepath.Join(b.dir, "none"), "people"), "no such file", fail.Failure},
		"fields":     {b.options(b.file("f.csv", "1,2,3\n4,5,6\n"), "other"), "3 fields, the table takes 1", fail.Usage},
		"cut gzip":   {b.options(b.file("g.tsv.gz", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b"), "other"), "ends in the middle", fail.Failure},
		"no partner": {bulkload.Options{Config: b.cfg, Path: path, Table: "x", Values: "IN (1)"}, "--partition-of", fail.Usage},
	} {
		_, err := bulkload.Run(t.Context(), c.o)
		if err == nil || !strings.Contains(err.Error()+fail.HintOf(err), c.want) || fail.Code(err) != c.code {
			t.Errorf("%s: %v (status %d)", name, err, fail.Code(err))
		}
	}
	b.want("select count(*) from people", "0")
}

func TestGeneratedAndIdentityColumns(t *testing.T) {
	b := newBench(t)
	b.exec(`create table g (id int generated always as identity primary key, a int, twice int generated always as (a * 2) stored)`)
	r := b.load(b.options(b.file("g.csv", "a\n5\n6\n"), "g"))
	if r.Rows != 2 {
		t.Errorf("%+v", r)
	}
	r = b.load(b.options(b.file("h.csv", "7\n8\n"), "g"))
	r2 := b.load(b.options(b.file("i.csv", "twice,id,a\n1,100,9\n"), "g"))
	if r.Rows != 2 || r2.Rows != 1 {
		t.Errorf("%+v %+v", r, r2)
	}
	b.want("select id, a, twice from g order by a", "1|5|10\n2|6|12\n3|7|14\n4|8|16\n100|9|18")
}

// Interrupted, it leaves a load that can be gone on with, and says how.
func TestInterruptedThenResumed(t *testing.T) {
	b := newBench(t)
	b.exec(people)
	before := b.text(definitions)
	o := b.options(b.file("p.tsv", lines(0, 40_000, "\t")), "people")
	o.Indexes = "drop"
	ctx, stop := context.WithCancelCause(t.Context())
	o.Progress = func(p bulkload.Progress) {
		if p.Phase == "copy" && p.Rows > 0 {
			stop(errors.New("told to stop"))
		}
	}
	_, err := bulkload.Run(ctx, o)
	if fail.Code(err) != fail.Interrupted || !strings.Contains(fail.HintOf(err), "load resume") {
		t.Fatalf("%v (%s)", err, fail.HintOf(err))
	}
	if b.text(definitions) == before {
		t.Error("nothing was dropped: the test shows nothing")
	}
	o.Progress = nil
	if _, err := bulkload.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "is open") || !strings.Contains(fail.HintOf(err), "load resume") {
		t.Errorf("a second load into the table: %v", err)
	}
	if err := os.WriteFile(o.Path, []byte(lines(1, 40_001, "\t")), 0o644); err != nil {
		t.Fatal(err)
	}
	ref := bulkload.Reference{Options: bulkload.Options{Config: b.cfg, Dir: o.Dir}}
	if _, err := bulkload.Resume(t.Context(), ref); err == nil || !strings.Contains(err.Error(), "not the one that the load began with") {
		t.Errorf("another input: %v", err)
	}
	if err := os.WriteFile(o.Path, []byte(lines(0, 40_000, "\t")), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := bulkload.Resume(t.Context(), ref)
	if err != nil || r.Rows != 40_000 {
		t.Fatalf("%+v %v", r, err)
	}
	b.want("select count(*), count(distinct id) from people", "40000|40000")
	if after := b.text(definitions); after != before {
		t.Errorf("definitions differ:\n%s\n---\n%s", before, after)
	}
}

// Where even the record of the load is gone, the file brings definitions back.
func TestRestoreFromTheFile(t *testing.T) {
	b := newBench(t)
	b.exec(people)
	before := b.text(definitions)
	o := b.options(b.file("p.tsv", lines(0, 40_000, "\t")), "people")
	o.Indexes = "drop"
	ctx, stop := context.WithCancel(t.Context())
	o.Progress = func(p bulkload.Progress) {
		if p.Phase == "copy" && p.Rows > 0 {
			stop()
		}
	}
	if _, err := bulkload.Run(ctx, o); fail.Code(err) != fail.Interrupted {
		t.Fatal(err)
	}
	b.exec("drop schema headroom cascade")
	ref := bulkload.Reference{Options: bulkload.Options{Config: b.cfg, Dir: o.Dir}}
	if _, err := bulkload.Restore(t.Context(), ref, true); err != nil {
		t.Fatal(err)
	}
	if after := b.text(definitions); after != before {
		t.Errorf("definitions differ:\n%s\n---\n%s", before, after)
	}
}

// The same chunk committed by a run that was thought dead does not come twice.
func TestChunkCommittedMeanwhile(t *testing.T) {
	b := newBench(t)
	b.exec("create table t (a int)")
	in := ""
	for i := range 1000 {
		in += fmt.Sprintln(i)
	}
	o := b.options(b.file("t.csv", in), "t")
	var once bool
	var late *pgx.Conn
	o.Progress = func(p bulkload.Progress) {
		if p.Phase == "copy" && !once { // the copy begins: the note of the first chunk is on its way, uncommitted
			once = true
			late = b.other("late", "insert into headroom.load_chunk select id, 0, 3890, 0, 1, 0, 0 from headroom.load")
			go func() {
				time.Sleep(300 * time.Millisecond) // whenever it commits, before or after ours is sent
				_, _ = late.Exec(context.Background(), "commit")
			}()
		}
	}
	b.load(o)
	b.want("select count(*) from t", "0")
}

// With wal_level minimal an empty table is loaded frozen; records that only
// the server can refuse send it back to chunks.
func TestFrozen(t *testing.T) {
	server(t)
	sv, err := pglocal.Start(t.Context(), pglocal.Options{Major: *major, Name: "minimal", NoFsync: true, Settings: map[string]string{"wal_level": "minimal", "max_wal_senders": "0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sv.Stop(); err != nil {
			t.Error(err)
		}
	})
	b := benchOn(t, sv)
	b.exec(people + "create extension if not exists pg_visibility")
	r := b.load(b.options(b.file("p.tsv", lines(0, 20_000, "\t")+"x\ty\n"), "people"))
	if r.Way != bulkload.Frozen || r.Rows != 20_000 || r.Rejected != 1 {
		t.Errorf("%+v", r)
	}
	// Servers from 16 on leave a page now and then, where two batches meet.
	// PostgreSQL 13 freezes the rows, and marks the pages at the next vacuum.
	if sv.Major == 13 {
		b.exec("vacuum people")
	}
	b.want("select count(*) filter (where all_frozen) * 2 > count(*) from pg_visibility_map('people')", "t")
	b.exec("truncate people; alter table people add check (client_id <> 77)")
	r = b.load(b.options(b.file("q.tsv", lines(0, 2_000, "\t")+"x\ty\n"), "people"))
	if r.Way != bulkload.Chunks || r.Rows != 1980 || r.Rejected != 21 {
		t.Errorf("%+v", r)
	}
	if n := strings.Count(b.rejects(), "\n"); n != 1+1+21 {
		t.Errorf("%d lines in the rejects:\n%s", n, b.rejects())
	}
}

// Rows of all connections queue for the one list of a GIN index that stands:
// more than two connections would wait for each other.
func TestFewConnectionsBesideGIN(t *testing.T) {
	b := newBench(t)
	b.exec(people)
	b.load(b.options(b.file("p.tsv", lines(0, 20_000, "\t")), "people"))
	o := b.options(b.file("q.tsv", lines(20_000, 150_000, "\t")), "people")
	connections := func() int {
		t.Helper()
		p, err := bulkload.Make(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return p.Connections
	}
	if n := connections(); n != 2 {
		t.Errorf("%d connections beside a GIN index", n)
	}
	o.Connections = 3
	if n := connections(); n != 3 {
		t.Errorf("%d connections where 3 are asked for", n)
	}
	o.Connections = 0
	b.exec("alter index people_names set (fastupdate = off)")
	want := min(4, runtime.NumCPU())
	if n := connections(); n != want {
		t.Errorf("%d connections without a list, not %d", n, want)
	}
}

// A load that ends before rows are sent leaves no connection behind.
func TestNoConnectionIsLeft(t *testing.T) {
	b := newBench(t)
	b.exec(people)
	o := b.options(b.file("p.tsv", lines(0, 5000, "\t")), "people")
	o.Indexes, o.LockTimeout = "drop", 100*time.Millisecond
	b.other("reader", "select * from people")
	if _, err := bulkload.Run(t.Context(), o); err == nil {
		t.Fatal("it did not wait for the lock")
	}
	const left = "select count(*) from pg_stat_activity where application_name = 'headroom' and datname = current_database()"
	for end := time.Now().Add(20 * time.Second); b.text(left) != "0" && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond) // the server needs a moment to notice
	}
	b.want(left, "0")
}
