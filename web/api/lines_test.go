package api

import (
	"fmt"
	"testing"
	"time"
)

func TestLinesAreOnDiskWhenAcknowledged(t *testing.T) {
	s := serve(t, nil)
	now := time.Now().UTC().Truncate(time.Second)
	ms := now.UnixMilli()
	status, r := s.ingest(t, fmt.Sprintf(`{"name":"a_total","labels":{"host":"w1","b":"x\ny"},"at":%d,"value":1.5}
{"value":-2e3, "at":%q, "labels":{}, "name":"b"}

{"name":"a_total","labels":{"host":"w1","b":"x\ny"},"points":[[%d,3],[%d,4.25]]}
{"name":"c","value":7}`, ms, now.Format(time.RFC3339), ms-2000, ms-1000))
	if status != 200 || r.Accepted != 5 || r.Rejected != 0 {
		t.Fatalf("status %d, %+v", status, r)
	}
	got := texts(s.queued(t))
	at := func(d time.Duration) string { return now.Add(d).Format(" 15:04:05.000") }
	for key, want := range map[string]float64{
		`a_total{b="x\ny",host="w1"}` + at(0):              1.5,
		`a_total{b="x\ny",host="w1"}` + at(-2*time.Second): 3,
		`a_total{b="x\ny",host="w1"}` + at(-time.Second):   4.25,
		`b{host="here"}` + at(0):                           -2000,
	} {
		if v, ok := got[key]; !ok || v != want {
			t.Errorf("%s: %g %t, want %g; there are %v", key, v, ok, want, got)
		}
	}
	if len(got) != 5 {
		t.Errorf("%d points: %v", len(got), got)
	}
}
