package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestFirewallGoalsAreJudged(t *testing.T) {
	raw, err := json.Marshal(map[string]any{"Cores": 2, "Goals": []map[string]any{
		{"Text": "fast", "Want": 3, "Got": 3.5, "Lo": 3.1, "Hi": 3.9},
		{"Text": "slow", "Want": 3, "Got": 2.5},
		{"Text": "unknown", "Want": 3},
		{"Text": "early", "Want": 5, "AtMost": true, "Got": 4},
		{"Text": "late", "Want": 5, "AtMost": true, "Got": 6},
	}, "Generator": map[string]any{"Median": map[string]float64{"a": 2e6, "b": 3e6}, "Missing": map[string]string{"peer": "no kernel | support\nmore"}}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := firewallText(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| fast | ≥ 3 × | 3.50 × (3.10–3.90) | met |", "| slow | ≥ 3 × | 2.50 × | **not met** |", "| unknown | ≥ 3 × | not measured | – |",
		"| early | ≤ 5 s | 4 s | met |", "| late | ≤ 5 s | 6 s | **not met** |", `peer does not run here: no kernel \| support`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not in it: %s\n%s", want, text)
		}
	}
	if strings.Index(text, "| b |") > strings.Index(text, "| a |") {
		t.Errorf("the fastest is not first:\n%s", text)
	}
}
