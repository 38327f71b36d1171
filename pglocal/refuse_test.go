package pglocal

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"headroom/fail"
	"headroom/host"
)

// refused expects Start to fail with words in the error and a hint, and to
// leave nothing behind.
func refused(t *testing.T, o Options, words ...string) error {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err == nil {
		_ = s.Stop()
		t.Fatal("it started")
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not hold %q", err, w)
		}
	}
	if fail.HintOf(err) == "" {
		t.Errorf("error %q has no hint", err)
	}
	if left := servers(t, o.Parent); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return err
}

func TestBadSettings(t *testing.T) {
	parent := folder(t)
	for _, c := range []struct{ name, value, words string }{
		{"shared_bufers", "1GB", `unrecognized configuration parameter "shared_bufers"`},
		{"work_mem", "lots", `invalid value for parameter "work_mem": "lots"`},
		{"max_connections", "0", `0 is outside the valid range for parameter "max_connections"`},
		{"max_wal_size = 1GB #", "x", "not a setting's name"},
		{"Port", "5433", "chooses it itself"},
		{"shared_preload_libraries", "no_such_thing", `could not access file "no_such_thing"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused(t, Options{Parent: parent, Settings: map[string]string{c.name: c.value}}, c.words)
		})
	}
}

func TestBadInitArgs(t *testing.T) {
	refused(t, Options{Parent: folder(t), InitArgs: []string{"--encoding=KLINGON"}}, "KLINGON")
}

func TestUnknownMajor(t *testing.T) {
	err := refused(t, Options{Parent: folder(t), Major: 99}, "PostgreSQL 99", "not installed")
	if !errors.Is(err, fail.ErrAbsent) {
		t.Errorf("%v is not ErrAbsent", err)
	}
}

func TestNoSpace(t *testing.T) {
	parent := folder(t)
	if os.Getuid() == 0 {
		if err := unix.Mount("tmpfs", parent, "tmpfs", 0, "size=48m,mode=755"); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := unix.Unmount(parent, 0); err != nil {
				t.Error(err)
			}
		}()
		refused(t, Options{Parent: parent}, parent, "needed", "free")
		nearlyFull(t, parent)
	}
	if err := needSpace(parent, 1<<60); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), parent) {
		t.Errorf("room for an exbibyte: %v", err)
	}
}

// nearlyFull copies more than fits: what the check before could not foresee.
func nearlyFull(t *testing.T, small string) {
	t.Helper()
	src, dst := t.TempDir(), filepath.Join(small, "dst")
	if err := os.WriteFile(filepath.Join(src, "big"), make([]byte, 64<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dst, 0o700); err != nil {
		t.Fatal(err)
	}
	err := copyTree(t.Context(), src, dst, &host.Account{UID: os.Getuid(), GID: os.Getgid()})
	if !errors.Is(err, syscall.ENOSPC) || fail.HintOf(err) == "" {
		t.Errorf("copy onto a full disk: %v (hint %q)", err, fail.HintOf(err))
	}
}

func TestInterrupted(t *testing.T) {
	parent := folder(t)
	for _, when := range []string{"making a data folder", "never said"} {
		ctx, stop := context.WithCancel(t.Context())
		s, err := Start(ctx, Options{Parent: parent, Progress: func(m string) {
			if strings.HasPrefix(m, when) {
				stop()
			}
		}})
		stop()
		if when == "never said" { // a server outlives the context it was started with
			if err != nil {
				t.Fatal(err)
			}
			if got := ask(t, s.DSN(), "select 1::text"); got != "1" {
				t.Errorf("answer %q", got)
			}
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted while %s: %v", when, err)
		}
		if left := servers(t, parent); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

func TestParentOutOfReach(t *testing.T) {
	parent := folder(t)
	shut := filepath.Join(parent, "shut", "deep")
	if err := os.MkdirAll(shut, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(shut), 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		refused(t, Options{Parent: shut}, "enter "+filepath.Dir(shut))
		t.Setenv("HEADROOM_STATE", shut)
		t.Setenv("TMPDIR", folder(t))
		if s := run(t, Options{}); strings.HasPrefix(s.DataDir, shut) {
			t.Errorf("the server is in %s, where its account cannot go", s.DataDir)
		}
	}
	t.Setenv("HEADROOM_STATE", "/proc/read-only") // no folder can be made there, by nobody
	t.Setenv("TMPDIR", folder(t))
	if s := run(t, Options{}); !strings.HasPrefix(s.DataDir, os.TempDir()) {
		t.Errorf("the server is in %s", s.DataDir)
	}
	if err := os.Chmod(parent, 0o777); err != nil {
		t.Fatal(err)
	}
	refused(t, Options{Parent: parent}, "others may write")
}

func TestFetchRefuses(t *testing.T) {
	t.Setenv("HEADROOM_STATE", t.TempDir()) // nothing was fetched there before
	o := Options{Parent: folder(t)}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		words  string
	}{
		"tampered": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("PK")) }, "SHA-256"},
		"missing":  {http.NotFound, "404"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(c.answer)
			defer srv.Close()
			t.Setenv(mirrorVar, srv.URL+"/")
			_, err := embedded(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), c.words) || !strings.Contains(fail.HintOf(err), "apt-get install postgresql-18") {
				t.Errorf("error %v, hint %q", err, fail.HintOf(err))
			}
		})
	}
	t.Run("offline", func(t *testing.T) {
		srv := httptest.NewServer(nil)
		srv.Close()
		t.Setenv(mirrorVar, srv.URL)
		_, err := embedded(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(fail.HintOf(err), "apt-get install postgresql-18") {
			t.Errorf("error %v, hint %q", err, fail.HintOf(err))
		}
	})
	if left, _ := filepath.Glob(filepath.Join(o.Parent, "postgresql-*.tmp")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestMajorByEnvironment(t *testing.T) {
	o := Options{Parent: folder(t)}
	t.Setenv(majorVar, "98")
	refused(t, o, "PostgreSQL 98", "not installed")
	o.Major = 99
	refused(t, o, "PostgreSQL 99", "not installed") // what is asked for counts
	t.Setenv(majorVar, "new")
	if err := refused(t, Options{Parent: o.Parent}, majorVar, `"new"`); fail.Code(err) != fail.Usage {
		t.Errorf("%v: exit status %d", err, fail.Code(err))
	}
}
