package host

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"headroom/fail"
)

// Limits of one status page.
const (
	getTimeout = 2 * time.Second
	getLimit   = 1 << 20
)

// ownPage is where a status page is: what to dial on this very machine, and
// the address to ask for.
type ownPage struct{ network, addr, url string }

// ownAddress reads "http://NAME:PORT/PATH" or "unix:/SOCKET:/PATH". A name is
// only said to the server; the connection goes to this machine's loopback.
func ownAddress(raw string) (ownPage, error) {
	if rest, ok := strings.CutPrefix(raw, "unix:"); ok {
		sock, path, ok := strings.Cut(rest, ":")
		if !ok || !strings.HasPrefix(sock, "/") || !strings.HasPrefix(path, "/") {
			return ownPage{}, fmt.Errorf("get %q: want unix:/SOCKET:/PATH", raw)
		}
		return ownPage{"unix", sock, "http://localhost" + path}, nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return ownPage{}, fmt.Errorf("get %q: want http://NAME:PORT/PATH or unix:/SOCKET:/PATH", raw)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	at := "127.0.0.1"
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		if !ip.IsLoopback() {
			return ownPage{}, fail.Hint(fmt.Errorf("get %q: not this machine's loopback address", raw),
				"status pages are asked for on loopback addresses and unix sockets only")
		}
		at = ip.String()
	}
	return ownPage{"tcp", net.JoinHostPort(at, port), raw}, nil
}

// pages are the clients for status pages, one for each address, so that a
// page that is asked for every few seconds keeps its connection.
type pages struct {
	mu sync.Mutex
	of map[ownPage]*http.Client
}

func (p *pages) client(o ownPage) *http.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.of[o]; c != nil {
		return c
	}
	if len(p.of) >= 64 {
		p.shut()
	}
	c := &http.Client{
		Timeout:       getTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, o.network, o.addr)
			},
			// The other end is this machine whatever its certificate says, and is told nothing.
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			MaxIdleConns:    1, IdleConnTimeout: 90 * time.Second, ResponseHeaderTimeout: getTimeout, MaxResponseHeaderBytes: 64 << 10,
		},
	}
	if p.of == nil {
		p.of = map[ownPage]*http.Client{}
	}
	p.of[o] = c
	return c
}

// shut ends all connections. p.mu is held.
func (p *pages) shut() {
	for _, c := range p.of {
		c.CloseIdleConnections()
	}
	p.of = nil
}

func (p *pages) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut()
}

// Get implements Reader.
func (l *Local) Get(ctx context.Context, address string) ([]byte, error) {
	at, err := ownAddress(address)
	if err != nil {
		return nil, err
	}
	if l.opt.Root != "/" {
		return nil, fmt.Errorf("get %s: %w: a folder of files serves no pages", address, fail.ErrAbsent)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.url, nil)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", address, err)
	}
	req.Header.Set("User-Agent", "headroom")
	res, err := l.pages.client(at).Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			if ue.Timeout() {
				return nil, fmt.Errorf("get %s: it does not answer in time: %w", address, context.DeadlineExceeded)
			}
			err = ue.Err
		}
		return nil, fmt.Errorf("get %s: %w", address, plain(err))
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, getLimit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("get %s: %w", address, err)
	case len(b) > getLimit:
		return nil, fmt.Errorf("get %s: the page is larger than 1 MiB", address)
	case res.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("get %s: %s: %w", address, res.Status, fail.ErrAbsent)
	case res.StatusCode == http.StatusForbidden || res.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("get %s: %s: %w", address, res.Status, fail.ErrDenied)
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("get %s: %s", address, res.Status)
	}
	return b, nil
}
