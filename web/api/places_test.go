package api

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"headroom/testkit/need"
)

// TestSlowSendersLeaveRoom: a token with which many bodies come slowly does not
// hold up another one, and is told why it waits.
func TestSlowSendersLeaveRoom(t *testing.T) {
	s := serve(t, func(p *Parts) { p.Limits.Requests = 8 })
	slow := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		fmt.Fprint(c, "POST /api/v1/ingest HTTP/1.1\r\nHost: x\r\nTest-Token: slow\r\nContent-Length: 1000\r\n\r\n")
		return c
	}
	for range 20 {
		slow()
	}
	need.Eventually(t, 10*time.Second, "it has its half", func() bool { return len(s.slots.all) == 4 })
	for range 3 {
		if status, r := s.ingest(t, `{"name":"x","value":1}`, "Test-Token", "quick"); status != 200 {
			t.Errorf("another token: %d %+v", status, r)
		}
	}
	status, text, h := s.do(t, "POST", "/api/v1/ingest", []byte(`{"name":"x","value":1}`), "Test-Token", "slow")
	if status != 503 || h.Get("Retry-After") == "" || !strings.Contains(string(text), "4 requests with this token are being read") {
		t.Errorf("the same token: %d %s", status, text)
	}
}

// Whoever gives up waiting leaves nothing behind.
func TestPlacesAreGivenBack(t *testing.T) {
	p := newPlaces(4)
	var ends []func()
	for _, who := range []string{"a", "a", "b", "b"} {
		end, err := p.take(t.Context(), who)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	gone, stop := context.WithCancel(t.Context())
	stop()
	for _, who := range []string{"a", "c"} { // its half is taken; all are
		if _, err := p.take(gone, who); err == nil {
			t.Errorf("%s has a place that there is not", who)
		}
	}
	for _, end := range ends {
		end()
	}
	if len(p.all) != 0 || len(p.of) != 0 {
		t.Errorf("%d places and %d tokens are left", len(p.all), len(p.of))
	}
}
