package metric

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// The encoded form of a batch, version 1:
//
//	"HB" 1 id[16] | zstd( origin, rows, keys, flags, counts, times, values ) | CRC-32C of all before, little-endian
//
// Numbers are varints: unsigned for lengths and counts, signed for times. A
// key is the length it shares with the key before, and the rest. Counts (points
// of each row) are left out where all are 1. Times are differences to the point
// before; only the first is there where all are equal. A value that is a whole
// number of less than 2^53 is twice its zigzag form as a varint; any other is
// the byte 1 and an IEEE 754 double, little-endian.
const (
	codecMagic   = "HB"
	codecVersion = 1
	codecHead    = len(codecMagic) + 1 + len(ID{})

	flagSingle   = 1 // each row has one point
	flagSameTime = 2 // all points have one time
)

// What Decode takes at most: bytes after decompression and of all keys written
// out, rows, points. They are far over what Split makes.
const (
	codecMaxRaw    = 16 << 20
	codecMaxPoints = 1 << 20
)

// ErrCorrupt is wrapped by Decode's errors: the bytes are not a batch, and no
// repetition will make them one.
var ErrCorrupt = errors.New("not an intact batch")

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	zenc, _    = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(0))
	zdec, _    = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(codecMaxRaw))
	rawBuffers = sync.Pool{New: func() any { return new([]byte) }}
)

// Encode appends the encoded batch to dst. A batch that may be over the limits
// is to be Split before. An origin is cut to MaxOrigin bytes.
func (b *Batch) Encode(dst []byte) []byte {
	buf := rawBuffers.Get().(*[]byte)
	raw := appendText((*buf)[:0], b.Origin[:min(len(b.Origin), MaxOrigin)])
	raw = appendKeys(raw, b.Rows)
	raw = appendTimes(raw, b.Rows)
	for i := range b.Rows {
		for _, p := range b.Rows[i].Points {
			raw = appendValue(raw, p.Value)
		}
	}
	start := len(dst)
	dst = append(dst, codecMagic...)
	dst = append(dst, codecVersion)
	dst = append(dst, b.ID[:]...)
	dst = zenc.EncodeAll(raw, dst)
	*buf = raw
	rawBuffers.Put(buf)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendKeys(raw []byte, rows []Row) []byte {
	raw = binary.AppendUvarint(raw, uint64(len(rows)))
	last := ""
	for i := range rows {
		key := rows[i].Series.key
		n, most := 0, min(len(last), len(key))
		for n+8 <= most && last[n:n+8] == key[n:n+8] {
			n += 8
		}
		for n < most && last[n] == key[n] {
			n++
		}
		raw = binary.AppendUvarint(raw, uint64(n))
		raw = appendText(raw, key[n:])
		last = key
	}
	return raw
}

func appendTimes(raw []byte, rows []Row) []byte {
	flags, at, seen := flagSingle|flagSameTime, int64(0), false
	for i := range rows {
		if len(rows[i].Points) != 1 {
			flags &^= flagSingle
		}
		for _, p := range rows[i].Points {
			if seen && p.At != at {
				flags &^= flagSameTime
			}
			at, seen = p.At, true
		}
	}
	raw = append(raw, byte(flags))
	if flags&flagSingle == 0 {
		for i := range rows {
			raw = binary.AppendUvarint(raw, uint64(len(rows[i].Points)))
		}
	}
	if flags&flagSameTime != 0 {
		return binary.AppendVarint(raw, at)
	}
	last := int64(0)
	for i := range rows {
		for _, p := range rows[i].Points {
			raw = binary.AppendVarint(raw, p.At-last)
			last = p.At
		}
	}
	return raw
}

func appendValue(raw []byte, v float64) []byte {
	bits := math.Float64bits(v)
	if i := int64(v); float64(i) == v && i > -1<<53 && i < 1<<53 && (i != 0 || bits == 0) {
		return binary.AppendUvarint(raw, uint64(i<<1^i>>63)<<1)
	}
	return binary.LittleEndian.AppendUint64(append(raw, 1), bits)
}
