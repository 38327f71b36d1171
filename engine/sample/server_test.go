package sample_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"headroom/engine/sample"
	"headroom/pglocal"
	"headroom/testkit/need"
)

// PostgreSQL takes every good row in each form and refuses every bad one.
func TestServerTakesGoodRowsAndRefusesBadOnes(t *testing.T) {
	need.Have(t, "pg")
	sv, err := pglocal.Start(t.Context(), pglocal.Options{Name: t.Name(), NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer sv.Stop()
	ctx := t.Context()
	c, err := pgx.Connect(ctx, sv.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.WithoutCancel(ctx))
	for _, sql := range append([]string{sample.PeopleDDL("people"), "create table docs (doc jsonb)"}, sample.PeopleIndexes("people")...) {
		if _, err := c.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	copyIn := func(rows []byte, with string) (int64, error) {
		tag, err := c.PgConn().CopyFrom(ctx, bytes.NewReader(rows), "copy people from stdin"+with)
		return tag.RowsAffected(), err
	}
	g := sample.People(5)
	var text, csv []byte
	for i := range int64(5000) {
		text, csv = g.AppendTSV(text, i), g.AppendCSV(csv, i+5000)
	}
	for _, in := range []struct {
		rows []byte
		with string
	}{{text, ""}, {csv, " with (format csv)"}} {
		if n, err := copyIn(in.rows, in.with); err != nil || n != 5000 {
			t.Fatalf("%d rows, %v", n, err)
		}
	}
	var indexes int
	if err := c.QueryRow(ctx, "select count(*) from pg_index where indrelid = 'people'::regclass").Scan(&indexes); err != nil || indexes != 3 {
		t.Errorf("%d indexes, %v", indexes, err)
	}
	bad := g.WithBad(0.01)
	found := map[string]bool{}
	for i := int64(10_000); i < 13_000; i++ {
		why := bad.BadReason(i)
		if why == "" {
			continue
		}
		found[why] = true
		if _, err := copyIn(bad.AppendTSV(nil, i), ""); err == nil {
			t.Errorf("row %d is taken as text: %s", i, why)
		}
		if _, err := copyIn(bad.AppendCSV(nil, i), " with (format csv)"); err == nil {
			t.Errorf("row %d is taken as CSV: %s", i, why)
		}
		_, err := c.Exec(ctx, `insert into people select * from jsonb_populate_record(null::people, $1::text::jsonb)`, string(bytes.TrimSpace(bad.AppendJSON(nil, i))))
		if err == nil {
			t.Errorf("row %d is taken as JSON: %s: %s", i, why, bad.AppendJSON(nil, i))
		}
	}
	if len(found) < 7 {
		t.Errorf("only these were tried: %v", found)
	}
	for i := range int64(500) {
		if _, err := c.Exec(ctx, "insert into docs values ($1::text::jsonb)", string(sample.Document(nil, 5, i, 100+int(i)*10))); err != nil {
			t.Fatal(err)
		}
	}
}
