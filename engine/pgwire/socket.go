package pgwire

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// transport carries bytes. interrupt may be called from any goroutine, but not
// during or after Close; it makes a Read or Write that waits, and every later
// one, return at once.
type transport interface {
	io.ReadWriteCloser
	interrupt()
}

func newTransport(c net.Conn) (transport, error) {
	plain, ok := c.(syscall.Conn)
	if !ok { // TLS: the bytes are not the socket's
		return &polled{c}, nil
	}
	raw, err := plain.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, dupErr := -1, error(nil)
	err = raw.Control(func(p uintptr) {
		n, _, no := syscall.Syscall(syscall.SYS_FCNTL, p, syscall.F_DUPFD_CLOEXEC, 0)
		if no != 0 {
			dupErr = os.NewSyscallError("dup", no)
			return
		}
		fd = int(n)
	})
	if err = errors.Join(err, dupErr); err != nil {
		return nil, err
	}
	// The flag belongs to the socket and not to the descriptor, so the poller
	// must let go of it first.
	c.Close()
	if err := syscall.SetNonblock(fd, false); err != nil {
		syscall.Close(fd)
		return nil, os.NewSyscallError("set blocking", err)
	}
	return &socket{fd: fd}, nil
}

// socket is a descriptor in blocking mode. A goroutine that waits in it holds
// a thread; in return a round trip is two system calls and no scheduling.
type socket struct {
	fd   int
	wait func(fd int) // waits until fd can be read; nil: the thread blocks
}

// Read waits for bytes. Without wait it looks once and gives the CPU away once
// before the thread blocks: on a machine that is busy with server and clients
// the answer is often there when our turn comes again, and neither side pays
// for a sleep and a wake-up.
func (s *socket) Read(b []byte) (int, error) {
	for {
		if s.wait != nil {
			s.wait(s.fd)
		}
		if n, err := s.peek(b); n > 0 || err != syscall.EAGAIN {
			return n, readError(n, err)
		}
		if s.wait == nil {
			break
		}
	}
	_, _, _ = syscall.Syscall(syscall.SYS_SCHED_YIELD, 0, 0, 0)
	for {
		n, err := syscall.Read(s.fd, b)
		if err == syscall.EINTR {
			continue
		}
		return max(n, 0), readError(n, err)
	}
}

// peek takes what is there without waiting; EAGAIN if that is nothing. The call
// cannot block, so the runtime need not know of it.
func (s *socket) peek(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, _, no := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(s.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), syscall.MSG_DONTWAIT, 0, 0)
	switch no {
	case 0:
		return int(n), nil
	case syscall.EINTR:
		return 0, syscall.EAGAIN
	}
	return 0, no
}

func readError(n int, err error) error {
	switch {
	case err != nil:
		return os.NewSyscallError("read", err)
	case n == 0:
		return io.EOF
	}
	return nil
}

func (s *socket) Write(b []byte) (int, error) {
	sent := 0
	for sent < len(b) {
		// A broken pipe is an error here and no signal: the runtime sees to it
		// for all descriptors above 2.
		n, err := syscall.Write(s.fd, b[sent:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return sent, os.NewSyscallError("write", err)
		}
		sent += n
	}
	return sent, nil
}

func (s *socket) interrupt() {
	// The peer may have gone already; then nobody waits here either.
	_ = syscall.Shutdown(s.fd, syscall.SHUT_RDWR)
}

func (s *socket) Close() error { return syscall.Close(s.fd) }

// polled is a connection that Go's poller serves.
type polled struct{ net.Conn }

func (p *polled) interrupt() { _ = p.SetDeadline(time.Unix(1, 0)) }
