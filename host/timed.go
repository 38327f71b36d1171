package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	ioprioWhoProcess = 1
	ioprioBestEffort = 2 << 13
	ioprioLowest     = 7
	timedBuffer      = 1 << 20
)

type timedFile struct {
	f      *os.File
	buf    []byte // page-aligned, as O_DIRECT wants
	size   int64
	direct bool
}

// OpenTimed implements Reader.
func (l *Local) OpenTimed(path string) (TimedFile, error) {
	direct := true
	f, err := os.OpenFile(l.path(path), os.O_RDONLY|unix.O_DIRECT, 0)
	if errors.Is(err, unix.EINVAL) {
		direct = false
		f, err = os.OpenFile(l.path(path), os.O_RDONLY, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s for timed reads: %w", path, absent(errors.Unwrap(err)))
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("size of %s: %w", path, err), f.Close())
	}
	buf, err := unix.Mmap(-1, 0, timedBuffer, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("buffer for timed reads: %w", err), f.Close())
	}
	return &timedFile{f: f, buf: buf, size: size, direct: direct}, nil
}

func (t *timedFile) Size() int64  { return t.size }
func (t *timedFile) Direct() bool { return t.direct }

func (t *timedFile) Close() error { return errors.Join(unix.Munmap(t.buf), t.f.Close()) }

func (t *timedFile) ReadTimed(off int64, n int) (time.Duration, error) {
	if n > len(t.buf) || n <= 0 || off%4096 != 0 || n%4096 != 0 {
		return 0, fmt.Errorf("timed read of %d bytes at %d: not a multiple of 4096 within 1 MiB", n, off)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	old, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, ioprioWhoProcess, 0, 0)
	if errno == 0 {
		_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ioprioWhoProcess, 0, ioprioBestEffort|ioprioLowest)
		defer func() { _, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ioprioWhoProcess, 0, old) }()
	}
	start := time.Now()
	got, err := unix.Pread(int(t.f.Fd()), t.buf[:n], off)
	took := time.Since(start)
	if err == nil && got == 0 {
		err = io.EOF
	}
	if err != nil {
		return 0, fmt.Errorf("timed read at %d: %w", off, err)
	}
	return took, nil
}
