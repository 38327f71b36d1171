package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"headroom/testkit/need"
)

// events opens a live stream and returns a function that reads the next event.
func (s *stand) events(t *testing.T, path string) (next func() (event, data string)) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(stop)
	req, err := http.NewRequestWithContext(ctx, "GET", s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(res.Status)
	}
	in := bufio.NewScanner(res.Body)
	in.Buffer(nil, 1<<24)
	return func() (event, data string) {
		for in.Scan() {
			line := in.Text()
			switch {
			case strings.HasPrefix(line, "event: "):
				event = line[7:]
			case strings.HasPrefix(line, "data: "):
				data = line[6:]
			case line == "" && event != "":
				return event, data
			}
		}
		t.Fatalf("the stream ended: %v", in.Err())
		return "", ""
	}
}

type rowsJSON struct {
	More bool
	Rows []struct {
		Key    string
		Name   string
		Labels map[string]string
		Points [][2]float64
	}
}

func TestLive(t *testing.T) {
	s := serve(t, nil)
	now := time.Now().UnixMilli()
	send := func(name string, v float64) {
		if status, r := s.ingest(t, fmt.Sprintf(`{"name":%q,"labels":{"q":"<b>\n\""},"at":%d,"value":%g}`, name, now, v)); status != 200 {
			t.Fatal(status, r)
		}
		now++
	}
	send("a", 1)
	next := s.events(t, "/api/v1/live?match=a&since=-5m")
	var r rowsJSON
	event, data := next()
	if err := json.Unmarshal([]byte(data), &r); err != nil || event != "recent" || len(r.Rows) != 1 || r.Rows[0].Points[0][1] != 1 {
		t.Fatalf("%s %s %v", event, data, err)
	}
	send("b", 5)
	send("a", 2)
	event, data = next()
	r = rowsJSON{}
	if err := json.Unmarshal([]byte(data), &r); err != nil || event != "points" || len(r.Rows) != 1 || r.Rows[0].Points[0][1] != 2 || r.Rows[0].Labels["q"] != "<b>\n\"" {
		t.Errorf("%s %s %v", event, data, err)
	}
	s.Close()
	if event, _ := next(); event != "end" {
		t.Errorf("at the end: %s", event)
	}
}

// A reader that does not read is cut off, and those who bring samples do not
// wait for it.
func TestASlowStreamIsCutOff(t *testing.T) {
	s := serve(t, nil)
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "GET /api/v1/live HTTP/1.1\r\nHost: x\r\n\r\n")
	need.Eventually(t, 10*time.Second, "it looks", func() bool { return s.Hub.Lookers() == 1 })
	text := string(manyLines(500, time.Now()))
	end := time.Now().Add(6 * streamWrite)
	for s.Hub.Lookers() > 0 {
		if time.Now().After(end) {
			t.Fatal("a reader that never reads is kept")
		}
		if status, r := s.ingest(t, text); status != 200 {
			t.Fatal(status, r)
		}
		s.queued(t)
	}
}
