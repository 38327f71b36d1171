package packet

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"headroom/engine/netns"
)

// ring sends frames from memory that it shares with the kernel
// (Documentation/networking/packet_mmap.rst, TPACKET_V2).
type ring struct {
	sock   *os.File
	fd     int
	mem    []byte
	frames [][]byte // the mix, Ethernet header included
	size   int      // of a slot
	slots  int
	slot   int // the next one
	at     int // the next frame
	fixed  bool
}

const (
	ringBytes = 4 << 20
	ringBatch = 256
	dataAt    = unix.SizeofTpacket2Hdr // of the frame in a slot
)

func openRing(d netns.Device, raw [][]byte, at int) (sender, error) {
	r := &ring{at: at}
	longest := 0
	for _, ip := range raw {
		r.frames = append(r.frames, Frame(d.Far, d.MAC, ip))
		longest = max(longest, 14+len(ip))
	}
	for r.size = 128; r.size < dataAt+longest; r.size *= 2 {
	}
	r.slots = ringBytes / r.size
	if err := r.open(d.Index); err != nil {
		r.close()
		return nil, err
	}
	// Slots that always hold the same frame need not be written again.
	if r.fixed = r.slots%len(raw) == 0; r.fixed {
		for i := range r.slots {
			r.write(i)
		}
	}
	return r, nil
}

func (r *ring) open(index int) (err error) {
	if r.sock, err = packetSocket(index, 0); err != nil {
		return err
	}
	r.fd = int(r.sock.Fd())
	for _, o := range []struct{ name, value int }{{unix.PACKET_VERSION, unix.TPACKET_V2}, {unix.PACKET_QDISC_BYPASS, 1}} {
		if err := unix.SetsockoptInt(r.fd, unix.SOL_PACKET, o.name, o.value); err != nil {
			return fmt.Errorf("set packet socket's option %d: %w", o.name, err)
		}
	}
	block := max(64<<10, r.size)
	req := &unix.TpacketReq{Block_size: uint32(block), Block_nr: uint32(ringBytes / block), Frame_size: uint32(r.size), Frame_nr: uint32(r.slots)}
	if err := unix.SetsockoptTpacketReq(r.fd, unix.SOL_PACKET, unix.PACKET_TX_RING, req); err != nil {
		return fmt.Errorf("make packet socket's ring: %w", err)
	}
	if r.mem, err = unix.Mmap(r.fd, 0, ringBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map packet socket's ring: %w", err)
	}
	return nil
}

// header is the head of slot i. Its first word says whose it is.
func (r *ring) header(i int) *unix.Tpacket2Hdr {
	return (*unix.Tpacket2Hdr)(unsafe.Pointer(&r.mem[i*r.size]))
}

// write puts the next frame of the mix into slot i.
func (r *ring) write(i int) {
	f := r.frames[r.at]
	if r.at++; r.at == len(r.frames) {
		r.at = 0
	}
	r.header(i).Len = uint32(len(f))
	copy(r.mem[i*r.size+dataAt:], f)
}

func (r *ring) most() int { return ringBatch }

func (r *ring) send(n int) (taken, refused int, err error) {
	for taken < min(n, r.slots) {
		h := r.header(r.slot)
		if atomic.LoadUint32(&h.Status) != unix.TP_STATUS_AVAILABLE {
			break // the kernel still has it
		}
		if !r.fixed {
			r.write(r.slot)
		}
		atomic.StoreUint32(&h.Status, unix.TP_STATUS_SEND_REQUEST)
		if r.slot++; r.slot == r.slots {
			r.slot = 0
		}
		taken++
	}
	return taken, 0, r.kick()
}

// kick has the kernel send what stands in the ring; what it has no room for
// goes with the next kick.
func (r *ring) kick() error {
	_, _, e := unix.Syscall6(unix.SYS_SENDTO, uintptr(r.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	switch e {
	case 0, unix.EINTR, unix.EAGAIN, unix.ENOBUFS:
		return nil
	}
	return os.NewSyscallError("sendto", e)
}

// flush waits until the kernel has taken all that stands in the ring, and
// returns how much it did not take.
func (r *ring) flush() (left int) {
	for end := time.Now().Add(time.Second); ; {
		if left = 0; r.kick() == nil {
			for i := range r.slots {
				if atomic.LoadUint32(&r.header(i).Status)&unix.TP_STATUS_SEND_REQUEST != 0 {
					left++
				}
			}
		}
		if left == 0 || time.Now().After(end) {
			return left
		}
	}
}

func (r *ring) close() {
	if r.mem != nil {
		_ = unix.Munmap(r.mem) // nothing can be done about it, and the process goes on
	}
	if r.sock != nil {
		r.sock.Close()
	}
}
