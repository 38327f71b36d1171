// Package web is the one server: it listens, knows who asks, and guards every
// request before it reaches an answer of web/api or a page.
//
// It listens on the loopback only, unless TLS and a token are set up; it
// answers only to host names it knows, takes nothing from other sites' pages,
// and bounds what a client may take of memory, time and connections.
package web

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"headroom/fail"
	"headroom/web/api"
	"headroom/web/auth"
)

// Options says where a server listens and what it serves.
type Options struct {
	Listen   string // "127.0.0.1:8420", "unix:/run/headroom/web.sock"
	Socket   string // a unix socket besides; mode 0660. Tokens count there as well
	CertFile string // TLS; read again when the file changes
	KeyFile  string
	Hosts    []string // names it answers to besides those of the loopback and of Listen
	API      *api.API
	// Pages answers everything that is no API, after a login. auth.From tells
	// who asks. nil: there are none.
	Pages    http.Handler
	Tokens   *auth.Tokens
	Sessions *auth.Sessions
	Log      func(string) // troubles, one line each; nil: silence
	Conns    int          // connections at once; 0: 4096
	// Patience is how long a request that is no stream may take, to come and
	// to be answered; 0: 60 s.
	Patience time.Duration
}

// address is a parsed Options.Listen.
type address struct {
	network, text string
	host          string // "" for a socket, or all addresses
	loopback      bool
}

func parseListen(listen string) (address, error) {
	if path, ok := strings.CutPrefix(listen, "unix:"); ok {
		if !strings.HasPrefix(path, "/") {
			return address{}, fail.With(fmt.Errorf("listen on %q: want unix:/path/of/the.sock", listen), fail.Usage)
		}
		return address{network: "unix", text: path, loopback: true}, nil
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "" {
		return address{}, fail.With(fail.Hint(fmt.Errorf("listen on %q: want address:port", listen), "e.g. 127.0.0.1:8420, or unix:/run/headroom/web.sock"), fail.Usage)
	}
	a := address{network: "tcp", text: listen, host: host, loopback: host == "localhost"}
	if ip, err := netip.ParseAddr(host); err == nil {
		a.loopback = ip.IsLoopback()
		if ip.IsUnspecified() {
			a.host = ""
		}
	}
	return a, nil
}

// check refuses what would be open to others.
func (o *Options) check() (address, error) {
	a, err := parseListen(o.Listen)
	if err != nil {
		return a, err
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return a, fail.With(errors.New("serve TLS: certificate and key belong together, one is missing"), fail.Usage)
	}
	if o.API == nil || o.Tokens == nil || o.Sessions == nil {
		return a, errors.New("serve: answers, tokens or sessions are missing")
	}
	if a.loopback {
		return a, nil
	}
	if o.CertFile == "" {
		return a, fail.With(fail.Hint(fmt.Errorf("listen on %s: others could read what is sent, tokens too, without TLS", o.Listen),
			"give --tls-cert and --tls-key, or listen on 127.0.0.1 behind a proxy that speaks TLS"), fail.Usage)
	}
	tokens, err := o.Tokens.List()
	if err != nil {
		return a, err
	}
	if len(tokens) == 0 {
		return a, fail.With(fail.Hint(fmt.Errorf("listen on %s: there is no token, so nobody but this machine could be known", o.Listen),
			"make one first: headroom up token create NAME --scope read"), fail.Usage)
	}
	if len(o.Hosts) == 0 && a.host == "" {
		return a, fail.With(fail.Hint(fmt.Errorf("listen on %s: no host name to answer to", o.Listen), "give --name NAME: the name that stands in the browser's address line"), fail.Usage)
	}
	return a, nil
}

// certificate gives out a key pair and reads it again when the file changes.
type certificate struct {
	certFile, keyFile string
	log               func(string)
	last              *tls.Certificate
	stamp             time.Time
	next              time.Time
	mu                sync.Mutex
}

func newCertificate(certFile, keyFile string, log func(string)) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("serve TLS: %w", err)
	}
	c.last, c.stamp = &pair, c.modified()
	return c, nil
}

func (c *certificate) modified() time.Time {
	info, err := os.Stat(c.certFile)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

const certLook = 30 * time.Second

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.After(c.next) {
		c.next = now.Add(certLook)
		if m := c.modified(); !m.IsZero() && !m.Equal(c.stamp) {
			pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
			if err != nil {
				c.log("the new certificate is not used: " + err.Error()) // half written, perhaps
			} else {
				c.last, c.stamp = &pair, m
			}
		}
	}
	return c.last, nil
}
