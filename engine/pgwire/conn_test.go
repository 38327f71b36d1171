package pgwire_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/engine/pgwire"
	"headroom/pglocal"
)

var server *pglocal.Server

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		server, err = pglocal.Start(context.Background(), pglocal.Options{NoFsync: true, TCP: true})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer server.Stop()
		return m.Run()
	}())
}

func connect(t *testing.T) *pgwire.Conn {
	t.Helper()
	c, err := pgwire.Connect(context.Background(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func sqlstate(err error) string {
	var e *pgwire.ServerError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// collect returns a handler that writes each row as "stmt:a|b", NULL as "-".
func collect(rows *[]string) *pgwire.Handler {
	return &pgwire.Handler{Row: func(stmt int, values [][]byte) error {
		var f []string
		for _, v := range values {
			if v == nil {
				f = append(f, "-")
				continue
			}
			f = append(f, string(v))
		}
		*rows = append(*rows, fmt.Sprintf("%d:%s", stmt, strings.Join(f, "|")))
		return nil
	}}
}

func TestSimpleQueryWithSeveralStatements(t *testing.T) {
	c := connect(t)
	var rows []string
	c.Query("select 1, null, ''; create temp table t(a int); insert into t select generate_series(1,7); select a from t where a > 5")
	rep, err := c.Do(collect(&rows))
	if err != nil || rep.Statements != 4 || rep.Rows != 1+7+2 || string(rep.Tag) != "SELECT 2" || c.TxStatus() != 'I' {
		t.Fatalf("%+v %v", rep, err)
	}
	if got := strings.Join(rows, " "); got != "0:1|-| 3:6 3:7" {
		t.Fatal(got)
	}
	if c.Parameter("application_name") != "headroom" || c.PID() == 0 {
		t.Fatal(c.Parameter("application_name"), c.PID())
	}
}

func TestPreparedAndPipelined(t *testing.T) {
	c := connect(t)
	s, err := c.Prepare("add", "select $1::int8 + $2::int4 as total, $3::text")
	if err != nil || fmt.Sprint(s) != "{[20 23 25] [{total 20} {text 25}]}" {
		t.Fatal(s, err)
	}
	var rows []string
	for i := range 3 {
		b := []pgwire.Param{{Value: []byte(fmt.Sprint(i))}, {Value: []byte{0, 0, 1, 0}, Binary: true}, {}}
		c.Bind("add", b, false)
		c.Execute()
	}
	c.Sync()
	rep, err := c.Do(collect(&rows))
	if err != nil || rep.Statements != 3 || rep.Rows != 3 {
		t.Fatal(rep, err)
	}
	if got := strings.Join(rows, " "); got != "0:256|- 1:257|- 2:258|-" {
		t.Fatal(got)
	}
	c.Bind("add", []pgwire.Param{{Value: []byte("1")}, {Value: []byte("2")}, {Value: []byte("x")}}, true)
	c.Execute()
	c.Sync()
	rows = nil
	if _, err := c.Do(collect(&rows)); err != nil || rows[0] != "0:\x00\x00\x00\x00\x00\x00\x00\x03|x" {
		t.Fatalf("%q %v", rows, err)
	}
}

func TestErrorsAreTypedAndResynchronised(t *testing.T) {
	c := connect(t)
	c.Query("select 1; select 1/0; select 2")
	rep, err := c.Do(nil)
	if sqlstate(err) != "22012" || rep.Statements != 1 || rep.Errors != 1 {
		t.Fatal(rep, err)
	}
	// The failed unit stops at its Sync; the unit behind it runs.
	for _, v := range []string{"1", "0", "4"} {
		c.Parse("", "select 8 / $1::int")
		c.Bind("", []pgwire.Param{{Value: []byte(v)}}, false)
		c.Execute()
		c.Sync()
	}
	var rows []string
	rep, err = c.Do(collect(&rows))
	if sqlstate(err) != "22012" || rep.Statements != 2 || rep.Errors != 1 || strings.Join(rows, " ") != "0:8 1:2" {
		t.Fatal(rep, err, rows)
	}
	var e *pgwire.ServerError
	c.Query("do $$ begin raise exception using message='m', detail='d', hint='h', errcode='ZZ001'; end $$")
	if _, err = c.Do(nil); !errors.As(err, &e) || e.Message != "m" || e.Detail != "d" || e.Hint != "h" || e.Code != "ZZ001" {
		t.Fatalf("%+v", e)
	}
	c.Query("begin; select 1/0")
	if _, err = c.Do(nil); err == nil || c.TxStatus() != 'E' {
		t.Fatal(err, c.TxStatus())
	}
	c.Query("rollback")
	if _, err = c.Do(nil); err != nil || c.TxStatus() != 'I' {
		t.Fatal(err)
	}
	stop := errors.New("enough")
	c.Query("select generate_series(1,10000); select 1")
	if rep, err = c.Do(&pgwire.Handler{Row: func(int, [][]byte) error { return stop }}); err != stop || rep.Rows != 10001 {
		t.Fatal(rep, err)
	}
}

func TestNoticesAndParametersAnyTime(t *testing.T) {
	c := connect(t)
	c.Query("do $$ begin raise notice 'n'; perform set_config('application_name', 'other', false); raise warning 'w'; end $$; select 1; notify x; listen x; notify x")
	if rep, err := c.Do(nil); err != nil || c.Parameter("application_name") != "other" {
		t.Fatal(rep, err)
	}
}

// Both sides fill their sockets: a client that only writes would wait for ever.
func TestBigRequestWithBigAnswers(t *testing.T) {
	c := connect(t)
	if _, err := c.Prepare("s", "select repeat('x', 2000), $1::text"); err != nil {
		t.Fatal(err)
	}
	arg := []byte(strings.Repeat("y", 2000))
	for range 3000 {
		c.Bind("s", []pgwire.Param{{Value: arg}}, false)
		c.Execute()
	}
	c.Sync()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	rep, err := c.Do(nil)
	if err != nil || rep.Rows != 3000 {
		t.Fatal(rep, err)
	}
	c.SetDeadline(time.Time{})
	c.Query("select repeat('z', 20000000)")
	if _, err := c.Do(&pgwire.Handler{Row: func(_ int, v [][]byte) error {
		if len(v[0]) != 20000000 {
			t.Error(len(v[0]))
		}
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
}

func TestCopyIsRefused(t *testing.T) {
	c := connect(t)
	c.Query("create temp table t(a int); copy t from stdin")
	if _, err := c.Do(nil); !errors.Is(err, pgwire.ErrLost) || !strings.Contains(err.Error(), "COPY") {
		t.Fatal(err)
	}
	c = connect(t)
	c.Query("copy (select generate_series(1,3)) to stdout; select 1")
	if rep, err := c.Do(nil); err != nil || rep.Rows != 4 {
		t.Fatal(rep, err)
	}
}

func TestCancelLeavesTheConnectionUsable(t *testing.T) {
	c := connect(t)
	ctx, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stop()
	start := time.Now()
	if _, err := c.Exec(ctx, "select pg_sleep(60)"); sqlstate(err) != "57014" || time.Since(start) > 2*time.Second {
		t.Fatal(err, time.Since(start))
	}
	if rep, err := c.Exec(context.Background(), "select 1"); err != nil || rep.Rows != 1 {
		t.Fatal(rep, err)
	}
}

// A server that does not answer, not even a cancel request, is left.
func TestFrozenServer(t *testing.T) {
	c := connect(t)
	freeze(t, c, syscall.SIGSTOP)
	defer freeze(t, c, syscall.SIGCONT)
	ctx, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stop()
	start := time.Now()
	if _, err := c.Exec(ctx, "select 1"); !errors.Is(err, pgwire.ErrLost) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 2*time.Second {
		t.Fatal(err, time.Since(start))
	}
	if _, err := c.Do(nil); !errors.Is(err, pgwire.ErrLost) {
		t.Fatal(err)
	}
}

func freeze(t *testing.T, c *pgwire.Conn, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(int(c.PID()), sig); err != nil {
		t.Fatal(err)
	}
}

func TestDeadline(t *testing.T) {
	c := connect(t)
	c.SetDeadline(time.Now().Add(30 * time.Millisecond))
	c.Query("select pg_sleep(60)")
	start := time.Now()
	if _, err := c.Do(nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 2*time.Second {
		t.Fatal(err)
	}
}

func TestServerGoesAway(t *testing.T) {
	a, b, witness := connect(t), connect(t), connect(t)
	a.Query(fmt.Sprintf("select pg_terminate_backend(%d)", b.PID()))
	if _, err := a.Do(nil); err != nil {
		t.Fatal(err)
	}
	b.Query("select pg_sleep(60)")
	if _, err := b.Do(nil); !errors.Is(err, pgwire.ErrLost) || sqlstate(err) != "57P01" {
		t.Fatal(err)
	}
	freeze(t, a, syscall.SIGKILL) // restarts all backends
	a.Query("select 1")
	if _, err := a.Do(nil); !errors.Is(err, pgwire.ErrLost) || !strings.Contains(err.Error(), "server closed the connection") {
		t.Fatal(err)
	}
	// The server still takes connections until it has seen the crash; when it
	// has, it ends all others.
	witness.Query("select pg_sleep(60)")
	if _, err := witness.Do(nil); !errors.Is(err, pgwire.ErrLost) {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := pgwire.Connect(context.Background(), server.DSN())
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func TestConnectErrors(t *testing.T) {
	for dsn, want := range map[string]string{
		"host=/nonexistent user=postgres":   "/nonexistent",
		server.DSN() + " user=nobody-there": "28000",
		server.DSN() + " port":              "invalid",
	} {
		if _, err := pgwire.Connect(context.Background(), dsn); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}

func TestRoundTripAllocatesNothing(t *testing.T) {
	c := connect(t)
	if _, err := c.Prepare("s", "select $1::int"); err != nil {
		t.Fatal(err)
	}
	p := []pgwire.Param{{Value: []byte("12345")}}
	sum := 0
	h := &pgwire.Handler{Row: func(_ int, v [][]byte) error { sum += len(v[0]); return nil }}
	n := testing.AllocsPerRun(200, func() {
		c.Bind("s", p, false)
		c.Execute()
		c.Sync()
		if _, err := c.Do(h); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 || sum != 5*201 {
		t.Fatal(n, sum)
	}
}
