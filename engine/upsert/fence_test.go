package upsert_test

import (
	"testing"

	"headroom/engine/upsert"
)

// After a crash the server may give a lost transaction's number to another
// one: that this one was committed says nothing of the lost batch.
func TestNumberOfAnotherTransaction(t *testing.T) {
	conn := connect(t)
	for _, sql := range []string{"DROP TABLE IF EXISTS fenced", "CREATE TABLE fenced (id bigint PRIMARY KEY, n bigint)"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	table, err := upsert.Describe(t.Context(), conn, "fenced", []string{"id"}, []string{"n"})
	if err != nil {
		t.Fatal(err)
	}
	w, err := upsert.Open(t.Context(), upsert.Options{Config: conn.Config(), Table: table, Mode: upsert.Add, Adds: []string{"n"}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(t.Context())
	var xid string
	const note = "INSERT INTO headroom.upsert_batch VALUES ('fate', 0, 5) ON CONFLICT (writer, lane) DO UPDATE SET batch = 5 RETURNING pg_current_xact_id()::text"
	if err := conn.QueryRow(t.Context(), note).Scan(&xid); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		writer string
		batch  int64
		want   bool
	}{{"fate", 5, true}, {"fate", 6, false}, {"other", 1, false}} {
		if got, err := w.Fate(t.Context(), xid, c.writer, c.batch); err != nil || got != c.want {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}
