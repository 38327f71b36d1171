package web

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"headroom/web/auth"
)

func TestLoginLinkWorksOnceAndSurvivesARestart(t *testing.T) {
	pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("page for " + auth.From(r.Context()).Name))
	})
	s := start(t, func(o *Options) { o.Pages = pages })
	c := browser(t)
	if status, _, h := ask(t, c, "GET", s.URL()+"/disks", ""); status != 303 || h.Get("Location") != "/login" {
		t.Errorf("without a session: %d %s", status, h.Get("Location"))
	}
	link, err := LoginLink(s.o.Sessions, s.URL(), auth.Read, auth.Change)
	if err != nil {
		t.Fatal(err)
	}
	if status, _, h := ask(t, c, "HEAD", link, ""); status != 200 || h.Get("Set-Cookie") != "" {
		t.Errorf("a preview of the link: %d %q", status, h.Get("Set-Cookie"))
	}
	status, _, h := ask(t, c, "GET", link, "")
	cookie := h.Get("Set-Cookie")
	if status != 200 || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") {
		t.Fatalf("login: %d, cookie %q", status, cookie)
	}
	if status, text, _ := ask(t, c, "GET", s.URL()+"/disks", ""); status != 200 || text != "page for login link" {
		t.Errorf("page after login: %d %q", status, text)
	}
	if status, _, _ := ask(t, browser(t), "GET", link, ""); status != 403 {
		t.Errorf("the same link again: %d, want 403", status)
	}
	// another process on the same files knows the session
	again := start(t, func(o *Options) {
		o.Pages, o.Sessions = pages, auth.OpenSessions(filepath.Join(s.dir, "sessions.json"))
	})
	for _, k := range c.Jar.Cookies(mustParse(t, s.URL())) {
		if status, _, _ := ask(t, browser(t), "GET", again.URL()+"/", "", "Cookie", k.Name+"="+k.Value); status != 200 {
			t.Errorf("after a restart: %d, want to be logged in still", status)
		}
	}
	if status, _, _ := ask(t, c, "POST", s.URL()+"/logout", ""); status != 200 {
		t.Errorf("log out: %d", status)
	}
	if status, _, _ := ask(t, c, "GET", s.URL()+"/disks", ""); status != 303 {
		t.Errorf("after the log out: %d, want to be sent to the login", status)
	}
}

func TestLoginByFormWithAToken(t *testing.T) {
	s := start(t, nil)
	secret := s.token(t, auth.Read)
	c := browser(t)
	if status, _, _ := ask(t, c, "POST", s.URL()+"/login", "secret="+secret, "Content-Type", "application/x-www-form-urlencoded"); status != 200 {
		t.Fatalf("login: %d", status)
	}
	if status, text, _ := ask(t, c, "GET", s.URL()+"/api/v1/status", ""); status != 200 {
		t.Errorf("status: %d %s", status, text)
	}
	all, err := s.tokens.List()
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	if err := s.tokens.Revoke(all[0].Name); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := ask(t, c, "GET", s.URL()+"/api/v1/status", ""); status != 401 {
		t.Errorf("the token is revoked, its session still gets %d", status)
	}
}

func TestScopes(t *testing.T) {
	s := start(t, nil)
	read, write := s.token(t, auth.Read), s.token(t, auth.Write)
	for _, c := range []struct {
		method, path, secret string
		want                 int
	}{
		{"GET", "/api/v1/status", read, 200},
		{"GET", "/api/v1/status", write, 403},
		{"POST", "/api/v1/ingest", write, 200},
		{"POST", "/api/v1/ingest", read, 403},
		{"POST", "/api/v1/plans/12345678/apply", read, 403},
		{"GET", "/api/v1/status", "hr_wrong", 401},
		{"GET", "/api/v1/status", "", 401},
		{"GET", "/metrics", write, 403},
		{"GET", "/metrics", read, 200},
		{"GET", "/api/v1/healthz", "", 503}, // there is no store
		{"GET", "/api/v1/nothing", "", 404},
		{"DELETE", "/api/v1/status", read, 404},
		{"GET", "/", write, 403},
		{"POST", "/", "", 401},
	} {
		var h []string
		if c.secret != "" {
			h = bearer(c.secret)
		}
		if status, text, _ := ask(t, browser(t), c.method, s.URL()+c.path, "", h...); status != c.want {
			t.Errorf("%s %s with %.5q: %d, want %d: %s", c.method, c.path, c.secret, status, c.want, text)
		}
	}
}

// A wrong token beside a good session is not taken for the session's: a
// client that believes to act with few rights must not act with many.
func TestWrongTokenBesideSession(t *testing.T) {
	s := start(t, nil)
	c := s.loggedIn(t)
	if status, _, _ := ask(t, c, "GET", s.URL()+"/api/v1/status", "", bearer("hr_wrong")...); status != 401 {
		t.Errorf("%d, want 401", status)
	}
}

func TestFailedLoginsAreSlowedAndOwnersAreNot(t *testing.T) {
	s := start(t, nil)
	secret := s.token(t, auth.Read)
	c := browser(t)
	many := 0
	for range 30 {
		if status, _, h := ask(t, c, "GET", s.URL()+"/api/v1/status", "", bearer("hr_guess")...); status == 429 {
			many++
			if h.Get("Retry-After") == "" {
				t.Error("429 without Retry-After")
			}
		}
	}
	if many < 15 {
		t.Errorf("%d of 30 guesses were told to wait", many)
	}
	if status, _, _ := ask(t, c, "GET", s.URL()+"/login?code=guess", ""); status != 429 {
		t.Errorf("a guessed code gets %d, want 429", status)
	}
	if status, _, _ := ask(t, c, "GET", s.URL()+"/api/v1/status", "", bearer(secret)...); status != 200 {
		t.Errorf("the owner gets %d while others guess", status)
	}
}
