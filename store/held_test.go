package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"headroom/fail"
	"headroom/metric"
	"headroom/testkit/need"
)

func TestSecondServerIsRefused(t *testing.T) {
	each(t, func(t *testing.T, major int) {
		dsn := base(t, major)
		c := newClock("2026-03-01 10:00:00")
		s := openStore(t, dsn, c, func(o *Options) { o.Holder = "watch on alpha" })
		_, err := Open(context.Background(), Options{DSN: dsn, Holder: "watch on beta"})
		if err == nil || !IsRefused(err) || !strings.Contains(err.Error(), fmt.Sprintf("watch on alpha (process %d, since 20", os.Getpid())) || fail.HintOf(err) == "" {
			t.Errorf("%v (%s)", err, fail.HintOf(err))
		}
		s.Close()
		s2 := openStore(t, dsn, c)
		if err := s.Write(context.Background(), []*metric.Batch{batch(row(series("x"), pt(c.now(), 1)))}); err == nil {
			t.Error("a store that was closed and taken by another still writes")
		}
		write(t, s2, batch(row(series("x"), pt(c.now(), 2))))
	})
}

// TestTakenInBetween: a process that lost its connection finds that another
// one took the store, and after that one has gone reads what it wrote.
func TestTakenInBetween(t *testing.T) {
	dsn := base(t, 0)
	c := newClock("2026-03-01 10:00:00")
	a := openStore(t, dsn, c, func(o *Options) { o.Holder = "a" })
	x := series("x")
	write(t, a, batch(row(x, pt(c.now(), 1))))
	pg := dial(t, dsn)
	do(t, pg, "select pg_terminate_backend($1)", int(a.writer.PgConn().PID()))
	var b *Store
	need.Eventually(t, 5*time.Second, "the store can be taken", func() bool {
		var err error
		b, err = Open(context.Background(), Options{DSN: dsn, Now: c.now, Holder: "b"})
		return err == nil
	})
	defer func() { b.Close() }()
	write(t, b, batch(row(x, pt(c.now().Add(time.Second), 2))))
	err := errors.New("none")
	for range 3 { // the first finds the connection broken
		err = a.Write(context.Background(), []*metric.Batch{batch(row(x, pt(c.now().Add(2*time.Second), 3)))})
	}
	if err == nil || IsPermanent(err) || !errors.Is(err, ErrHeld) {
		t.Fatalf("%v", err)
	}
	if err := a.Maintain(context.Background()); err == nil {
		t.Error("maintains another's store")
	}
	b.Close()
	write(t, a, batch(row(x, pt(c.now().Add(3*time.Second), 4))))
	f := query(t, a, Query{Match: named("x"), From: c.now(), To: c.now().Add(time.Minute), Step: time.Minute, Func: "sum"})
	if f.Lines[0].Values[0] != 7 {
		t.Errorf("%v, want 1 + 2 + 4", f.Lines[0].Values)
	}
}
