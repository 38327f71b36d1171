package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"headroom/fail"
)

// Cmd is one program to be run. Argv[0] is a path or a name looked up in the
// system folders only, never in the caller's PATH. The environment is LC_ALL=C,
// PATH and Env, nothing inherited.
type Cmd struct {
	Argv   []string
	Env    []string  // NAME=value, added
	Dir    string    // working folder; "/" if empty
	As     *Account  // run as this account; nil: as ourselves
	Stdin  io.Reader // nil: nothing to read
	Output *os.File  // Start only: where stdout and stderr go; nil: discarded
	// Detach puts the process in a session of its own, so that a hang-up or
	// Ctrl-C meant for us does not reach it.
	Detach bool
	// DieWithUs asks the kernel to send the process this signal when the
	// thread that started it ends: the caller locks its goroutine to the
	// thread (runtime.LockOSThread) for as long as the process shall live.
	DieWithUs syscall.Signal
	// Extra are files handed down as descriptor 3, 4, …
	Extra []*os.File
}

// Account is an operating-system account that a process can run as.
type Account struct {
	Name     string
	UID, GID int
	Home     string
}

// LookupAccount finds an account by name; fail.ErrAbsent if there is none.
func LookupAccount(name string) (*Account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("look up account %q: %w", name, fail.ErrAbsent)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("look up account %q: %w", name, err)
	}
	return &Account{Name: name, UID: uid, GID: gid, Home: u.HomeDir}, nil
}

const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// FindProgram returns the path of a program: argv0 itself if it holds a
// slash, else the first match in the system folders. fail.ErrAbsent if none.
func FindProgram(argv0 string) (string, error) {
	if strings.Contains(argv0, "/") {
		if _, err := os.Stat(argv0); err != nil {
			return "", fmt.Errorf("find program %s: %w", argv0, absent(err))
		}
		return argv0, nil
	}
	for _, dir := range filepath.SplitList(systemPath) {
		p := filepath.Join(dir, argv0)
		if st, err := os.Stat(p); err == nil && st.Mode()&0o111 != 0 && !st.IsDir() {
			return p, nil
		}
	}
	return "", fmt.Errorf("find program %s: %w", argv0, fail.ErrAbsent)
}

func (c Cmd) build(ctx context.Context) (*exec.Cmd, error) {
	if len(c.Argv) == 0 {
		return nil, errors.New("run: no program named")
	}
	path, err := FindProgram(c.Argv[0])
	if err != nil {
		return nil, err
	}
	x := exec.CommandContext(ctx, path, c.Argv[1:]...)
	x.Env = append([]string{"LC_ALL=C", "PATH=" + systemPath}, c.Env...)
	x.Dir = c.Dir
	if x.Dir == "" {
		x.Dir = "/"
	}
	x.Stdin = c.Stdin
	x.ExtraFiles = c.Extra
	x.SysProcAttr = &syscall.SysProcAttr{Setsid: c.Detach, Pdeathsig: c.DieWithUs}
	if c.As != nil && c.As.UID != os.Getuid() {
		x.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(c.As.UID), Gid: uint32(c.As.GID), Groups: groupsOf(c.As.UID)}
		x.Env = append(x.Env, "HOME="+c.As.Home, "USER="+c.As.Name)
	}
	return x, nil
}

// groupsOf lists the further groups of an account, as a login gives them: a
// server may read its key by one of them (Debian's ssl-cert).
func groupsOf(uid int) []uint32 {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return nil
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil
	}
	var out []uint32
	for _, id := range ids {
		if n, err := strconv.ParseUint(id, 10, 32); err == nil {
			out = append(out, uint32(n))
		}
	}
	return out
}

// Run runs c to its end and returns what it wrote to standard output, at
// most limit bytes. The error of a failed program carries the last 2 kB of
// its standard error. The whole process group is killed when ctx ends.
func (c Cmd) Run(ctx context.Context, limit int) ([]byte, error) {
	x, err := c.build(ctx)
	if err != nil {
		return nil, err
	}
	var out, errOut bytes.Buffer
	x.Stdout = &capped{w: &out, left: limit}
	x.Stderr = &capped{w: &errOut, left: 1 << 20}
	if !x.SysProcAttr.Setsid {
		x.SysProcAttr.Setpgid = true
	}
	x.Cancel = func() error { return syscall.Kill(-x.Process.Pid, syscall.SIGKILL) }
	x.WaitDelay = 10 * time.Second // on a busy machine what it wrote last takes its time
	err = x.Run()
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		err = fmt.Errorf("interrupted: %w", ctx.Err())
	case ctx.Err() != nil:
		err = fmt.Errorf("stopped after its time limit: %w", ctx.Err())
	}
	if err != nil {
		msg := strings.TrimSpace(errOut.String())
		if len(msg) > 2048 {
			msg = msg[len(msg)-2048:]
		}
		if msg != "" {
			return out.Bytes(), fmt.Errorf("run %s: %w: %s", c.Argv[0], err, msg)
		}
		return out.Bytes(), fmt.Errorf("run %s: %w", c.Argv[0], err)
	}
	return out.Bytes(), nil
}

// Start starts c and returns at once. The caller must Wait (or Release) it.
func (c Cmd) Start() (*exec.Cmd, error) {
	x, err := c.build(context.Background())
	if err != nil {
		return nil, err
	}
	if c.Output != nil {
		x.Stdout, x.Stderr = c.Output, c.Output
	}
	if err := x.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Argv[0], err)
	}
	return x, nil
}

// capped keeps the first left bytes and swallows the rest.
type capped struct {
	w    *bytes.Buffer
	left int
}

func (c *capped) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.w.Write(p[:n])
	c.left -= n
	return len(p), nil
}

// absent turns the file system's errors into the project's two words.
func absent(err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENODEV):
		return fmt.Errorf("%w: %w", fail.ErrAbsent, err)
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		if strings.HasSuffix(err.Error(), fail.ErrDenied.Error()) { // said once is enough
			return &told{err.Error(), errors.Join(fail.ErrDenied, err)}
		}
		return fmt.Errorf("%w: %w", fail.ErrDenied, err)
	}
	return err
}
