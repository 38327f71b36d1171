package web

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"headroom/queue"
	"headroom/web/api"
	"headroom/web/auth"
	"headroom/web/live"
)

// stand is a whole server that runs, with a real queue.
type stand struct {
	*Server
	dir      string // of tokens and sessions
	tokens   *auth.Tokens
	sessions *auth.Sessions
	stop     context.CancelFunc
	ended    chan error

	mu   sync.Mutex
	logs []string
}

func parts(t testing.TB) *api.API {
	t.Helper()
	q, err := queue.Open(t.Context(), queue.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return api.New(api.Parts{Host: "here", Version: "test", Queue: q, Hub: live.New(live.Options{})})
}

func options(t testing.TB) Options { return optionsIn(t, t.TempDir()) }

func optionsIn(t testing.TB, dir string) Options {
	t.Helper()
	return Options{Listen: "127.0.0.1:0", API: parts(t),
		Tokens:   auth.OpenTokens(filepath.Join(dir, "tokens.json")),
		Sessions: auth.OpenSessions(filepath.Join(dir, "sessions.json"))}
}

func start(t testing.TB, alter func(*Options)) *stand {
	t.Helper()
	dir := t.TempDir()
	o := optionsIn(t, dir)
	st := &stand{dir: dir, tokens: o.Tokens, sessions: o.Sessions, ended: make(chan error, 1)}
	o.Log = func(s string) {
		st.mu.Lock()
		defer st.mu.Unlock()
		st.logs = append(st.logs, s)
	}
	if alter != nil {
		alter(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	st.Server = s
	ctx, stop := context.WithCancel(context.Background())
	st.stop = stop
	go func() { st.ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-st.ended; err != nil {
			t.Error(err)
		}
		close(st.ended)
	})
	return st
}

func (s *stand) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.logs, "\n")
}

func (s *stand) token(t testing.TB, scopes ...auth.Scope) string {
	t.Helper()
	secret, err := s.tokens.Create("t"+strings.ToLower(t.Name()[len(t.Name())-4:])+scopeName(scopes), scopes...)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func scopeName(scopes []auth.Scope) (out string) {
	for _, s := range scopes {
		out += "-" + string(s)
	}
	return out
}

// ask sends one request without following redirects; headers are name, value.
func ask(t testing.TB, c *http.Client, method, url, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text), res.Header
}

// browser is a client with cookies that follows no redirects.
func browser(t testing.TB) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	tr := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// loggedIn is a browser that used a fresh login link.
func (s *stand) loggedIn(t testing.TB) *http.Client {
	t.Helper()
	link, err := LoginLink(s.o.Sessions, s.URL(), auth.Read, auth.Change)
	if err != nil {
		t.Fatal(err)
	}
	c := browser(t)
	if status, text, _ := ask(t, c, "GET", link, ""); status != 200 {
		t.Fatalf("login: %d %s", status, text)
	}
	return c
}

// raw sends bytes and reads until the server closes.
func (s *stand) raw(t testing.TB, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	out, _ := io.ReadAll(c) // a reset is an answer, too
	return string(out)
}

func bearer(secret string) []string { return []string{"Authorization", "Bearer " + secret} }

func has(t testing.TB, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("%q is not in %.600q", want, text)
	}
}

func mustParse(t testing.TB, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
