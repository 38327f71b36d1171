package web

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"headroom/testkit/need"
	"headroom/web/auth"
)

// TestStalledBodies: a body that never comes holds its connection for seconds,
// also where the request is refused before anybody reads it; who is not known
// gets no more time than a head has.
func TestStalledBodies(t *testing.T) {
	s := start(t, func(o *Options) { o.Patience = 2 * time.Second })
	token := "Authorization: Bearer " + s.token(t, auth.Read, auth.Write) + "\r\n"
	for name, head := range map[string]string{
		"no token":            "POST /api/v1/ingest HTTP/1.1\r\nHost: localhost\r\n",
		"a wrong token":       "POST /api/v1/ingest HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n",
		"another host's name": "POST /api/v1/ingest HTTP/1.1\r\nHost: evil.example\r\n" + token,
		"another site's page": "POST /api/v1/ingest HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n" + token,
		"no such address":     "POST /api/v1/none HTTP/1.1\r\nHost: localhost\r\n" + token,
		"no page":             "POST /nothing HTTP/1.1\r\nHost: localhost\r\n" + token,
		"the login's form":    "POST /login HTTP/1.1\r\nHost: localhost\r\n",
		"a wrong type":        "POST /api/v1/ingest/batch HTTP/1.1\r\nHost: localhost\r\n" + token,
		"a wrong parameter":   "POST /api/v1/ingest?x=1 HTTP/1.1\r\nHost: localhost\r\n" + token,
		"a plan":              "POST /api/v1/plans HTTP/1.1\r\nHost: localhost\r\n" + token,
		"a lack of rights":    "POST /api/v1/plans/12345678/apply HTTP/1.1\r\nHost: localhost\r\n" + token,
		"all of the server":   "OPTIONS * HTTP/1.1\r\nHost: evil.example\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := net.Dial("tcp", s.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprint(c, head+"Content-Length: 1000\r\n\r\nnot all")
			_ = c.SetReadDeadline(time.Now().Add(6 * headTime))
			text, err := io.ReadAll(c)
			if e, ok := err.(net.Error); ok && e.Timeout() {
				t.Errorf("it is waited for without end; answered so far: %.100q", text)
			}
			if status, _, _ := strings.Cut(string(text), "\r\n"); !strings.HasPrefix(status, "HTTP/1.1 4") && !strings.HasPrefix(status, "HTTP/1.1 503") {
				t.Errorf("answered with %q", status)
			}
		})
	}
}

// A stream lasts longer than other answers may take.
func TestStreamsOutliveThePatience(t *testing.T) {
	s := start(t, func(o *Options) { o.Patience = time.Second })
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	token := s.token(t, auth.Read, auth.Write)
	fmt.Fprintf(c, "GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", token)
	read := func(part string) {
		t.Helper()
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		text, buf := "", make([]byte, 4096)
		for !strings.Contains(text, part) {
			n, err := c.Read(buf)
			if text += string(buf[:n]); err != nil {
				t.Fatalf("%q is not in %q: %v", part, text, err)
			}
		}
	}
	read("event: recent")
	time.Sleep(2 * s.o.Patience) // longer than an answer may take
	if status, text, _ := ask(t, browser(t), "POST", s.URL()+"/api/v1/ingest", `{"name":"x","value":1}`, bearer(token)...); status != 200 {
		t.Fatal(status, text)
	}
	read("event: points")
}

// TestARevokedTokenEndsItsStreams: who may not look any more does not go on
// looking through a stream that was open; others do.
func TestARevokedTokenEndsItsStreams(t *testing.T) {
	s := start(t, nil)
	open := func(token string) net.Conn {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		fmt.Fprintf(c, "GET /api/v1/live HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", token)
		return c
	}
	var tokens []string
	for _, name := range []string{"goes", "stays"} {
		secret, err := s.tokens.Create(name, auth.Read)
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, secret)
	}
	goes, stays := open(tokens[0]), open(tokens[1])
	need.Eventually(t, 10*time.Second, "both look", func() bool { return s.o.API.Hub.Lookers() == 2 })
	if err := s.tokens.Revoke("goes"); err != nil {
		t.Fatal(err)
	}
	_ = goes.SetReadDeadline(time.Now().Add(6 * rightsEvery))
	if _, err := io.ReadAll(goes); err != nil {
		t.Errorf("the stream of a revoked token: %v", err)
	}
	if n := s.o.API.Hub.Lookers(); n != 1 {
		t.Errorf("%d look, want the other one", n)
	}
	stays.Close()
}
