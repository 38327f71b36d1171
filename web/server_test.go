package web

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"headroom/fail"
	"headroom/testkit/need"
	"headroom/web/auth"
)

// pair writes a certificate for a name that signs itself.
func pair(t testing.TB, dir, name string) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name, "localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	kd, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for path, b := range map[string][]byte{cert: certPEM, key: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: kd})} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return cert, key, pool
}

func TestOffLoopbackItNeedsTLSAndAToken(t *testing.T) {
	cert, key, _ := pair(t, t.TempDir(), "db1.example")
	withToken := func(o *Options) {
		if _, err := o.Tokens.Create("a", auth.Read); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		alter func(*Options)
		want  string
	}{
		{"plain", func(o *Options) { o.Listen = "0.0.0.0:0" }, "without TLS"},
		{"plain, all of v6", func(o *Options) { o.Listen = "[::]:0" }, "without TLS"},
		{"plain, no address", func(o *Options) { o.Listen = ":0" }, "without TLS"},
		{"plain, a name", func(o *Options) { o.Listen = "db1.example:0" }, "without TLS"},
		{"plain with token", func(o *Options) { o.Listen = "0.0.0.0:0"; withToken(o) }, "without TLS"},
		{"no token", func(o *Options) { o.Listen = "0.0.0.0:0"; o.CertFile, o.KeyFile = cert, key }, "no token"},
		{"no host", func(o *Options) { o.Listen = "0.0.0.0:0"; o.CertFile, o.KeyFile = cert, key; withToken(o) }, "no host name"},
		{"no key", func(o *Options) { o.CertFile = cert }, "one is missing"},
		{"no file", func(o *Options) { o.CertFile, o.KeyFile = "/none", "/none" }, "no such file"},
		{"nonsense", func(o *Options) { o.Listen = "8420" }, "address:port"},
	} {
		o := options(t)
		c.alter(&o)
		s, err := New(o)
		if err == nil {
			s.close()
			t.Errorf("%s: it listens", c.name)
			continue
		}
		if !strings.Contains(err.Error()+fail.HintOf(err), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	o := options(t)
	o.Listen, o.CertFile, o.KeyFile, o.Hosts = "0.0.0.0:0", cert, key, []string{"db1.example"}
	withToken(&o)
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.close()
}

func TestTLSAndANewCertificate(t *testing.T) {
	dir := t.TempDir()
	cert, key, pool := pair(t, dir, "db1.example")
	s := start(t, func(o *Options) { o.CertFile, o.KeyFile, o.Hosts = cert, key, []string{"db1.example"} })
	client := func(pool *x509.CertPool) *http.Client {
		c := browser(t)
		c.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "db1.example"}, DisableKeepAlives: true, ForceAttemptHTTP2: true}
		return c
	}
	link, err := LoginLink(s.o.Sessions, s.URL(), auth.Read, auth.Change)
	if err != nil || !strings.HasPrefix(link, "https://") {
		t.Fatal(link, err)
	}
	_, _, h := ask(t, client(pool), "GET", link, "")
	if c := h.Get("Set-Cookie"); !strings.HasPrefix(c, "__Host-headroom=") || !strings.Contains(c, "Secure") {
		t.Errorf("cookie %q", c)
	}
	if h.Get("Strict-Transport-Security") == "" {
		t.Error("no Strict-Transport-Security")
	}
	_, _, fresh := pair(t, dir, "db1.example")
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(cert, later, later); err != nil {
		t.Fatal(err)
	}
	got, err := newCertificate(cert, key, s.log2)
	if err != nil {
		t.Fatal(err)
	}
	got.stamp = time.Time{}
	pairNow, err := got.get(nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pairNow.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: fresh}); err != nil {
		t.Errorf("the new certificate is not served: %v", err)
	}
}

func (s *stand) log2(text string) { s.Server.log(text) }

func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.sock")
	if l, err := net.Listen("unix", path); err != nil { // one that a killed server left
		t.Fatal(err)
	} else {
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		l.Close()
	}
	s := start(t, func(o *Options) { o.Socket = path })
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Fatalf("%v %v", info, err)
	}
	c := browser(t)
	c.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}, DisableKeepAlives: true}
	if status, text, _ := ask(t, c, "GET", "http://localhost/api/v1/status", ""); status != 401 {
		t.Errorf("without a token: %d %s", status, text)
	}
	if status, text, _ := ask(t, c, "GET", "http://localhost/api/v1/status", "", bearer(s.token(t, auth.Read))...); status != 200 {
		t.Errorf("with a token: %d %s", status, text)
	}
	o := options(t)
	o.Listen = "unix:" + path
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "another server answers") {
		t.Errorf("a second server on the socket: %v", err)
	}
	plain := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plain, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Listen = "unix:" + plain
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("a file in the way: %v", err)
	}
}

func TestTheSameAddressTwice(t *testing.T) {
	s := start(t, nil)
	o := options(t)
	o.Listen = s.Addr().String()
	if _, err := New(o); err == nil || !strings.Contains(fail.HintOf(err), "another headroom up") {
		t.Errorf("%v (%s)", err, fail.HintOf(err))
	}
}

// Slow heads are cut off, and while they last others are served.
func TestSlowloris(t *testing.T) {
	s := start(t, nil)
	var slow []net.Conn
	for range 50 {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET /login HTTP/1.1\r\nHost: localhost\r\nX-A: ")
		slow = append(slow, c)
	}
	if status, _, _ := ask(t, browser(t), "GET", s.URL()+"/login", ""); status != 200 {
		t.Errorf("beside them: %d", status)
	}
	for _, c := range slow {
		_ = c.SetReadDeadline(time.Now().Add(4 * headTime))
		if _, err := io.ReadAll(c); err != nil && os.IsTimeout(err) {
			t.Fatal("a head that never ends is waited for")
		}
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	s := start(t, func(o *Options) { o.Conns = 4 })
	var held []net.Conn
	for range 4 {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
		fmt.Fprint(c, "GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatal(line, err)
		}
	}
	over, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	fmt.Fprint(over, "GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n")
	_ = over.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	if n, err := over.Read(make([]byte, 1)); err == nil {
		t.Errorf("a fifth connection is answered (%d)", n)
	}
	held[0].Close()
	_ = over.SetReadDeadline(time.Now().Add(10 * time.Second))
	if line, err := bufio.NewReader(over).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Errorf("when there is room: %q %v", line, err)
	}
	for _, c := range held {
		c.Close()
	}
}

// A thousand tabs cost little, end cleanly, and the server stops under them.
func TestAThousandStreams(t *testing.T) {
	s := start(t, nil)
	var m0, m1 runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m0)
	var sessions []string
	for range 40 {
		c := s.loggedIn(t)
		k := c.Jar.Cookies(mustParse(t, s.URL()))[0]
		c.CloseIdleConnections()
		sessions = append(sessions, k.Name+"="+k.Value)
	}
	need.Eventually(t, 10*time.Second, "the logins' connections are closed", func() bool { return len(s.listens[0].(*bounded).room) <= 1 }) // one is for the next
	base := runtime.NumGoroutine()
	open := func(cookie string) (net.Conn, string) {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\nCookie: %s\r\n\r\n", cookie)
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return c, line
	}
	var conns []net.Conn
	for i := range 1000 {
		c, line := open(sessions[i%len(sessions)])
		if !strings.Contains(line, "200") {
			t.Fatalf("stream %d: %s", i, line)
		}
		conns = append(conns, c)
	}
	for range 10 {
		c, line := open(sessions[0])
		conns = append(conns, c)
		if strings.Contains(line, "429") {
			break
		}
	}
	if c, line := open(sessions[0]); !strings.Contains(line, "429") {
		t.Errorf("one session may have any number of streams: %s", line)
	} else {
		c.Close()
	}
	runtime.GC()
	runtime.ReadMemStats(&m1)
	held := (m1.HeapInuse + m1.StackInuse - m0.HeapInuse - m0.StackInuse) / uint64(len(conns))
	t.Logf("%d streams: %d bytes each, %d goroutines", len(conns), held, runtime.NumGoroutine()-base)
	if held > 64<<10 {
		t.Errorf("a stream takes %d bytes", held)
	}
	for _, c := range conns[:500] {
		c.Close()
	}
	need.Eventually(t, 30*time.Second, "half of the streams have gone", func() bool {
		return runtime.NumGoroutine()-base < 2200*len(conns[500:])/1000
	})
	began := time.Now()
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	s.ended <- nil
	if took := time.Since(began); took > 2*drainTime {
		t.Errorf("stopping took %s", took)
	}
	for _, c := range conns[500:] {
		text, _ := io.ReadAll(c) // a reset is an end, too
		_ = text
		c.Close()
	}
	need.Eventually(t, 30*time.Second, "all goroutines of streams have gone", func() bool { return runtime.NumGoroutine() <= base+2 })
}
