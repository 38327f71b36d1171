package upsert_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"headroom/engine/upsert"
	"headroom/testkit/need"
)

func TestRefusedRowsAreNamedAndTheRestGoesIn(t *testing.T) {
	c := connect(t)
	exec(t, c, "CREATE TABLE IF NOT EXISTS parent (id int PRIMARY KEY); INSERT INTO parent VALUES (1) ON CONFLICT DO NOTHING")
	name := table(t, c, `id int primary key, doc jsonb, n smallint not null constraint "small n" check (n < 100), p int constraint "to parent" references parent, u text unique`)
	bad := map[int][5]string{ // row: values, and what the reason must say
		3:  {`{"a":`, "1", "1", "", "invalid input syntax for type json"},
		17: {`{}`, "100", "1", "", `check, constraint "small n"`},
		18: {`{}`, "70000", "1", "", "out of range"},
		40: {`{}`, "", "1", "", `NOT NULL, column "n"`},
		41: {`{}`, "1", "2", "", `foreign key, constraint "to parent"`},
		60: {`{"s":"\u0000"}`, "1", "1", "", "\\u0000"},
		61: {`{}`, "1", "1", "row 5", "unique, constraint"},
		90: {`{}`, "1", "1", "a\x00b", "0x00"},
	}
	for _, form := range forms() {
		exec(t, c, "TRUNCATE "+name)
		refused := map[int64]error{}
		w := open(t, c, name, []string{"id"}, []string{"doc", "n", "p", "u"}, upsert.Options{Connections: 2, Batch: 25, Reject: func(r upsert.Row, err error) error {
			if string(r.Key[0]) != fmt.Sprintf("%03d", r.Line) || len(r.Values) != 4 {
				t.Errorf("%q is handed back for line %d", r.Key, r.Line)
			}
			refused[r.Line] = err
			return nil
		}})
		w.UseForm(form)
		for i := range 100 {
			v := [][]byte{[]byte("{}"), []byte("1"), []byte("1"), []byte(fmt.Sprint("row ", i))}
			if x, ok := bad[i]; ok {
				for j := range v {
					v[j] = []byte(x[j])
					if x[j] == "" {
						v[j] = nil
					}
				}
			}
			if err := w.Add(t.Context(), upsert.Row{Key: [][]byte{[]byte(fmt.Sprintf("%03d", i))}, Values: v, Line: int64(i)}); err != nil {
				t.Fatal(err)
			}
			if i == 50 { // so that "row 5" is in
				if err := w.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.Close(t.Context()); err != nil || w.Acked() != 100 {
			t.Fatal(err, w.Acked())
		}
		for i, x := range bad {
			var pe *pgconn.PgError
			if err := refused[int64(i)]; err == nil || !strings.Contains(err.Error(), x[4]) || !errors.As(err, &pe) {
				t.Errorf("%s: row %d: %v, want %q", form, i, err, x[4])
			}
		}
		if n := all(t, c, "SELECT count(*)::text FROM "+name); n[0] != "92" || len(refused) != 8 || w.Stats().Rejected != 8 {
			t.Errorf("%s: %s rows, %d refused", form, n[0], len(refused))
		}
	}
}

// A row that is good is kept when a later one with its key, in the same batch,
// is refused.
func TestRefusedRowDoesNotTakeAnEarlierOneAlong(t *testing.T) {
	c := connect(t)
	name := table(t, c, "id int primary key, doc jsonb")
	w := open(t, c, name, []string{"id"}, []string{"doc"}, upsert.Options{Connections: 1, Batch: 10, Reject: func(upsert.Row, error) error { return nil }})
	for _, doc := range []string{`{"v":1}`, `{"v":2}`, `{"v":`} {
		if err := w.Add(t.Context(), row("1", doc)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := all(t, c, "SELECT doc::text FROM "+name); len(got) != 1 || got[0] != `{"v": 2}` {
		t.Fatal(got)
	}
}

func TestWithoutRejectTheFirstRefusedRowEndsIt(t *testing.T) {
	c := connect(t)
	name := table(t, c, "id int primary key, doc jsonb")
	w := open(t, c, name, []string{"id"}, []string{"doc"}, upsert.Options{Connections: 1, Batch: 10})
	for i := range 10 {
		doc := "{}"
		if i == 7 {
			doc = "{"
		}
		if err := w.Add(t.Context(), row(fmt.Sprint(i), doc)); err != nil {
			t.Fatal(err)
		}
	}
	err := w.Flush(t.Context())
	if err == nil || !strings.Contains(err.Error(), `id="7"`) || w.Acked() != 0 {
		t.Fatal(err, w.Acked())
	}
	if again := w.Add(t.Context(), row("1", "{}")); again == nil || again.Error() != err.Error() {
		t.Fatal(again)
	}
	if cerr := w.Close(t.Context()); cerr == nil {
		t.Fatal("Close says nothing")
	}
	stopped := errors.New("enough")
	w = open(t, c, name, []string{"id"}, []string{"doc"}, upsert.Options{Connections: 1, Reject: func(upsert.Row, error) error { return stopped }})
	if err := w.Add(t.Context(), row("x", "{}")); !errors.Is(err, stopped) {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); !errors.Is(err, stopped) {
		t.Fatal(err)
	}
}

// What was acknowledged is a whole beginning, however the connections fare.
func TestAckedIsContiguous(t *testing.T) {
	c, locker := connect(t), connect(t)
	name := table(t, c, "id bigint primary key, doc jsonb")
	exec(t, c, "INSERT INTO "+name+" VALUES (1, '{}')")
	exec(t, locker, "BEGIN")
	exec(t, locker, "SELECT FROM "+name+" WHERE id = 1 FOR UPDATE")
	w := open(t, c, name, []string{"id"}, []string{"doc"}, upsert.Options{Connections: 4, Batch: 200, FlushEvery: time.Millisecond})
	for i := range 200 {
		r := row(fmt.Sprint(i*10), "{}")
		if i == 50 {
			r.Key[0] = []byte("1")
		}
		r.Seq = int64(1000 + 7*i) // such as offsets
		if err := w.Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	// All but what shares a connection with the locked row goes in; what is
	// acknowledged ends before it.
	need.Eventually(t, 20*time.Second, "rows behind the locked one", func() bool { return all(t, c, "SELECT count(*)::text FROM "+name)[0] > "100" })
	if a := w.Acked(); a >= 1000+7*50 || a != 0 && (a-1000)%7 != 0 {
		t.Errorf("acknowledged up to %d", a)
	}
	exec(t, locker, "ROLLBACK")
	if err := w.Close(t.Context()); err != nil || w.Acked() != 1000+7*199 {
		t.Fatal(err, w.Acked())
	}
	if err := w.Add(t.Context(), row("1", "{}")); err == nil {
		t.Error("a closed writer takes a row")
	}
}

// Rows that cannot be written wait within the memory limit; then Add waits.
func TestBackPressure(t *testing.T) {
	c, locker := connect(t), connect(t)
	name := table(t, c, "id bigint primary key, doc jsonb")
	w := open(t, c, name, []string{"id"}, []string{"doc"}, upsert.Options{Connections: 2, MaxMemory: 1 << 20})
	exec(t, locker, "BEGIN")
	exec(t, locker, "LOCK TABLE "+name)
	doc := `{"x":"` + strings.Repeat("y", 10_000) + `"}`
	var added atomic.Int64
	done := make(chan error, 1)
	const n = 500
	go func() {
		for i := range n {
			if err := w.Add(t.Context(), row(fmt.Sprint(i), doc)); err != nil {
				done <- err
				return
			}
			added.Add(1)
		}
		done <- w.Close(t.Context())
	}()
	need.Eventually(t, 20*time.Second, "Add waits", func() bool { return added.Load() >= 80 })
	if a := added.Load(); a > 105 {
		t.Errorf("%d rows of 10 kB wait in 1 MiB", a)
	}
	exec(t, locker, "ROLLBACK")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := all(t, c, "SELECT count(*)::text FROM "+name); got[0] != fmt.Sprint(n) {
		t.Fatal(got)
	}
	// One row over the limit goes in as well.
	w = open(t, c, name, []string{"id"}, []string{"doc"}, upsert.Options{Connections: 2, MaxMemory: 5000})
	for i := range 5 {
		if err := w.Add(t.Context(), row(fmt.Sprint(-i-1), doc)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
