package main

import (
	"strings"
	"testing"
)

func TestFwratesText(t *testing.T) {
	got, err := fwratesText([]byte(`{"Cores": 2, "Note": "Busy.", "Rates": [
		{"Set": "a", "Flood": "accepted", "Old": [100, 110], "New": [130, 140], "Empty": [200, 210], "Ratio": 1.28, "Lo": 1.2, "Hi": 1.4},
		{"Set": "a", "Flood": "dropped", "Old": [100, 110], "New": [100, 110], "Empty": [200, 210], "Ratio": 1.0, "Lo": 0.95, "Hi": 1.05},
		{"Set": "b", "Flood": "dropped", "Old": [100], "New": [120], "Empty": [], "Ratio": 1.12, "Lo": 0.9, "Hi": 1.3}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 1.28 × | 1.20–1.40 | met |", "| 1.00 × | 0.95–1.05 | **not met** |", "| 1.12 × | 0.90–1.30 | cannot be told |", "Busy."} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if _, err := fwratesText([]byte(`{}`)); err == nil {
		t.Error("a file without rates was told")
	}
}
