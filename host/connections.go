package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Connection is one TCP connection, or listener, of a local port. Where the
// peer is an IPv4 address mapped into IPv6, both are told as IPv4.
type Connection struct {
	Local, Peer netip.AddrPort // Peer is 0.0.0.0:0 or [::]:0 of a listener
	// Cookie is the kernel's number of the socket, not given twice until the
	// next boot; 0 before the handshake is completed.
	Cookie uint64
	// Shook says that the handshake was completed: packets went both ways.
	Shook     bool
	Listening bool
}

// From linux/inet_diag.h, sock_diag.h and tcp_states.h.
const (
	sockDiagByFamily = 20
	diagBytecode     = 1
	diagSourceGE     = 2 // INET_DIAG_BC_S_GE
	diagSourceLE     = 3 // INET_DIAG_BC_S_LE
	tcpSynSent       = 2
	tcpSynRecv       = 3
	tcpClose         = 7
	tcpListen        = 10
	tcpNewSynRecv    = 12
	diagMsg          = 72 // sizeof(struct inet_diag_msg)
)

// Connections lists the TCP connections and listeners of a local port in the
// network namespace of the calling thread, from inet_diag(7).
func Connections(port uint16) ([]Connection, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("list connections: %w", absent(err))
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		return nil, fmt.Errorf("list connections: %w", err)
	}
	var out []Connection
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		if err := unix.Sendto(fd, diagRequest(family, port), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return nil, fmt.Errorf("list connections: %w", err)
		}
		out, err = diagAnswers(fd, port, out)
		if errors.Is(err, unix.ENOENT) && family == unix.AF_INET6 {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("list connections: %w", err)
		}
	}
	return out, nil
}

// diagRequest asks for all states of one family, with a filter that the kernel
// runs: source port >= port and <= port.
func diagRequest(family byte, port uint16) []byte {
	ne, le := binary.NativeEndian, binary.NativeEndian
	filter := make([]byte, 0, 16)
	for i, code := range []byte{diagSourceGE, diagSourceLE} {
		// struct inet_diag_bc_op {code, yes, no}: yes steps on, no leads
		// beyond the end; the port is in the `no` of the operation after it.
		filter = append(filter, code, 8)
		filter = le.AppendUint16(filter, uint16(16-8*i+4))
		filter = append(filter, 0, 0)
		filter = le.AppendUint16(filter, port)
	}
	var b []byte
	b = ne.AppendUint32(b, uint32(16+56+4+len(filter)))
	b = ne.AppendUint16(b, sockDiagByFamily)
	b = ne.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	b = append(b, make([]byte, 8)...)             // sequence, port id
	b = append(b, family, unix.IPPROTO_TCP, 0, 0) // no extensions
	b = ne.AppendUint32(b, 0xffffffff)            // states
	b = append(b, make([]byte, 48)...)            // struct inet_diag_sockid
	b = ne.AppendUint16(b, uint16(4+len(filter))) // rtattr
	b = ne.AppendUint16(b, diagBytecode)
	return append(b, filter...)
}

func diagAnswers(fd int, port uint16, out []Connection) ([]Connection, error) {
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return out, err
		}
		for rest := buf[:n]; len(rest) >= 16; {
			size := int(binary.NativeEndian.Uint32(rest))
			if size < 16 || size > len(rest) {
				return out, errors.New("the kernel's answer is cut off")
			}
			body := rest[16:size]
			switch binary.NativeEndian.Uint16(rest[4:]) {
			case unix.NLMSG_DONE:
				return out, nil
			case unix.NLMSG_ERROR:
				if len(body) < 4 {
					return out, errors.New("the kernel's answer is cut off")
				}
				return out, unix.Errno(-int32(binary.NativeEndian.Uint32(body)))
			case sockDiagByFamily:
				if c, ok := diagConnection(body); ok && c.Local.Port() == port {
					out = append(out, c)
				}
			}
			rest = rest[min(len(rest), (size+3)&^3):]
		}
	}
}

// diagConnection reads a struct inet_diag_msg.
func diagConnection(b []byte) (Connection, bool) {
	if len(b) < diagMsg {
		return Connection{}, false
	}
	addr := func(raw []byte) netip.Addr {
		if b[0] == unix.AF_INET {
			return netip.AddrFrom4([4]byte(raw[:4]))
		}
		return netip.AddrFrom16([16]byte(raw[:16])).Unmap()
	}
	state := b[1]
	c := Connection{
		Local:     netip.AddrPortFrom(addr(b[8:]), binary.BigEndian.Uint16(b[4:])),
		Peer:      netip.AddrPortFrom(addr(b[24:]), binary.BigEndian.Uint16(b[6:])),
		Listening: state == tcpListen,
	}
	switch state {
	case tcpListen, tcpSynSent, tcpSynRecv, tcpNewSynRecv, tcpClose:
	default:
		c.Shook = true
		// idiag_cookie is two words, the lower first.
		c.Cookie = uint64(binary.NativeEndian.Uint32(b[44:])) | uint64(binary.NativeEndian.Uint32(b[48:]))<<32
	}
	return c, true
}

// OwnAddresses lists this machine's addresses in the network namespace of the
// calling thread.
func OwnAddresses() ([]netip.Addr, error) {
	as, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list own addresses: %w", err)
	}
	var out []netip.Addr
	for _, a := range as {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, ip.Unmap())
			}
		}
	}
	return out, nil
}
