package pglocal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"headroom/fail"
	"headroom/host"
	"headroom/unit"
)

// startSpace is what a new server may need on disk before it does any work:
// the data folder (40 MB), its first WAL and the server's own files.
const startSpace = 128 << 20

// socketPathMax is the longest path of a unix socket on Linux, in bytes.
const socketPathMax = 107

// serverAccount says who servers run as: as root the account postgres, else
// nobody; otherwise ourselves.
func serverAccount() (*host.Account, error) {
	if uid := os.Getuid(); uid != 0 {
		return &host.Account{UID: uid, GID: os.Getgid(), Home: "/"}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		acct, err := host.LookupAccount(name)
		if err == nil && acct.UID != 0 {
			return acct, nil
		}
	}
	return nil, fail.Hint(fmt.Errorf("choose an account for the server: root may not run it, and neither postgres nor nobody exists: %w", fail.ErrAbsent),
		"run as an ordinary user, or add one: useradd --system postgres")
}

// parentFolder returns the folder for servers, made if need be, with every
// symbolic link resolved.
func parentFolder(o Options, acct *host.Account) (string, error) {
	if o.Parent != "" {
		dir, err := ready(o.Parent, acct)
		return dir, fail.Hint(err, "name a folder of your own that others cannot write to and the account %s can enter", acct.Name)
	}
	dirs, err := host.OwnDirs()
	if err != nil {
		return "", err
	}
	want := filepath.Join(dirs.Cache, "pg")
	dir, err := ready(want, acct)
	if !errors.Is(err, fail.ErrDenied) {
		return dir, err
	}
	tmp := filepath.Join(os.TempDir(), fmt.Sprintf("headroom-%d", os.Getuid()))
	o.say("the server's account cannot use %s; private servers go to %s", want, tmp)
	dir, err = ready(tmp, acct)
	return dir, fail.Hint(err, "name a folder that the server's account can enter with HEADROOM_STATE")
}

// ready makes the folder and checks that it is ours and that the account can
// enter it; fail.ErrDenied if it cannot.
func ready(dir string, acct *host.Account) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("prepare the folder for servers: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%w: %w", fail.ErrDenied, err)
		}
		return "", fmt.Errorf("prepare the folder for servers: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", fmt.Errorf("prepare the folder for servers: %w", err)
	}
	st, err := statT(dir)
	if err != nil {
		return "", err
	}
	if int(st.Uid) != os.Getuid() || st.Mode&0o022 != 0 && st.Mode&syscall.S_ISVTX == 0 {
		return "", fmt.Errorf("use %s for servers: it belongs to somebody else or others may write to it: %w", dir, fail.ErrDenied)
	}
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return "", fmt.Errorf("use %s for servers: %w: %w", dir, err, fail.ErrDenied)
	}
	for d := dir; acct.UID != os.Getuid(); d = filepath.Dir(d) {
		if err := canEnter(d, acct); err != nil {
			return "", err
		}
		if d == filepath.Dir(d) {
			break
		}
	}
	return dir, nil
}

func canEnter(dir string, acct *host.Account) error {
	st, err := statT(dir)
	if err != nil {
		return err
	}
	bit := uint32(0o001)
	switch {
	case int(st.Uid) == acct.UID:
		bit = 0o100
	case int(st.Gid) == acct.GID:
		bit = 0o010
	}
	if st.Mode&bit == 0 {
		return fmt.Errorf("let the account %s enter %s: %w", acct.Name, dir, fail.ErrDenied)
	}
	return nil
}

func statT(path string) (*syscall.Stat_t, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return nil, fmt.Errorf("look at %s: %w", path, err)
	}
	return &st, nil
}

// needSpace refuses to begin what would fill the disk.
func needSpace(dir string, need int64) error {
	sp, err := host.Open(host.Options{}).Space(dir)
	if err != nil {
		return err
	}
	if sp.Avail < need {
		return fail.Hint(fmt.Errorf("find room for the server in %s: %s needed, %s free: %w", dir, unit.Bytes(need), unit.Bytes(sp.Avail), syscall.ENOSPC),
			"free some space there, or name a folder on another disk with HEADROOM_STATE")
	}
	return nil
}

// makeFolder makes the server's folder with its owner record, below the lock
// that Sweep takes, so that a folder without a record is always a leftover.
func (s *Server) makeFolder(ctx context.Context) error {
	if err := needSpace(s.opt.Parent, startSpace); err != nil {
		return err
	}
	unlock, err := lock(ctx, filepath.Join(s.opt.Parent, ".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	s.dir = filepath.Join(s.opt.Parent, "pg-"+strings.ToLower(rand.Text()[:8]))
	s.DataDir = filepath.Join(s.dir, "data")
	s.Conn = Conn{Port: 5432, User: "postgres", Database: "postgres", SocketDir: filepath.Join(s.dir, "s")}
	err = os.Mkdir(s.dir, 0o711)
	if err == nil {
		err = os.Chmod(s.dir, 0o711) // whatever the umask
	}
	if err == nil {
		s.held, err = hold(s.dir)
	}
	if err == nil {
		err = s.socketFolder()
	}
	if err == nil {
		err = s.record()
	}
	if err == nil {
		err = ownedFolder(s.DataDir, s.acct)
	}
	if err == nil {
		s.log, err = os.OpenFile(filepath.Join(s.dir, "log"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make the server's folder: %w", err), s.remove())
	}
	return nil
}

// socketFolder makes the folder for the socket: beside the data, or below the
// temporary folder where that path would be too long for a socket.
func (s *Server) socketFolder() error {
	const longest = "/.s.PGSQL.65535"
	if len(s.Conn.SocketDir)+len(longest) <= socketPathMax {
		return ownedFolder(s.Conn.SocketDir, s.acct)
	}
	dir, err := os.MkdirTemp("", "hr-")
	if err != nil {
		return err
	}
	s.Conn.SocketDir = dir
	if len(dir)+len(longest) > socketPathMax {
		return fail.Hint(fmt.Errorf("make a socket in %s: the path is longer than %d bytes", dir, socketPathMax), "set TMPDIR to a shorter path")
	}
	return os.Chown(dir, s.acct.UID, s.acct.GID)
}

// ownedFolder makes a folder that only the account can enter.
func ownedFolder(dir string, acct *host.Account) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.Chown(dir, acct.UID, acct.GID)
}

// freePort asks the kernel for a port of 127.0.0.1 that nobody uses.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
