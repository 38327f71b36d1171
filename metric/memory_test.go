package metric

import (
	"fmt"
	"testing"
	"time"
)

func TestKeptIsTheSameFromRoundToRound(t *testing.T) {
	type state struct{ n int }
	c := &Collector{Name: "x"}
	m := &Memory{}
	for round := range 3 {
		out := NewOut(c, time.Now())
		out.Memory = m
		s := Kept[state](out)
		if s.n != round {
			t.Errorf("round %d remembers %d", round, s.n)
		}
		s.n++
	}
	if s := Kept[state](NewOut(c, time.Now())); s.n != 0 {
		t.Error("a new memory is not empty")
	}
}

// The series that is found again is the one that would be made: labels that
// could be mistaken for each other are not.
func TestSeriesAreFoundAgain(t *testing.T) {
	d := &Def{Name: "x", Labels: []string{"a", "b"}}
	c := &Collector{Name: "x", Defs: []*Def{d}}
	m := &Memory{}
	values := [][]string{{"", ""}, {"ab", ""}, {"a", "b"}, {"", "ab"}, {"\x01", "\x01"}, {"\x01\x01", ""}, {"\xff", "x"}, {"�", "x"}}
	for range 2 {
		out := NewOut(c, time.Now(), Label{"host", "h"}, Label{"server", "s"})
		out.Memory = m
		for i, v := range values {
			out.Add(d, float64(i), v...)
		}
		if out.Err() != nil || len(out.Rows) != len(values) || out.Server() != "s" {
			t.Fatal(out.Err(), len(out.Rows), out.Server())
		}
		for i, r := range out.Rows {
			want, err := NewSeries("x", []Label{{"a", Clean(values[i][0])}, {"b", Clean(values[i][1])}, {"host", "h"}, {"server", "s"}})
			if err != nil || r.Series.Key() != want.Key() || r.Series.ID() != want.ID() {
				t.Errorf("%q: %s, want %s (%v)", values[i], r.Series, want, err)
			}
		}
	}
	first := NewOut(c, time.Now())
	first.Memory = m
	for i := range 3 * knownSeries {
		first.Add(d, 1, fmt.Sprint(i), "")
	}
	if len(m.series) > knownSeries {
		t.Errorf("%d series are remembered, at most %d shall be", len(m.series), knownSeries)
	}
}
