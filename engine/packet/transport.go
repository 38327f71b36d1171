package packet

import "encoding/binary"

// transport is what follows the IP header, filled up and with its checksum.
func (p Packet) transport() []byte {
	if p.raw != nil {
		return p.raw
	}
	head, at := p.head()
	body := append(head, p.Payload...)
	if n := p.Size - p.ipHeader() - len(body); n > 0 {
		body = append(body, make([]byte, n)...)
	}
	if at < 0 {
		return body
	}
	if p.Proto == UDP {
		binary.BigEndian.PutUint16(body[4:], uint16(len(body)))
	}
	c := ^fold(sum(p.pseudo(len(body)), body))
	if p.BadChecksum {
		c ^= 0x5555
	}
	if c == 0 && p.Proto == UDP {
		c = 0xffff // 0 says that there is none
	}
	binary.BigEndian.PutUint16(body[at:], c)
	return body
}

// head is the transport's header without checksum, and where that stands in
// it; -1 if there is none.
func (p Packet) head() (head []byte, at int) {
	switch {
	case p.Offset > 0:
		return nil, -1
	case p.Proto == UDP:
		head = make([]byte, 8)
		binary.BigEndian.PutUint16(head, p.SrcPort)
		binary.BigEndian.PutUint16(head[2:], p.DstPort)
		return head, 6
	case p.Proto == TCP:
		return p.tcp(), 16
	case p.Proto == ICMP || p.Proto == ICMPv6:
		head = make([]byte, 8)
		head[0], head[1] = p.Type, p.Code
		binary.BigEndian.PutUint32(head[4:], p.Rest)
		return head, 2
	}
	return nil, -1
}

func (p Packet) tcp() []byte {
	opts := (len(p.Options) + 3) / 4 * 4
	h := make([]byte, 20+opts)
	binary.BigEndian.PutUint16(h, p.SrcPort)
	binary.BigEndian.PutUint16(h[2:], p.DstPort)
	binary.BigEndian.PutUint32(h[4:], p.Seq)
	binary.BigEndian.PutUint32(h[8:], p.Ack)
	h[12], h[13] = byte(len(h)/4)<<4, p.Flags
	w := p.Window
	if w == 0 {
		w = defaultWindow
	}
	binary.BigEndian.PutUint16(h[14:], w)
	copy(h[20:], p.Options)
	return h
}

// pseudo is the sum of the pseudo header; ICMP of IPv4 has none.
func (p Packet) pseudo(body int) uint32 {
	if p.Proto == ICMP {
		return 0
	}
	s := uint32(body) + uint32(p.Proto)
	return sum(sum(s, p.Src.AsSlice()), p.Dst.AsSlice())
}

// sum adds b up as 16-bit words (RFC 1071), a last odd byte as the high one.
func sum(s uint32, b []byte) uint32 {
	for ; len(b) > 1; b = b[2:] {
		s += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		s += uint32(b[0]) << 8
	}
	return s
}

// fold carries the upper half round. A packet has at most 65535 bytes, so sum
// cannot overflow.
func fold(s uint32) uint16 {
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return uint16(s)
}
