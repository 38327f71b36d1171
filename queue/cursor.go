package queue

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// cursor is what a log remembers beside its messages: which are done, and the
// sequence that comes next, so that what is missing is noticed. It is written
// a moment after acknowledgements; what was acknowledged in that moment comes
// again after a crash.
//
//	"HQC1" | next | low | count | count × (gap, length) as unsigned varints | CRC-32C, little-endian
type cursor struct {
	next uint64
	done doneSet
}

const cursorMagic = "HQC1"

func (c cursor) encode() []byte {
	b := []byte(cursorMagic)
	b = binary.AppendUvarint(b, c.next)
	b = binary.AppendUvarint(b, c.done.low)
	b = binary.AppendUvarint(b, uint64(len(c.done.spans)))
	last := c.done.low
	for _, s := range c.done.spans {
		b = binary.AppendUvarint(b, s.lo-last)
		b = binary.AppendUvarint(b, s.hi-s.lo)
		last = s.hi
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func parseCursor(b []byte) (cursor, error) {
	bad := func(why string) (cursor, error) { return cursor{}, fmt.Errorf("read cursor: %s", why) }
	if len(b) < len(cursorMagic)+4 || string(b[:4]) != cursorMagic {
		return bad("no head")
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[len(body):]) {
		return bad("checksum differs")
	}
	rest, short := body[4:], false
	next := func() uint64 {
		v, n := binary.Uvarint(rest)
		if n <= 0 {
			short, rest = true, nil
			return 0
		}
		rest = rest[n:]
		return v
	}
	c := cursor{next: next()}
	c.done.low = next()
	count := next()
	if count > uint64(len(rest)) {
		return bad("ends too early")
	}
	last := c.done.low
	for range count {
		lo := last + next()
		hi := lo + next()
		if lo <= last || hi < lo {
			return bad("spans overlap")
		}
		c.done.spans = append(c.done.spans, span{lo, hi})
		last = hi
	}
	if short || len(rest) > 0 || c.done.low == 0 || last > c.next {
		return bad("ends too early or too late")
	}
	return c, nil
}
