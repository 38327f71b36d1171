package trial

import (
	"context"
	"strings"
	"testing"
	"time"

	"headroom/fact"
	"headroom/host"
)

type knob struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// A list is compared by the names in it and not by its order, and figures are
// written in full.
func TestStillFactsAreComparedOneByOne(t *testing.T) {
	knobs := []knob{{"a", 1 << 30}, {"b", 2}}
	src := &fact.Source[[]knob]{Name: "test.knobs", Read: func(context.Context, *fact.In) ([]knob, error) { return knobs, nil }}
	h := &host.Fake{Files: map[string]string{governor: "performance\n"}, Time: time.Unix(1e9, 0)}
	e := Env{Still: []fact.Any{src}}
	saved, before, err := e.keepFacts(t.Context(), h)
	if err != nil || !strings.Contains(string(saved), "test.knobs") {
		t.Fatalf("%s, %v", saved, err)
	}
	knobs = []knob{{"b", 2}, {"a", 1 << 31}}
	h.Files[governor] = "powersave\n"
	_, after, err := e.keepFacts(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	got := moved(before, after)
	want := []Moved{{"CPU frequency governor", "performance", "powersave"}, {"test.knobs a size", "1073741824", "2147483648"}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v", got)
	}
}
