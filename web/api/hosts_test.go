package api

import (
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"headroom/agent"
	"headroom/check"
	"headroom/metric"
	"headroom/peer"
	"headroom/topic/postgres"
	"headroom/web/live"
)

// listening is a server with a book of other hosts.
func listening(t *testing.T, now func() time.Time) *stand {
	return serve(t, func(p *Parts) {
		p.Hosts = peer.NewBook(peer.Options{Own: "here", Now: now})
		p.Findings = func() []peer.Inspection { return []peer.Inspection{{Host: "here"}} }
		p.Gaps = func() []metric.Gap { return nil }
		p.Targets = func() []agent.Target { return nil }
		p.Sessions = func(context.Context, string) ([]postgres.Session, error) { return nil, errors.New("no such server") }
	})
}

func (s *stand) tell(t *testing.T, d peer.Document) (int, string) {
	t.Helper()
	d.At = time.Now()
	body, err := peer.Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	return s.state(t, body)
}

func (s *stand) state(t *testing.T, body []byte, headers ...string) (int, string) {
	t.Helper()
	status, text, _ := s.do(t, "POST", "/api/v1/ingest/state", body, append([]string{"Content-Type", "application/json"}, headers...)...)
	return status, string(text)
}

func (s *stand) ask(t *testing.T, path string) (int, string) {
	t.Helper()
	status, text, _ := s.do(t, "GET", "/api/v1/"+path, nil)
	return status, string(text)
}

func TestWhatHostsTellIsGivenOut(t *testing.T) {
	now := time.Now()
	s := listening(t, func() time.Time { return now })
	for _, d := range []peer.Document{
		{Kind: peer.Findings, Host: "db2", Inspections: []peer.Inspection{{Host: "db2", Server: "5432", Outcome: check.Outcome{Findings: []check.Finding{{Check: "postgres.fsync", Severity: check.Danger, Summary: "fsync <off>"}}}}}},
		{Kind: peer.Gaps, Host: "db2", Gaps: []metric.Gap{{Collector: "postgres.statements", Because: "no pg_stat_statements", Hint: "CREATE EXTENSION"}}},
		{Kind: peer.Targets, Host: "db2", Targets: []agent.Target{{Kind: metric.Postgres, Name: "5432", Found: "socket"}}},
	} {
		if status, text := s.tell(t, d); status != http.StatusOK || !strings.Contains(text, `"taken":true`) || strings.Contains(text, "look") {
			t.Fatalf("%s: %d %s", d.Kind, status, text)
		}
	}
	for path, want := range map[string]string{
		"findings?host=db2": `"severity":"danger"`, "gaps?host=db2": `"hint":"CREATE EXTENSION"`, "targets?host=db2": `"found":"socket"`,
		"findings": `"host":"here"`, "gaps": `"gaps":[]`, "targets?host=here": `"targets":[]`, "hosts": `"findings":{"danger":1}`,
	} {
		if status, text := s.ask(t, path); status != http.StatusOK || !strings.Contains(text, want) || strings.Contains(text, "silent_since") {
			t.Errorf("%s: %d %s; want %s", path, status, text, want)
		}
	}
	for path, want := range map[string]string{
		"findings?host=nobody": "nothing was heard of host", "gaps?host=%3Cscript%3E": "nothing was heard", "sessions?host=nobody&server=x": "nothing was heard",
	} {
		if status, text := s.ask(t, path); status != http.StatusNotFound || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if status, text := s.ask(t, "sessions?host=db2"); status != http.StatusBadRequest || !strings.Contains(text, "server is missing") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := s.ask(t, "sessions?server=x"); status != http.StatusBadGateway || !strings.Contains(text, "no such server") {
		t.Errorf("%d %s", status, text)
	}
	now = now.Add(5 * time.Minute)
	for _, path := range []string{"findings?host=db2", "gaps?host=db2", "hosts"} {
		if _, text := s.ask(t, path); !strings.Contains(text, `"silent_since":"`) {
			t.Errorf("%s after five minutes of silence: %s", path, text)
		}
	}
	if status, text := s.ask(t, "sessions?host=db2&server=5432"); status != http.StatusServiceUnavailable || !strings.Contains(text, "is silent since") {
		t.Errorf("%d %s", status, text)
	}
}

// What is hostile is refused by name and leaves what was told as it is.
func TestHostileDocuments(t *testing.T) {
	s := listening(t, time.Now)
	if status, text := s.tell(t, peer.Document{Kind: peer.Gaps, Host: "db2", Gaps: []metric.Gap{{Collector: "good", Because: "b"}}}); status != http.StatusOK {
		t.Fatal(text)
	}
	const head = `{"version":1,"kind":"gaps","host":"db2","at":"2026-11-21T14:00:00Z",`
	for _, c := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"own name", strings.Replace(head, "db2", "here", 1) + `"gaps":[]}`, http.StatusConflict, "hostnamectl"},
		{"unknown field", head + `"gaps":[{"collector":"c","because":"b","exec":"rm"}]}`, http.StatusBadRequest, "exec"},
		{"control characters", head + `"gaps":[{"collector":"c","because":"b\u001b[2J"}]}`, http.StatusBadRequest, "gaps[0].because: text with control characters"},
		{"newer", `{"version":2,"kind":"wishes"}`, http.StatusBadRequest, "run the same Headroom on both machines"},
		{"large", head + `"why":"` + strings.Repeat("x", peer.MaxBytes) + `"}`, http.StatusRequestEntityTooLarge, "bytes"},
		{"nothing", ``, http.StatusBadRequest, "read document"},
	} {
		if status, text := s.state(t, []byte(c.body)); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %.300s; want %d and %q", c.name, status, text, c.status, c.want)
		}
	}
	if status, text, _ := s.do(t, "POST", "/api/v1/ingest/state", []byte("x"), "Content-Type", "text/plain"); status != http.StatusUnsupportedMediaType {
		t.Errorf("%d %s", status, text)
	}
	if _, text := s.ask(t, "gaps?host=db2"); !strings.Contains(text, `"good"`) {
		t.Errorf("a refused document did something: %s", text)
	}
	if _, text := s.ask(t, "gaps"); !strings.Contains(text, `"gaps":[]`) {
		t.Errorf("another spoke in our name: %s", text)
	}
}

// frames makes a request of one batch of a host.
func frames(t *testing.T, host string) []byte {
	t.Helper()
	x, err := metric.NewSeries("host_cpus", []metric.Label{{Name: "host", Value: host}})
	if err != nil {
		t.Fatal(err)
	}
	b := &metric.Batch{ID: metric.NewID(), Origin: host, Rows: []metric.Row{{Series: x, Points: []metric.Point{{At: time.Now().UnixMilli(), Value: 4}}}}}
	data := b.Encode(nil)
	return append(binary.AppendUvarint(nil, uint64(len(data))), data...)
}

// An agent that sends figures only, as those of before did, is a host that
// tells nothing: that is said, and what it sends is answered with who looks.
func TestWhoLooksIsInTheAnswer(t *testing.T) {
	s := listening(t, time.Now)
	send := func(path, host string) string {
		t.Helper()
		status, text, _ := s.do(t, "POST", "/api/v1/"+path, frames(t, host), "Content-Type", BatchType)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		return string(text)
	}
	if text := send("ingest/batch", "db2"); strings.Contains(text, "look") {
		t.Errorf("nobody looks, and: %s", text)
	}
	for _, path := range []string{"findings?host=db2", "gaps?host=db2", "targets?host=db2"} {
		if status, text := s.ask(t, path); status != http.StatusNotFound || !strings.Contains(text, "sends figures and has not told") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if _, _, err := s.SessionsOf(t.Context(), "db2", "5432", false); err == nil || !strings.Contains(err.Error(), "figures and nothing else") {
		t.Errorf("sessions of an old agent: %v", err)
	}
	if text := send("ingest/batch", "db2"); !strings.Contains(text, `"look":{"seconds":20,"sessions":["5432"]}`) {
		t.Errorf("somebody looks, and: %s", text)
	}
	if text := send("ingest/batch", "db3"); strings.Contains(text, "look") {
		t.Errorf("somebody looks at db2, and db3 is told: %s", text)
	}
	n := len(s.queued(t))
	if text := send("ingest/live", "db2"); !strings.Contains(text, `"accepted":0`) || !strings.Contains(text, "look") {
		t.Errorf("%s", text)
	}
	if got := s.queued(t); n != 3 || len(got) != 0 {
		t.Errorf("%d batches of three, and what is only shown is stored: %d", n, len(got))
	}
	if rows, _ := s.Hub.Recent(live.Filter{}, time.Now().Add(-time.Minute), 10); len(rows) != 2 {
		t.Errorf("%d series are shown, want those of two hosts", len(rows))
	}
}

// A live stream of a host's charts is a look at that host, for as long as it
// is open.
func TestALiveStreamIsALook(t *testing.T) {
	s := listening(t, time.Now)
	s.Parts.Hosts.Heard("db2")
	s.Parts.Hosts.Heard("db3")
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.url+`/api/v1/live?match=%7B__name__%3D~%22host_.*%22,host%3D%22db2%22%7D`, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for end := time.Now().Add(20 * time.Second); s.Parts.Hosts.Wanted("db2") == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nobody looks at db2")
		}
	}
	if s.Parts.Hosts.Wanted("db3") != nil {
		t.Error("somebody looks at db3")
	}
}
