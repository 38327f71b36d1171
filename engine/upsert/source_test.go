package upsert_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/engine/upsert"
	"headroom/fail"
	"headroom/testkit/need"
)

// Sources that were begun rely on where a key is dealt to.
func TestHashStays(t *testing.T) {
	for key, want := range map[string]uint64{"": 0xefd01f60ba992926, "a": 0x82a2a958a9bece5b, "\x80\x00\x00\x00\x00\x00\x00\x07": 0xe23197ef8b62afe8} {
		if got := upsert.HashKey([]byte(key)); got != want {
			t.Errorf("%q: %#x, want %#x", key, got, want)
		}
	}
	for _, width := range []uint64{2, 3, 4, 8, 64} {
		n := make([]int, width)
		for i := range 64_000 {
			key := []byte{0x80, 0, 0, 0, 0, byte(i >> 13), byte(i >> 5), byte(i << 3)} // numbers that are multiples of 8
			n[upsert.HashKey(key)%width]++
		}
		for lane, got := range n {
			if want := 64_000 / int(width); got < want*8/10 || got > want*12/10 {
				t.Errorf("lane %d of %d: %d keys of 64,000", lane, width, got)
			}
		}
	}
}

// stream is rows of one source, some of which the table refuses, and what
// became of them.
type stream struct {
	rows    int
	key     func(i int) string
	mu      sync.Mutex
	refused map[int64]int
}

func (s *stream) bad(i int) bool { return i%301 == 0 }

// add hands in the rows behind from, up to n of them. It returns the writer's
// error, if any.
func (s *stream) add(w *upsert.Writer, from int64, n int) error {
	for i := int(from / 10); i < s.rows && n > 0; i, n = i+1, n-1 {
		key, note := s.key(i), "good"
		if s.bad(i) { // of a key of its own: else a later row of its batch could mend it
			key, note = fmt.Sprint(1_000_000+i), "bad"
		}
		r := row(key, "1", note)
		r.Seq = int64(i+1) * 10
		if err := w.Add(context.Background(), r); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) reject(r upsert.Row, _ error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[r.Seq]++
	return nil
}

// Writers of one source follow each other, each of which is cut off in the
// middle of its work or still at it when the next one takes over, with another
// number of connections. Each row is added once, whatever is refused around it.
func TestSourceIsAddedOnce(t *testing.T) {
	c := connect(t)
	exec(t, c, "CREATE COLLATION IF NOT EXISTS anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
	for name, key := range map[string]string{"plain": "bigint", "vague": "text COLLATE anycase"} {
		t.Run(name, func(t *testing.T) {
			c := connect(t)
			table := table(t, c, "id "+key+" primary key, hits bigint, note text check (note <> 'bad')")
			s := &stream{rows: 12_000, refused: map[int64]int{}, key: func(i int) string { return fmt.Sprint(i * 7919 % 997) }}
			if name == "vague" {
				s.key = func(i int) string { return fmt.Sprintf("%c%d", "kK"[i%2], i*7919%97) }
			}
			known := s.follow(t, table)
			good := 0
			for i := range s.rows {
				if !s.bad(i) {
					good++
				} else if s.refused[int64(i+1)*10] == 0 {
					t.Errorf("row %d was not refused", i)
				}
			}
			if got := all(t, c, "SELECT sum(hits)::text FROM "+table); got[0] != fmt.Sprint(good) {
				t.Errorf("%s were added, not %d", got[0], good)
			}
			if known == 0 {
				t.Error("no writer found anything in that was not acknowledged: nothing was tested")
			}
			t.Logf("%d rows were passed over", known)
		})
	}
}

// follow has writers follow each other until all is in; it counts the rows
// that one found in.
func (s *stream) follow(t *testing.T, table string) (known int64) {
	c := connect(t)
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	cut, stop := context.WithCancel(t.Context())
	stop()
	const writers = 25
	var old *upsert.Writer
	var from int64
	for n := range writers {
		w := open(t, c, table, []string{"id"}, []string{"hits", "note"}, upsert.Options{Mode: upsert.Add, Adds: []string{"hits"}, Source: table, Resumed: n > 0,
			Connections: rnd.IntN(6), Batch: 1 + rnd.IntN(400), Reject: s.reject})
		if old != nil {
			if err := old.Close(t.Context()); err != nil && !strings.Contains(err.Error(), "taken over") {
				t.Fatal(err)
			}
			old = nil
		}
		if err := s.add(w, from, 1+rnd.IntN(3000)); err != nil {
			t.Fatal(err)
		}
		if rnd.IntN(2) == 0 {
			need.Eventually(t, 20*time.Second, "a batch is in", func() bool { st := w.Stats(); return st.Batches > 0 || st.Known == st.Rows })
		}
		from = max(from, w.Acked())
		known += w.Stats().Known
		if n == writers-1 || rnd.IntN(2) == 0 {
			_ = w.Close(cut) // its connections are cut, in the middle of a batch or not
		} else {
			old = w
		}
	}
	w := open(t, c, table, []string{"id"}, []string{"hits", "note"}, upsert.Options{Mode: upsert.Add, Adds: []string{"hits"}, Source: table, Resumed: true, Reject: s.reject})
	if err := s.add(w, from, s.rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return known
}

// A database that knows nothing of a source that was begun is another one.
func TestSourceOfAnotherDatabase(t *testing.T) {
	c := connect(t)
	name := table(t, c, "id bigint primary key, hits bigint")
	d, err := upsert.Describe(t.Context(), c, name, []string{"id"}, []string{"hits"})
	if err != nil {
		t.Fatal(err)
	}
	o := upsert.Options{RetryFor: time.Second, Config: config(t, server.DSN()), Table: d, Mode: upsert.Add, Adds: []string{"hits"}, Source: "of " + name, Resumed: true}
	if _, err := upsert.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "knows nothing") || fail.HintOf(err) == "" {
		t.Error(err)
	}
	o.Mode, o.Adds = upsert.Replace, nil
	if _, err := upsert.Open(t.Context(), o); fail.Code(err) != fail.Usage {
		t.Error(err)
	}
	o.Mode, o.Adds, o.Resumed = upsert.Add, []string{"hits"}, false
	for range 2 { // whether it is there or not
		w, err := upsert.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(t.Context(), row("1", "1")); err == nil {
			t.Error("a row of a source without a Seq was taken")
		}
		if err := errors.Join(w.Forget(t.Context()), w.Close(t.Context())); err != nil {
			t.Error(err)
		}
	}
	if got := all(t, c, "SELECT count(*)::text FROM headroom.upsert_source WHERE source = '"+o.Source+"'"); got[0] != "0" {
		t.Errorf("%s rows of the source are left", got[0])
	}
}
