package store

import (
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headroom/metric"
	"headroom/pglocal"
	"headroom/testkit/need"
)

func private(t *testing.T, o pglocal.Options) *pglocal.Server {
	t.Helper()
	need.Have(t, "pg")
	o.NoFsync = true
	srv, err := pglocal.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Stop() })
	return srv
}

// TestKilledAtRandom ends back ends and the whole server at random while
// points are written and packed. What Write answered for is there, once.
func TestKilledAtRandom(t *testing.T) {
	srv := private(t, pglocal.Options{})
	c := newClock("2026-03-01 00:00:00")
	s := openStore(t, srv.DSN(), c, func(o *Options) { o.Retention = must(ParseRetention("raw:120d,1m:120d")) })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	kills := 0
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			time.Sleep(time.Duration(rand.IntN(120)) * time.Millisecond)
			if kills++; kills%8 != 0 {
				killBackends(srv)
				continue
			}
			_ = syscall.Kill(srv.PID(), syscall.SIGKILL)
			for srv.Restart(context.Background()) != nil && ctx.Err() == nil {
				time.Sleep(20 * time.Millisecond)
			}
		}
	}()
	all := []*metric.Series{series(`a_total{k="1"}`), series(`b{k="2"}`), series(`c{k="3"}`)}
	m, open, answered := writeOn(t, s, c, all, 15*time.Second)
	cancel()
	<-done
	if err := srv.Restart(context.Background()); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, 20*time.Second, "what was not answered for is stored", func() bool { return s.Write(context.Background(), open) == nil })
	for _, b := range open {
		m.write(b)
	}
	c.add(26 * time.Hour)
	b := batch(row(all[0], pt(c.now(), 1)))
	write(t, s, b)
	m.write(b)
	need.Eventually(t, 20*time.Second, "packed and rolled up", func() bool { return s.Maintain(context.Background()) == nil })
	asked(t, s, m, at("2026-02-28 00:00:00"), c.now().Add(day))
	pg := dial(t, srv.DSN())
	agree(t, pg, m, must(s.Status(context.Background())).RolledTo)
	if got := one[int64](t, pg, "select count(*) from headroom.store_batch"); got < int64(answered) {
		t.Errorf("%d batches are noted, %d were answered for", got, answered)
	}
	t.Logf("%d kills, %d batches answered for while they went on, %d points", kills, answered, one[int64](t, pg, "select count(*) from headroom.point"))
	if kills < 30 || answered < 20 {
		t.Errorf("%d kills, %d batches: too little to say anything", kills, answered)
	}
}

// writeOn writes for a time, repeating what failed, and returns what should
// be there, what was never answered for, and how many batches were.
func writeOn(t *testing.T, s *Store, c *clock, all []*metric.Series, long time.Duration) (m model, open []*metric.Batch, answered int) {
	m = model{}
	for end := time.Now().Add(long); time.Now().Before(end); {
		for range 3 {
			b := batch()
			for _, x := range all {
				b.Rows = append(b.Rows, row(x, pt(c.now().Add(-time.Duration(rand.IntN(100))*time.Minute), float64(rand.IntN(1000)))))
			}
			open = append(open, b)
		}
		if err := s.Write(context.Background(), open); err == nil {
			for _, b := range open {
				m.write(b)
			}
			answered += len(open)
			open = nil
		} else if IsPermanent(err) {
			t.Fatal(err)
		}
		c.add(time.Duration(rand.IntN(20)) * time.Minute)
		_ = s.Maintain(context.Background())
		if len(open) > 50 {
			time.Sleep(20 * time.Millisecond)
		}
	}
	return m, open, answered
}

func killBackends(srv *pglocal.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	h := srv.Host()
	defer h.Close()
	_ = h.PGExec(ctx, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'headroom' and pid <> pg_backend_pid() and random() < 0.7")
}

func TestServerFull(t *testing.T) {
	need.Have(t, "pg", "root")
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=160m"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	for d := dir; strings.Count(d, "/") > 1; d = d[:strings.LastIndex(d, "/")] {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	srv := private(t, pglocal.Options{Parent: dir, Fresh: true, Settings: map[string]string{"max_wal_size": "32MB", "min_wal_size": "32MB"}})
	c := newClock("2026-03-01 10:00:00")
	s := openStore(t, srv.DSN(), c)
	x := series("x")
	write(t, s, batch(row(x, pt(c.now(), 1))))
	ballast := dir + "/ballast"
	fill(t, ballast)
	big := batch()
	for i := range 200_000 {
		big.Rows = append(big.Rows, row(x, pt(c.now().Add(time.Duration(i)*time.Millisecond), float64(i))))
	}
	err := s.Write(context.Background(), []*metric.Batch{big})
	if err == nil || IsPermanent(err) {
		t.Fatalf("on a full disk: %v", err)
	}
	t.Log(err)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, 30*time.Second, "goes on by itself when there is room", func() bool {
		if s.Write(context.Background(), []*metric.Batch{big}) == nil {
			return true
		}
		_ = srv.Restart(context.Background()) // a server whose log had no room stops
		return false
	})
	f := query(t, s, Query{Match: named("x"), From: c.now(), To: c.now().Add(time.Hour), Step: time.Hour, Func: "count"})
	if f.Lines[0].Values[0] != 200_000 {
		t.Errorf("%v", f.Lines[0].Values)
	}
}

func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size >= 4096; size /= 2 {
		for {
			if _, err := f.Write(make([]byte, size)); err != nil {
				break
			}
		}
	}
}

func TestNotThePrimary(t *testing.T) {
	srv := private(t, pglocal.Options{})
	standby, err := srv.Standby(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer standby.Stop()
	_, err = Open(context.Background(), Options{DSN: standby.DSN()})
	if err == nil || IsPermanent(err) || IsRefused(err) || !strings.Contains(err.Error(), "standby") {
		t.Errorf("%v", err)
	}
}

func TestNoConnectionLeft(t *testing.T) {
	srv := private(t, pglocal.Options{Settings: map[string]string{"max_connections": "10", "superuser_reserved_connections": "0", "max_wal_senders": "0"}})
	c := newClock("2026-03-01 10:00:00")
	s := openStore(t, srv.DSN(), c)
	x := series("x")
	write(t, s, batch(row(x, pt(c.now(), 1))))
	pg := dial(t, srv.DSN())
	do(t, pg, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'headroom'")
	need.Eventually(t, 5*time.Second, "they are gone", func() bool {
		return one[int](t, pg, "select count(*)::int from pg_stat_activity where backend_type = 'client backend'") == 1
	})
	for range 9 {
		dial(t, srv.DSN())
	}
	for range 3 {
		if err := s.Write(context.Background(), []*metric.Batch{batch(row(x, pt(c.now(), 2)))}); err == nil || IsPermanent(err) {
			t.Fatalf("%v", err)
		}
	}
	do(t, pg, "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'")
	need.Eventually(t, 10*time.Second, "goes on by itself", func() bool {
		return s.Write(context.Background(), []*metric.Batch{batch(row(x, pt(c.now(), 3)))}) == nil
	})
}

func TestTablesDropped(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		dsn := base(t, major)
		c := newClock("2026-03-01 10:00:00")
		s := openStore(t, dsn, c)
		x, pg := series("x"), dial(t, dsn)
		write(t, s, batch(row(x, pt(c.now(), 1))))
		maintain(t, s)
		for _, p := range []string{"store_batch_" + time.Now().UTC().Format(stamp), "store_raw_20260301"} {
			do(t, pg, "drop table headroom."+p)
		}
		write(t, s, batch(row(x, pt(c.now(), 2))))
		c.add(time.Hour + 2*time.Minute)
		maintain(t, s)
		if got := one[int64](t, pg, "select sum(n) from headroom.store_raw"); got != 1 {
			t.Errorf("%d points packed", got)
		}
		do(t, pg, "drop table headroom.store_hot_0, headroom.store_hot_1 cascade")
		write(t, s, batch(row(x, pt(c.now(), 3))))
		c.add(time.Hour)
		maintain(t, s)
		if got := one[int64](t, pg, "select sum(n) from headroom.store_raw"); got != 2 {
			t.Errorf("%d points packed", got)
		}
	})
}
