package packet

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Fragments cuts a packet so that no piece is longer than mtu bytes, IP header
// included. A packet that fits comes back alone.
func (p Packet) Fragments(mtu int) ([]Packet, error) {
	whole, err := p.Bytes()
	if err != nil {
		return nil, err
	}
	if len(whole) <= mtu {
		return []Packet{p}, nil
	}
	body := whole[p.ipHeader():]
	head := Packet{Src: p.Src, Dst: p.Dst, Proto: p.Proto, TTL: p.TTL, TOS: p.TOS, ID: p.ID, MoreFragments: true}
	room := (mtu - head.ipHeader()) / 8 * 8
	if p.fragment() || p.DontFragment || room < 8 || room < p.headerLen() {
		return nil, fmt.Errorf("cut packet into pieces of %d bytes: it is a fragment, may not be cut, or that is too little", mtu)
	}
	var out []Packet
	for off := 0; off < len(body); off += room {
		f := head
		f.Offset, f.Payload = off, body[off:min(off+room, len(body))]
		f.MoreFragments = off+room < len(body)
		if off == 0 {
			f = first(p, f)
		}
		out = append(out, f)
	}
	return out, nil
}

// first is the piece with the transport's header, taken as it stands: its
// checksum is the whole packet's.
func first(p, f Packet) Packet {
	f.raw = f.Payload
	f.SrcPort, f.DstPort, f.Flags, f.Type, f.Code = p.SrcPort, p.DstPort, p.Flags, p.Type, p.Code
	f.Payload = nil
	return f
}

// headerLen is the length of the transport's header in bytes.
func (p Packet) headerLen() int {
	switch p.Proto {
	case TCP:
		return 20 + (len(p.Options)+3)/4*4
	case UDP, ICMP, ICMPv6:
		return 8
	}
	return 0
}

// Types of ICMP and ICMPv6 that carry the packet they are about.
const (
	Unreachable      = 3  // ICMP; code 4 is "fragmentation needed", with the MTU in Rest
	TimeExceeded     = 11 // ICMP
	ParameterProblem = 12 // ICMP
	Unreachable6     = 1
	TooBig6          = 2 // with the MTU in Rest
	TimeExceeded6    = 3
	Parameter6       = 4
)

// quoted is how much of a packet an ICMP error carries at most: RFC 1812 and
// RFC 4443 ask for as much as fits into a packet that no way is too narrow for.
func quoted(v6 bool) int {
	if v6 {
		return 1280 - 48
	}
	return 576 - 28
}

// Error is the ICMP error that from sends to p's source about p: the type and
// code are of p's family.
func (p Packet) Error(from netip.Addr, typ, code uint8, rest uint32) (Packet, error) {
	about, err := p.Bytes()
	if err != nil {
		return Packet{}, err
	}
	e := Packet{Src: from, Dst: p.Src, Proto: ICMP, Type: typ, Code: code, Rest: rest}
	if p.V6() {
		e.Proto = ICMPv6
	}
	e.Payload = about[:min(len(about), quoted(p.V6()))]
	return e, nil
}

// Reply is the packet that answers p: addresses and ports the other way round.
// Of a TCP segment the numbers fit and the flags are those given; of an echo
// request it is the echo reply.
func (p Packet) Reply(flags uint8) Packet {
	r := p
	r.Src, r.Dst, r.SrcPort, r.DstPort = p.Dst, p.Src, p.DstPort, p.SrcPort
	switch p.Proto {
	case TCP:
		n := uint32(len(p.Payload))
		if p.Flags&(SYN|FIN) != 0 {
			n++
		}
		r.Flags, r.Seq, r.Ack, r.Options = flags, p.Ack, p.Seq+n, nil
	case ICMP:
		if p.Type == 8 {
			r.Type = 0
		}
	case ICMPv6:
		if p.Type == 128 {
			r.Type = 129
		}
	}
	return r
}

// Frame puts an Ethernet header before an IP packet.
func Frame(dst, src [6]byte, ip []byte) []byte {
	out := make([]byte, 14, 14+len(ip))
	copy(out, dst[:])
	copy(out[6:], src[:])
	binary.BigEndian.PutUint16(out[12:], etherType(ip))
	return append(out, ip...)
}

func etherType(ip []byte) uint16 {
	if len(ip) > 0 && ip[0]>>4 == 6 {
		return 0x86dd
	}
	return 0x0800
}
