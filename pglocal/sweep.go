package pglocal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Swept is one leftover that Sweep found and removed.
type Swept struct {
	Name    string // the server's name
	Folder  string
	Owner   int   // pid of the process that had started it and is gone; 0 if the record was lost
	Stopped []int // pids of server processes that still ran
}

// String says it in one line.
func (w Swept) String() string {
	did := ""
	if len(w.Stopped) > 0 {
		did = fmt.Sprintf("ended %d processes and ", len(w.Stopped))
	}
	if w.Owner == 0 {
		return fmt.Sprintf("a private server was left and its record is lost: %sremoved %s", did, w.Folder)
	}
	return fmt.Sprintf("private server %q was left by process %d, which is gone: %sremoved %s", w.Name, w.Owner, did, w.Folder)
}

// What Start makes below the parent folder. Anything else there is not ours.
var (
	folderName   = regexp.MustCompile(`^pg-[a-z2-7]{8}$`)
	templateName = regexp.MustCompile(`^template-[0-9a-z]{8}-[0-9]+-[0-9a-f]{12}(\.lock|\.tmp)?$`)
	draftName    = regexp.MustCompile(`^(template|postgresql)-[0-9a-z.-]+\.tmp$`)
)

// Sweep removes what servers below parent left when the process that started
// them died: it ends their processes and removes their folders. It touches
// only folders made by Start whose owner is gone, and only processes that run
// the recorded program inside the recorded data folder. A parent that does
// not exist is clean.
func Sweep(ctx context.Context, parent string) ([]Swept, error) {
	parent, err := filepath.EvalSymlinks(parent)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sweep private servers: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(parent, ".lock"))
	if err != nil {
		return nil, fmt.Errorf("sweep private servers: %w", err)
	}
	defer unlock()
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, fmt.Errorf("sweep private servers: %w", err)
	}
	var all []Swept
	var errs []error
	for _, e := range entries {
		dir := filepath.Join(parent, e.Name())
		switch {
		case templateName.MatchString(e.Name()) && !strings.HasPrefix(e.Name(), templatePrefix()):
			errs = append(errs, os.RemoveAll(dir))
		case draftName.MatchString(e.Name()):
			errs = append(errs, sweepDraft(dir))
		case folderName.MatchString(e.Name()) && e.IsDir():
			w, err := sweepOne(dir)
			errs = append(errs, err)
			if w != nil {
				all = append(all, *w)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return all, fmt.Errorf("sweep private servers: %w", err)
	}
	return all, nil
}

// sweepOne removes one server's folder unless its owner lives.
func sweepOne(dir string) (*Swept, error) {
	f, err := os.Open(dir)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = nil // its owner removed it meanwhile
		}
		return nil, err
	}
	defer f.Close()
	if free, err := tryLock(f); !free {
		return nil, err
	}
	r, err := readOwner(dir)
	if errors.Is(err, os.ErrNotExist) {
		removeUnborn(dir)
		return nil, nil
	}
	if err != nil {
		r = record{} // unreadable: the folder and its lock tell enough
	}
	w := &Swept{Name: r.Name, Folder: dir, Owner: r.Owner.PID}
	if w.Stopped, err = reap(filepath.Join(dir, "data"), r); err != nil {
		return nil, err
	}
	if r.SocketDir != "" && filepath.Dir(r.SocketDir) != dir {
		err = os.RemoveAll(r.SocketDir)
	}
	if err := errors.Join(err, removeFolder(dir)); err != nil {
		return nil, err
	}
	return w, nil
}

// sweepDraft removes a template or unpacked programs that were never
// finished, unless somebody is at it.
func sweepDraft(dir string) error {
	f, err := os.OpenFile(strings.TrimSuffix(dir, ".tmp")+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if free, err := tryLock(f); !free {
		return err
	}
	return removeDraft(dir)
}

// removeDraft removes a folder whose maker died. What the maker had started
// ends with it, and may write its last meanwhile.
func removeDraft(dir string) error {
	for end := time.Now().Add(quitLimit); ; time.Sleep(10 * time.Millisecond) {
		err := os.RemoveAll(dir)
		if !errors.Is(err, unix.ENOTEMPTY) || time.Now().After(end) {
			return err
		}
	}
}

// removeFolder removes a server's folder, the record last: an interrupted
// removal goes on at the next Sweep.
func removeFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.Name() != "owner.json" {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// removeUnborn removes a folder whose maker died before it wrote the record.
// Such a folder holds next to nothing; one that holds more is not ours.
func removeUnborn(dir string) {
	drafts, _ := filepath.Glob(filepath.Join(dir, ".owner.json.*.tmp"))
	for _, p := range append(drafts, filepath.Join(dir, "s"), dir) {
		_ = os.Remove(p) // a folder with content stays
	}
}

// reap ends what is left of this server's processes. s.mu is held.
func (s *Server) reap() ([]int, error) {
	r, err := readOwner(s.dir)
	if err != nil {
		return nil, nil // never started
	}
	return reap(s.DataDir, r)
}

// reap ends every process of the server in dataDir (those left by a killed
// postmaster, too), and removes what a killed server cannot remove itself:
// pid file, System V and POSIX shared memory. It returns the pids it ended.
func reap(dataDir string, r record) ([]int, error) {
	var ended []int
	deadline := time.Now().Add(quitLimit)
	shm := r.SharedMem
	for {
		pids := inhabitants(dataDir, r)
		if len(pids) == 0 {
			break
		}
		sig := unix.SIGQUIT
		if time.Now().After(deadline) {
			sig = unix.SIGKILL
		}
		if time.Now().After(deadline.Add(quitLimit)) {
			return ended, fmt.Errorf("end the processes %v of the server in %s: they do not end, even by SIGKILL", pids, dataDir)
		}
		for _, pid := range pids {
			shm = append(shm, sharedMem(pid)...)
			if !slices.Contains(ended, pid) {
				ended = append(ended, pid)
			} else if sig == unix.SIGQUIT {
				continue
			}
			endProcess(pid, sig, dataDir, r)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return ended, forget(dataDir, shm)
}

// inhabitants lists the processes of the server in dataDir.
func inhabitants(dataDir string, r record) []int {
	m := machine()
	procs, err := m.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var pids []int
	for _, p := range procs {
		pid, err := strconv.Atoi(filepath.Base(p))
		if err == nil && lives(pid, dataDir, r) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// lives says whether a process belongs to the server in dataDir: its working
// folder is the data folder (a server's processes never leave it), and either
// it is the very postmaster of the record, or it runs the recorded program
// and is younger than the recorded owner.
func lives(pid int, dataDir string, r record) bool {
	m := machine()
	cwd, err := m.Resolve(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil || cwd != dataDir {
		return false
	}
	if pid == r.Server.PID && r.Server.alive() {
		return true // even if an upgrade has replaced its program
	}
	exe, err := m.Resolve(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil || filepath.Base(exe) != "postgres" || r.Program != "" && exe != r.Program {
		return false
	}
	began := startTime(pid)
	return began != 0 && (r.Owner.Boot != bootID() || began >= r.Owner.Start)
}

// endProcess signals a process through a descriptor, so that the signal
// cannot reach another one that took over the number since we looked.
func endProcess(pid int, sig unix.Signal, dataDir string, r record) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // gone already
	}
	defer unix.Close(fd)
	if lives(pid, dataDir, r) {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}
