package main

import (
	"os"
	"testing"
)

func TestPagesAreUpToDate(t *testing.T) {
	pages, err := everyPage(".")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pages {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Errorf("docs/%s: %v; run: make docs", name, err)
		} else if string(got) != want {
			t.Errorf("docs/%s is not what the declarations say; run: make docs", name)
		}
	}
	for _, f := range folders {
		old, err := stale(".", f, pages)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range old {
			t.Errorf("docs/%s belongs to nothing any more; run: make docs", path)
		}
	}
}
