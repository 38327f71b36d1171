package pglocal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// one runs a statement on the server and returns its one value as text.
func one(t *testing.T, s *Server, sql string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	conn, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var v string
	if err := conn.QueryRow(ctx, sql).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func keepDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hr-keep-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "store")
}

func TestKeepKeepsThroughStopAndDeath(t *testing.T) {
	dir := keepDir(t)
	o := Options{Settings: map[string]string{"work_mem": "5MB"}}
	s, err := Keep(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	one(t, s, "SELECT 'x' FROM (SELECT set_config('application_name', 'x', false)) AS _")
	if got := one(t, s, "SELECT current_setting('work_mem') || current_setting('fsync')"); got != "5MBon" {
		t.Errorf("settings: %s", got)
	}
	one(t, s, "WITH _ AS (SELECT lo_from_bytea(4711, 'kept')) SELECT 'x' FROM _")
	if _, err := Keep(t.Context(), dir, o); !errors.Is(err, ErrInUse) {
		t.Errorf("a second Keep: %v, want ErrInUse", err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	o.Settings["work_mem"] = "6MB"
	if s, err = Keep(t.Context(), dir, o); err != nil {
		t.Fatal(err)
	}
	if got := one(t, s, "SELECT convert_from(lo_get(4711), 'UTF8') || current_setting('work_mem')"); got != "kept6MB" {
		t.Errorf("after a clean stop: %s", got)
	}
	// The server dies; a restart by the holder recovers it.
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.proc.wait(t.Context(), 10*time.Second)
	if s.Running() {
		t.Error("Running says yes of a killed server")
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := one(t, s, "SELECT convert_from(lo_get(4711), 'UTF8')"); got != "kept" {
		t.Errorf("after a kill: %s", got)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "postmaster.pid")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Stop the pid file is there (%v)", err)
	}
}

func TestKeepRefusesAnUnknownVersion(t *testing.T) {
	dir := keepDir(t)
	s, err := Keep(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "PG_VERSION"), []byte("9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Keep(t.Context(), dir, Options{}); err == nil {
		t.Error("data of version 9 were opened")
	}
}
