package change

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headroom/fail"
)

// lock is the right to change this machine. It belongs to an open file: the
// kernel takes it back when the process ends in whatever way, so that a stale
// lock cannot be.
type lock struct{ f *os.File }

func (j *Journal) lockFile() string { return filepath.Join(j.run, "apply.lock") }

// lock takes the lock or returns an error with status fail.Locked that names
// the holder.
func (j *Journal) lock(what string) (*lock, error) {
	if err := os.MkdirAll(j.run, 0o755); err != nil {
		return nil, fmt.Errorf("make folder %s: %w", j.run, err)
	}
	f, err := os.OpenFile(j.lockFile(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	// Open-file-description locks, as flock, go with the open file; unlike
	// flock they can be asked about without being taken.
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		err = fail.With(fail.Hint(fmt.Errorf("%s: another change is running: %s", what, holder(f)),
			"wait until it ends, then try again"), fail.Locked)
		return nil, errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take lock %s: %w", f.Name(), err), f.Close())
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = fmt.Fprintf(f, "process %d, %s\n", os.Getpid(), what)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write lock %s: %w", f.Name(), err), f.Close())
	}
	return &lock{f}, nil
}

func holder(f *os.File) string {
	b := make([]byte, 400)
	n, _ := f.ReadAt(b, 0)
	if s := strings.TrimSpace(string(b[:n])); s != "" {
		return s
	}
	return "it just began"
}

// await takes the lock, waiting for it until ctx ends.
func (j *Journal) await(ctx context.Context, what string) (*lock, error) {
	for {
		l, err := j.lock(what)
		if fail.Code(err) != fail.Locked {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// held says whether somebody holds the lock, without taking it.
func (j *Journal) held() (bool, error) {
	f, err := os.Open(j.lockFile())
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open lock: %w", err)
	}
	defer f.Close()
	q := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &q); err != nil {
		return false, fmt.Errorf("ask for lock %s: %w", f.Name(), err)
	}
	return q.Type != unix.F_UNLCK, nil
}

// release gives the lock back. Errors of closing do not matter: the kernel
// drops the lock all the same.
func (l *lock) release() {
	_ = l.f.Truncate(0)
	_ = l.f.Close()
}
