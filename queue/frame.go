package queue

import (
	"encoding/binary"
	"hash/crc32"
)

// A frame is one message in a log file, little-endian:
//
//	"HQF1" | length uint32 | sequence uint64 | put at, Unix ms int64 | CRC-32C of message | CRC-32C of file's salt and all before | message
//
// The salt, in the file's name, keeps bytes of a message that look like a
// frame from being taken for one where damage makes a reader search.
const (
	frameMagic = "HQF1"
	frameHead  = 32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type header struct {
	size int // of the message
	seq  uint64
	at   int64
	sum  uint32
}

// appendFrame adds a frame whose head is not sealed yet.
func appendFrame(dst, msg []byte, at int64, sum uint32) []byte {
	dst = append(dst, frameMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(msg)))
	dst = binary.LittleEndian.AppendUint64(dst, 0)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(at))
	dst = binary.LittleEndian.AppendUint32(dst, sum)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	return append(dst, msg...)
}

// sealFrames gives the frames of buf their sequences, from first on, and the
// checksum of their heads; it returns how many there are.
func sealFrames(buf []byte, first, salt uint64) int {
	n := 0
	for len(buf) > 0 {
		binary.LittleEndian.PutUint64(buf[8:], first+uint64(n))
		binary.LittleEndian.PutUint32(buf[28:], headSum(buf, salt))
		buf = buf[frameHead+int(binary.LittleEndian.Uint32(buf[4:])):]
		n++
	}
	return n
}

func headSum(head []byte, salt uint64) uint32 {
	var s [8]byte
	binary.LittleEndian.PutUint64(s[:], salt)
	return crc32.Update(crc32.Checksum(s[:], castagnoli), castagnoli, head[:28])
}

// parseHead reads a frame's head; false if it is not an intact one of a file
// with this salt.
func parseHead(head []byte, salt uint64) (header, bool) {
	if len(head) < frameHead || string(head[:4]) != frameMagic || headSum(head, salt) != binary.LittleEndian.Uint32(head[28:]) {
		return header{}, false
	}
	h := header{
		size: int(binary.LittleEndian.Uint32(head[4:])),
		seq:  binary.LittleEndian.Uint64(head[8:]),
		at:   int64(binary.LittleEndian.Uint64(head[16:])),
		sum:  binary.LittleEndian.Uint32(head[24:]),
	}
	return h, h.size <= MaxMessage && h.seq > 0
}
