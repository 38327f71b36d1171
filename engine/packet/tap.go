package packet

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"headroom/engine/netns"
)

// Tap sends single packets out of a device and takes those that come in, as
// they are on the wire. Only devices of namespaces that this program made have
// one. What is sent on "lo" comes in on it. Close it.
type Tap struct {
	f   *os.File
	dev netns.Device
	buf []byte
}

// OpenTap opens a device of n: "lo", or an end of a wire.
func OpenTap(n *netns.Namespace, device string) (*Tap, error) {
	d, err := n.Device(device)
	if err != nil {
		return nil, err
	}
	t := &Tap{dev: d, buf: make([]byte, 14+maxPacket)}
	err = n.Do(func() (err error) {
		t.f, err = packetSocket(d.Index, unix.ETH_P_ALL)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open device %s: %w", device, err)
	}
	return t, nil
}

// packetSocket opens a socket on a device of the thread's namespace, for
// frames of a protocol; 0 takes none in.
func packetSocket(index int, protocol uint16) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open packet socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: swap(protocol), Ifindex: index}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("bind packet socket: %w", err)
	}
	return os.NewFile(uintptr(fd), "packet socket"), nil
}

// swap turns a number into network order.
func swap(n uint16) uint16 { return n<<8 | n>>8 }

// Send sends an IP packet. One longer than the device's MTU is refused by the
// kernel.
func (t *Tap) Send(ip []byte) error {
	if _, err := t.f.Write(Frame(t.dev.Far, t.dev.MAC, ip)); err != nil {
		return fmt.Errorf("send packet on %s: %w", t.dev.Name, err)
	}
	return nil
}

// Next returns the next IP packet that came in, valid until the next call;
// nil if none came within the given time. Packets that went out are passed
// over.
func (t *Tap) Next(wait time.Duration) ([]byte, error) {
	if err := t.f.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return nil, fmt.Errorf("take packet on %s: %w", t.dev.Name, err)
	}
	c, err := t.f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("take packet on %s: %w", t.dev.Name, err)
	}
	for {
		var n int
		var from unix.Sockaddr
		rerr := c.Read(func(fd uintptr) bool {
			n, from, err = unix.Recvfrom(int(fd), t.buf, unix.MSG_DONTWAIT)
			return !errors.Is(err, unix.EAGAIN)
		})
		if errors.Is(rerr, os.ErrDeadlineExceeded) {
			return nil, nil
		}
		if err := errors.Join(rerr, err); err != nil {
			return nil, fmt.Errorf("take packet on %s: %w", t.dev.Name, err)
		}
		if a, ok := from.(*unix.SockaddrLinklayer); ok && a.Pkttype != unix.PACKET_OUTGOING && n > 14 && (a.Protocol == swap(0x0800) || a.Protocol == swap(0x86dd)) {
			return t.buf[14:n], nil
		}
	}
}

// Close closes the tap.
func (t *Tap) Close() { t.f.Close() }
