package trial

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"headroom/crash"
	"headroom/host"
)

const scratchPrefix = "headroom-scratch-"

// Scratch makes a folder for scratch files below dir, or below the cache
// folder. Folders that a killed process left there are removed, and found is
// told: each has a lock that the kernel drops when its owner dies.
func Scratch(dir string, own host.Dirs, found func(string)) (path string, remove func() error, err error) {
	if dir == "" {
		dir = own.Cache
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, fmt.Errorf("make scratch folder: %w", err)
	}
	swept, err := SweepScratch(dir)
	for _, old := range swept {
		found("scratch folder " + old + " was left by a trial that was killed: removed")
	}
	if err != nil {
		return "", nil, err
	}
	if path, err = os.MkdirTemp(dir, scratchPrefix); err != nil {
		return "", nil, fmt.Errorf("make scratch folder: %w", err)
	}
	lock, err := lockScratch(path)
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("make scratch folder: %w", err), os.RemoveAll(path))
	}
	crash.At("trial.scratch-made")
	return path, func() error { return errors.Join(os.RemoveAll(path), lock.Close()) }, nil
}

func lockScratch(path string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// SweepScratch removes the scratch folders below dir whose owner was killed, and
// returns them. A folder that does not exist holds none.
func SweepScratch(dir string) (removed []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for old scratch folders: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), scratchPrefix) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		f, err := lockScratch(path)
		if errors.Is(err, unix.EWOULDBLOCK) {
			continue
		}
		if err == nil {
			err = errors.Join(os.RemoveAll(path), f.Close())
		}
		if err != nil {
			return removed, fmt.Errorf("remove the old scratch folder %s: %w", path, err)
		}
		removed = append(removed, path)
	}
	return removed, nil
}
