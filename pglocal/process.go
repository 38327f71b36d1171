package pglocal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"headroom/fail"
	"headroom/host"
)

// Time limits of a server's life.
const (
	readyLimit = 60 * time.Second // to become ready, crash recovery included
	cleanLimit = 60 * time.Second // to stop cleanly: a checkpoint on a slow disk
	quitLimit  = 5 * time.Second  // to stop without a checkpoint
)

// process is a postmaster that we started.
type process struct {
	pid  int
	os   *os.Process
	done chan struct{} // closed when it ended
	err  error         // how it ended; valid after done
}

// spawn starts the server on a thread of its own: the kernel's promise to
// signal a child at its parent's death is tied to the parent's thread, and
// Go ends idle threads. SIGQUIT makes PostgreSQL end at once.
func spawn(c host.Cmd) (*process, error) {
	c.Detach, c.DieWithUs = true, syscall.SIGQUIT
	p := &process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		x, err := c.Start()
		if err != nil {
			started <- err
			return
		}
		p.pid, p.os = x.Process.Pid, x.Process
		started <- nil
		p.err = x.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) alive() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// wait waits for the end for at most limit and says whether it came.
func (p *process) wait(ctx context.Context, limit time.Duration) bool {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// up starts the server and returns when it answers.
func (s *Server) up(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.upLocked(ctx)
}

// upLocked is up with s.mu held. Until the server was ready once, its port is
// chosen anew if somebody was faster.
func (s *Server) upLocked(ctx context.Context) error {
	for try := 1; ; try++ {
		err := s.upOnce(ctx)
		if err == nil {
			s.begun = true
			return nil
		}
		if !s.opt.TCP || s.begun || try == 5 || !strings.Contains(err.Error(), "TCP/IP sockets") {
			return err
		}
	}
}

func (s *Server) upOnce(ctx context.Context) error {
	if s.opt.TCP && !s.begun {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.Conn.Port = port
	}
	if _, err := s.reap(); err != nil {
		return err
	}
	if err := removeSockets(s.Conn.SocketDir); err != nil {
		return fmt.Errorf("remove the dead server's socket: %w", err)
	}
	from, err := s.log.Stat()
	if err != nil {
		return fmt.Errorf("look at the server's log: %w", err)
	}
	s.proc, err = spawn(host.Cmd{Argv: s.argv(), As: s.acct, Dir: "/", Output: s.log})
	if err != nil {
		return err
	}
	if err := s.record(); err != nil {
		return err
	}
	return s.await(ctx, from.Size())
}

// record writes down who we are and which process the server is: before it is
// started, as soon as it is, and when it is ready and its shared memory known.
func (s *Server) record() error {
	r := record{Name: s.opt.Name, Owner: self(), SocketDir: s.Conn.SocketDir, Program: filepath.Join(s.prog.bin, "postgres")}
	if s.proc != nil {
		r.Server, r.SharedMem = identify(s.proc.pid), sharedMem(s.proc.pid)
	}
	return writeOwner(s.dir, r)
}

// await waits until the server's pid file says "ready". That is written after
// recovery, on a standby once it takes queries.
func (s *Server) await(ctx context.Context, logFrom int64) error {
	ctx, stop := context.WithTimeout(ctx, readyLimit)
	defer stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.proc.done:
			return s.died(logFrom)
		case <-ctx.Done():
			err := fmt.Errorf("wait until PostgreSQL %s is ready: %w", s.Version, ctx.Err())
			return errors.Join(err, s.quit())
		case <-tick.C:
		}
		b, err := os.ReadFile(filepath.Join(s.DataDir, "postmaster.pid"))
		if lines := strings.Split(string(b), "\n"); err == nil && len(lines) > 7 && strings.TrimSpace(lines[7]) == "ready" && lines[0] == fmt.Sprint(s.proc.pid) {
			return s.record()
		}
	}
}

// died is the error of a server that ended by itself: its own words.
func (s *Server) died(logFrom int64) error {
	said := words(s.logFrom(logFrom))
	if said == "" {
		said = fmt.Sprint(s.proc.err)
	}
	err := fmt.Errorf("run PostgreSQL %s: %s", s.Version, said)
	switch {
	case strings.Contains(said, "parameter \""), strings.Contains(said, "contains errors"):
		return fail.Hint(err, "correct or leave out that setting; those of this version are listed in its view pg_settings")
	case strings.Contains(said, "No space left"):
		return fail.Hint(err, "free some space in %s", s.opt.Parent)
	case strings.Contains(said, "TCP/IP sockets"):
		return fail.Hint(err, "another program took port %d meanwhile; stop it, or start a new server", s.Conn.Port)
	case strings.Contains(said, "could not map anonymous shared memory"):
		return fail.Hint(err, "ask for a smaller shared_buffers: the machine has too little free memory")
	case strings.Contains(said, "could not access file"), strings.Contains(said, "could not load library"):
		return fail.Hint(err, "install the package that holds that library for PostgreSQL %d, or leave it out of shared_preload_libraries", s.Major)
	}
	return fail.Hint(err, "these are the server's own words; correct what they name")
}

// down stops the server cleanly, with a checkpoint. s.mu is held.
func (s *Server) down(ctx context.Context) error {
	if !s.proc.alive() {
		return fmt.Errorf("stop PostgreSQL %s: it had ended by itself: %s", s.Version, strings.Join(s.Log(3), "; "))
	}
	if err := s.proc.os.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop PostgreSQL %s: %w", s.Version, err)
	}
	if !s.proc.wait(ctx, cleanLimit) {
		return fmt.Errorf("stop PostgreSQL %s: it is still busy shutting down", s.Version)
	}
	if s.proc.err != nil {
		return fmt.Errorf("stop PostgreSQL %s: %w: %s", s.Version, s.proc.err, strings.Join(s.Log(3), "; "))
	}
	return nil
}

// quit ends the server at once, without a checkpoint. s.mu is held.
func (s *Server) quit() error {
	if s.proc.alive() {
		_ = s.proc.os.Signal(syscall.SIGQUIT)
		if !s.proc.wait(context.Background(), quitLimit) {
			_ = s.proc.os.Kill()
			s.proc.wait(context.Background(), quitLimit)
		}
	}
	_, err := s.reap()
	return err
}

// remove ends the server and removes all that is left of it. s.mu is held.
func (s *Server) remove() error {
	s.stopped = true
	err := s.quit()
	s.leavePrimary()
	if s.log != nil {
		err = errors.Join(err, s.log.Close())
	}
	if filepath.Dir(s.Conn.SocketDir) != s.dir {
		err = errors.Join(err, os.RemoveAll(s.Conn.SocketDir))
	}
	err = errors.Join(err, removeFolder(s.dir))
	if s.held != nil {
		err = errors.Join(err, s.held.Close())
	}
	return err
}
