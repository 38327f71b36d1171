package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// up is a running `headroom up` with its own state folder.
type up struct {
	state, url, token string
	cmd               *exec.Cmd
	log               *os.File
	args              []string
	program           string
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// newUp prepares one; start starts it.
func (b *bench) newUp(name string, args ...string) (*up, error) {
	addr, err := freePort()
	if err != nil {
		return nil, err
	}
	u := &up{state: filepath.Join(b.dir, name), url: "http://" + addr, program: b.program, args: append([]string{"up", "--listen", addr}, args...)}
	if err := os.MkdirAll(u.state, 0o711); err != nil {
		return nil, err
	}
	token, err := u.verb("up", "token", "create", "bench", "--scope", "read,write", "--series", "1000000")
	if err != nil {
		return nil, err
	}
	u.token = strings.TrimSpace(token)
	u.log, err = os.OpenFile(filepath.Join(u.state, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return u, err
}

// running prepares and starts one.
func (b *bench) running(ctx context.Context, args ...string) (*up, error) {
	u, err := b.newUp("up", args...)
	if err == nil {
		_, err = u.start(ctx)
	}
	return u, err
}

func (u *up) env() []string { return append(os.Environ(), "HEADROOM_STATE="+u.state) }

// verb runs another verb on the same state.
func (u *up) verb(args ...string) (string, error) {
	c := exec.Command(u.program, args...)
	c.Env = u.env()
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

// start starts it and returns when it answers, and how long that took.
func (u *up) start(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	u.cmd = exec.Command(u.program, u.args...)
	u.cmd.Env, u.cmd.Stderr = u.env(), u.log
	u.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := u.cmd.Start(); err != nil {
		return 0, err
	}
	for time.Since(began) < time.Minute && ctx.Err() == nil {
		if res, err := http.Get(u.url + "/api/v1/healthz"); err == nil {
			_ = res.Body.Close()
			return time.Since(began), nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 0, fmt.Errorf("headroom up does not answer: %s", u.said())
}

// said is the end of what it wrote.
func (u *up) said() string {
	b, _ := os.ReadFile(filepath.Join(u.state, "log"))
	return string(b[max(0, len(b)-2000):])
}

func (u *up) stop() error {
	if err := u.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return u.cmd.Wait()
}

// status is the part of /status that is used here.
type status struct {
	Queue struct {
		Messages uint64
		Bytes    uint64
		Dead     uint64 `json:"dead_letters"`
		Paused   string
		Room     *float64 `json:"room_seconds"`
	}
	Worker struct {
		Stored  int64   `json:"stored_points"`
		Killed  int64   `json:"set_aside_batches"`
		Lag     float64 `json:"lag_seconds"`
		Trouble string
	}
	Self struct{ Goroutines float64 }
}

func (u *up) status() (s status, err error) {
	b, err := u.get("/api/v1/status")
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

func (u *up) get(path string) ([]byte, error) {
	req, err := http.NewRequest("GET", u.url+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+u.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("GET %s: %s: %.200s", path, res.Status, b)
	}
	return b, err
}

// post sends a body; an error means that nobody knows whether it was taken.
func post(ctx context.Context, client *http.Client, url, token, kind string, body []byte, more ...string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", url, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Content-Type", kind)
	for i := 0; i+1 < len(more); i += 2 {
		req.Header.Set(more[i], more[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	return res.StatusCode, string(text), err
}

// settled waits until all that was taken is stored.
func (u *up) settled(ctx context.Context, limit time.Duration) error {
	for end := time.Now().Add(limit); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		if s, err := u.status(); err == nil && s.Queue.Messages == 0 && s.Worker.Trouble == "" {
			return nil
		}
	}
	s, err := u.status()
	return fmt.Errorf("the queue did not empty within %s: %+v %v: %s", limit, s, err, u.said())
}
