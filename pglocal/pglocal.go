// Package pglocal runs private PostgreSQL servers: stock ones, started in a
// fraction of a second, several at once, cloned, given standbys, and gone
// without a trace when they are stopped or when the process that started them
// dies in any way.
//
// There is no daemon and no state besides folders. Every server has one
// folder below the parent folder:
//
//	pg-XXXXXXXX/owner.json  who started it: pid, start time, boot (ours)
//	pg-XXXXXXXX/data        the data folder (the server account's, 0700)
//	pg-XXXXXXXX/s           the socket's folder (the server account's, 0700)
//	pg-XXXXXXXX/log         what the server wrote
//	pg-XXXXXXXX/pgpass      the password, with Options.TCP only (ours, 0600)
//
// Beside them lie template-* (data folders fresh from initdb, which new
// servers are copies of, remade after each boot) and postgresql-* (server
// programs that were fetched, because none of that version were installed,
// from Maven Central or the repository that HEADROOM_MAVEN names).
//
// PostgreSQL refuses to run as root: as root, servers run as the account
// postgres, or nobody where that is missing; else as ourselves.
//
// A server is the direct child of this process, in a session of its own. The
// kernel sends it SIGQUIT when this process dies, so that it ends within
// moments even after kill -9; the next Start (or Sweep) removes its folder.
//
// The servers are stock but for: unix_socket_directories, listen_addresses,
// port and cluster_name (given on the command line, so that no ALTER SYSTEM
// can make the server unreachable), UTF8 with locale C, and what
// Options.Settings asks for (written to postgresql.conf, so that ALTER SYSTEM
// overrides it as on any server). The log goes to a file by redirection, not
// by a setting.
package pglocal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"headroom/fail"
	"headroom/host"
)

// Options says which server to start. The zero value is a stock server of the
// newest installed major version.
type Options struct {
	// Major is the major version, 13 to 18 (or any other that is installed);
	// 0 is what HEADROOM_MAJOR names, else the newest that is installed, or 18
	// if none is. A version that is not installed is fetched once and kept.
	Major int
	// Settings are written to postgresql.conf as they are, save for the few
	// that a private server chooses itself (see above), which are refused.
	Settings map[string]string
	// Parent is the folder that holds the servers' folders; "" for "pg" in
	// the cache folder of host.OwnDirs, or below the temporary folder where
	// the server's account cannot enter that.
	Parent string
	// NoFsync sets fsync = off: faster, and worthless for measuring writes.
	NoFsync bool
	// Fresh has initdb run for this server alone, which takes a second or two:
	// no template is kept for the next.
	Fresh bool
	// InitArgs are further arguments of initdb, such as "--data-checksums".
	InitArgs []string
	// Name is used in messages and as cluster_name; "" is "headroom".
	Name string
	// TCP makes the server listen on a free port of 127.0.0.1, too, with a
	// random password in the file Conn.Passfile.
	TCP bool
	// Progress, if given, is told in one line each what takes time.
	Progress func(string)
	// Found, if given, is told in one line each what was left by processes
	// that died, and what became of it; without it Progress is.
	Found func(string)
}

func (o Options) say(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// Conn says how to reach a server as its superuser. Who can enter the socket
// folder (root and the server's account) needs no password there.
type Conn struct {
	SocketDir string
	Port      int
	User      string
	Database  string
	Passfile  string // libpq's password file for 127.0.0.1; "" without Options.TCP
}

// Server is one private server. Its methods may be called at the same time.
type Server struct {
	Major   int    // such as 17
	Version string // such as "17.11"
	DataDir string
	Conn    Conn

	opt  Options
	prog program
	acct *host.Account
	dir  string // the server's folder

	mu      sync.Mutex // held while the server starts, stops or is copied
	proc    *process
	log     *os.File
	held    *os.File // the lock on dir: says that we live
	primary *Server  // of a standby
	begun   bool     // it was ready once: its port is known to others
	kept    bool     // by Keep: the folder outlives us
	stopped bool
}

// Start starts a server and returns when it answers. Before that it sweeps
// the parent folder. The server outlives ctx: the caller must Stop it. On
// error nothing is left behind.
func Start(ctx context.Context, o Options) (*Server, error) {
	s, err := start(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("start a private PostgreSQL: %w", err)
	}
	return s, nil
}

func start(ctx context.Context, o Options) (*Server, error) {
	if o.Name == "" {
		o.Name = "headroom"
	}
	acct, err := serverAccount()
	if err != nil {
		return nil, err
	}
	if o.Parent, err = parentFolder(o, acct); err != nil {
		return nil, err
	}
	swept, err := Sweep(ctx, o.Parent)
	found := o.Found
	if found == nil {
		found = func(text string) { o.say("%s", text) }
	}
	for _, w := range swept {
		found(w.String())
	}
	if err != nil { // what cannot be removed is in nobody's way
		found(err.Error())
	}
	prog, err := findProgram(ctx, o)
	if err != nil {
		return nil, err
	}
	return startProgram(ctx, o, prog, acct)
}

// startProgram is Start for chosen programs.
func startProgram(ctx context.Context, o Options, prog program, acct *host.Account) (*Server, error) {
	var tmpl string
	if !o.Fresh {
		var err error
		if tmpl, err = template(ctx, o, prog, acct); err != nil {
			return nil, err
		}
	}
	return launch(ctx, o, prog, acct, func(s *Server) error {
		fill := func() error { return copyTree(ctx, tmpl, s.DataDir, acct) }
		if o.Fresh {
			fill = func() error { return makeData(ctx, o, prog, acct, s.DataDir) }
		}
		if err := fill(); err != nil {
			return err
		}
		return s.configure(o.Settings)
	})
}

// launch makes a server's folder, has fill provide the data folder's content,
// and starts the server.
func launch(ctx context.Context, o Options, prog program, acct *host.Account, fill func(*Server) error) (*Server, error) {
	s := &Server{Major: prog.major, Version: prog.version, opt: o, prog: prog, acct: acct}
	if err := s.makeFolder(ctx); err != nil {
		return nil, err
	}
	err := fill(s)
	if err == nil {
		err = s.up(ctx)
	}
	if err == nil && o.TCP {
		err = s.setPassword(ctx)
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if rmErr := s.remove(); rmErr != nil {
			return nil, fmt.Errorf("%w (and cleaning up failed: %w)", err, rmErr)
		}
		return nil, err
	}
	return s, nil
}

// DSN is the connection string over the unix socket, as superuser, to the
// database postgres. It holds no secret.
func (s *Server) DSN() string {
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s", quoteDSN(s.Conn.SocketDir), s.Conn.Port, s.Conn.User, s.Conn.Database)
}

// TCPDSN is the connection string over 127.0.0.1; it names the password's
// file and does not hold the password. "" without Options.TCP.
func (s *Server) TCPDSN() string {
	if s.Conn.Passfile == "" {
		return ""
	}
	return fmt.Sprintf("host=127.0.0.1 port=%d user=%s dbname=%s passfile=%s", s.Conn.Port, s.Conn.User, s.Conn.Database, quoteDSN(s.Conn.Passfile))
}

func quoteDSN(v string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v) + "'"
}

// Host is this machine with this server as its PostgreSQL; its PGRestart
// restarts this server. The caller closes it.
func (s *Server) Host() *host.Local {
	return host.Open(host.Options{DSN: s.DSN(), WithPG: true, Restarter: s.Restart})
}

// Restart stops the server cleanly and starts it again on the same data, port
// and settings. It also starts a server that died, after ending what is left
// of it.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return fmt.Errorf("restart %s: it was stopped for good", s.opt.Name)
	}
	if err := s.down(ctx); err != nil && s.proc.alive() {
		return fmt.Errorf("restart %s: %w", s.opt.Name, err)
	}
	if err := s.upLocked(ctx); err != nil {
		return fmt.Errorf("restart %s: %w", s.opt.Name, err)
	}
	return nil
}

// Stop ends the server and removes its folder; one of Keep is ended cleanly,
// and its folder stays. It takes no context because it must work after Ctrl-C;
// it takes a few seconds at most. A second Stop does nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	end := s.remove
	if s.kept {
		end = s.rest
	}
	if err := end(); err != nil {
		return fmt.Errorf("stop %s: %w", s.opt.Name, err)
	}
	return nil
}

// PID is the postmaster's process number.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0
	}
	return s.proc.pid
}

// Log returns the last n lines that the server wrote to its log.
func (s *Server) Log(n int) []string {
	lines := s.logFrom(0)
	return lines[max(0, len(lines)-n):]
}

// configure writes what Settings and NoFsync ask for, and who may connect.
func (s *Server) configure(settings map[string]string) error {
	conf, err := confLines(settings)
	if err != nil {
		return fail.Hint(err, "correct or leave out that setting")
	}
	if s.opt.NoFsync {
		conf += "fsync = off\n"
	}
	hba := "local all all trust\nlocal replication all trust\n"
	if s.opt.TCP {
		hba += "host all all 127.0.0.1/32 scram-sha-256\n"
	}
	root, err := os.OpenRoot(s.DataDir)
	if err != nil {
		return fmt.Errorf("configure the server: %w", err)
	}
	defer root.Close()
	return errors.Join(
		writeIn(root, s.acct, "pg_hba.conf", os.O_TRUNC, hba),
		writeIn(root, s.acct, "postgresql.conf", os.O_APPEND, conf))
}

// writeIn writes a file below root. The folder belongs to the server's
// account, so it matters that os.Root follows no link out of it.
func writeIn(root *os.Root, acct *host.Account, name string, flag int, text string) error {
	f, err := root.OpenFile(name, os.O_WRONLY|flag, 0o600)
	if err != nil {
		return fmt.Errorf("configure the server: %w", err)
	}
	_, err = f.WriteString(text)
	if err == nil && flag&os.O_CREATE != 0 {
		err = f.Chown(acct.UID, acct.GID)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("configure the server: %w", err)
	}
	return nil
}

// argv is the server's command line.
func (s *Server) argv() []string {
	listen := ""
	if s.opt.TCP {
		listen = "127.0.0.1"
	}
	return []string{
		filepath.Join(s.prog.bin, "postgres"), "-D", s.DataDir,
		"-c", "unix_socket_directories=" + s.Conn.SocketDir,
		"-c", "listen_addresses=" + listen,
		"-c", "port=" + strconv.Itoa(s.Conn.Port),
		"-c", "cluster_name=" + clusterName(s.opt.Name),
	}
}

// clusterName keeps what PostgreSQL takes: printable ASCII, under 64 bytes.
func clusterName(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, name)
	return clean[:min(len(clean), 63)]
}
