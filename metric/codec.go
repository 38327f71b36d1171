package metric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// The encoded form of a batch, version 1:
//
//	"HB" 1 id[16] | zstd( origin, rows: key, points: time delta, value ) | CRC-32C of all before, little-endian
//
// Lengths and counts are unsigned varints, time deltas signed varints against
// the point before in the row (the first against the row before), values
// IEEE 754 doubles, little-endian.
const (
	codecMagic   = "HB"
	codecVersion = 1
	codecHead    = len(codecMagic) + 1 + len(ID{})
	codecMaxRaw  = 64 << 20 // bytes after decompression
)

// ErrCorrupt is wrapped by Decode's errors: the bytes are not a batch, and no
// repetition will make them one.
var ErrCorrupt = errors.New("not an intact batch")

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	zenc, _    = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	zdec, _    = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(codecMaxRaw))
	rawBuffers = sync.Pool{New: func() any { return new([]byte) }}
)

// Encode appends the encoded batch to dst.
func (b *Batch) Encode(dst []byte) []byte {
	buf := rawBuffers.Get().(*[]byte)
	raw := appendText((*buf)[:0], b.Origin)
	raw = binary.AppendUvarint(raw, uint64(len(b.Rows)))
	last := int64(0)
	for i := range b.Rows {
		r := &b.Rows[i]
		raw = appendText(raw, r.Series.key)
		raw = binary.AppendUvarint(raw, uint64(len(r.Points)))
		for _, p := range r.Points {
			raw = binary.AppendVarint(raw, p.At-last)
			raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(p.Value))
			last = p.At
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

// Decoder reads batches and remembers the series it met, so that a series that
// comes again costs one look-up. It is not safe for concurrent use.
type Decoder struct {
	known map[string]*Series
	raw   []byte
}

// knownLimit bounds a decoder's memory: past it the series met are forgotten.
const knownLimit = 1 << 20

// Decode reads one encoded batch. Errors wrap ErrCorrupt. The batch does not
// refer to data afterwards.
func (d *Decoder) Decode(data []byte) (*Batch, error) {
	if len(data) < codecHead+4 || string(data[:2]) != codecMagic {
		return nil, fmt.Errorf("read batch: %d bytes, no head: %w", len(data), ErrCorrupt)
	}
	if data[2] != codecVersion {
		return nil, fmt.Errorf("read batch: version %d is not known here: %w", data[2], ErrCorrupt)
	}
	body := data[:len(data)-4]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(data[len(body):]) {
		return nil, fmt.Errorf("read batch: checksum differs: %w", ErrCorrupt)
	}
	b := &Batch{ID: ID(body[3:codecHead])}
	raw, err := zdec.DecodeAll(body[codecHead:], d.raw[:0])
	if err != nil {
		return nil, fmt.Errorf("read batch %s: %w: %w", b.ID, err, ErrCorrupt)
	}
	d.raw = raw
	c := cursor{rest: raw}
	b.Origin = string(c.text())
	if err := d.rows(b, &c); err != nil {
		return nil, fmt.Errorf("read batch %s: %w: %w", b.ID, err, ErrCorrupt)
	}
	return b, nil
}

func (d *Decoder) rows(b *Batch, c *cursor) error {
	n := c.count(3)
	b.Rows = make([]Row, 0, n)
	points := make([]Point, 0, len(c.rest)/12)
	last := int64(0)
	for range n {
		s, err := d.series(c.text())
		if err != nil {
			return err
		}
		first := len(points)
		for range c.count(9) {
			last += c.varint()
			points = append(points, Point{At: last, Value: c.float()})
		}
		b.Rows = append(b.Rows, Row{Series: s, Points: points[first:len(points):len(points)]})
	}
	if c.bad || len(c.rest) > 0 {
		return fmt.Errorf("ends too early or too late")
	}
	return nil
}

func (d *Decoder) series(key []byte) (*Series, error) {
	if s, ok := d.known[string(key)]; ok {
		return s, nil
	}
	s, err := ParseSeries(string(key))
	if err != nil {
		return nil, err
	}
	if d.known == nil || len(d.known) >= knownLimit {
		d.known = map[string]*Series{}
	}
	d.known[s.key] = s
	return s, nil
}

// cursor reads fields and remembers that one was missing.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 {
		c.bad, c.rest = true, nil
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

// count reads a number of things that take at least size bytes each.
func (c *cursor) count(size int) int {
	v := c.uvarint()
	if v > uint64(len(c.rest)/size)+1 {
		c.bad, c.rest = true, nil
		return 0
	}
	return int(v)
}

func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.rest)
	if n <= 0 {
		c.bad, c.rest = true, nil
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

func (c *cursor) float() float64 {
	if len(c.rest) < 8 {
		c.bad, c.rest = true, nil
		return 0
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(c.rest))
	c.rest = c.rest[8:]
	return v
}

func (c *cursor) text() []byte {
	n := c.uvarint()
	if n > uint64(len(c.rest)) {
		c.bad, c.rest = true, nil
		return nil
	}
	t := c.rest[:n]
	c.rest = c.rest[n:]
	return t
}
