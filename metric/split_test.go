package metric

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Pieces hold all points in order, keep to the limits once encoded, and have
// the same IDs each time.
func TestSplit(t *testing.T) {
	noise := rand.New(rand.NewPCG(1, 2))
	long := func(i int) *Series {
		ls := []Label{{"host", "a"}}
		for j := range 3 {
			b := make([]byte, 700)
			for k := range b {
				b[k] = byte('!' + noise.IntN(90))
			}
			ls = append(ls, Label{fmt.Sprintf("l%d", j), strings.ReplaceAll(string(b), `"`, "")})
		}
		s, err := NewSeries(fmt.Sprintf("m%d", i), ls)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	heavy := &Batch{ID: NewID(), Origin: "a"} // cannot be compressed
	for i := range 900 {
		r := Row{Series: long(i)}
		for range noise.IntN(60) {
			r.Points = append(r.Points, Point{noise.Int64(), noise.NormFloat64()})
		}
		heavy.Rows = append(heavy.Rows, r)
	}
	for name, b := range map[string]*Batch{
		"small": round(10, 1), "many series": round(30_000, 1), "one series": round(1, 100_000), "heavy": heavy, "empty": {ID: NewID()},
	} {
		pieces := b.Split()
		whole(t, name, b, pieces)
		if name == "small" && (len(pieces) != 1 || pieces[0].ID != b.ID) {
			t.Errorf("%s: %d pieces, the first has ID %s", name, len(pieces), pieces[0].ID)
		}
		for i, p := range b.Split() {
			if p.ID != pieces[i].ID || p.Len() != pieces[i].Len() {
				t.Errorf("%s: piece %d differs the second time", name, i)
			}
		}
	}
}

func whole(t testing.TB, name string, b *Batch, pieces []*Batch) {
	var d Decoder
	ids := map[ID]bool{}
	joined := map[string][]Point{}
	for i, p := range pieces {
		raw := p.Encode(nil)
		if len(raw) > MaxBatchBytes || p.Len() > MaxBatchPoints {
			t.Errorf("%s: piece %d has %d bytes, %d points", name, i, len(raw), p.Len())
		}
		back, err := d.Decode(raw)
		if err != nil {
			t.Fatalf("%s: piece %d: %v", name, i, err)
		}
		for _, r := range back.Rows {
			joined[r.Series.Key()] = append(joined[r.Series.Key()], r.Points...)
		}
		ids[p.ID] = true
	}
	if len(ids) != len(pieces) {
		t.Errorf("%s: %d pieces, %d IDs", name, len(pieces), len(ids))
	}
	for _, r := range b.Rows {
		got := joined[r.Series.Key()]
		if len(got) < len(r.Points) {
			t.Fatalf("%s: %s has %d points, want %d", name, r.Series, len(got), len(r.Points))
		}
		for i, p := range r.Points {
			if got[i] != p {
				t.Fatalf("%s: %s point %d is %v, want %v", name, r.Series, i, got[i], p)
			}
		}
		joined[r.Series.Key()] = got[len(r.Points):]
	}
	for key, rest := range joined {
		if len(rest) > 0 {
			t.Errorf("%s: %d points of %s came from nowhere", name, len(rest), key)
		}
	}
}

func TestPartIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		i, j := rapid.IntRange(0, 1000).Draw(t, "i"), rapid.IntRange(0, 1000).Draw(t, "j")
		if (id.Part(i) == id.Part(j)) != (i == j) {
			t.Fatalf("parts %d and %d of %s", i, j, id)
		}
	})
	if got := (ID{1, 2, 3}).Part(7).String(); got != "50374ba0f2f8e8f8a4f19bc8c7f4c97d" {
		t.Errorf("part 7 is %s; stored IDs must stay the same", got)
	}
}
