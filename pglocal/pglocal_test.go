package pglocal

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// run starts a server that the test stops.
func run(t *testing.T, o Options) *Server {
	t.Helper()
	if o.Name == "" {
		o.Name = t.Name()
	}
	o.Progress = func(s string) { t.Log(s) }
	s, err := Start(t.Context(), o)
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

// ask runs one statement and returns its one value as text.
func ask(t *testing.T, dsn, sql string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	var v string
	rows, err := c.Query(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		if err := rows.Scan(&v); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func TestFreshKeepsNoTemplate(t *testing.T) {
	t.Parallel()
	parent := folder(t)
	s := run(t, Options{Parent: parent, Fresh: true})
	if got := ask(t, s.DSN(), "select pg_encoding_to_char(encoding) || datcollate from pg_database where datname = 'postgres'"); got != "UTF8C" {
		t.Error(got)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(parent, "[tp]*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

func TestStartStop(t *testing.T) {
	begin := time.Now()
	s := run(t, Options{Settings: map[string]string{"shared_buffers": "16MB", "application_name": `it's a \ back`}})
	t.Logf("ready after %v", time.Since(begin))
	if got := ask(t, s.DSN(), "show server_version"); len(got) < len(s.Version) || got[:len(s.Version)] != s.Version {
		t.Errorf("server_version = %q, want %q first", got, s.Version)
	}
	if got := ask(t, s.DSN(), "show shared_buffers"); got != "16MB" {
		t.Errorf("shared_buffers = %q", got)
	}
	if got := ask(t, s.DSN(), "show fsync"); got != "on" {
		t.Errorf("fsync = %q", got)
	}
}
