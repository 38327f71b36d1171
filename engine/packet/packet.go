// Package packet builds IP packets, sends floods of them, and counts where
// they arrive. It sends to nobody else's machine: a flood goes to the loopback
// or into a namespace that package netns made, and nothing can change that.
package packet

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Protocols by their number in the IP header.
const (
	ICMP   = 1
	TCP    = 6
	UDP    = 17
	ICMPv6 = 58
)

// Flags of TCP. A segment that opens a connection has SYN alone; NULL has
// none, XMAS has FIN, PSH and URG.
const (
	FIN = 1 << iota
	SYN
	RST
	PSH
	ACK
	URG
)

// Packet is one IPv4 or IPv6 packet, by the family of its addresses. A field
// left zero means what it says, but for Size, TTL and Window. Header lengths
// and checksums are worked out.
type Packet struct {
	Src, Dst netip.Addr // of one family
	Proto    uint8      // UDP, TCP, ICMP, ICMPv6, or any other: then Payload follows the IP header
	TTL      uint8      // hop limit; 0 is 64
	TOS      uint8      // traffic class
	ID       uint16     // of IPv4, and of the fragment header of IPv6

	SrcPort, DstPort uint16 // UDP and TCP
	Flags            uint8  // TCP
	Seq, Ack         uint32 // TCP
	Window           uint16 // TCP; 0 is 64240
	Options          []byte // TCP; padded to a multiple of 4 bytes, at most 40

	Type, Code uint8  // ICMP
	Rest       uint32 // ICMP's second word: identifier and sequence number of an echo, the MTU of a "too big"

	Payload []byte
	// Size is that of the whole IP packet in bytes: the payload is filled up
	// with zeros to it. 0, or less than header and payload: as long as they are.
	Size int

	DontFragment bool // IPv4
	// MoreFragments and Offset (bytes, a multiple of 8) make this packet one
	// fragment. Only the one at offset 0 has the transport's header; Fragments
	// cuts a whole packet properly.
	MoreFragments bool
	Offset        int
	// BadChecksum breaks the transport's checksum.
	BadChecksum bool

	raw []byte // stands for transport header and payload: a first fragment
}

const (
	defaultTTL    = 64
	defaultWindow = 64240
	maxPacket     = 65535
)

// V6 says whether the packet is of IPv6.
func (p Packet) V6() bool { return p.Dst.Is6() }

// Bytes is the packet as it goes over the wire, from the IP header on.
func (p Packet) Bytes() ([]byte, error) { return p.Append(nil) }

// Append appends the packet to b, from the IP header on. Errors say what
// cannot be written in a packet.
func (p Packet) Append(b []byte) ([]byte, error) {
	if err := p.check(); err != nil {
		return b, fmt.Errorf("build packet: %w", err)
	}
	body := p.transport()
	if p.ipHeader()+len(body) > maxPacket {
		return b, fmt.Errorf("build packet: %d bytes are more than %d", p.ipHeader()+len(body), maxPacket)
	}
	if p.V6() {
		return append(p.header6(b, len(body)), body...), nil
	}
	return append(p.header4(b, len(body)), body...), nil
}

func (p Packet) check() error {
	switch {
	case !p.Src.IsValid() || !p.Dst.IsValid():
		return fmt.Errorf("source %v or destination %v is missing", p.Src, p.Dst)
	case p.Src.Is4() != p.Dst.Is4():
		return fmt.Errorf("source %v and destination %v are of two families", p.Src, p.Dst)
	case p.Offset%8 != 0 || p.Offset < 0 || p.Offset > maxPacket:
		return fmt.Errorf("fragment offset %d is no multiple of 8 up to %d", p.Offset, maxPacket)
	case len(p.Options) > 40:
		return fmt.Errorf("%d bytes of TCP options, at most 40", len(p.Options))
	}
	return nil
}

func (p Packet) fragment() bool { return p.MoreFragments || p.Offset > 0 }

func (p Packet) ipHeader() int {
	switch {
	case !p.V6():
		return 20
	case p.fragment():
		return 48
	}
	return 40
}

func (p Packet) header4(b []byte, body int) []byte {
	at := len(b)
	b = append(b, make([]byte, 20)...)
	h := b[at:]
	h[0], h[1] = 4<<4|5, p.TOS
	binary.BigEndian.PutUint16(h[2:], uint16(20+body))
	binary.BigEndian.PutUint16(h[4:], p.ID)
	frag := uint16(p.Offset / 8)
	if p.DontFragment {
		frag |= 1 << 14
	}
	if p.MoreFragments {
		frag |= 1 << 13
	}
	binary.BigEndian.PutUint16(h[6:], frag)
	h[8], h[9] = p.ttl(), p.Proto
	src, dst := p.Src.As4(), p.Dst.As4()
	copy(h[12:], src[:])
	copy(h[16:], dst[:])
	binary.BigEndian.PutUint16(h[10:], ^fold(sum(0, h)))
	return b
}

func (p Packet) header6(b []byte, body int) []byte {
	at := len(b)
	b = append(b, make([]byte, p.ipHeader())...)
	h := b[at:]
	binary.BigEndian.PutUint32(h, 6<<28|uint32(p.TOS)<<20)
	binary.BigEndian.PutUint16(h[4:], uint16(p.ipHeader()-40+body))
	h[6], h[7] = p.Proto, p.ttl()
	src, dst := p.Src.As16(), p.Dst.As16()
	copy(h[8:], src[:])
	copy(h[24:], dst[:])
	if p.fragment() {
		h[6], h[40] = fragmentHeader, p.Proto
		off := uint16(p.Offset)
		if p.MoreFragments {
			off |= 1
		}
		binary.BigEndian.PutUint16(h[42:], off)
		binary.BigEndian.PutUint32(h[44:], uint32(p.ID))
	}
	return b
}

const fragmentHeader = 44

func (p Packet) ttl() uint8 {
	if p.TTL == 0 {
		return defaultTTL
	}
	return p.TTL
}
