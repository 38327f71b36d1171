package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/fail"
)

func TestGetStaysOnThisMachine(t *testing.T) {
	l := Open(Options{})
	defer l.Close()
	for _, u := range []string{"http://10.0.0.1/", "http://[2001:db8::1]/", "http://8.8.8.8:80/x", "ftp://127.0.0.1/", "file:///etc/passwd", "http://u:p@127.0.0.1/", "unix:relative:/x", "unix:/sock", "", "http://"} {
		if _, err := l.Get(t.Context(), u); err == nil || strings.Contains(err.Error(), "refused") {
			t.Errorf("%q was asked: %v", u, err)
		}
	}
	var named string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		named = r.Host
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		case "/none":
			http.NotFound(w, r)
		case "/denied":
			w.WriteHeader(http.StatusForbidden)
		case "/huge":
			for range getLimit/1024 + 1 {
				_, _ = w.Write(make([]byte, 1024))
			}
		default:
			fmt.Fprint(w, "ok "+r.Method)
		}
	}))
	defer srv.Close()
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	at := "http://status.example.com:" + port
	if b, err := l.Get(t.Context(), at+"/"); err != nil || string(b) != "ok GET" || named != "status.example.com:"+port {
		t.Errorf("page = %q, %v, host %s: a name goes to loopback and is said to the server", b, err, named)
	}
	for path, want := range map[string]error{"/away": nil, "/huge": nil, "/none": fail.ErrAbsent, "/denied": fail.ErrDenied} {
		if _, err := l.Get(t.Context(), at+path); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v, want an error (%v)", path, err, want)
		}
	}
}

func TestGetTakesAnyCertificateOnLoopback(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	defer srv.Close()
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	l := Open(Options{})
	defer l.Close()
	if b, err := l.Get(t.Context(), "https://www.example.net:"+port+"/"); err != nil || string(b) != "ok" {
		t.Errorf("page = %q, %v", b, err)
	}
}

func TestGetGoesToASocketAndGivesUp(t *testing.T) {
	sock := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", sock)
	must(t, err)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hangs" {
			<-r.Context().Done()
		}
		fmt.Fprint(w, "ok")
	})}
	go srv.Serve(ln)
	defer srv.Close()
	l := Open(Options{})
	defer l.Close()
	if b, err := l.Get(t.Context(), "unix:"+sock+":/x"); err != nil || string(b) != "ok" {
		t.Errorf("page = %q, %v", b, err)
	}
	if _, err := l.Get(t.Context(), "unix:"+sock+":/hangs"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a page that never comes: %v", err)
	}
}

func TestReadFromReadsAPart(t *testing.T) {
	root := t.TempDir()
	must(t, os.WriteFile(filepath.Join(root, "log"), []byte("0123456789"), 0o644))
	for _, r := range []Reader{Open(Options{Root: root}), &Fake{Files: map[string]string{"/log": "0123456789"}}} {
		for _, c := range []struct {
			off  int64
			n    int
			want string
		}{{0, 4, "0123"}, {8, 10, "89"}, {10, 5, ""}, {99, 5, ""}, {3, 0, ""}} {
			if b, err := r.ReadFrom("/log", c.off, c.n); err != nil || string(b) != c.want {
				t.Errorf("%T: from %d, %d bytes = %q, %v, want %q", r, c.off, c.n, b, err, c.want)
			}
		}
		if _, err := r.ReadFrom("/none", 0, 1); !errors.Is(err, fail.ErrAbsent) {
			t.Errorf("%T: %v", r, err)
		}
	}
}

func TestConsoleTakesOnlyCommandsThatShow(t *testing.T) {
	l := Open(Options{WithPG: true, DSN: "host=/nowhere"})
	for _, c := range []string{"shutdown", "pause", "show pools; shutdown", "SHOW POOLS", "kill x", ""} {
		if _, err := l.Console(t.Context(), c); err == nil || !strings.Contains(err.Error(), "not on the list") {
			t.Errorf("%q: %v", c, err)
		}
	}
}

func TestClockTells(t *testing.T) {
	c, err := Open(Options{}).Clock()
	if errors.Is(err, fail.ErrDenied) {
		return // a container may forbid the question; then it is a named gap
	}
	must(t, err)
	if c.MaxError < 0 {
		t.Errorf("clock = %+v", c)
	}
}
