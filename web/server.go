package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"headroom/fail"
	"headroom/web/auth"
)

// Bounds of a connection.
const (
	headTime   = 5 * time.Second // to send a request's head; of who is not known, a body as well
	idleTime   = 60 * time.Second
	headBytes  = 32 << 10
	answerTime = 60 * time.Second // of answers that are no streams
	drainTime  = 5 * time.Second  // for answers under way when the server stops
)

// Server is a server that listens already, so that its address is known.
type Server struct {
	o       Options
	at      address
	http    *http.Server
	listens []net.Listener
	names   map[string]bool
	limiter auth.Limiter
	log     func(string)
}

// New checks the options, listens, and answers from Run on. An address that
// would be open to others without TLS and a token is refused.
func New(o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = func(string) {}
	}
	if o.Conns == 0 {
		o.Conns = 4096
	}
	o.Patience = cmp.Or(o.Patience, answerTime)
	at, err := o.check()
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, at: at, log: o.Log}
	var secure *tls.Config
	if o.CertFile != "" {
		c, err := newCertificate(o.CertFile, o.KeyFile, o.Log)
		if err != nil {
			return nil, err
		}
		secure = &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	}
	if err := s.listen(secure); err != nil {
		s.close()
		return nil, err
	}
	s.names = s.knownNames()
	s.http = &http.Server{
		Handler: s.handler(), TLSConfig: secure,
		ReadHeaderTimeout: headTime, IdleTimeout: idleTime, MaxHeaderBytes: headBytes,
		DisableGeneralOptionsHandler: true,                       // every answer goes through the guard
		ErrorLog:                     log.New(io.Discard, "", 0), // what strangers send is not worth a line
	}
	return s, nil
}

func (s *Server) listen(secure *tls.Config) error {
	room := make(chan struct{}, s.o.Conns)
	add := func(a address, secure *tls.Config) error {
		if a.network == "unix" {
			if err := clearSocket(a.text); err != nil {
				return err
			}
		}
		l, err := net.Listen(a.network, a.text)
		if err != nil {
			return listenError(a, err)
		}
		if a.network == "unix" {
			if err := os.Chmod(a.text, 0o660); err != nil {
				return errors.Join(fmt.Errorf("listen on %s: %w", a.text, err), l.Close())
			}
		}
		l = &bounded{Listener: l, room: room, done: make(chan struct{})}
		if secure != nil && a.network == "tcp" {
			l = tls.NewListener(l, secure)
		}
		s.listens = append(s.listens, l)
		return nil
	}
	if err := add(s.at, secure); err != nil {
		return err
	}
	if s.o.Socket == "" {
		return nil
	}
	return add(address{network: "unix", text: s.o.Socket}, nil)
}

func listenError(a address, err error) error {
	out := fmt.Errorf("listen on %s: %w", a.text, err)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fail.Hint(out, "another server has this address, perhaps another headroom up; take another one with --listen")
	}
	return out
}

// clearSocket removes a socket that nobody listens on any more; a file that
// is no socket, or one that is answered, stays.
func clearSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listen on %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("listen on %s: it is there and no socket", path)
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		return errors.Join(fmt.Errorf("listen on %s: another server answers there", path), c.Close())
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("listen on %s: %w", path, err)
	}
	return nil
}

// Addr is the address that it listens on.
func (s *Server) Addr() net.Addr { return s.listens[0].Addr() }

// URL is where a browser on this machine finds it; "" if it only listens on a
// socket.
func (s *Server) URL() string {
	if s.at.network != "tcp" {
		return ""
	}
	scheme, host := "http", s.at.host
	if s.o.CertFile != "" {
		scheme = "https"
	}
	_, port, err := net.SplitHostPort(s.Addr().String())
	if err != nil {
		return ""
	}
	switch {
	case !s.at.loopback && len(s.o.Hosts) > 0:
		host = s.o.Hosts[0]
	case host == "":
		host = "localhost"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// LoginLink makes a login link for a server at a URL, from another process as
// well: both use the same file of sessions.
func LoginLink(sessions *auth.Sessions, url string, scopes ...auth.Scope) (string, error) {
	code, err := sessions.NewCode(scopes...)
	if err != nil {
		return "", fmt.Errorf("make a login link: %w", err)
	}
	return strings.TrimSuffix(url, "/") + "/login?code=" + code, nil
}

// Run answers until the context ends, then lets answers under way finish for
// at most 5 s and returns nil. Live streams end at once.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, len(s.listens))
	for _, l := range s.listens {
		go func() { failed <- s.http.Serve(l) }()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("serve %s: %w", s.at.text, err)
	}
	stopping, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	ended := make(chan struct{})
	go func() { s.o.API.Close(); close(ended) }()
	if serr := s.http.Shutdown(stopping); serr != nil {
		_ = s.http.Close() // what is still open after the grace is cut
	}
	select { // a change that is taken back needs the time it needs, up to the end of patience
	case <-ended:
	case <-stopping.Done():
	}
	s.close()
	return err
}

func (s *Server) close() {
	for _, l := range s.listens {
		_ = l.Close() // closed already after Shutdown
	}
}
