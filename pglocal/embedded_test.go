package pglocal

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"headroom/testkit/need"
)

func TestEmbedded(t *testing.T) {
	need.Have(t, "embedded")
	major := newestMajor
	if v := os.Getenv(majorVar); v != "" {
		var err error
		if major, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	s := startEmbedded(t, major)
	if got := ask(t, s.DSN(), "show server_version"); !strings.HasPrefix(got, fmt.Sprint(major, ".")) {
		t.Errorf("server_version = %q, want %d", got, major)
	}
	if s.Major != major || !strings.HasPrefix(s.Version, fmt.Sprint(major, ".")) {
		t.Errorf("Major, Version = %d, %q", s.Major, s.Version)
	}
	standbys(t, s)
}

func TestScratchFolderFetchesNoSecondCopy(t *testing.T) {
	need.Have(t, "embedded")
	first := startEmbedded(t, newestMajor)
	t.Setenv(mirrorVar, "http://127.0.0.1:1") // nothing can be fetched any more
	p, err := embedded(t.Context(), Options{Parent: folder(t), Major: newestMajor})
	if err != nil || p.version != first.Version {
		t.Errorf("programs %+v, %v", p, err)
	}
}

// startEmbedded starts the fetched programs even where others are installed.
func startEmbedded(t *testing.T, major int) *Server {
	t.Helper()
	o := Options{Major: major, Name: t.Name(), Progress: func(s string) { t.Log(s) }}
	acct, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	if o.Parent, err = parentFolder(o, acct); err != nil {
		t.Fatal(err)
	}
	p, err := embedded(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	s, err := startProgram(t.Context(), o, p, acct)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s ready after %v", s.Version, time.Since(begin))
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}
