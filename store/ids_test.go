package store

import (
	"slices"
	"testing"
)

func TestIDsListsWhatIsStored(t *testing.T) {
	c := newClock("2026-03-01 10:00:00")
	s := openStore(t, base(t, 0), c)
	a, b := series(`x{host="a"}`), series(`x{host="b"}`)
	write(t, s, batch(row(a, pt(c.now(), 1)), row(b, pt(c.now(), 1))))
	got := must(s.IDs(t.Context()))
	if len(got) != 2 || !slices.Contains(got, a.ID()) || !slices.Contains(got, b.ID()) {
		t.Errorf("%d, want %d and %d", got, a.ID(), b.ID())
	}
}
