package host

import (
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// ListenerOf returns the number of the process that listens on a unix socket,
// as the kernel tells whoever may connect to it; 0 for one outside of our
// process namespace. Nothing is sent.
func ListenerOf(path string) (pid int, err error) {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return 0, fmt.Errorf("ask who listens on %s: %w", path, err)
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("ask who listens on %s: %w", path, err)
	}
	var cred *unix.Ucred
	var cerr error
	err = raw.Control(func(fd uintptr) { cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, cerr); err != nil {
		return 0, fmt.Errorf("ask who listens on %s: %w", path, err)
	}
	return int(cred.Pid), nil
}
