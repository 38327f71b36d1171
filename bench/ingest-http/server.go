package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"headroom/queue"
	"headroom/web"
	"headroom/web/api"
	"headroom/web/auth"
	"headroom/web/live"
)

// How the server's process is told what to do.
const (
	serveDir    = "HEADROOM_BENCH_DIR"
	serveQueue  = "HEADROOM_BENCH_QUEUE"
	serverProcs = 2
)

// server is the process under measure.
type server struct {
	url, token string
	dir        string
	cmd        *exec.Cmd
	in         interface{ Close() error }
}

func startServer(ctx context.Context, parent, kind string) (*server, error) {
	dir, err := os.MkdirTemp(parent, "ingest-http-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s.cmd = exec.CommandContext(ctx, self)
	s.cmd.Env = append(os.Environ(), serveDir+"="+dir, serveQueue+"="+kind, fmt.Sprintf("GOMAXPROCS=%d", serverProcs))
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("start server: %w", err)
	}
	s.url, s.token, _ = strings.Cut(strings.TrimSpace(line), " ")
	return s, nil
}

func (s *server) stop() {
	_ = s.in.Close() // the end of its input ends it
	_ = s.cmd.Wait() // its end is all that is wanted
	_ = os.RemoveAll(s.dir)
}

// cpu is the processor time that the server has used, in seconds.
func (s *server) cpu() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var user, system float64
	_, _ = fmt.Sscan(fields[11], &user) // numbers of the kernel
	_, _ = fmt.Sscan(fields[12], &system)
	return (user + system) / 100
}

// nowhere is a queue that forgets at once.
type nowhere struct{ queue.Queue }

func (nowhere) Put(context.Context, []byte) error { return nil }

// serve is the server's process. It ends with its input.
func serve(dir, kind string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	q, err := queue.Open(ctx, queue.Options{Dir: filepath.Join(dir, "queue")})
	if err != nil {
		return err
	}
	parts := api.Parts{Host: "bench", Queue: q, Hub: live.New(live.Options{})}
	if kind == "none" {
		parts.Queue = nowhere{q}
	}
	tokens := auth.OpenTokens(filepath.Join(dir, "tokens.json"))
	secret, err := tokens.Make(auth.Token{Name: "bench", Scopes: []auth.Scope{auth.Write}, Series: auth.MaxSeries})
	if err != nil {
		return err
	}
	s, err := web.New(web.Options{Listen: "127.0.0.1:0", API: api.New(parts), Tokens: tokens, Sessions: auth.OpenSessions(filepath.Join(dir, "sessions.json"))})
	if err != nil {
		return err
	}
	go empty(ctx, q)
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1)) // its end is the sign
		stop()
	}()
	fmt.Println(s.URL(), secret)
	return errors.Join(s.Run(ctx), q.Close())
}

// empty takes from the queue what a store would take.
func empty(ctx context.Context, q queue.Queue) {
	for ctx.Err() == nil {
		msgs, err := q.Fetch(ctx, 32)
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		for _, m := range msgs {
			_ = m.Ack(ctx) // one that comes again costs nothing here
		}
	}
}
