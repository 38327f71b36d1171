package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"headroom/fail"
	"headroom/host"
)

// file is a value of type T kept as JSON, read again when another process
// changed it.
type file[T any] struct {
	path string

	mu    sync.Mutex
	value T
	stamp stamp
}

// stamp tells one version of a file from another.
type stamp struct {
	ino  uint64
	size int64
	at   time.Time
}

// ErrDamaged says that a file of sessions or tokens holds something else.
// Nobody is let in by it.
var ErrDamaged = errors.New("damaged")

// maxFile is more than a thousand sessions and tokens take.
const maxFile = 4 << 20

// get returns the present value, to be read only. A file that is not there is
// the zero T; one that cannot be read is an error: no guess is made about who
// may do what.
func (f *file[T]) get() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.load()
}

func (f *file[T]) load() (T, error) {
	var zero T
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.value, f.stamp = zero, stamp{}
		return zero, nil
	}
	if err != nil {
		return zero, fmt.Errorf("read %s: %w", f.path, err)
	}
	now := stamp{size: info.Size(), at: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		now.ino = st.Ino
	}
	if now == f.stamp {
		return f.value, nil
	}
	if info.Size() > maxFile {
		return zero, fmt.Errorf("read %s: %d bytes, more than it can ever have", f.path, info.Size())
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return zero, fmt.Errorf("read %s: %w", f.path, err)
	}
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		return zero, fail.Hint(fmt.Errorf("read %s: it is %w: %w", f.path, ErrDamaged, err), "move it away: tokens and sessions in it are lost, nothing else")
	}
	f.value, f.stamp = v, now
	return v, nil
}

// change alters the value under the lock that all processes share. It is on
// disk when change returns; alter's own error leaves all as it was.
func (f *file[T]) change(alter func(T) (T, error)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return fmt.Errorf("make folder of %s: %w", f.path, err)
	}
	lock, err := os.OpenFile(f.path+".lock", os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.path, err)
	}
	defer lock.Close()
	// Root makes tokens and links for a server that runs as an account of its
	// own, and that has to read them.
	if err := host.GiveToFolder(lock); err != nil {
		return err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", f.path, err)
	}
	v, err := f.load()
	if err != nil {
		return err
	}
	if v, err = alter(v); err != nil {
		return err
	}
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	f.stamp = stamp{}
	return host.WriteDurableFor(f.path, append(text, '\n'), 0o600)
}
