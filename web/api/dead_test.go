package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"headroom/metric"
	"headroom/queue"
	"headroom/queue/letter"
)

// aside has n batches of the queue set aside; the last is no batch at all.
func (s *stand) aside(t *testing.T, n int) {
	t.Helper()
	series, err := metric.NewSeries("x", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		b := &metric.Batch{ID: metric.NewID(), Origin: "db7", Rows: []metric.Row{{Series: series, Points: []metric.Point{{At: int64(i + 1), Value: 1}}}}}
		data := b.Encode(nil)
		if i == n-1 {
			data = []byte("no batch at all")
		}
		if err := s.q.Put(t.Context(), data); err != nil {
			t.Fatal(err)
		}
		ms, err := s.q.Fetch(t.Context(), 1)
		if err == nil {
			err = ms[0].Kill(t.Context(), fmt.Sprintf("bad %d", i))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestDeadLetters(t *testing.T) {
	s := serve(t, nil)
	list := func(query string) (out []letter.Letter) {
		t.Helper()
		status, body := s.ask(t, "dead"+query)
		var j struct{ Letters []letter.Letter }
		if err := json.Unmarshal([]byte(body), &j); status != 200 || err != nil || j.Letters == nil {
			t.Fatalf("%d %s, %v", status, body, err)
		}
		return j.Letters
	}
	post := func(path, body string, want int) letter.Outcome {
		t.Helper()
		status, text, _ := s.do(t, "POST", "/api/v1/dead/"+path, []byte(body))
		var out letter.Outcome
		if err := json.Unmarshal(text, &out); status != want || err != nil {
			t.Fatalf("%s %s: %d %s, %v; want %d", path, body, status, text, err, want)
		}
		return out
	}
	if got := list(""); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	s.aside(t, 4)
	all := list("")
	if len(all) != 4 || all[0].Reason != "bad 3" || all[0].Unknown == "" || all[1].Unknown != "" || all[1].Points != 1 || all[1].Origin != "db7" || all[1].Batch == "" {
		t.Fatalf("%+v", all)
	}
	if two := list("?limit=2&before=" + all[0].ID); len(two) != 2 || two[0].ID != all[1].ID || two[1].ID != all[2].ID {
		t.Errorf("%+v", two)
	}
	for query, want := range map[string]int{"?limit=0": 400, "?limit=201": 400, "?limit=x": 400, "?before=x": 404, "?all=1": 400} {
		if status, body := s.ask(t, "dead"+query); status != want {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	post("retry", `{}`, 400)
	post("retry", `{"ids":[]}`, 400)
	post("retry", `{"all":true}`, 400)
	post("drop", `{"ids":["`+strings.Repeat(`1-1","`, DeadMost)+`1-1"]}`, 400)
	if out := post("retry", `{"ids":["`+all[2].ID+`","9-9"]}`, 200); out.Done != 1 || len(out.Failed) != 1 || out.Failed[0].ID != "9-9" {
		t.Errorf("%+v", out)
	}
	if got := s.queued(t); len(got) != 1 || got[0].ID.String() != all[2].Batch {
		t.Errorf("%+v is in the queue", got)
	}
	if out := post("drop", `{"ids":["`+all[0].ID+`"]}`, 200); out.Done != 1 {
		t.Errorf("%+v", out)
	}
	if left := list(""); len(left) != 2 {
		t.Errorf("%+v", left)
	}
}

// What a full queue cannot take stays, and the answer says so.
func TestDeadLettersAndAFullQueue(t *testing.T) {
	s := serve(t, func(p *Parts) {
		q, err := queue.Open(t.Context(), queue.Options{Dir: t.TempDir(), MaxBytes: 128 << 10})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = q.Close() })
		p.Queue = q
	})
	s.q = s.API.Queue
	s.aside(t, 2)
	for err := error(nil); err == nil; {
		err = s.q.Put(t.Context(), make([]byte, 10))
	}
	var all struct{ Letters []letter.Letter }
	_, body := s.ask(t, "dead")
	if err := json.Unmarshal([]byte(body), &all); err != nil || len(all.Letters) != 2 {
		t.Fatal(body, err)
	}
	status, text, h := s.do(t, "POST", "/api/v1/dead/retry", []byte(`{"ids":["`+all.Letters[1].ID+`"]}`))
	if status != 503 || h.Get("Retry-After") == "" || !strings.Contains(string(text), "it stays a dead letter") {
		t.Errorf("%d %s", status, text)
	}
	if dead, err := s.q.Dead(t.Context(), "", 9); err != nil || len(dead) != 2 {
		t.Errorf("%d are left, %v", len(dead), err)
	}
}
