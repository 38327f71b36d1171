package upsert_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"headroom/engine/upsert"
)

func TestWritesAndAcknowledges(t *testing.T) {
	c := connect(t)
	for _, form := range forms() {
		t.Run(form, func(t *testing.T) {
			name := table(t, c, "id bigint primary key, doc jsonb")
			w := open(t, c, name, []string{"id"}, []string{"doc"}, upsert.Options{Connections: 3, Batch: 700})
			if !w.UseForm(form) {
				t.Fatal("not on this table")
			}
			want := map[int]int{}
			for i := range 20_000 {
				k := rand.IntN(5_000)
				want[k] = i
				r := row(fmt.Sprint(k), fmt.Sprintf(`{"v": %d}`, i))
				r.Seq = int64(i + 1)
				if err := w.Add(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Flush(t.Context()); err != nil || w.Acked() != 20_000 {
				t.Fatal(err, w.Acked())
			}
			if err := w.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			var lines []string
			for k, v := range want {
				lines = append(lines, fmt.Sprintf("%d %d", k, v))
			}
			got := all(t, c, "SELECT id || ' ' || (doc ->> 'v') FROM "+name)
			slices.Sort(lines)
			slices.Sort(got)
			if !slices.Equal(lines, got) {
				t.Fatalf("%d rows, want %d", len(got), len(lines))
			}
			if s := w.Stats(); s.Rows != 20_000 || s.Written >= s.Rows || s.Batches < 28 || s.P99 <= 0 || s.Connections != 3 {
				t.Fatalf("%+v", s)
			}
		})
	}
}
