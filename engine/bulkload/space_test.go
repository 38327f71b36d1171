package bulkload_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"headroom/engine/bulkload"
	"headroom/fail"
	"headroom/testkit/need"
)

// small mounts a file system of a given size for the server, and makes a
// tablespace on it. The function it returns makes the file system larger.
func (b *bench) small(name string, mib int) (grow func(mib int)) {
	b.t.Helper()
	need.Have(b.t, "root")
	var data unix.Stat_t
	if err := unix.Stat(b.text("show data_directory"), &data); err != nil {
		b.t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "headroom-space-") // where the server's account may go
	if err != nil {
		b.t.Fatal(err)
	}
	mount := func(mib int, flags uintptr) {
		b.t.Helper()
		if err := unix.Mount("tmpfs", dir, "tmpfs", flags, fmt.Sprintf("size=%dm,mode=755", mib)); err != nil {
			b.t.Fatal(err)
		}
	}
	mount(mib, 0)
	b.t.Cleanup(func() {
		if err := errors.Join(unix.Unmount(dir, unix.MNT_DETACH), os.Remove(dir)); err != nil {
			b.t.Error(err)
		}
	})
	sub := filepath.Join(dir, "space")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(sub, 0o700), os.Chown(sub, int(data.Uid), -1)); err != nil {
		b.t.Fatal(err)
	}
	b.exec(fmt.Sprintf("create tablespace %s location '%s'", name, sub))
	b.t.Cleanup(func() { b.drop(name) })
	return func(mib int) { mount(mib, unix.MS_REMOUNT) }
}

// drop removes the bench's database and a tablespace, so that the server can
// go on without the file system.
func (b *bench) drop(tablespace string) {
	name := b.cfg.Database
	_ = b.conn.Close(context.Background())
	admin, err := pgx.Connect(context.Background(), server(b.t).DSN())
	if err != nil {
		b.t.Error(err)
		return
	}
	defer admin.Close(context.Background())
	for _, sql := range []string{"drop database " + name + " with (force)", "drop tablespace " + tablespace} {
		if _, err := admin.Exec(context.Background(), sql); err != nil {
			b.t.Errorf("%s: %v", sql, err)
		}
	}
}

// When the server's disk is full, the load stops and stays open: what is in
// stays, and both ways on from there work.
func TestDiskFull(t *testing.T) {
	for _, way := range []string{"resume", "restore"} {
		t.Run(way, func(t *testing.T) {
			b := newBench(t)
			space := "full_" + way
			grow := b.small(space, 16)
			b.exec("set default_tablespace = " + space + ";" + people)
			before := b.text(definitions)
			o := b.options(b.file("p.tsv", lines(0, 200_000, "\t")), "people")
			o.Indexes = "drop"
			_, err := bulkload.Run(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), "53100") {
				t.Fatalf("a full disk: %v", err)
			}
			if hint := fail.HintOf(err); !strings.Contains(hint, "make room") || !strings.Contains(hint, "load resume") || !strings.Contains(hint, "load restore") {
				t.Errorf("hint %q", hint)
			}
			b.want("select count(*) > 0 and count(*) < 200000 and count(*) = count(distinct id) from people", "t")
			b.want("select state from headroom.load", "loading")
			ref := bulkload.Reference{Options: bulkload.Options{Config: b.cfg, Dir: o.Dir}}
			want := "0"
			if way == "resume" {
				if _, err := bulkload.Resume(t.Context(), ref); err == nil || !strings.Contains(err.Error(), "53100") {
					t.Errorf("resumed while the disk is full: %v", err)
				}
				grow(400)
				want = "200000"
				_, err = bulkload.Resume(t.Context(), ref)
			} else { // an emptied table and its indexes have a page or two, for which there must be room
				if _, err = bulkload.Restore(t.Context(), ref, false); err != nil && (!strings.Contains(err.Error(), "53100") || !strings.Contains(fail.HintOf(err), "load restore")) {
					t.Errorf("restored while the disk is full: %v", err)
				}
				if err != nil {
					grow(17)
					_, err = bulkload.Restore(t.Context(), ref, false)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			b.want("select count(distinct id) from people", want)
			b.want("select count(*) from people", want)
			if after := b.text(definitions); after != before {
				t.Errorf("definitions differ:\n%s\n---\n%s", before, after)
			}
		})
	}
}

// Table and indexes in tablespaces come back where they were.
func TestTablespaces(t *testing.T) {
	b := newBench(t)
	b.small("roomy", 200)
	b.exec(`create table people (id varchar(36) primary key using index tablespace roomy, client_id int not null, first text, last text, born date);
		create index people_client on people (client_id) tablespace roomy;
		create unique index people_both on people (client_id, id);`)
	before := b.text(definitions)
	o := b.options(b.file("p.tsv", lines(0, 20_000, "\t")), "people")
	o.Indexes = "drop"
	if r := b.load(o); r.Rows != 20_000 || len(r.Rebuilt) != 3 {
		t.Errorf("%+v", r)
	}
	if after := b.text(definitions); after != before {
		t.Errorf("definitions differ:\n%s\n---\n%s", before, after)
	}
	b.want("select string_agg(relname, ' ' order by relname) from pg_class where reltablespace = (select oid from pg_tablespace where spcname = 'roomy')", "people_client people_pkey")
}

// Rows find their hash partitions, also with bad ones between them.
func TestHashPartitions(t *testing.T) {
	b := newBench(t)
	b.exec("create table h (id bigint primary key, v text not null) partition by hash (id)")
	for i := range 4 {
		b.exec(fmt.Sprintf("create table h_%d partition of h for values with (modulus 4, remainder %d)", i, i))
	}
	var in strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&in, "%d\trow %d\n", i, i)
	}
	in.WriteString("77\ttwice\nx\tno number\n")
	before := b.text(definitions)
	r := b.load(b.options(b.file("h.tsv", in.String()), "h"))
	if r.Rows != 30_000 || r.Rejected != 2 {
		t.Errorf("%+v", r)
	}
	b.want("select count(*), count(distinct id), count(distinct tableoid), min(v) filter (where id = 77) from h", "30000|30000|4|row 77")
	if after := b.text(definitions); after != before {
		t.Errorf("definitions differ:\n%s\n---\n%s", before, after)
	}
}

// A database of another encoding takes what it has characters for.
func TestLatin1Database(t *testing.T) {
	b := newBench(t)
	name := b.cfg.Database + "_l1"
	b.exec("create database " + name + " encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0")
	b.cfg = b.cfg.Copy()
	b.cfg.Database = name
	_ = b.conn.Close(t.Context())
	b.connect()
	b.exec("create table l (id int primary key, v text)")
	o := b.options(b.file("l.tsv", "1\tcafé\n2\tten €\n3\tnaïve\n4\t日本\n"), "l")
	if r := b.load(o); r.Rows != 2 || r.Rejected != 2 {
		t.Errorf("%+v", r)
	}
	b.want("select string_agg(id || ' ' || encode(convert_to(v, 'LATIN1'), 'hex'), ', ' order by id) from l", "1 636166e9, 3 6e61ef7665")
	if got := b.rejects(); !strings.Contains(got, "\n2\t") || !strings.Contains(got, "\n4\t") {
		t.Errorf("rejects: %s", got)
	}
	o = b.options(b.file("m.tsv", "5\tcaf\xe9\n"), "l")
	o.Encoding = "LATIN1"
	if r := b.load(o); r.Rows != 1 || r.Rejected != 0 {
		t.Errorf("%+v", r)
	}
	b.want("select encode(convert_to(v, 'LATIN1'), 'hex') from l where id = 5", "636166e9")
}

// Where many rows are dead, VACUUM comes first and the new rows take their room.
func TestVacuumBefore(t *testing.T) {
	b := newBench(t)
	b.exec("create table d (id int primary key, v text) with (autovacuum_enabled = off)")
	b.exec("insert into d select i, repeat('x', 100) from generate_series(1, 60000) i; delete from d where id > 20000")
	counted := func(dead string) { // up to PostgreSQL 14 a process of its own collects what sessions send
		need.Eventually(t, 30*time.Second, "the server's statistics tell of "+dead+" dead rows", func() bool {
			return b.text("select n_dead_tup from pg_stat_user_tables where relname = 'd'") == dead
		})
	}
	counted("40000")
	var in strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&in, "%d\t%s\n", 100_000+i, strings.Repeat("y", 100))
	}
	size := b.text("select pg_relation_size('d')")
	o := b.options(b.file("d.tsv", in.String()), "d")
	plan, err := bulkload.Make(t.Context(), o)
	if err != nil || plan.Before != "vacuum" {
		t.Fatalf("%v: before the load comes %q", err, plan.Before)
	}
	r := b.load(o)
	if r.Rows != 30_000 || r.Phases[0].Name != "vacuum" || len(r.Notes) > 0 {
		t.Errorf("%+v", r)
	}
	b.want("select pg_relation_size('d') <= "+size, "t")
	counted("0")
	if plan, err = bulkload.Make(t.Context(), o); err != nil || plan.Before != "" {
		t.Errorf("%v: without dead rows %q comes before the load", err, plan.Before)
	}
}
