package auth

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"headroom/fail"
)

func TestTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "tokens.json")
	a, b := OpenTokens(path), OpenTokens(path) // two processes
	secret, err := a.Create("web1", Write, Read, Read)
	if err != nil {
		t.Fatal(err)
	}
	w, err := b.Check(secret)
	if err != nil || w.Name != "web1" || !w.May(Read) || !w.May(Write) || w.May(Change) || w.Session {
		t.Errorf("%+v %v", w, err)
	}
	for _, wrong := range []string{"", "x", secret + "x", secret[:len(secret)-1], strings.ToUpper(secret)} {
		if _, err := b.Check(wrong); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if _, err := b.Create("web1", Read); err == nil {
		t.Error("two tokens of one name")
	}
	for _, name := range []string{"", "a b", "../x", strings.Repeat("a", 65)} {
		if _, err := a.Create(name, Read); fail.Code(err) != fail.Usage {
			t.Errorf("name %q: %v", name, err)
		}
	}
	if _, err := a.Create("x"); fail.Code(err) != fail.Usage {
		t.Errorf("no scope: %v", err)
	}
	if _, err := a.Create("x", "all"); fail.Code(err) != fail.Usage {
		t.Errorf("unknown scope: %v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(text), secret) {
		t.Errorf("the secret is in the file: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	list, err := a.List()
	if err != nil || len(list) != 1 || list[0].Hash != "" {
		t.Errorf("%+v %v", list, err)
	}
	if err := a.Revoke("web1"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Check(secret); !errors.Is(err, ErrUnknown) {
		t.Errorf("after it was revoked elsewhere: %v", err)
	}
	if err := a.Revoke("web1"); !errors.Is(err, fail.ErrAbsent) {
		t.Errorf("revoke again: %v", err)
	}
}

// A file that cannot be read lets nobody in, and is not overwritten.
func TestBrokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	if err := os.WriteFile(path, []byte(`[{"name":`), 0o600); err != nil {
		t.Fatal(err)
	}
	tk := OpenTokens(path)
	if _, err := tk.Check("x"); err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("check: %v", err)
	}
	if _, err := tk.Create("a", Read); err == nil || fail.HintOf(err) == "" {
		t.Errorf("create: %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != `[{"name":` {
		t.Errorf("the file was overwritten: %q", text)
	}
}

func TestManyProcessesLoseNoToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	var all sync.WaitGroup
	names := "abcdefgh"
	for i := range names {
		all.Go(func() {
			tk := OpenTokens(path)
			for k := range 5 {
				if _, err := tk.Create(names[i:i+1]+string(rune('0'+k)), Read); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if list, err := OpenTokens(path).List(); err != nil || len(list) != 40 {
		t.Errorf("%d of 40 tokens: %v", len(list), err)
	}
}

func TestLinksAndSessions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.json")
	s := OpenSessions(path)
	now := time.Now()
	s.now = func() time.Time { return now }
	code, err := s.NewCode(Read)
	if err != nil {
		t.Fatal(err)
	}
	other := OpenSessions(path)
	other.now = s.now
	secret, err := other.Redeem(code)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Redeem(code); !errors.Is(err, ErrUnknown) {
		t.Errorf("a code worked twice: %v", err)
	}
	if w, err := s.Check(secret, nil); err != nil || !w.Session || !w.May(Read) || w.May(Change) {
		t.Errorf("%+v %v", w, err)
	}
	text, _ := os.ReadFile(path)
	if strings.Contains(string(text), secret) || strings.Contains(string(text), code) {
		t.Error("a secret is in the file")
	}
	late, err := s.NewCode(Read)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(LinkLife + time.Second)
	if _, err := s.Redeem(late); !errors.Is(err, ErrUnknown) {
		t.Errorf("a code that is too old: %v", err)
	}
	now = now.Add(SessionLife)
	if _, err := s.Check(secret, nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("a session that is too old: %v", err)
	}
	for range 3 * maxLinks {
		if _, err := s.NewCode(Read); err != nil {
			t.Fatal(err)
		}
	}
	if st, err := s.file.get(); err != nil || len(st.Codes) != maxLinks || len(st.Sessions) != 1 && len(st.Sessions) != 0 {
		t.Errorf("%d codes, %d sessions, %v", len(st.Codes), len(st.Sessions), err)
	}
}

// Of many who use a code at once one gets in.
func TestOneCodeOneSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.json")
	code, err := OpenSessions(path).NewCode(Read)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	in := 0
	for range 20 {
		all.Go(func() {
			if _, err := OpenSessions(path).Redeem(code); err == nil {
				mu.Lock()
				in++
				mu.Unlock()
			} else if !errors.Is(err, ErrUnknown) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if in != 1 {
		t.Errorf("%d got in", in)
	}
}

func TestLimiter(t *testing.T) {
	now := time.Now()
	l := Limiter{Now: func() time.Time { return now }}
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for i := range failBurst {
		if w := l.Failed(a); w != 0 {
			t.Fatalf("try %d waits %s", i, w)
		}
	}
	if l.Failed(a) == 0 || l.Failed(b) != 0 {
		t.Error("one address is slowed, another is not")
	}
	now = now.Add(failEvery)
	if l.Failed(a) != 0 || l.Failed(a) == 0 {
		t.Error("one try is earned after a while, not more")
	}
	v6 := netip.MustParseAddr("2001:db8::1")
	for range failBurst {
		l.Failed(v6)
		v6 = v6.Next()
	}
	if l.Failed(v6) == 0 {
		t.Error("addresses of one /64 are counted apart")
	}
	now = now.Add(time.Hour)
	slowed := 0
	for i := range 1000 {
		if l.Failed(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})) > 0 {
			slowed++
		}
	}
	if slowed < 700 {
		t.Errorf("%d of 1000 addresses are slowed", slowed)
	}
	for i := range 3 * failPlaces {
		l.Failed(netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	if len(l.place) > failPlaces {
		t.Errorf("%d addresses are remembered", len(l.place))
	}
}
