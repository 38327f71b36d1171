// Package pgtest starts a private PostgreSQL server for the tests and
// benchmarks of the engines. It is imported by tests only.
package pgtest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"headroom/engine/pgwire"
)

// Server is a running private server.
type Server struct {
	Dir  string // holds the data folder and the socket
	DSN  string // connects as the superuser postgres
	Port string // was free on loopback at the start; TCP only if the settings have listen_addresses
	Bin  string // folder of the server's programs
	proc *exec.Cmd
	gone chan struct{}
	log  bytes.Buffer
}

// Start makes a database cluster in a new temporary folder, under the user
// postgres when we are root, and starts a server on it with the settings, each
// "name=value". Stop must be called.
func Start(settings ...string) (*Server, error) {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(dirs) == 0 {
		return nil, fmt.Errorf("start private server: no PostgreSQL programs in /usr/lib/postgresql; install the package postgresql")
	}
	slices.SortFunc(dirs, func(a, b string) int { return major(a) - major(b) })
	dir, err := os.MkdirTemp("", "headroom-pg-")
	if err != nil {
		return nil, err
	}
	s := &Server{Dir: dir, Bin: dirs[len(dirs)-1], gone: make(chan struct{})}
	s.Port = "5432"
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		_, s.Port, _ = net.SplitHostPort(l.Addr().String())
		l.Close()
	}
	s.DSN = "host=" + dir + " port=" + s.Port + " user=postgres dbname=postgres sslmode=disable"
	if err := s.start(settings); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("start private server: %w", err)
	}
	return s, nil
}

func major(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	return n
}

func (s *Server) start(settings []string) error {
	who, err := credential(s.Dir)
	if err != nil {
		return err
	}
	data := filepath.Join(s.Dir, "data")
	initdb := exec.Command(filepath.Join(s.Bin, "initdb"), "-D", data, "-A", "trust", "-U", "postgres", "-N", "--no-locale", "-E", "UTF8")
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: who}
	initdb.Dir = s.Dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	args := []string{"-D", data, "-k", s.Dir, "-p", s.Port}
	for _, v := range append([]string{"listen_addresses="}, settings...) {
		args = append(args, "-c", v)
	}
	s.proc = exec.Command(filepath.Join(s.Bin, "postgres"), args...)
	s.proc.Dir = s.Dir
	s.proc.Stderr = &s.log
	s.proc.SysProcAttr = &syscall.SysProcAttr{Credential: who, Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	started := make(chan error)
	go func() {
		// The death signal is tied to the thread that starts the child.
		runtime.LockOSThread()
		err := s.proc.Start()
		started <- err
		if err == nil {
			_ = s.proc.Wait()
		}
		close(s.gone)
	}()
	if err := <-started; err != nil {
		return err
	}
	return s.ready()
}

func (s *Server) ready() error {
	for end := time.Now().Add(20 * time.Second); ; {
		c, err := pgwire.Connect(context.Background(), s.DSN)
		if err == nil {
			return c.Close()
		}
		select {
		case <-s.gone:
			return fmt.Errorf("it ended: %s", s.log.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			s.Stop()
			return fmt.Errorf("not ready after 20 s: %w", err)
		}
	}
}

// Stop ends the server at once and deletes its folder.
func (s *Server) Stop() {
	_ = s.proc.Process.Signal(syscall.SIGINT) // fast shutdown
	select {
	case <-s.gone:
	case <-time.After(10 * time.Second):
		_ = s.proc.Process.Signal(syscall.SIGQUIT)
		<-s.gone
	}
	os.RemoveAll(s.Dir)
}

// Signal sends a signal to the postmaster.
func (s *Server) Signal(sig os.Signal) error { return s.proc.Process.Signal(sig) }

// Program runs one of PostgreSQL's client programs against the server and
// returns its standard output and standard error together.
func (s *Server) Program(name string, args ...string) (string, error) {
	cmd := exec.Command(filepath.Join(s.Bin, name), args...)
	cmd.Env = append(os.Environ(), "PGHOST="+s.Dir, "PGPORT="+s.Port, "PGUSER=postgres", "PGDATABASE=postgres")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("run %s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// credential gives dir to the user postgres when we are root, as PostgreSQL
// refuses to run as root.
func credential(dir string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, uid, gid)
}
