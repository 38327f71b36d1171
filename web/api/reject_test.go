package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"

	"headroom/metric"
	"headroom/queue"
)

func TestBadPointsDoNotTakeGoodOnesWithThem(t *testing.T) {
	s := serve(t, nil)
	now := time.Now().UnixMilli()
	year := int64(365 * 24 * 3600 * 1000)
	bad := []struct{ line, why string }{
		{`{"name":"x","value":NaN}`, "not a number"},
		{`{"name":"x","value":"NaN"}`, "text, not a number"},
		{`{"name":"x","value":Infinity}`, "infinite"},
		{`{"name":"x","value":-Infinity}`, "infinite"},
		{`{"name":"x","value":1e400}`, "infinite"},
		{`{"name":"x","value":null}`, "null"},
		{`{"name":"x","value":0x10}`, "not a number in JSON"},
		{`{"name":"x","value":true}`, "not a number in JSON"},
		{`{"name":"x"}`, "value is missing"},
		{`{"value":1}`, "name is missing"},
		{`{"name":"x","value":1,"at":0}`, "older than"},
		{`{"name":"x","value":1,"at":1000}`, "older than"},
		{fmt.Sprintf(`{"name":"x","value":1,"at":%d}`, now/1000), "older than"},
		{fmt.Sprintf(`{"name":"x","value":1,"at":%d}`, now+year), "ahead of this server's clock"},
		{`{"name":"x","value":1,"at":9999999999999999}`, "not a whole number"},
		{`{"name":"x","value":1,"at":1.5}`, "not a whole number"},
		{`{"name":"x","value":1,"at":"yesterday"}`, "the time is not as"},
		{`{"name":"x","value":1,"at":-5}`, "older than"},
		{`{"name":"9x","value":1}`, "metric name"},
		{`{"name":"x y","value":1}`, "metric name"},
		{`{"name":"","value":1}`, "metric name"},
		{`{"name":"x","labels":{"a b":"c"},"value":1}`, "label name"},
		{`{"name":"x","labels":{"a":5},"value":1}`, "not text in quotes"},
		{`{"name":"x","labels":{"a":{"b":"c"}},"value":1}`, "field \"labels\""},
		{`{"name":"x","labels":{"a":"b","a":"c"},"value":1}`, "twice"},
		{`{"name":"x","labels":{"a":"` + strings.Repeat("v", 2000) + `"},"value":1}`, "1024 are taken"},
		{"{\"name\":\"x\",\"labels\":{\"a\":\"\xff\"},\"value\":1}", "not UTF-8"},
		{`{"name":"x","labels":{"a":"\u0000"},"value":1}`, "without NUL"},
		{`{"name":"x","lables":{},"value":1}`, "unknown field"},
		{`{"name":"x","value":1,"value":2}`, "given twice"},
		{`{"name":"x","value":1} {"name":"y","value":2}`, "text after"},
		{`[{"name":"x","value":1}]`, "not a JSON object"},
		{`{"name":"x","value":1`, "not JSON"},
		{`{"name":"x","points":[[1]]}`, "points: want"},
		{`{"name":"x","points":[1,2]}`, "points: want"},
		{`{"name":"x","points":[[[1,2]]]}`, "field \"points\""},
		{fmt.Sprintf(`{"name":"x","points":[[%d,1]],"at":%d}`, now, now), "points and value"},
		{"\x00\x01\x02", "not a JSON object"},
	}
	for _, c := range bad {
		good := fmt.Sprintf(`{"name":"good","at":%d,"value":%d}`, now, len(c.line))
		status, r := s.ingest(t, good+"\n"+c.line+"\n"+good)
		if status != http.StatusMultiStatus || r.Accepted < 1 || r.Rejected != 1 || r.Rejects[0].Index != 2 || !strings.Contains(r.Rejects[0].Reason, c.why) {
			t.Errorf("%.80s: %d %+v, want %q", c.line, status, r, c.why)
		}
	}
	for key := range texts(s.queued(t)) {
		if !strings.HasPrefix(key, "good{") {
			t.Errorf("%s is in the queue", key)
		}
	}
	status, r := s.ingest(t, `{"name":"x","value":NaN}`)
	if status != 400 || r.Accepted != 0 {
		t.Errorf("nothing good: %d %+v", status, r)
	}
}

func TestRejectsWithinOneLine(t *testing.T) {
	s := serve(t, nil)
	now := time.Now().UnixMilli()
	status, r := s.ingest(t, fmt.Sprintf(`{"name":"x","points":[[%d,1],[%d,NaN],[5,1],[%d,2]]}`, now-2000, now-1000, now))
	if status != 207 || r.Accepted != 2 || r.Rejected != 2 || *r.Rejects[0].Point != 1 || *r.Rejects[1].Point != 2 {
		t.Errorf("%d %+v", status, r)
	}
	many := strings.Repeat(`{"name":"x","value":NaN}`+"\n", 500)
	if _, r := s.ingest(t, many); r.Rejected != 500 || len(r.Rejects) != maxRejects {
		t.Errorf("%d rejected, %d listed", r.Rejected, len(r.Rejects))
	}
}

func TestPackedBodiesAndBombs(t *testing.T) {
	s := serve(t, func(p *Parts) { p.Limits.WireBytes, p.Limits.RawBytes = 1<<20, 4<<20 })
	line := `{"name":"x","value":1}` + "\n"
	pack := map[string]func([]byte) []byte{
		"gzip": func(b []byte) []byte {
			var out bytes.Buffer
			z := gzip.NewWriter(&out)
			_, _ = z.Write(b)
			_ = z.Close()
			return out.Bytes()
		},
		"zstd": func(b []byte) []byte {
			e, _ := zstd.NewWriter(nil)
			return e.EncodeAll(b, nil)
		},
		"snappy": func(b []byte) []byte { return snappy.Encode(nil, b) },
	}
	req, err := http.NewRequest("POST", s.url+"/api/v1/ingest", bytes.NewReader(pack["gzip"]([]byte(line))))
	if err != nil {
		t.Fatal(err)
	}
	req.Header["Content-Encoding"] = []string{"gzip", "zstd"}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("packed twice: %s", res.Status)
	}
	for coding, f := range pack {
		if status, r := s.ingest(t, string(f([]byte(strings.Repeat(line, 10)))), "Content-Encoding", coding); status != 200 || r.Accepted != 1 {
			t.Errorf("%s: %d %+v", coding, status, r) // ten points of one time are one
		}
		if status, r := s.ingest(t, string(f(bytes.Repeat([]byte(" "), 8<<20))), "Content-Encoding", coding); status != 413 {
			t.Errorf("%s bomb: %d %+v", coding, status, r)
		}
		if status, r := s.ingest(t, "this is not packed at all", "Content-Encoding", coding); status != 400 {
			t.Errorf("%s nonsense: %d %+v", coding, status, r)
		}
		packed := f([]byte(strings.Repeat(line, 1000)))
		if status, r := s.ingest(t, string(packed[:len(packed)/2]), "Content-Encoding", coding); status != 400 {
			t.Errorf("%s cut off: %d %+v", coding, status, r)
		}
	}
	if status, _ := s.ingest(t, line, "Content-Encoding", "br"); status != 415 {
		t.Errorf("unknown coding: %d", status)
	}
}

func TestHugeBodies(t *testing.T) {
	s := serve(t, func(p *Parts) { p.Limits.LineBytes = 1 << 20 })
	req, err := http.NewRequest("POST", s.url+"/api/v1/ingest", io.LimitReader(zeros{}, 100<<20))
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = 100 << 20
	if res, err := http.DefaultClient.Do(req); err == nil { // a connection that is cut says no as well
		if res.StatusCode != 413 {
			t.Errorf("100 MB: %d", res.StatusCode)
		}
		res.Body.Close()
	}
	good := fmt.Sprintf(`{"name":"x","at":%d,"value":1}`+"\n", time.Now().UnixMilli())
	status, r := s.ingest(t, good+strings.Repeat(" ", 2<<20)+good)
	if status != 413 || !strings.Contains(r.Error, "line 2 has more") || r.Accepted != 1 {
		t.Errorf("a line without end: %d %+v", status, r)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// slowQueue takes its time, as a disk does that is busy.
type slowQueue struct {
	queue.Queue
	wait time.Duration
}

func (q *slowQueue) Put(ctx context.Context, msg []byte) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(q.wait):
		return q.Queue.Put(ctx, msg)
	}
}

// A sender must not take for ever; the disk may take longer than a sender may.
func TestSlowBodiesAndSlowDisks(t *testing.T) {
	s := serve(t, func(p *Parts) {
		p.Limits.Patience = 300 * time.Millisecond
		p.Queue = &slowQueue{p.Queue, 900 * time.Millisecond}
	})
	if status, r := s.ingest(t, `{"name":"x","value":1}`); status != 200 || r.Accepted != 1 {
		t.Errorf("a slow disk: %d %+v", status, r)
	}
	body, w := io.Pipe()
	defer w.Close()
	go func() { _, _ = io.WriteString(w, `{"name":"x",`) }() // and nothing more
	res, err := http.Post(s.url+"/api/v1/ingest", "", body)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestTimeout {
		t.Errorf("a body that never ends: %s", res.Status)
	}
}

// full is a queue that refuses.
type full struct {
	queue.Queue
	err error
}

func (f *full) Put(ctx context.Context, msg []byte) error {
	if f.err != nil {
		return f.err
	}
	return f.Queue.Put(ctx, msg)
}

func TestFullQueueSaysSo(t *testing.T) {
	f := &full{}
	s := serve(t, func(p *Parts) { f.Queue = p.Queue; p.Queue = f })
	for _, err := range []error{queue.ErrFull, queue.ErrDiskFull, queue.ErrStopped, errors.New("connection lost")} {
		f.err = err
		status, body, h := s.do(t, "POST", "/api/v1/ingest", []byte(`{"name":"x","value":1}`))
		if r := readReceipt(t, body); status != 503 || h.Get("Retry-After") == "" || r.Accepted != 0 || !strings.Contains(r.Error, err.Error()) || r.Hint == "" {
			t.Errorf("%v: %d %+v", err, status, r)
		}
	}
	f.err = nil
	if status, r := s.ingest(t, `{"name":"x","value":1}`); status != 200 || r.Accepted != 1 {
		t.Errorf("when there is room: %d %+v", status, r)
	}
}

func TestRepeatedRequestsHaveTheSameBatches(t *testing.T) {
	s := serve(t, nil)
	text := string(manyLines(900, time.Now())) // several batches
	ids := func(h ...string) map[metric.ID]bool {
		if status, r := s.ingest(t, text, h...); status != 200 || r.Accepted != 18000 {
			t.Fatalf("%d %+v", status, r)
		}
		out := map[metric.ID]bool{}
		for _, b := range s.queued(t) {
			out[b.ID] = true
		}
		return out
	}
	a, b := ids("Idempotency-Key", "job 7"), ids("Idempotency-Key", "job 7")
	if len(a) < 2 || len(a) != len(b) {
		t.Fatalf("%d and %d batches", len(a), len(b))
	}
	for id := range a {
		if !b[id] {
			t.Errorf("batch %s has another id the second time", id)
		}
	}
	for id := range ids("Idempotency-Key", "job 8") {
		if a[id] {
			t.Error("two requests share a batch")
		}
	}
	text = strings.Replace(text, ".5}", ".25}", 1)
	other := 0
	for id := range ids("Idempotency-Key", "job 7") {
		if !a[id] {
			other++
		}
	}
	if other != 1 {
		t.Errorf("the key is used again for something else: %d of %d batches differ, want the one that does", other, len(a))
	}
	if status, _ := s.ingest(t, "", "Idempotency-Key", strings.Repeat("k", 300)); status != 400 {
		t.Errorf("a huge key: %d", status)
	}
}

func TestEncodedBatches(t *testing.T) {
	s := serve(t, nil)
	now := time.Now()
	make1 := func(name string, at time.Time, labels ...metric.Label) *metric.Batch {
		sr, err := metric.NewSeries(name, labels)
		if err != nil {
			t.Fatal(err)
		}
		return &metric.Batch{ID: metric.NewID(), Origin: "web1", Rows: []metric.Row{{Series: sr, Points: []metric.Point{{At: at.UnixMilli(), Value: 1}}}}}
	}
	host := metric.Label{Name: "host", Value: "web1"}
	frame := func(parts ...[]byte) (out []byte) {
		for _, p := range parts {
			out = append(binary.AppendUvarint(out, uint64(len(p))), p...)
		}
		return out
	}
	send := func(body []byte) (int, receipt) {
		status, text, _ := s.do(t, "POST", "/api/v1/ingest/batch", body, "Content-Type", BatchType)
		return status, readReceipt(t, text)
	}
	a, b := make1("a", now, host), make1("b", now, host)
	if status, r := send(frame(a.Encode(nil), b.Encode(nil))); status != 200 || r.Accepted != 2 || r.Batches != 2 {
		t.Fatalf("%d %+v", status, r)
	}
	got := s.queued(t)
	if len(got) != 2 || got[0].ID != a.ID && got[1].ID != a.ID {
		t.Fatalf("batches came with other ids: %v", got)
	}
	broken := b.Encode(nil)
	broken[len(broken)/2] ^= 1
	if status, r := send(frame(a.Encode(nil), broken)); status != 400 || r.Accepted != 1 || r.Rejected != 1 || r.Rejects[0].Index != 1 {
		t.Errorf("one is broken: %d %+v", status, r)
	}
	if status, r := send(frame(make1("a", now.Add(-20*24*time.Hour), host).Encode(nil))); status != 400 || !strings.Contains(r.Rejects[0].Reason, "older") {
		t.Errorf("too old: %d %+v", status, r)
	}
	mixed := make1("a", now, host)
	mixed.Rows[0].Points = append(mixed.Rows[0].Points, metric.Point{At: now.Add(time.Hour).UnixMilli(), Value: 2})
	if status, r := send(frame(mixed.Encode(nil))); status != 207 || r.Accepted != 1 || r.Rejected != 1 {
		t.Errorf("one point of the future: %d %+v", status, r)
	}
	if status, r := send(frame(make1("a", now).Encode(nil))); status != 400 || !strings.Contains(r.Rejects[0].Reason, "no label host") {
		t.Errorf("without host: %d %+v", status, r)
	}
	for what, body := range map[string][]byte{
		"nothing": nil, "cut off": frame(a.Encode(nil))[:20], "huge": binary.AppendUvarint(nil, 1<<40), "noise": []byte("GET / HTTP/1.1\r\n\r\n"),
	} {
		if status, _ := send(body); status != 400 && status != 413 {
			t.Errorf("%s: %d", what, status)
		}
	}
	if status, _, _ := s.do(t, "POST", "/api/v1/ingest/batch", frame(a.Encode(nil)), "Content-Type", "application/json"); status != 415 {
		t.Errorf("another content type: %d", status)
	}
}
