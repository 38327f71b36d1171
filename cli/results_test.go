package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestResultsAreKeptAndBounded(t *testing.T) {
	state := t.TempDir()
	t.Setenv("HEADROOM_STATE", state)
	dir := filepath.Join(state, "state", "results")
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	save := func(w io.Writer) error { _, err := io.WriteString(w, "{}"); return err }
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "00000000-mine.json")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range resultsKept + 3 {
		if err := tryKeep(`postgres.setting "x"/../=1 on pg.upsert`, begin.Add(time.Duration(i)*time.Second), save); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != resultsKept+1 {
		t.Fatalf("%d files, %v; want %d and the foreign one", len(files), err, resultsKept)
	}
	if want := "20260101-000003-postgres-setting-x-1-on-pg-upsert.json"; files[1].Name() != want {
		t.Errorf("the oldest kept is %s, want %s", files[1].Name(), want)
	}
	failing := func(io.Writer) error { return errors.New("no") }
	if err := tryKeep("x", begin, failing); err == nil {
		t.Error("a result that cannot be written was kept")
	}
}
