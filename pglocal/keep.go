package pglocal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"headroom/fail"
	"headroom/host"
)

// logKeep is the size past which a kept server's log is begun anew at start;
// the one before stays as log.1.
const logKeep = 16 << 20

// ErrInUse is wrapped by Keep's error where another process has the server.
var ErrInUse = errors.New("in use")

// Keep starts the server whose data lie in dir, made at the first time, and
// returns when it answers. Unlike Start's servers, what it stores stays: Stop
// ends it cleanly and leaves the folder, and after any death of ours the next
// Keep recovers it. It is as private: reached by its socket alone, which only
// root and the server's account can enter, and ended by the kernel when we
// die.
//
// The folder belongs to one process at a time; a second one gets ErrInUse. The
// data are only ever opened by programs of the major version that made them
// (fetched if they are not installed); Options.Major says which at the first
// time. Settings are given anew at each start.
func Keep(ctx context.Context, dir string, o Options) (*Server, error) {
	s, err := keep(ctx, dir, o)
	if err != nil {
		return nil, fmt.Errorf("start the server kept in %s: %w", dir, err)
	}
	return s, nil
}

func keep(ctx context.Context, dir string, o Options) (*Server, error) {
	if o.Name == "" {
		o.Name = "headroom"
	}
	if o.TCP || o.NoFsync {
		return nil, fmt.Errorf("a kept server has neither TCP nor fsync off")
	}
	acct, err := serverAccount()
	if err != nil {
		return nil, err
	}
	if dir, err = ready(dir, acct); err != nil {
		return nil, fail.Hint(err, "name a folder of your own that others cannot write to and the account %s can enter", acct.Name)
	}
	o.Parent = dir
	s := &Server{opt: o, acct: acct, dir: dir, kept: true, DataDir: filepath.Join(dir, "data")}
	s.Conn = Conn{Port: 5432, User: "postgres", Database: "postgres", SocketDir: filepath.Join(dir, "s")}
	if s.held, err = hold(dir); err != nil {
		return nil, inUse(dir, err)
	}
	if err := s.reopen(ctx); err != nil {
		return nil, errors.Join(err, s.letGo())
	}
	return s, nil
}

// inUse names who has the folder.
func inUse(dir string, err error) error {
	r, rerr := readOwner(dir)
	if rerr != nil || !r.Owner.alive() {
		return err
	}
	return fail.Hint(fmt.Errorf("process %d has it: %w", r.Owner.PID, ErrInUse), "stop that process first, or give this one a folder of its own")
}

// reopen finds the programs, makes the data if there are none, and starts.
func (s *Server) reopen(ctx context.Context) error {
	if _, err := s.reap(); err != nil { // what a dead owner's server left
		return err
	}
	made, err := os.ReadFile(filepath.Join(s.DataDir, "PG_VERSION"))
	switch {
	case err == nil:
		if s.opt.Major, err = strconv.Atoi(strings.TrimSpace(string(made))); err != nil {
			return fmt.Errorf("read the data's version: %w", err)
		}
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("read the data's version: %w", err)
	}
	if s.prog, err = findProgram(ctx, s.opt); err != nil {
		return err
	}
	s.Major, s.Version = s.prog.major, s.prog.version
	if len(made) == 0 {
		if err := s.makeKept(ctx); err != nil {
			return err
		}
	}
	if err := s.keptFiles(); err != nil {
		return err
	}
	return s.up(ctx)
}

// makeKept makes the data folder beside its place and moves it there when it
// is whole and on disk.
func (s *Server) makeKept(ctx context.Context) error {
	if err := needSpace(s.dir, startSpace); err != nil {
		return err
	}
	draft := s.DataDir + ".tmp"
	if err := os.RemoveAll(draft); err != nil {
		return fmt.Errorf("make a data folder: %w", err)
	}
	if err := ownedFolder(draft, s.acct); err != nil {
		return fmt.Errorf("make a data folder: %w", err)
	}
	if err := makeData(ctx, s.opt, s.prog, s.acct, draft); err != nil {
		return err
	}
	c := host.Cmd{Argv: []string{filepath.Join(s.prog.bin, "initdb"), "--sync-only", "-D", draft}, As: s.acct}
	if _, err := c.Run(ctx, 1<<16); err != nil {
		return fmt.Errorf("make a data folder: %w", err)
	}
	if err := os.Rename(draft, s.DataDir); err != nil {
		return fmt.Errorf("make a data folder: %w", err)
	}
	return host.SyncDir(s.dir)
}

// keptFiles writes what each start writes: the settings, who may connect, the
// socket's folder and the log.
func (s *Server) keptFiles() error {
	conf, err := confLines(s.opt.Settings)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(s.DataDir)
	if err != nil {
		return fmt.Errorf("configure the server: %w", err)
	}
	defer root.Close()
	err = errors.Join(
		writeIn(root, s.acct, "pg_hba.conf", os.O_TRUNC, "local all all trust\n"),
		writeIn(root, s.acct, "postgresql.conf", os.O_TRUNC|os.O_CREATE, conf))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(s.Conn.SocketDir); err != nil {
		return fmt.Errorf("make the socket's folder: %w", err)
	}
	if err := s.socketFolder(); err != nil {
		return fmt.Errorf("make the socket's folder: %w", err)
	}
	path := filepath.Join(s.dir, "log")
	if fi, err := os.Stat(path); err == nil && fi.Size() > logKeep {
		if err := os.Rename(path, path+".1"); err != nil {
			return fmt.Errorf("begin a new log: %w", err)
		}
	}
	s.log, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	return err
}

// rest stops the server cleanly, or at once if it will not, which costs the
// next start a recovery. s.mu is held.
func (s *Server) rest() error {
	var err error
	if s.proc.alive() {
		err = s.down(context.Background())
	}
	return errors.Join(err, s.quit(), s.letGo())
}

// letGo closes what we hold of a kept server that does not run.
func (s *Server) letGo() error {
	s.stopped = true
	var err error
	if s.log != nil {
		err = s.log.Close()
	}
	if filepath.Dir(s.Conn.SocketDir) != s.dir {
		err = errors.Join(err, os.RemoveAll(s.Conn.SocketDir))
	}
	return errors.Join(err, s.held.Close())
}

// Running says whether the server's process lives; the reason it ended by
// itself is in its log.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.alive()
}
