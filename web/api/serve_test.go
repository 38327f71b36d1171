package api

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"headroom/metric"
	"headroom/queue"
	"headroom/web/auth"
	"headroom/web/live"
)

// stand is a server with all answers, a real queue, and everybody let in as
// one token (or as the one that the header Test-Token names, with the budget
// Test-Series); the guard is tested in package web.
type stand struct {
	*API
	url string
	q   queue.Queue
}

func serve(t testing.TB, alter func(*Parts)) *stand {
	t.Helper()
	q, err := queue.Open(t.Context(), queue.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	p := Parts{Host: "here", Version: "test", Queue: q, Hub: live.New(live.Options{})}
	if alter != nil {
		alter(&p)
	}
	a := New(p)
	mux := http.NewServeMux()
	for _, rt := range a.Routes() {
		mux.HandleFunc(rt.Method+" "+rt.Path, func(w http.ResponseWriter, r *http.Request) {
			who := auth.Who{ID: "t1", Name: "test", Token: "t1", Scopes: auth.Scopes()}
			if name := r.Header.Get("Test-Token"); name != "" {
				who.ID, who.Name, who.Token = name, name, name
			}
			who.Series, _ = strconv.Atoi(r.Header.Get("Test-Series"))
			rt.ServeHTTP(w, r.WithContext(auth.With(r.Context(), who)))
		})
	}
	srv := httptest.NewServer(mux)
	t.Cleanup(func() {
		a.Close()
		srv.CloseClientConnections()
		srv.Close()
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return &stand{a, srv.URL, q}
}

// do sends a request and reads the whole answer.
func (s *stand) do(t testing.TB, method, path string, body []byte, headers ...string) (int, []byte, http.Header) {
	t.Helper()
	req, err := http.NewRequest(method, s.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, text, res.Header
}

// ingest posts JSON lines and returns status and receipt.
func (s *stand) ingest(t testing.TB, text string, headers ...string) (int, receipt) {
	t.Helper()
	status, body, _ := s.do(t, "POST", "/api/v1/ingest", []byte(text), headers...)
	return status, readReceipt(t, body)
}

func readReceipt(t testing.TB, body []byte) receipt {
	t.Helper()
	var r receipt
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatalf("%v in %.300s", err, body)
	}
	return r
}

// queued takes all batches out of the queue.
func (s *stand) queued(t testing.TB) (out []*metric.Batch) {
	t.Helper()
	var d metric.Decoder
	for {
		st, err := s.q.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if st.Messages == 0 {
			return out
		}
		msgs, err := s.q.Fetch(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range msgs {
			b, err := d.Decode(m.Data())
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, b)
			if err := m.Ack(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// texts lists the points of batches as "key at value".
func texts(bs []*metric.Batch) map[string]float64 {
	out := map[string]float64{}
	for _, b := range bs {
		for _, r := range b.Rows {
			for _, p := range r.Points {
				out[r.Series.Key()+" "+time.UnixMilli(p.At).UTC().Format("15:04:05.000")] = p.Value
			}
		}
	}
	return out
}

func has(t testing.TB, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("%q is not in %.400q", want, text)
	}
}
