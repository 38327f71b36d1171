package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Options says what to open.
type Options struct {
	// Root is the folder that stands for "/": "" for the machine itself, or a
	// folder that holds a copy of /proc, /sys and /etc for tests.
	Root string
	// DSN names the PostgreSQL server as libpq does (URL, keyword=value or
	// empty for PG* variables and service files). Used only if WithPG.
	DSN string
	// WithPG opens a server at all; without it Reader.PG answers ErrAbsent.
	WithPG bool
	// Retry has each use of the server try to connect anew after a failure;
	// without it a failure is remembered until Close, so that a dead server
	// costs one time-out.
	Retry bool
	// Restarter restarts the server instead of systemd or pg_ctl, for
	// private servers.
	Restarter func(ctx context.Context) error
}

// Local is this machine and at most one PostgreSQL server. It implements
// Writer; hand it on as a Reader wherever nothing may change. Close it.
type Local struct {
	opt     Options
	pg      pgLink
	console consoleLink
	pages   pages
}

var _ Writer = (*Local)(nil)

// Open returns the machine. It does not connect yet: the first use of PG does.
func Open(o Options) *Local {
	if o.Root == "" {
		o.Root = "/"
	}
	return &Local{opt: o}
}

// Close ends the connections, if there are any.
func (l *Local) Close() {
	l.pg.close()
	l.console.close()
	l.pages.close()
}

func (l *Local) path(p string) string { return filepath.Join(l.opt.Root, filepath.Clean("/"+p)) }

// Limits of what is read at once, in bytes.
const (
	readLimit = 16 << 20
	partLimit = 1 << 20
	lookLimit = 64 << 20
)

// readBuffers hold a whole file of /proc as a rule: some of those are walked
// from their start for each piece that is read.
var readBuffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// ReadFile implements Reader.
func (l *Local) ReadFile(path string) ([]byte, error) {
	fd, err := open(l.path(path))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, absent(err))
	}
	defer unix.Close(fd)
	buf := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(buf)
	b, err := readAll(fd, (*buf)[:0])
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, absent(err))
	}
	if len(b) > readLimit {
		return nil, fmt.Errorf("read %s: larger than 16 MiB", path)
	}
	return bytes.Clone(b), nil
}

// open opens a file for reading as it is, without the runtime's poller: one
// system call instead of three for each small file.
func open(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// readAll reads to the end or just beyond the limit, into b if it fits.
func readAll(fd int, b []byte) ([]byte, error) {
	for len(b) <= readLimit {
		if len(b) == cap(b) {
			b = slices.Grow(b, cap(b))
		}
		n, err := unix.Read(fd, b[len(b):cap(b)])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, err
		case n == 0:
			return b, nil
		default:
			b = b[:len(b)+n]
		}
	}
	return b, nil
}

// ReadFrom implements Reader.
func (l *Local) ReadFrom(path string, off int64, n int) ([]byte, error) {
	f, err := os.OpenFile(l.path(path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, absent(errors.Unwrap(err)))
	}
	defer f.Close()
	b := make([]byte, min(max(n, 0), partLimit))
	got, err := f.ReadAt(b, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", path, absent(err))
	}
	return b[:got], nil
}

// Glob implements Reader.
func (l *Local) Glob(pattern string) ([]string, error) {
	ms, err := filepath.Glob(l.path(pattern))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", pattern, err)
	}
	for i, m := range ms {
		ms[i] = "/" + strings.TrimLeft(strings.TrimPrefix(m, l.opt.Root), "/")
	}
	sort.Strings(ms)
	return ms, nil
}

// Resolve implements Reader.
func (l *Local) Resolve(path string) (string, error) {
	p, err := filepath.EvalSymlinks(l.path(path))
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", path, absent(err))
	}
	return "/" + strings.TrimLeft(strings.TrimPrefix(p, filepath.Clean(l.opt.Root)), "/"), nil
}

// Stat implements Reader.
func (l *Local) Stat(path string) (FileInfo, error) {
	fi, err := os.Stat(l.path(path))
	if err != nil {
		return FileInfo{}, fmt.Errorf("look at %s: %w", path, absent(err))
	}
	out := FileInfo{Size: fi.Size(), Mode: fi.Mode()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		out.Inode = st.Ino
		out.UID, out.GID = int(st.Uid), int(st.Gid)
		out.Major, out.Minor = unix.Major(st.Dev), unix.Minor(st.Dev)
	}
	return out, nil
}

// Space implements Reader.
func (l *Local) Space(path string) (Space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(l.path(path), &st); err != nil {
		return Space{}, fmt.Errorf("measure space of %s: %w", path, absent(err))
	}
	bs := int64(st.Frsize)
	if bs == 0 {
		bs = int64(st.Bsize)
	}
	return Space{
		Total: int64(st.Blocks) * bs, Avail: int64(st.Bavail) * bs,
		Inodes: int64(st.Files), InodesAvail: int64(st.Ffree),
		FSType: int64(st.Type), ReadOnly: st.Flags&unix.ST_RDONLY != 0,
	}, nil
}

// Look implements Reader.
func (l *Local) Look(ctx context.Context, argv ...string) ([]byte, error) {
	if err := allowed(argv); err != nil {
		return nil, err
	}
	limited, stop := context.WithTimeout(ctx, patience(argv))
	defer stop()
	out, err := Cmd{Argv: argv}.Run(limited, lookLimit+1)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("%w: it took longer than %s", err, patience(argv))
	}
	if err == nil && len(out) > lookLimit {
		return nil, fmt.Errorf("run %s: it writes more than 64 MiB", argv[0])
	}
	return out, err
}

// Now implements Reader.
func (l *Local) Now() time.Time { return time.Now() }

// WriteFile implements Writer.
func (l *Local) WriteFile(path string, content []byte, mode fs.FileMode) error {
	return WriteDurable(l.path(path), content, mode)
}

// WriteValue implements Writer.
func (l *Local) WriteValue(path, value string) error {
	f, err := os.OpenFile(l.path(path), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, absent(errors.Unwrap(err)))
	}
	_, err = f.WriteString(value)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %q into %s: %w", value, path, absent(err))
	}
	return nil
}

// Remove implements Writer.
func (l *Local) Remove(path string) error {
	err := os.Remove(l.path(path))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, absent(err))
	}
	return SyncDir(filepath.Dir(l.path(path)))
}

// Run implements Writer.
func (l *Local) Run(ctx context.Context, argv ...string) ([]byte, error) {
	return l.Feed(ctx, nil, argv...)
}

// Feed implements Writer.
func (l *Local) Feed(ctx context.Context, input []byte, argv ...string) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, 60*time.Second)
	defer stop()
	c := Cmd{Argv: argv}
	if input != nil {
		c.Stdin = bytes.NewReader(input)
	}
	return c.Run(ctx, 4<<20)
}
