package queue

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"headroom/host"
)

// disk is one folder, as far as a log needs it. Tests put one in its place
// that loses what was not synced.
type disk interface {
	Names() ([]string, error)
	Create(name string) (file, error) // fails if it is there
	Open(name string) (file, error)   // to read
	Replace(name string, content []byte) error
	Remove(name string) error
	Sync() error // names survive a power loss
	Free() int64 // bytes; negative: unknown
}

type file interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
	Truncate(size int64) error
	Size() (int64, error)
	Close() error
}

// folder is a disk that is one.
type folder string

func (d folder) path(name string) string { return filepath.Join(string(d), name) }

func (d folder) Names() ([]string, error) {
	entries, err := os.ReadDir(string(d))
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func (d folder) Create(name string) (file, error) {
	return opened(os.OpenFile(d.path(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600))
}

func (d folder) Open(name string) (file, error) { return opened(os.Open(d.path(name))) }

func opened(f *os.File, err error) (file, error) {
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (d folder) Replace(name string, content []byte) error {
	return host.WriteDurable(d.path(name), content, 0o600)
}

func (d folder) Remove(name string) error { return os.Remove(d.path(name)) }

func (d folder) Sync() error { return host.SyncDir(string(d)) }

func (d folder) Free() int64 {
	var s unix.Statfs_t
	if err := unix.Statfs(string(d), &s); err != nil {
		return -1
	}
	return int64(s.Bavail) * s.Bsize
}

type osFile struct{ *os.File }

func (f osFile) Sync() error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// Free is the bytes that are free where a folder lies, 0 if that is not known.
func Free(dir string) uint64 { return uint64(max(folder(dir).Free(), 0)) }

// Writable says whether the disk of a folder has more than minFree bytes free
// and takes and syncs a new file.
func Writable(dir string, minFree int64) bool { return writable(folder(dir), minFree) }

// noRoom says whether an error means that the disk, a quota or its inodes are
// used up.
func noRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, ErrDiskFull)
}

// Hold makes a queue's folder and locks it; who comes second gets ErrHeld, with
// the process that holds it.
func Hold(dir string) (release func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open queue: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open queue: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder := make([]byte, 20)
		n, _ := f.ReadAt(holder, 0)
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("open queue %s: %w (process %s)", dir, ErrHeld, holder[:n])
		}
		return nil, fmt.Errorf("lock queue %s: %w", dir, err)
	}
	_ = f.Truncate(0)
	_, _ = fmt.Fprintf(f, "%d", os.Getpid())
	return f.Close, host.SyncDir(filepath.Dir(dir))
}
