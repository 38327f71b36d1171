package store

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"headroom/metric"
)

// cutter passes connections on to a server and, when told to, cuts them as
// soon as a COMMIT has gone to the server: its answer is lost.
type cutter struct {
	net.Listener
	armed atomic.Bool
	cut   atomic.Int64
}

func newCutter(t *testing.T, socket string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x := &cutter{Listener: l}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", socket)
			if err != nil {
				_ = client.Close()
				continue
			}
			var lost atomic.Bool
			go func() {
				defer client.Close()
				buf := make([]byte, 1<<16)
				for {
					n, err := server.Read(buf)
					if err != nil || lost.Load() {
						return
					}
					_, _ = client.Write(buf[:n])
				}
			}()
			go x.up(client, server, &lost)
		}
	}()
	return x
}

func (x *cutter) up(client, server net.Conn, lost *atomic.Bool) {
	defer server.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if bytes.Contains(buf[:n], []byte("commit\x00")) && x.armed.CompareAndSwap(true, false) {
			lost.Store(true)
			x.cut.Add(1)
			_, _ = server.Write(buf[:n])
			time.Sleep(100 * time.Millisecond) // the server does it
			_ = client.Close()
			return
		}
		if _, err := io.Copy(server, bytes.NewReader(buf[:n])); err != nil {
			return
		}
	}
}

// TestAnswerToCommitIsLost: a Write, and a packing, that count although nobody
// heard so, count once, and their points are seen.
func TestAnswerToCommitIsLost(t *testing.T) {
	dsn := base(t, 0)
	conn := server(t, 0).Conn
	x := newCutter(t, filepath.Join(conn.SocketDir, fmt.Sprintf(".s.PGSQL.%d", conn.Port)))
	port := x.Addr().(*net.TCPAddr).Port
	db := dsn[strings.LastIndex(dsn, "dbname=")+len("dbname="):]
	c := newClock("2026-03-01 10:00:00")
	s := openStore(t, fmt.Sprintf("host=127.0.0.1 port=%d user=%s dbname=%s sslmode=disable", port, conn.User, db), c)
	ser, pg := series("x"), dial(t, dsn)
	seen := func(want float64) {
		t.Helper()
		f := query(t, s, Query{Match: named("x"), From: at("2026-03-01 00:00:00"), To: at("2026-03-02 00:00:00"), Step: day, Func: "count"})
		if len(f.Lines) != 1 || f.Lines[0].Values[0] != want {
			t.Errorf("%v, want %v points", f.Lines, want)
		}
		if got := one[int64](t, pg, "select count(*) from headroom.point"); float64(got) != want {
			t.Errorf("%d points by SQL, want %v", got, want)
		}
	}
	write(t, s, batch(row(ser, pt(c.now(), 1))))
	b := batch(row(ser, pt(c.now().Add(time.Minute), 2)))
	x.armed.Store(true)
	if err := s.Write(context.Background(), []*metric.Batch{b}); err == nil || IsPermanent(err) {
		t.Fatalf("%v", err)
	}
	write(t, s, b)
	seen(2)
	c.add(2 * time.Hour)
	maintain(t, s) // partitions
	write(t, s, batch(row(ser, pt(c.now(), 3))))
	c.add(time.Hour)
	if err := s.ahead(context.Background(), c.now()); err != nil {
		t.Fatal(err)
	}
	x.armed.Store(true)
	if err := s.Maintain(context.Background()); err == nil {
		t.Fatal("the packing's answer was not lost")
	}
	write(t, s, batch(row(ser, pt(c.now(), 4))))
	seen(4)
	maintain(t, s)
	c.add(62 * time.Minute)
	maintain(t, s)
	seen(4)
	if x.cut.Load() != 2 {
		t.Errorf("%d answers were lost, want 2", x.cut.Load())
	}
	if n := one[int64](t, pg, "select sum(n) from headroom.store_raw"); n != 4 {
		t.Errorf("%d points packed, want 4", n)
	}
}
