package metric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"sync"
)

// Decoder reads batches and remembers the series it met, so that a series that
// comes again costs a comparison and no memory: who shares one shares the
// series. It is safe for concurrent use; one batch is read at a time.
type Decoder struct {
	mu    sync.Mutex
	known map[string]*Series
	lists map[string]*list // by how they begin
	kept  int              // series in lists
	raw   []byte
	key   []byte
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
	d.mu.Lock()
	defer d.mu.Unlock()
	b := &Batch{ID: ID(body[3:codecHead])}
	raw, err := zdec.DecodeAll(body[codecHead:], d.raw[:0])
	if err != nil {
		return nil, fmt.Errorf("read batch %s: %w: %w", b.ID, err, ErrCorrupt)
	}
	d.raw = raw
	c := cursor{rest: raw}
	b.Origin = string(c.text(MaxOrigin))
	if err := d.rows(b, &c); err != nil {
		return nil, fmt.Errorf("read batch %s: %w: %w", b.ID, err, ErrCorrupt)
	}
	return b, nil
}

func (d *Decoder) rows(b *Batch, c *cursor) error {
	if err := d.keys(b, c); err != nil {
		return err
	}
	points, err := counted(b.Rows, c)
	if err != nil {
		return err
	}
	at := int64(0)
	if c.same {
		at = c.varint()
		for i := range points {
			points[i].At = at
		}
	} else {
		for i := range points {
			at += c.varint()
			points[i].At = at
		}
	}
	for i := range points {
		points[i].Value = c.value()
	}
	if c.bad || len(c.rest) > 0 {
		return errors.New("ends too early or too late")
	}
	return nil
}

// keys reads the rows' series.
func (d *Decoder) keys(b *Batch, c *cursor) error {
	start := c.rest
	if d.again(b, c) {
		return nil
	}
	n := c.count(2, codecMaxPoints)
	b.Rows = make([]Row, n)
	d.key = d.key[:0]
	size := 0
	for i := range b.Rows {
		shared := c.uvarint()
		if shared > uint64(len(d.key)) {
			return errors.New("a key goes on from one that is shorter")
		}
		d.key = append(d.key[:shared], c.text(2*MaxKey)...)
		if size += len(d.key); size > codecMaxRaw || c.bad {
			return errors.New("keys end too early or are too large")
		}
		one, err := d.meet()
		if err != nil {
			return err
		}
		b.Rows[i].Series = one
	}
	if !c.bad {
		d.keep(b, start[:len(start)-len(c.rest)])
	}
	return nil
}

// meet looks up the series of d.key.
func (d *Decoder) meet() (*Series, error) {
	if s, ok := d.known[string(d.key)]; ok {
		return s, nil
	}
	s, err := ParseSeries(string(d.key))
	if err != nil {
		return nil, err
	}
	d.know(s)
	return s, nil
}

func (d *Decoder) know(s *Series) {
	if d.known == nil || len(d.known) >= knownLimit {
		d.known = map[string]*Series{}
	}
	d.known[s.key] = s
}

// Same returns the series with the same key that batches are made of from now
// on, so that there is one of each.
func (d *Decoder) Same(s *Series) *Series {
	d.mu.Lock()
	defer d.mu.Unlock()
	if one, ok := d.known[s.key]; ok {
		return one
	}
	if short, err := ParseSeries(s.key); err == nil { // name and labels take the room of the key
		s = short
	}
	d.know(s)
	return s
}

// counted reads flags and counts, and gives the rows their points.
func counted(rows []Row, c *cursor) ([]Point, error) {
	flags := c.byte()
	c.same = flags&flagSameTime != 0
	if flags&flagSingle != 0 {
		points := make([]Point, len(rows))
		for i := range rows {
			rows[i].Points = points[i : i+1 : i+1]
		}
		return points, nil
	}
	total, counts := 0, c.rest
	for range rows {
		if total += c.count(1, codecMaxPoints); total > codecMaxPoints {
			return nil, errors.New("too many points")
		}
	}
	if total > len(c.rest) {
		return nil, errors.New("more points than bytes")
	}
	points := make([]Point, total)
	again := cursor{rest: counts}
	from := 0
	for i := range rows {
		n := int(again.uvarint())
		if c.bad {
			return nil, errors.New("ends too early")
		}
		rows[i].Points = points[from : from+n : from+n]
		from += n
	}
	return points, nil
}

// cursor reads fields and remembers that one was missing.
type cursor struct {
	rest []byte
	bad  bool
	same bool // all points have one time
}

func (c *cursor) fail() { c.bad, c.rest = true, nil }

func (c *cursor) byte() byte {
	if len(c.rest) == 0 {
		c.fail()
		return 0
	}
	b := c.rest[0]
	c.rest = c.rest[1:]
	return b
}

func (c *cursor) uvarint() uint64 {
	if len(c.rest) > 0 && c.rest[0] < 0x80 {
		v := c.rest[0]
		c.rest = c.rest[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(c.rest)
	if n <= 0 {
		c.fail()
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

// count reads a number of things that take at least size bytes each.
func (c *cursor) count(size, most int) int {
	v := c.uvarint()
	if v > uint64(len(c.rest)/size) || v > uint64(most) {
		c.fail()
		return 0
	}
	return int(v)
}

func (c *cursor) varint() int64 {
	v := c.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (c *cursor) value() float64 {
	v := c.uvarint()
	if v&1 == 0 {
		v >>= 1
		return float64(int64(v>>1) ^ -int64(v&1))
	}
	if v != 1 || len(c.rest) < 8 {
		c.fail()
		return 0
	}
	f := math.Float64frombits(binary.LittleEndian.Uint64(c.rest))
	c.rest = c.rest[8:]
	return f
}

func (c *cursor) text(most int) []byte {
	n := c.uvarint()
	if n > uint64(len(c.rest)) || n > uint64(most) {
		c.fail()
		return nil
	}
	t := c.rest[:n]
	c.rest = c.rest[n:]
	return t
}
