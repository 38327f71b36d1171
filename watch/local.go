package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"headroom/fail"
	"headroom/host"
	"headroom/web/auth"
)

// pathLimit is how long the path of a Unix socket may be (sun_path, unix(7)).
const pathLimit = 107

// socket is where a running `up` answers commands of this machine, as a path
// that is short enough; close it when it is not needed any more.
func (p place) socket() (path string, done func(), err error) {
	path = p.path("socket")
	if len(path) <= pathLimit {
		return path, func() {}, nil
	}
	dir, err := os.Open(p.dir)
	if err != nil {
		return "", nil, fmt.Errorf("open the socket in %s: %w", p.dir, err)
	}
	return filepath.Join("/proc/self/fd", fmt.Sprint(dir.Fd()), "socket"), func() { _ = dir.Close() }, nil
}

// local asks the `up` that runs on this machine, through its socket and in a
// session of its own.
type local struct {
	client   *http.Client
	sessions *auth.Sessions
	secret   string
	done     func()
}

// errNotRunning says that no `up` runs on the folder.
var errNotRunning = fail.Hint(fmt.Errorf("nothing runs here: %w", fail.ErrAbsent), "start it with: headroom up")

// dial begins to ask; errNotRunning if nothing runs.
func (p place) dial() (*local, error) {
	if !p.held() {
		return nil, errNotRunning
	}
	path, done, err := p.socket()
	if err != nil {
		return nil, err
	}
	l := &local{sessions: auth.OpenSessions(p.path("sessions.json")), done: done}
	l.client = &http.Client{Timeout: 90 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}}
	if l.secret, err = l.sessions.Begin(auth.Who{Name: "a command of this machine", Scopes: []auth.Scope{auth.Read, auth.Change}}); err != nil {
		done()
		return nil, err
	}
	return l, nil
}

// close ends the session.
func (l *local) close() {
	l.client.CloseIdleConnections()
	_ = l.sessions.End(l.secret) // it ends by itself
	l.done()
}

// ask sends a request and decodes the answer.
func (l *local) ask(ctx context.Context, method, path string, body, into any) error {
	var send io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		send = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost/api/v1/"+path, send)
	if err != nil {
		return err
	}
	req.AddCookie(&http.Cookie{Name: "headroom", Value: l.secret})
	res, err := l.client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return fail.Hint(fmt.Errorf("ask headroom up: %w", err), "it may be starting or stopping, or older than this program: try again, or start it anew")
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 32<<20))
	if err != nil {
		return fmt.Errorf("ask headroom up: %w", err)
	}
	if res.StatusCode >= 300 {
		var why struct{ Error, Hint string }
		if json.Unmarshal(text, &why) != nil || why.Error == "" {
			why.Error = res.Status
		}
		err := fmt.Errorf("ask headroom up: %s", why.Error)
		if why.Hint != "" {
			err = fail.Hint(err, "%s", why.Hint)
		}
		return err
	}
	return json.Unmarshal(text, into)
}

// ForgetHost has the running `up` miss a silent host no more.
func ForgetHost(ctx context.Context, d host.Dirs, name string) error {
	l, err := upPlace(d).dial()
	if err != nil {
		return fmt.Errorf("forget host %q: %w", name, err)
	}
	defer l.close()
	var out struct{}
	return l.ask(ctx, "POST", "hosts/"+url.PathEscape(name)+"/forget", nil, &out)
}
