package packet

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"headroom/fail"
)

// mmsgBatch is how many packets one sendmmsg hands over: more gain nothing.
const mmsgBatch = 128

// mmsg sends through a socket.
type mmsg struct {
	fd    int
	msgs  []mmsghdr // one for each packet of the mix, then the first ones again
	total int       // of the mix
	at    int
}

// mmsghdr is struct mmsghdr.
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
	_   [4]byte
}

// openMmsg opens a UDP socket if the packets are such as a program would send
// from one address and port, else a raw one.
func openMmsg(f Flood, raw [][]byte, at int) (sender, error) {
	v6, plain := f.Mix[0].V6(), plainUDP(f.Mix)
	for _, p := range f.Mix {
		if p.V6() != v6 {
			return nil, errors.New("open socket: the mix has packets of IPv4 and of IPv6")
		}
	}
	s := &mmsg{total: len(raw), at: at}
	err := s.open(f, v6, plain)
	if plain && errors.Is(err, unix.EADDRNOTAVAIL) { // a source that is not ours
		plain = false
		err = s.open(f, v6, plain)
	}
	if err != nil {
		return nil, err
	}
	s.fill(f.Mix, raw, plain)
	return s, nil
}

// plainUDP says whether one UDP socket can send the whole mix.
func plainUDP(mix []Packet) bool {
	first := mix[0]
	for _, p := range mix {
		if p.Proto != UDP || p.Src != first.Src || p.SrcPort != first.SrcPort || p.TTL != 0 || p.TOS != 0 || p.ID != 0 || p.DontFragment || p.fragment() || p.BadChecksum || p.raw != nil {
			return false
		}
	}
	return true
}

func (s *mmsg) open(f Flood, v6, plain bool) (err error) {
	family, typ, proto := unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW
	if v6 {
		family = unix.AF_INET6
	}
	if plain {
		typ, proto = unix.SOCK_DGRAM, unix.IPPROTO_UDP
	}
	if s.fd, err = unix.Socket(family, typ|unix.SOCK_CLOEXEC, proto); err != nil {
		err = fmt.Errorf("open socket: %w", err)
		if errors.Is(err, unix.EPERM) {
			err = fail.Hint(err, "run it as root; without root only UDP from the own address can be sent")
		}
		return err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if f.To.device.Name == "lo" {
		if err := unix.SetsockoptString(s.fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "lo"); err != nil {
			return fmt.Errorf("bind socket to the loopback: %w", err)
		}
	}
	if !plain {
		return nil
	}
	// Several threads send from one port.
	if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return fmt.Errorf("share the socket's port: %w", err)
	}
	if err := unix.Bind(s.fd, sockaddr(f.Mix[0].Src, f.Mix[0].SrcPort)); err != nil {
		return fmt.Errorf("bind socket to %s: %w", netip.AddrPortFrom(f.Mix[0].Src, f.Mix[0].SrcPort), err)
	}
	return nil
}

func sockaddr(a netip.Addr, port uint16) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4(), Port: int(port)}
	}
	return &unix.SockaddrInet6{Addr: a.As16(), Port: int(port)}
}

// fill points the messages at the packets; the socket makes the headers that
// it is not given.
func (s *mmsg) fill(mix []Packet, raw [][]byte, plain bool) {
	s.msgs = make([]mmsghdr, len(raw)+min(mmsgBatch, len(raw))*(1+mmsgBatch/len(raw)))
	for i := range s.msgs {
		p, b := mix[i%len(raw)], raw[i%len(raw)]
		port := uint16(0)
		if plain {
			b, port = b[p.ipHeader()+8:], p.DstPort
		}
		iov := &unix.Iovec{}
		if len(b) > 0 {
			iov.Base = &b[0]
		}
		iov.SetLen(len(b))
		h := &s.msgs[i].hdr
		h.Iov = iov
		h.SetIovlen(1)
		h.Name, h.Namelen = rawSockaddr(p.Dst, port)
	}
}

func rawSockaddr(a netip.Addr, port uint16) (*byte, uint32) {
	if a.Is4() {
		sa := &unix.RawSockaddrInet4{Family: unix.AF_INET, Port: swap(port), Addr: a.As4()}
		return (*byte)(unsafe.Pointer(sa)), unix.SizeofSockaddrInet4
	}
	sa := &unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: swap(port), Addr: a.As16()}
	return (*byte)(unsafe.Pointer(sa)), unix.SizeofSockaddrInet6
}

func (s *mmsg) most() int { return mmsgBatch }

func (s *mmsg) send(n int) (taken, refused int, err error) {
	n = min(n, len(s.msgs)-s.at)
	r, _, e := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.msgs[s.at])), uintptr(n), 0, 0, 0)
	runtime.KeepAlive(s.msgs)
	switch e {
	case 0:
		taken = int(r)
	case unix.EINTR:
		return 0, 0, nil
	case unix.EPERM, unix.ENOBUFS, unix.EAGAIN, unix.ECONNREFUSED:
		refused = 1 // the first of them: a rule for output, or no room
	default:
		return 0, 0, os.NewSyscallError("sendmmsg", e)
	}
	s.at = (s.at + taken + refused) % s.total
	return taken, refused, nil
}

func (s *mmsg) flush() int { return 0 }

func (s *mmsg) close() { unix.Close(s.fd) }
