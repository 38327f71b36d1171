package pglocal

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"headroom/host"
)

func TestUntarStaysInside(t *testing.T) {
	for _, h := range []tar.Header{
		{Name: "../out", Typeflag: tar.TypeReg},
		{Name: "/etc/out", Typeflag: tar.TypeReg},
		{Name: "link/out", Typeflag: tar.TypeReg},
		{Name: "pipe", Typeflag: tar.TypeFifo},
		{Name: "big", Typeflag: tar.TypeReg, Size: fileMax + 1},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		outside := t.TempDir()
		if err := w.WriteHeader(&tar.Header{Name: "link", Linkname: outside, Typeflag: tar.TypeSymlink}); err != nil {
			t.Fatal(err)
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := untar(t.Context(), tar.NewReader(&b), dir); err == nil {
			t.Errorf("%s was unpacked", h.Name)
		}
		if found, _ := os.ReadDir(outside); len(found) > 0 {
			t.Errorf("%s led to %v", h.Name, found)
		}
	}
}

func TestCopyKeepsHolesAndRefusesLinks(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	us := &host.Account{UID: os.Getuid(), GID: os.Getgid()}
	f, err := os.Create(filepath.Join(src, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{0, 8 << 20} {
		if _, err := f.WriteAt([]byte("data"), at); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(32 << 20); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"pg_wal/archive_status", "base/1"} {
		if err := os.MkdirAll(filepath.Join(src, p), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{"pg_wal/0001", "base/1/1259", "base/1/empty"} {
		if err := os.WriteFile(filepath.Join(src, p), []byte(strings.TrimSuffix(p, "base/1/empty")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := copyTree(t.Context(), src, dst, us, "pg_wal"); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"sparse", "base/1/1259", "base/1/empty"} {
		x, err1 := os.ReadFile(filepath.Join(src, p))
		y, err2 := os.ReadFile(filepath.Join(dst, p))
		if err1 != nil || err2 != nil || !bytes.Equal(x, y) {
			t.Errorf("%s differs: %v %v", p, err1, err2)
		}
	}
	if st, err := statT(filepath.Join(dst, "sparse")); err != nil || st.Blocks*512 > 1<<20 {
		t.Errorf("the copy of a file with holes takes %v blocks (%v)", st.Blocks, err)
	}
	if in, err := os.ReadDir(filepath.Join(dst, "pg_wal")); err != nil || len(in) > 0 {
		t.Errorf("pg_wal holds %v (%v), want an empty folder", in, err)
	}
	if err := os.Symlink("/etc", filepath.Join(src, "base", "2")); err != nil {
		t.Fatal(err)
	}
	if err := copyTree(t.Context(), src, t.TempDir(), us); err == nil || !strings.Contains(err.Error(), "base/2 is a link") {
		t.Errorf("a link: %v", err)
	}
}

func TestLongParentGetsShortSocket(t *testing.T) {
	s := run(t, Options{Parent: filepath.Join(folder(t), strings.Repeat("long", 30))})
	if got := ask(t, s.DSN(), "select 1::text"); got != "1" {
		t.Errorf("answer %q", got)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Conn.SocketDir); err == nil {
		t.Errorf("%s was left behind", s.Conn.SocketDir)
	}
}

func TestTCP(t *testing.T) {
	s := run(t, Options{TCP: true, Settings: map[string]string{"log_statement": "all"}})
	if got := ask(t, s.TCPDSN(), "select host(inet_server_addr())"); got != "127.0.0.1" {
		t.Errorf("server address %q", got)
	}
	fi, err := os.Stat(s.Conn.Passfile)
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("password file: %v, %v", fi, err)
	}
	line, err := os.ReadFile(s.Conn.Passfile)
	if err != nil {
		t.Fatal(err)
	}
	password := string(line[bytes.LastIndexByte(line, ':')+1 : len(line)-1])
	if log := strings.Join(s.Log(1000), "\n"); strings.Contains(log, password) || !strings.Contains(log, "inet_server_addr") {
		t.Error("the log holds the password, or does not log statements at all")
	}
	if strings.Contains(s.TCPDSN(), password) || strings.Contains(strings.Join(s.argv(), " "), password) {
		t.Error("the password is in the connection string or the command line")
	}
	c, err := s.Clone(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Stop() }()
	if got := ask(t, c.TCPDSN(), "show port"); got == ask(t, s.TCPDSN(), "show port") {
		t.Errorf("both listen on port %s", got)
	}
}

func TestHostRestarts(t *testing.T) {
	s := run(t, Options{})
	h := s.Host()
	defer h.Close()
	pid := s.PID()
	if err := h.PGExec(t.Context(), "alter system set max_connections = 33"); err != nil {
		t.Fatal(err)
	}
	if err := h.PGRestart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, s.DSN(), "show max_connections"); got != "33" || s.PID() == pid {
		t.Errorf("max_connections = %s, pid %d then %d", got, pid, s.PID())
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ log, want string }{
		{"2026-01-01 LOG:  starting\n2026-01-01 [7] FATAL:  out of it\n2026-01-01 [7] DETAIL:  all\n2026-01-01 LOG:  bye", "out of it; all"},
		{"a LOG:  bad x\na LOG:  bad y\na FATAL:  configuration file \"f\" contains errors", "bad x; bad y; configuration file \"f\" contains errors"},
		{"a FATAL:  real\nb FATAL:  the database system is starting up", "real"},
		{"postgres: error while loading shared libraries: libx.so", "postgres: error while loading shared libraries: libx.so"},
		{"", ""},
	} {
		if got := words(strings.Split(c.log, "\n")); got != c.want {
			t.Errorf("words(%q) = %q, want %q", c.log, got, c.want)
		}
	}
}

// What a killed initdb had started writes on for a moment.
func TestDraftIsRemovedWhileItIsWritten(t *testing.T) {
	for range 20 {
		dir := filepath.Join(t.TempDir(), "draft")
		if err := os.MkdirAll(filepath.Join(dir, "base"), 0o755); err != nil {
			t.Fatal(err)
		}
		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() {
				for i := range 3000 {
					if os.WriteFile(fmt.Sprintf("%s/base/%d.%d", dir, w, i), nil, 0o600) != nil {
						return // the folder is gone
					}
				}
			})
		}
		err := removeDraft(dir)
		writers.Wait()
		if _, gone := os.Stat(dir); err != nil || !errors.Is(gone, os.ErrNotExist) {
			t.Fatalf("%v; %v", err, gone)
		}
	}
}
