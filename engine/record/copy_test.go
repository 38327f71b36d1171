package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/pglocal"
	"headroom/testkit/need"
)

// copied lets a real server COPY the input into a table of two columns and
// returns the rows, or the server's words.
func copied(t *testing.T, conn *pgx.Conn, in []byte, with string) (rows []string, refused error) {
	t.Helper()
	ctx := context.Background()
	if _, err := conn.Exec(ctx, "truncate t restart identity"); err != nil {
		t.Fatal(err)
	}
	_, err := conn.PgConn().CopyFrom(ctx, bytes.NewReader(in), "copy t (a, b) from stdin with ("+with+")")
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return nil, err
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := conn.Query(ctx, "select a, b from t order by n")
	if err != nil {
		t.Fatal(err)
	}
	rows, err = pgx.CollectRows(got, func(r pgx.CollectableRow) (string, error) {
		var a, b *string
		err := r.Scan(&a, &b)
		return shown(a) + "|" + shown(b), err
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows, nil
}

func shown(s *string) string {
	if s == nil {
		return "∅"
	}
	return fmt.Sprintf("%q", *s)
}

// read is what our Reader makes of it: rows, or why COPY must refuse.
func read(in []byte, o Options) (rows []string, refused error) {
	r := NewReader(bytes.NewReader(in), o)
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return rows, refused
		}
		var bad *Bad
		if err != nil && !errors.As(err, &bad) {
			return nil, err
		}
		if err != nil {
			refused = err
			continue
		}
		if len(rec.Fields) != 2 {
			refused = fmt.Errorf("line %d has %d fields", rec.Line, len(rec.Fields))
			continue
		}
		var f [2]*string
		for i := range f {
			if rec.Fields[i] != nil {
				s := string(rec.Fields[i])
				f[i] = &s
			}
		}
		rows = append(rows, shown(f[0])+"|"+shown(f[1]))
	}
}

// The Reader reads what COPY reads, and calls bad what COPY refuses. The one
// difference: data behind the end marker, which COPY drops, is an error.
func TestReaderAgreesWithCOPY(t *testing.T) {
	need.Have(t, "pg")
	s, err := pglocal.Start(t.Context(), pglocal.Options{Name: "copy", NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	conn, err := pgx.Connect(t.Context(), s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "create temp table t (n serial, a text, b text)"); err != nil {
		t.Fatal(err)
	}
	agreed := map[bool]int{}
	for _, c := range []struct {
		o     Options
		with  string
		words []string
	}{
		{Options{}, "format csv", []string{"a", "bc", ",", "\"", "\"\"", "\"x,\ny\"", "\n", " ", "\\", "é", "\r"}},
		{Options{Escape: '\\', Null: "NULL", HasNull: true}, `format csv, escape '\', null 'NULL'`, []string{"a", "NULL", ",", "\"", "\\\"", "\\\\", "\\", "\"NULL\"", "\n"}},
		{Options{Format: Text}, "format text", []string{"a", "\t", "\\\t", "\\N", "\\n", "\\\n", "\\\\", "\\101", "\\x4", "\\x", "\n", "\\r", "\\", "g", "\\8"}},
		{Options{Format: Text, Delimiter: ';', Null: "-", HasNull: true}, "format text, delimiter ';', null '-'", []string{"a", ";", "-", "\\-", "\\;", "\n", "\\", "\\N"}},
	} {
		for seed := range uint64(400) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			ends := [...]string{"\n", "\n", "\r\n", "\r"}[seed%4]
			var b strings.Builder
			for range 1 + rnd.IntN(5) {
				for i := range 2 {
					for range rnd.IntN(3) {
						b.WriteString(strings.ReplaceAll(c.words[rnd.IntN(len(c.words))], "\n", []string{"x", ends}[rnd.IntN(60)/59]))
					}
					if i == 0 {
						b.WriteByte(c.o.full().Delimiter)
					}
				}
				b.WriteString(ends)
			}
			in := []byte(b.String())
			if bytes.Contains(in, []byte(`\.`)) {
				continue
			}
			want, refused := copied(t, conn, in, c.with)
			got, bad := read(in, c.o)
			agreed[refused == nil]++
			if (bad == nil) != (refused == nil) || refused == nil && fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s of %q:\nCOPY %v, %v\nours %v, %v", c.with, in, want, refused, got, bad)
			}
		}
	}
	if agreed[true] < 200 || agreed[false] < 50 {
		t.Errorf("taken and refused: %v; the inputs say too little", agreed)
	}
}

// What the rejects file holds is read back by COPY.
func TestRejectsAreReadByCOPY(t *testing.T) {
	need.Have(t, "pg")
	s, err := pglocal.Start(t.Context(), pglocal.Options{Name: "rejects", NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	conn, err := pgx.Connect(t.Context(), s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	path := t.TempDir() + "/rejects.tsv"
	raws := []string{"plain", "tab\tnl\ncr\rback\\slash", "nul\x00", "bad\xff\xfeutf8", "\x1b[31m", "", `\N`, strings.Repeat("é", 2000)}
	for range 2 { // the second run appends
		r, err := OpenRejects(path, -1)
		if err != nil {
			t.Fatal(err)
		}
		for i, raw := range raws {
			if err := r.Add(Bad{Line: int64(i + 1), Column: "a\tb", Reason: "why\nnot", Raw: []byte(raw)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Close(); err != nil || r.Count() != int64(len(raws)) {
			t.Fatal(err, r.Count())
		}
	}
	in := mustRead(t, path)
	if bytes.ContainsAny(in, "\x00\x1b\xff") {
		t.Errorf("the file holds control characters: %q", in)
	}
	if _, err := conn.Exec(t.Context(), "create temp table r (line bigint, col text, reason text, rec text)"); err != nil {
		t.Fatal(err)
	}
	with := "(header)"
	if s.Major < 15 { // text has no header there
		_, in, _ = bytes.Cut(in, []byte("\n"))
		with = "(format text)"
	}
	if _, err := conn.PgConn().CopyFrom(t.Context(), bytes.NewReader(in), "copy r from stdin with "+with); err != nil {
		t.Fatal(err)
	}
	var n int
	var rec, long string
	err = conn.QueryRow(t.Context(), "select count(*), max(rec) filter (where line = 2), max(rec) filter (where line = 8) from r where col = e'a\\tb' and reason = e'why\\nnot'").Scan(&n, &rec, &long)
	if err != nil || n != 2*len(raws) || rec != raws[1] || !strings.HasSuffix(long, "… (4000 bytes)") || len(long) > keptRaw+30 {
		t.Error(n, rec, long, err)
	}
}
