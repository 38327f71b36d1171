package upsert_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"headroom/engine/upsert"
	"headroom/pglocal"
)

var server *pglocal.Server

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		server, err = pglocal.Start(context.Background(), pglocal.Options{NoFsync: true, Settings: map[string]string{"max_connections": "100"}})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer server.Stop()
		return m.Run()
	}())
}

// forms are the ways that the server has.
func forms() []string {
	if server.Major >= 15 {
		return upsert.Forms
	}
	return slices.DeleteFunc(slices.Clone(upsert.Forms), func(f string) bool { return strings.Contains(f, "merge") })
}

func connect(t testing.TB) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(context.Background(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func exec(t testing.TB, c *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := c.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

var tables atomic.Int64

// table makes a table of a name of its own from columns.
func table(t testing.TB, c *pgx.Conn, columns string) string {
	t.Helper()
	name := fmt.Sprintf("t%d", tables.Add(1))
	exec(t, c, "CREATE TABLE "+name+" ("+columns+")")
	return name
}

func config(t testing.TB, dsn string) *pgx.ConnConfig {
	t.Helper()
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// open opens a writer for a table of the shared server; the caller closes it.
func open(t testing.TB, c *pgx.Conn, name string, key, values []string, o upsert.Options) *upsert.Writer {
	t.Helper()
	d, err := upsert.Describe(t.Context(), c, name, key, values)
	if err != nil {
		t.Fatal(err)
	}
	o.Config, o.Table = config(t, server.DSN()), d
	if o.Say == nil {
		o.Say = func(s string) { t.Log(s) }
	}
	w, err := upsert.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func row(key string, values ...string) upsert.Row {
	r := upsert.Row{Key: [][]byte{[]byte(key)}}
	for _, v := range values {
		r.Values = append(r.Values, []byte(v))
	}
	return r
}

// all is every row of a query as text.
func all(t testing.TB, c *pgx.Conn, sql string) []string {
	t.Helper()
	rows, err := c.Query(context.Background(), sql, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return out
}
