// Package netns makes network namespaces that nobody else can see: they have
// no name, hold nothing but a loopback until Join ties two of them, and end
// with the process that made them, however it ends. Rules, floods and broken
// configurations tried in one cannot reach the machine or its neighbours.
package netns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"headroom/fail"
	"headroom/host"
)

// Namespace is a network namespace that New made. The zero value and nil are
// none: every method of theirs fails. Safe for concurrent use.
type Namespace struct {
	mu    sync.Mutex
	file  *os.File // keeps it; nil once closed
	links []Device // that Join made
}

// New makes a namespace whose loopback is up with 127.0.0.1 and ::1, and whose
// devices check no reverse path, whatever the machine's do. It needs
// CAP_SYS_ADMIN; the error carries the way out. Close it.
func New() (*Namespace, error) {
	n := &Namespace{}
	err := onThread(func() (back bool, err error) {
		home, err := current()
		if err != nil {
			return true, err
		}
		defer home.Close()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return true, denied(err)
		}
		if n.file, err = current(); err == nil {
			err = furnish()
		}
		return enter(home) == nil, err
	})
	if err != nil {
		n.Close()
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	return n, nil
}

// Close gives the namespace up: it ends with the last process, socket or
// descriptor in it. Closing twice, or nothing, is no error.
func (n *Namespace) Close() {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.file != nil {
		n.file.Close()
	}
	n.file, n.links = nil, nil
}

// Do runs f inside: sockets that f opens and programs that it starts belong to
// the namespace, also after f returned. f runs on a thread of its own;
// goroutines that it starts do not run inside. Of /proc it must read
// /proc/thread-self/net, for /proc/net is that of the main thread; /proc/sys/net
// is the namespace's. A panic in f goes on in the caller.
func (n *Namespace) Do(f func() error) error {
	file, err := n.hold()
	if err != nil {
		return err
	}
	defer file.Close()
	return onThread(func() (back bool, err error) {
		home, err := current()
		if err != nil {
			return true, err
		}
		defer home.Close()
		if err := enter(file); err != nil {
			return true, fmt.Errorf("enter the network namespace: %w", denied(err))
		}
		defer func() { back = enter(home) == nil }()
		return false, f()
	})
}

// Run runs a program inside to its end and returns what it wrote to standard
// output, at most limit bytes; see host.Cmd.Run.
func (n *Namespace) Run(ctx context.Context, c host.Cmd, limit int) (out []byte, err error) {
	err = n.Do(func() error {
		out, err = c.Run(ctx, limit)
		return err
	})
	return out, err
}

// Sysctl sets a value of /proc/sys inside: "net/ipv4/ip_forward", "1". Only
// what the kernel keeps for each namespace can be set; the rest is refused,
// because it is the machine's.
func (n *Namespace) Sysctl(name, value string) error {
	l := host.Open(host.Options{})
	defer l.Close()
	path := "/proc/sys/" + name
	if !slices.Contains(own, root(name)) {
		return fmt.Errorf("set %s in a namespace: only what is below %v belongs to a namespace", path, own)
	}
	return n.Do(func() error { return l.WriteValue(path, value) })
}

// hold returns a descriptor of the namespace that lives on if it is closed.
func (n *Namespace) hold() (*os.File, error) {
	if n == nil {
		return nil, errNone
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.file == nil {
		return nil, errNone
	}
	fd, err := unix.FcntlInt(n.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("enter the network namespace: %w", err)
	}
	return os.NewFile(uintptr(fd), "network namespace"), nil
}

var (
	errNone  = errors.New("enter the network namespace: it is closed, or was never made")
	errEnded = errors.New("run inside the network namespace: the goroutine ended itself")
)

// current opens the namespace of the calling thread.
func current() (*os.File, error) {
	fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open this thread's network namespace: %w", err)
	}
	return os.NewFile(uintptr(fd), "network namespace"), nil
}

func enter(ns *os.File) error { return unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET) }

// onThread runs f with a thread of its own, which is never the main one: that
// one's namespace is what /proc/net shows to the whole process. f says whether
// the thread is back where it was; if not (it may not return, in a user
// namespace), the thread ends. A panic in f goes on in the caller.
func onThread(f func() (back bool, err error)) error {
	var (
		done     = make(chan struct{})
		back     bool
		err      = errEnded
		panicked any
	)
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer func() {
			if back {
				runtime.UnlockOSThread()
			}
		}()
		defer func() { panicked = recover() }()
		if unix.Gettid() == unix.Getpid() {
			back, err = true, onThread(f)
			return
		}
		back, err = f()
	}()
	<-done
	if panicked != nil {
		panic(panicked)
	}
	return err
}

func denied(err error) error {
	if errors.Is(err, unix.EPERM) {
		return fail.Hint(fmt.Errorf("%w: %w", fail.ErrDenied, err), "run it as root, or in a user namespace of your own: unshare --user --map-root-user headroom …")
	}
	return err
}
