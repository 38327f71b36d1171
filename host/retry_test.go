package host

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// mute takes connections and never answers.
func mute(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
		}
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	return "host=127.0.0.1 user=x dbname=x sslmode=disable port=" + port
}

func TestRetryForgetsAFailure(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	l.Close()
	dsn := "host=127.0.0.1 user=x dbname=x sslmode=disable port=" + port
	for _, retry := range []bool{true, false} {
		m := Open(Options{DSN: dsn, WithPG: true, Retry: retry})
		first := m.Ping(t.Context())
		if !errors.Is(first, ErrConnect) || !strings.Contains(first.Error(), "refused") || strings.Contains(first.Error(), ErrConnect.Error()) {
			t.Errorf("first try: %v", first)
		}
		up, err := net.Listen("tcp4", "127.0.0.1:"+port) // somebody is there now, though not PostgreSQL
		must(t, err)
		go func() {
			for {
				c, err := up.Accept()
				if err != nil {
					return
				}
				c.Close()
			}
		}()
		second := m.Ping(t.Context())
		if refused := strings.Contains(second.Error(), "refused"); refused == retry {
			t.Errorf("retry %v: second try: %v", retry, second)
		}
		m.Close()
		up.Close()
	}
}

func TestAServerThatDoesNotAnswerCostsTheCallersTime(t *testing.T) {
	dsn := mute(t)
	for name, ask := range map[string]func(context.Context, *Local) error{
		"pg":      func(ctx context.Context, l *Local) error { return l.Ping(ctx) },
		"console": func(ctx context.Context, l *Local) error { _, err := l.Console(ctx, "show stats"); return err },
	} {
		l := Open(Options{DSN: dsn, WithPG: true, Retry: true})
		ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := ask(ctx, l)
		stop()
		if !errors.Is(err, ErrConnect) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want no connection and out of time", name, err)
		}
		l.Close()
	}
}
