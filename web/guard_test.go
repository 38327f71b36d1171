package web

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"headroom/web/auth"
)

func TestEveryAnswerCarriesTheHeaders(t *testing.T) {
	s := start(t, nil)
	for _, path := range []string{"/", "/login", "/api/v1/healthz", "/api/v1/status", "/metrics", "/api/v1/none", "/%2e%2e/etc/passwd"} {
		_, _, h := ask(t, browser(t), "GET", s.URL()+path, "")
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
			"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
		} {
			if h.Get(name) != want {
				t.Errorf("%s: %s is %q", path, name, h.Get(name))
			}
		}
		if h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s lets other origins read", path)
		}
	}
}

func TestOtherHostNamesAreRefused(t *testing.T) {
	s := start(t, func(o *Options) { o.Hosts = []string{"db1.example"} })
	c := s.loggedIn(t)
	port := s.URL()[strings.LastIndex(s.URL(), ":"):]
	for host, want := range map[string]int{
		"attacker.example" + port: 421, "localhost.attacker.example": 421, "127.0.0.1.attacker.example": 421,
		"0.0.0.0": 421, "[::]": 421, "2130706433": 421, "127.1": 421,
		"localhost" + port: 200, "LOCALHOST": 200, "127.0.0.1": 200, "[::1]" + port: 200, "db1.example": 200, "DB1.example." + port: 200,
	} {
		cookies := c.Jar.Cookies(mustParse(t, s.URL()))
		status, text, _ := ask(t, browser(t), "GET", s.URL()+"/api/v1/status", "", "Host", host, "Cookie", cookies[0].Name+"="+cookies[0].Value)
		if status != want {
			t.Errorf("Host %s: %d, want %d: %.100s", host, status, want, text)
		}
	}
	has(t, s.raw(t, "GET /login HTTP/1.1\r\nConnection: close\r\n\r\n"), "400") // no Host at all
	has(t, s.raw(t, "GET http://evil.example/login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), "421")
}

func TestPagesOfOtherSitesCannotAct(t *testing.T) {
	s := start(t, nil)
	c := s.loggedIn(t)
	for _, path := range []string{"/api/v1/ingest", "/api/v1/plans", "/api/v1/plans/12345678/apply", "/logout", "/login", "/anything"} {
		for _, h := range [][]string{
			{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
			{"Origin", "http://evil.example"}, {"Origin", "null"}, {"Origin", "http://127.0.0.1:1"},
		} {
			h = append(h, "Content-Type", "text/plain") // what a form may send without asking
			if status, _, _ := ask(t, c, "POST", s.URL()+path, `{"change":"x"}`, h...); status != 403 {
				t.Errorf("POST %s with %v: %d, want 403", path, h[:2], status)
			}
		}
	}
	if status, text, _ := ask(t, c, "POST", s.URL()+"/api/v1/plans", `{}`, "Sec-Fetch-Site", "same-origin"); status == 403 {
		t.Errorf("the server's own page is refused: %s", text)
	}
	if status, _, _ := ask(t, c, "GET", s.URL()+"/api/v1/status", ""); status != 200 {
		t.Errorf("still logged in? %d", status)
	}
}

func TestNoPathLeadsOut(t *testing.T) {
	s := start(t, func(o *Options) { o.Pages = http.FileServer(http.Dir(t.TempDir())) })
	c := s.loggedIn(t)
	cookie := c.Jar.Cookies(mustParse(t, s.URL()))[0]
	for _, path := range []string{
		"/static/..%2f..%2f..%2fetc/passwd", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%5c..%5cetc/passwd",
		"/api/v1/trials/..%2f..%2fetc%2fpasswd", "/api/v1/trials/%2e%2e", "/api/v1/plans/..%2f..%2fx", "//etc/passwd", "/api/v1/journal/..%2f..%2fx",
	} {
		out := s.raw(t, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\nCookie: %s=%s\r\nConnection: close\r\n\r\n", path, cookie.Name, cookie.Value))
		if strings.Contains(out, "root:") || strings.HasPrefix(out, "HTTP/1.1 200") {
			t.Errorf("%s: %.300q", path, out)
		}
	}
}

func TestAPanicIsAnErrorWithAnID(t *testing.T) {
	s := start(t, func(o *Options) {
		o.Pages = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh") })
	})
	c := s.loggedIn(t)
	status, text, _ := ask(t, c, "GET", s.URL()+"/x", "")
	if status != 500 || strings.Contains(text, "oh") {
		t.Errorf("%d %s", status, text)
	}
	i := strings.Index(text, "internal error ")
	if i < 0 || !strings.Contains(s.log(), "BUG "+text[i+15:i+23]) || !strings.Contains(s.log(), "oh") {
		t.Errorf("answer %q, log %q", text, s.log())
	}
	if status, _, _ := ask(t, c, "GET", s.URL()+"/login", ""); status != 200 {
		t.Errorf("after it: %d", status)
	}
}

func TestLargeHeadsAndBodies(t *testing.T) {
	var read error
	s := start(t, func(o *Options) {
		o.Pages = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, read = io.Copy(io.Discard, r.Body) })
	})
	has(t, s.raw(t, "GET /login HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("a", 100<<10)+"\r\n\r\n"), "431")
	c := s.loggedIn(t)
	if _, _, _ = ask(t, c, "POST", s.URL()+"/form", strings.Repeat("a", 10<<20)); read == nil {
		t.Error("a page got all of 10 MB")
	}
	if status, text, _ := ask(t, c, "POST", s.URL()+"/login", "secret="+strings.Repeat("a", 10<<20), "Content-Type", "application/x-www-form-urlencoded"); status != 400 {
		t.Errorf("10 MB to login: %d %.200s", status, text)
	}
}

func TestLoggedOutSeesNothing(t *testing.T) {
	s := start(t, nil)
	for _, rt := range s.o.API.Routes() {
		if rt.Scope == "" {
			continue
		}
		path := strings.NewReplacer("{id}", "12345678", "{name}", "x").Replace(rt.Path)
		if status, text, _ := ask(t, browser(t), rt.Method, s.URL()+path, ""); status != 401 {
			t.Errorf("%s %s: %d %.100s", rt.Method, path, status, text)
		}
		if rt.Scope != auth.Write && rt.Scope != auth.Read && rt.Scope != auth.Change {
			t.Errorf("%s %s: scope %q", rt.Method, path, rt.Scope)
		}
	}
}
