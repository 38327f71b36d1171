package metric

import (
	"fmt"
	"testing"
)

// Batches whose keys begin alike are told apart to the last key, and those
// whose keys are the same share their series.
func TestListsOfKeys(t *testing.T) {
	var d Decoder
	read := func(b *Batch) *Batch {
		t.Helper()
		back, err := d.Decode(b.Encode(nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := equal(b, back); err != nil {
			t.Fatal(err)
		}
		return back
	}
	whole := round(200, 2)
	first := read(whole)
	for _, n := range []int{200, 199, 200, 1, 200} {
		read(&Batch{ID: NewID(), Rows: whole.Rows[:n]})
	}
	last, err := NewSeries("zzz", []Label{{"host", "another"}})
	if err != nil {
		t.Fatal(err)
	}
	read(&Batch{ID: NewID(), Rows: append(append([]Row{}, whole.Rows[:199]...), Row{last, []Point{{5, 1}}})})
	again := read(whole)
	for i := range again.Rows {
		if first.Rows[i].Series != again.Rows[i].Series {
			t.Fatalf("row %d: the series was made twice", i)
		}
	}
	if len(d.lists) != 3 || d.kept != 200+199+1 {
		t.Errorf("%d lists of %d series, want 3 of 400: one for each number of rows", len(d.lists), d.kept)
	}
}

func TestListsAreBounded(t *testing.T) {
	var d Decoder
	for i := range 3*knownLimit/20_000 + 1 {
		b := &Batch{}
		one, err := NewSeries(fmt.Sprintf("m%05d", i), []Label{{"host", "a-name-that-makes-the-key-longer-than-the-head-of-a-list.example.net"}})
		if err != nil {
			t.Fatal(err)
		}
		for range 20_000 {
			b.Rows = append(b.Rows, Row{one, []Point{{1, 1}}})
		}
		if _, err := d.Decode(b.Encode(nil)); err != nil {
			t.Fatal(err)
		}
		held := 0
		for _, l := range d.lists {
			held += len(l.series)
		}
		if held > knownLimit || d.kept > knownLimit {
			t.Fatalf("lists of %d series are kept, at most %d may be", held, knownLimit)
		}
	}
}

// A series that was made elsewhere and one that a batch brings are the same.
func TestSeriesAreShared(t *testing.T) {
	var d Decoder
	s, err := NewSeries("m", []Label{{"host", "a \"quoted\"\nname"}})
	if err != nil {
		t.Fatal(err)
	}
	one := d.Same(s)
	if one.Key() != s.Key() || one.ID() != s.ID() || one.Get("host") != s.Get("host") {
		t.Fatalf("%s is not %s", one, s)
	}
	back, err := d.Decode((&Batch{ID: NewID(), Rows: []Row{{s, []Point{{1, 1}}}}}).Encode(nil))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ParseSeries(s.Key()); err != nil || back.Rows[0].Series != one || d.Same(again) != one {
		t.Error("there are two series of one key")
	}
}
