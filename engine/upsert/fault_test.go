package upsert_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/engine/upsert"
	"headroom/pglocal"
	"headroom/testkit/need"
)

// durableServer is a server of this test alone, with fsync.
func durableServer(t *testing.T, o pglocal.Options) *pglocal.Server {
	t.Helper()
	o.Major = server.Major
	s, err := pglocal.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func run(t *testing.T, dsn string, sql ...string) {
	t.Helper()
	c, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, q := range sql {
		if _, err := c.Exec(context.Background(), q); err != nil {
			t.Fatal(q, err)
		}
	}
}

func openAt(t *testing.T, dsn, name string, values []string, o upsert.Options) *upsert.Writer {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	d, err := upsert.Describe(t.Context(), c, name, []string{"id"}, values)
	if err != nil {
		t.Fatal(err)
	}
	o.Config, o.Table = config(t, dsn), d
	o.Say = func(s string) { t.Log(s) }
	w, err := upsert.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

var kills = flag.Int("kills", 4, "how often the server is killed")

// The server is killed again and again under load. What was acknowledged just
// before each kill is there after it, and in the end nothing is missing, old
// or there twice.
func TestServerKilledUnderLoad(t *testing.T) {
	need.Have(t, "pg")
	s := durableServer(t, pglocal.Options{Settings: map[string]string{"max_connections": "50"}})
	run(t, s.DSN(), "CREATE TABLE r (id bigint PRIMARY KEY, doc jsonb)", "CREATE TABLE a (id bigint PRIMARY KEY, hits bigint)")
	const keys = 500
	w := openAt(t, s.DSN(), "r", []string{"doc"}, upsert.Options{Connections: 3, Batch: 200})
	adder := openAt(t, s.DSN(), "a", []string{"hits"}, upsert.Options{Mode: upsert.Add, Adds: []string{"hits"}, Connections: 2, Batch: 300})
	var stop atomic.Bool
	var all sync.WaitGroup
	var last [keys]int64 // Seq of the last row of each key
	var added [keys]int64
	all.Go(func() {
		for i := int64(1); !stop.Load(); i++ {
			k := rand.IntN(keys)
			atomic.StoreInt64(&last[k], i)
			r := row(fmt.Sprint(k), fmt.Sprintf(`{"v":%d}`, i))
			r.Seq = i
			if err := w.Add(context.Background(), r); err != nil {
				t.Error(err)
				return
			}
		}
	})
	all.Go(func() {
		for !stop.Load() {
			k := rand.IntN(keys)
			if err := adder.Add(context.Background(), row(fmt.Sprint(k), "1")); err != nil {
				t.Error(err)
				return
			}
			added[k]++
		}
	})
	for range *kills {
		before := w.Acked()
		need.Eventually(t, 60*time.Second, "rows are acknowledged", func() bool { return w.Acked() > before+2000 || t.Failed() })
		acked := w.Acked()
		if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		c, err := pgx.Connect(t.Context(), s.DSN())
		if err != nil {
			t.Fatal(err)
		}
		for k := range last {
			// A row up to acked that no later one replaced must be in.
			if seq := atomic.LoadInt64(&last[k]); seq > 0 && seq <= acked {
				var v int64
				if err := c.QueryRow(t.Context(), "SELECT (doc->>'v')::bigint FROM r WHERE id = $1", k).Scan(&v); err != nil || v < seq {
					t.Errorf("key %d: acknowledged %d, found %d, %v", k, seq, v, err)
				}
			}
		}
		c.Close(t.Context())
	}
	stop.Store(true)
	all.Wait()
	if err := errors.Join(w.Close(t.Context()), adder.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for k := range last {
		var v, hits int64
		err := c.QueryRow(t.Context(), "SELECT coalesce((SELECT (doc->>'v')::bigint FROM r WHERE id = $1), 0), coalesce((SELECT hits FROM a WHERE id = $1), 0)", k).Scan(&v, &hits)
		if err != nil || v != last[k] || hits != added[k] {
			t.Errorf("key %d: %d, want %d; added %d, want %d; %v", k, v, last[k], hits, added[k], err)
		}
	}
	t.Logf("%+v", w.Stats())
}

// An admin ends our sessions under load: all is written, nothing twice.
func TestSessionsEnded(t *testing.T) {
	c := connect(t)
	name := table(t, c, "id bigint primary key, hits bigint")
	w := open(t, c, name, []string{"id"}, []string{"hits"}, upsert.Options{Mode: upsert.Add, Adds: []string{"hits"}, Connections: 3, Batch: 50})
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			_, err := c.Exec(context.Background(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headroom' AND query LIKE '%'||$1||'%' AND random() < 0.5", name)
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(20 * time.Millisecond) // so often
		}
	}()
	const n = 30_000
	for i := range n {
		if err := w.Add(t.Context(), row(fmt.Sprint(i%97), "1")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop.Store(true)
	<-done
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := all(t, c, "SELECT sum(hits)::text FROM "+name); got[0] != fmt.Sprint(n) {
		t.Fatalf("%s, want %d; %+v", got[0], n, w.Stats())
	}
}

// Several writers, as in several processes, on the same keys at once.
func TestWritersDoNotDeadlock(t *testing.T) {
	c := connect(t)
	name := table(t, c, "id bigint primary key, hits bigint")
	var all_ sync.WaitGroup
	const writers, n = 4, 20_000
	for i := range writers {
		w := open(t, c, name, []string{"id"}, []string{"hits"}, upsert.Options{Mode: upsert.Add, Adds: []string{"hits"}, Connections: 2, Batch: 500})
		all_.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 0))
			for range n {
				if err := w.Add(context.Background(), row(fmt.Sprint(rng.IntN(1000)), "1")); err != nil {
					t.Error(err)
				}
			}
			if err := w.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	all_.Wait()
	if got := all(t, c, "SELECT sum(hits)::text FROM "+name); got[0] != fmt.Sprint(writers*n) {
		t.Fatal(got)
	}
	if got := all(t, c, "SELECT deadlocks::text FROM pg_stat_database WHERE datname = current_database()"); got[0] != "0" {
		t.Errorf("%s deadlocks", got[0])
	}
}

// A lock that somebody holds is waited for, in attempts, and then given up.
func TestLockedTable(t *testing.T) {
	c := connect(t)
	name := table(t, c, "id bigint primary key, doc jsonb")
	o := upsert.Options{Connections: 1, LockTimeout: 50 * time.Millisecond, RetryFor: time.Minute}
	w := open(t, c, name, []string{"id"}, []string{"doc"}, o)
	exec(t, c, "BEGIN")
	exec(t, c, "LOCK TABLE "+name)
	if err := w.Add(t.Context(), row("1", "{}")); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, 10*time.Second, "a retry", func() bool { return w.Stats().Retries > 0 })
	exec(t, c, "COMMIT")
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.RetryFor = 200 * time.Millisecond
	w = open(t, c, name, []string{"id"}, []string{"doc"}, o)
	exec(t, c, "BEGIN")
	exec(t, c, "LOCK TABLE "+name)
	defer exec(t, c, "ROLLBACK")
	if err := w.Add(t.Context(), row("2", "{}")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "gave up") || !strings.Contains(err.Error(), "lock timeout") || w.Acked() != 0 {
		t.Fatal(err, w.Acked())
	}
}

// The disk of the server is full for a while.
func TestDiskFull(t *testing.T) {
	need.Have(t, "pg", "root")
	s := durableServer(t, pglocal.Options{})
	dir, err := os.MkdirTemp("", "hr-full-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m,mode=0777"); err != nil {
		need.Without(t, "root", "a small file system cannot be mounted: "+err.Error())
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	if err := os.Mkdir(dir+"/space", 0o700); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(s.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	own := st.Sys().(*syscall.Stat_t)
	if err := os.Chown(dir+"/space", int(own.Uid), int(own.Gid)); err != nil {
		t.Fatal(err)
	}
	run(t, s.DSN(), "CREATE TABLESPACE small LOCATION '"+dir+"/space'", "CREATE TABLE r (id bigint PRIMARY KEY, doc jsonb) TABLESPACE small")
	filler, err := os.Create(dir + "/filler")
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	if _, err := filler.Write(make([]byte, 7<<20)); err != nil {
		t.Fatal(err)
	}
	w := openAt(t, s.DSN(), "r", []string{"doc"}, upsert.Options{Connections: 2, Batch: 100})
	added := make(chan error, 1)
	const n = 40_000
	go func() {
		for i := range n {
			if err := w.Add(context.Background(), row(fmt.Sprint(i), `{"some":"thing"}`)); err != nil {
				added <- err
				return
			}
		}
		added <- w.Flush(context.Background())
	}()
	need.Eventually(t, 30*time.Second, "the disk is full", func() bool { return w.Stats().Retries > 2 })
	acked := w.Acked()
	if err := os.Remove(dir + "/filler"); err != nil {
		t.Fatal(err)
	}
	filler.Close()
	if err := <-added; err != nil || w.Acked() != n || acked >= n {
		t.Fatal(err, acked, w.Acked())
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
