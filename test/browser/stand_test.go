package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"

	"headroom/host"
	"headroom/pglocal"
	"headroom/testkit/need"
	"headroom/watch"
	"headroom/web/auth"
)

// site is a whole `up` with queue, store, collectors and checks, and a
// PostgreSQL server that it watches. Changes are allowed.
type site struct {
	t     testing.TB
	url   string
	dirs  host.Dirs
	pg    *pglocal.Server
	store *pglocal.Server
	token string // may write

	named sync.Once
	name  string // the label of pg, when it is found
}

// hostile is what somebody might put where others read: markup that would run.
const hostile = `"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`

func startSite(t testing.TB) *site {
	t.Helper()
	need.Have(t, "pg", "chromium")
	dir, err := os.MkdirTemp("", "hr-site-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &site{t: t, dirs: host.Dirs{Config: dir, State: filepath.Join(dir, "state"), Run: filepath.Join(dir, "run"), Cache: filepath.Join(dir, "cache")}}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HEADROOM_STATE", dir) // where the guard looks
	// fsync off is a finding with a fix that needs no restart.
	if s.pg, err = pglocal.Start(t.Context(), pglocal.Options{Name: "browser", Settings: map[string]string{"fsync": "off"}}); err != nil {
		t.Fatal(err)
	}
	if s.store, err = pglocal.Start(t.Context(), pglocal.Options{Name: "store"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.pg.Stop(), s.store.Stop()); err != nil {
			t.Error(err)
		}
	})
	s.sql("create table things (id int primary key, name text)", "insert into things select i, 'n' from generate_series(1, 1000) i", `create table "<b>bold</b>" (x int)`)
	tokens, err := watch.Tokens(s.dirs)
	if err != nil {
		t.Fatal(err)
	}
	if s.token, err = tokens.Create("writer", auth.Read, auth.Write); err != nil {
		t.Fatal(err)
	}
	s.run()
	return s
}

// run starts `up` and waits until its page answers.
func (s *site) run() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.url = "http://" + addr
	ctx, stop := context.WithCancel(context.Background())
	ended, ready := make(chan error, 1), make(chan string, 1)
	go func() {
		ended <- watch.Run(ctx, watch.Options{Dirs: s.dirs, Version: "test", Host: "db1", Listen: addr, AllowChanges: true, Store: s.store.DSN(), Servers: []string{s.pg.DSN()}, Every: 3 * time.Second,
			Ready: func(link string) { ready <- link }})
	}()
	select {
	case <-ready:
	case err := <-ended:
		s.t.Fatalf("up ended at its start: %v", err)
	case <-time.After(patience):
		s.t.Fatalf("up is not ready within %s", patience)
	}
	s.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.t.Errorf("up ended with: %v", err)
		}
	})
}

func (s *site) sql(statements ...string) {
	s.t.Helper()
	c, err := pgx.Connect(context.Background(), s.pg.DSN())
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, q := range statements {
		if _, err := c.Exec(context.Background(), q); err != nil {
			s.t.Fatal(err)
		}
	}
}

// setting is what the watched server has for a setting.
func (s *site) setting(name string) (value string) {
	s.t.Helper()
	c, err := pgx.Connect(context.Background(), s.pg.DSN())
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.QueryRow(context.Background(), "select current_setting($1)", name).Scan(&value); err != nil {
		s.t.Fatal(err)
	}
	return value
}

// busy runs a statement in a session of its own until the test's end.
func (s *site) busy(application, query string) {
	s.t.Helper()
	conf, err := pgx.ParseConfig(s.pg.DSN())
	if err != nil {
		s.t.Fatal(err)
	}
	conf.RuntimeParams["application_name"] = application
	ctx, stop := context.WithCancel(context.Background())
	c, err := pgx.ConnectConfig(ctx, conf)
	if err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = c.Exec(ctx, query) // ends with the test
	}()
	s.t.Cleanup(func() { stop(); <-ended; _ = c.Close(context.Background()) })
}

// send ingests JSON lines.
func (s *site) send(lines string) {
	s.t.Helper()
	req, err := http.NewRequest("POST", s.url+"/api/v1/ingest", strings.NewReader(lines))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != 200 {
		s.t.Fatalf("ingest: %s %.300s", res.Status, text)
	}
}

// weeks sends two weeks of a series, a point a minute; series is its name and
// labels in JSON.
func (s *site) weeks(series string, value func(minute int) float64) {
	s.t.Helper()
	const minutes = 14*24*60 - 30
	end := time.Now().Truncate(time.Minute)
	points := make([]string, minutes)
	for i := range points {
		points[i] = fmt.Sprintf("[%d,%g]", end.Add(-time.Duration(minutes-i)*time.Minute).UnixMilli(), value(i))
	}
	s.send(fmt.Sprintf(`{%s,"points":[%s]}`, series, strings.Join(points, ",")))
}

// ready waits until the store answers and has samples of the watched server.
func (s *site) ready(t *testing.T) {
	t.Helper()
	server := s.server()
	need.Eventually(t, patience, "samples of the watched server", func() bool {
		var f struct {
			Lines []struct{ Labels map[string]string }
		}
		return s.get("query?func=last&agg=sum&by=server&match=postgres_uptime_seconds", &f) == nil &&
			slices.ContainsFunc(f.Lines, func(l struct{ Labels map[string]string }) bool { return l.Labels["server"] == server })
	})
}

// get asks an answer with the token.
func (s *site) get(path string, into any) error {
	req, err := http.NewRequest("GET", s.url+"/api/v1/"+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return json.NewDecoder(res.Body).Decode(into)
}

// server is the label of the watched server, once it is found.
func (s *site) server() (name string) {
	s.t.Helper()
	s.named.Do(func() {
		own := filepath.Base(filepath.Dir(s.pg.Conn.SocketDir))
		for end := time.Now().Add(patience); s.name == "" && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			var f struct{ Targets []struct{ Name string } }
			if s.get("targets", &f) == nil {
				for _, t := range f.Targets {
					if strings.Contains(t.Name, own) {
						s.name = t.Name
					}
				}
			}
		}
	})
	if s.name == "" {
		s.t.Fatal("the server was not found")
	}
	return s.name
}

// postgres is the address of the watched server's page, below the site's.
func (s *site) postgres() string { return "/postgres?server=" + url.QueryEscape(s.server()) }

// login is a new tab that looks at a page, logged in by a fresh link. Each has
// a session of its own, as people have.
func (s *site) login(t testing.TB, browser context.Context, path string) *tab {
	t.Helper()
	return s.loginIn(newTab(t, browser), path)
}

func (s *site) loginIn(b *tab, path string) *tab {
	t := b.t
	t.Helper()
	link, err := watch.Link(s.dirs)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if len(res.Cookies()) != 1 {
		t.Fatalf("the login link set %d cookies: %s", len(res.Cookies()), res.Status)
	}
	c := res.Cookies()[0]
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, network.SetCookie, network.SetCookieParams{Name: c.Name, Value: c.Value, URL: s.url, SameSite: "Strict", HTTPOnly: &c.HttpOnly})
		return err
	}))
	b.open(s.url + path)
	b.until("document.querySelector('#main')")
	return b
}
