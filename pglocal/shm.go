package pglocal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const shmFolder = "/dev/shm/PostgreSQL."

// sharedMem lists the POSIX shared memory that a process has mapped, as paths.
func sharedMem(pid int) []string {
	b, err := machine().ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil
	}
	var paths []string
	for line := range strings.Lines(string(b)) {
		if i := strings.Index(line, shmFolder); i >= 0 {
			paths = append(paths, strings.TrimSpace(line[i:]))
		}
	}
	return paths
}

// forget removes what outlives the processes of a killed server. After a
// proper end, even an immediate one, there is nothing of it left.
func forget(dataDir string, shm []string) error {
	m := machine()
	var errs []error
	for _, path := range shm {
		if strings.HasPrefix(path, shmFolder) && !strings.Contains(path[len(shmFolder):], "/") {
			errs = append(errs, m.Remove(path))
		}
	}
	root, err := os.OpenRoot(dataDir)
	if err != nil {
		return errors.Join(errs...) // no data folder yet
	}
	defer root.Close()
	b, err := root.ReadFile("postmaster.pid")
	if err != nil {
		return errors.Join(errs...)
	}
	removeSysV(strings.Split(string(b), "\n"))
	if err := root.Remove("postmaster.pid"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, fmt.Errorf("remove the dead server's pid file: %w", err))
	}
	return errors.Join(errs...)
}

// removeSysV removes the System V segment that the pid file's seventh line
// names ("key id"), unless a process still uses it.
func removeSysV(pidFile []string) {
	if len(pidFile) < 7 {
		return
	}
	f := strings.Fields(pidFile[6])
	if len(f) != 2 {
		return
	}
	id, err := strconv.Atoi(f[1])
	if err != nil {
		return
	}
	var d unix.SysvShmDesc
	if _, err := unix.SysvShmCtl(id, unix.IPC_STAT, &d); err != nil || d.Nattch != 0 || strconv.Itoa(int(d.Perm.Key)) != f[0] {
		return
	}
	_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
}

// sockets removes the socket and its lock file of a server that was killed.
func removeSockets(dir string) error {
	found, err := filepath.Glob(filepath.Join(dir, ".s.PGSQL.*"))
	for _, f := range found {
		err = errors.Join(err, os.Remove(f))
	}
	return err
}
