package store

import (
	"context"
	"encoding/json"
	"testing"
	"time"
)

// What a host tells takes the place of what it told of that kind before, and
// is dropped when it is old.
func TestToldIsTheNewest(t *testing.T) {
	ctx := context.Background()
	c := newClock("2026-03-01 00:00:00")
	s := openStore(t, base(t, 0), c)
	put := func(host, kind, body string, age time.Duration) {
		t.Helper()
		if err := s.PutTold(ctx, []Told{{Host: host, Kind: kind, At: c.now().Add(-age), Body: json.RawMessage(body)}}); err != nil {
			t.Fatal(err)
		}
	}
	put("db2", "gaps", `{"n": 1}`, time.Hour)
	put("db2", "gaps", `{"n": 2}`, time.Minute)
	put("db2", "findings", `{"text": "ä\u2028\\\"<b>"}`, time.Minute)
	put("db1", "gaps", `{}`, 20*24*time.Hour)
	if err := s.PutTold(ctx, nil); err != nil {
		t.Error(err)
	}
	got := must(s.Told(ctx, c.now().Add(-14*24*time.Hour)))
	if len(got) != 2 || got[0].Kind != "findings" || string(got[1].Body) != `{"n": 2}` || !got[1].At.Equal(c.now().Add(-time.Minute)) {
		t.Errorf("%+v", got)
	}
	var text struct{ Text string }
	if err := json.Unmarshal(got[0].Body, &text); err != nil || text.Text != "ä\u2028\\\"<b>" {
		t.Errorf("%q %v", text.Text, err)
	}
	if got := must(s.Told(ctx, c.now().Add(-30*24*time.Hour))); len(got) != 2 {
		t.Errorf("what was told long ago is there still: %+v", got)
	}
	if err := s.PutTold(ctx, []Told{{Host: "db2", Kind: "gaps", At: c.now(), Body: json.RawMessage(`{"n": 3}`)}, {Host: "db2", Kind: "targets", At: c.now(), Body: json.RawMessage(`{`)}}); err == nil {
		t.Error("broken JSON is taken")
	}
	if got := must(s.Told(ctx, c.now().Add(-time.Hour))); len(got) != 2 || string(got[1].Body) != `{"n": 2}` {
		t.Errorf("a part of what was refused is stored: %+v", got)
	}
}
