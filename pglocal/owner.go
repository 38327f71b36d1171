package pglocal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"headroom/host"
)

// identity names one process for ever: a pid alone comes back.
type identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot, field 22 of /proc/PID/stat
	Boot  string `json:"boot"`  // /proc/sys/kernel/random/boot_id
}

// record is a server folder's owner.json. It lies in a folder that the
// server's own account cannot write to, so Sweep may trust it. Whether the
// owner lives is told by its lock on the folder, which the kernel drops at its
// death, whatever the death; the record says who it was.
type record struct {
	Name      string   `json:"name"`
	Owner     identity `json:"owner"`
	SocketDir string   `json:"socket_dir"`
	Program   string   `json:"program"`              // the postgres binary
	Server    identity `json:"server,omitzero"`      // the postmaster
	SharedMem []string `json:"shared_mem,omitempty"` // files in /dev/shm
}

func machine() *host.Local { return host.Open(host.Options{}) }

func bootID() string {
	b, err := machine().ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// startTime is when a process began, in clock ticks since boot; 0 if there is
// no such process or it is a zombie.
func startTime(pid int) uint64 {
	b, err := machine().ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The second field is the program's name in brackets, which may hold
	// blanks and brackets itself; the third is the state, the 22nd the time.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return 0
	}
	n, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func identify(pid int) identity {
	return identity{PID: pid, Start: startTime(pid), Boot: bootID()}
}

func self() identity { return identify(os.Getpid()) }

// alive says whether that very process still runs.
func (id identity) alive() bool {
	return id.PID != 0 && id.Boot == bootID() && id.Start != 0 && startTime(id.PID) == id.Start
}

func writeOwner(dir string, r record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return host.WriteDurable(filepath.Join(dir, "owner.json"), append(b, '\n'), 0o600)
}

func readOwner(dir string) (record, error) {
	var r record
	b, err := os.ReadFile(filepath.Join(dir, "owner.json"))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(b, &r)
}

// lock waits for an advisory lock on a file, made if need be. The kernel
// drops it when we die.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	for {
		ok, err := tryLock(f)
		if ok {
			return func() { _ = f.Close() }, nil
		}
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("wait for %s: %w", path, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// tryLock takes the lock on an open file or folder, unless another has it.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, syscall.EWOULDBLOCK), errors.Is(err, syscall.EINTR):
		return false, nil
	}
	return false, fmt.Errorf("lock %s: %w", f.Name(), err)
}

// hold locks a folder for as long as we live or until it is closed.
func hold(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	ok, err := tryLock(f)
	if !ok {
		_ = f.Close()
		return nil, errors.Join(fmt.Errorf("lock %s: another process has it", dir), err)
	}
	return f, nil
}
