package store

import (
	"encoding/binary"
	"math"
	"slices"
	"time"
)

// copyRows writes PostgreSQL's binary COPY format, without the costs of a
// general encoder: these rows are written by the million.
type copyRows struct{ buf []byte }

var copyHead = append([]byte("PGCOPY\n\xff\r\n\x00"), 0, 0, 0, 0, 0, 0, 0, 0)

// Times and dates count from 2000 on the wire.
const (
	pgEpochMicros = 946684800 * 1_000_000
	pgEpochDays   = 10957
)

func (c *copyRows) reset() { c.buf = append(c.buf[:0], copyHead...) }
func (c *copyRows) end()   { c.buf = append(c.buf, 0xff, 0xff) }

func (c *copyRows) row(columns int) { c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(columns)) }
func (c *copyRows) null()           { c.buf = append(c.buf, 0xff, 0xff, 0xff, 0xff) }

func (c *copyRows) int8(v int64) {
	c.buf = binary.BigEndian.AppendUint32(c.buf, 8)
	c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(v))
}

func (c *copyRows) int4(v int) {
	c.buf = binary.BigEndian.AppendUint32(c.buf, 4)
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(int32(v)))
}

func (c *copyRows) float8(v float64) { c.int8(int64(math.Float64bits(v))) }

// time is a timestamptz from milliseconds since 1970.
func (c *copyRows) time(ms int64) { c.int8(ms*1000 - pgEpochMicros) }

func (c *copyRows) date(t time.Time) { c.int4(int(t.Unix()/86400) - pgEpochDays) }

func (c *copyRows) bytes(b []byte) {
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(len(b)))
	c.buf = append(c.buf, b...)
}

// maybe is NULL where b is nil.
func (c *copyRows) maybe(b []byte) {
	if b == nil {
		c.null()
		return
	}
	c.bytes(b)
}

// Types of array elements.
const (
	oidInt8   = 20
	oidFloat8 = 701
	oidBytea  = 17
)

// array8 appends an array of n elements of 8 bytes and returns its elements:
// each is 4 bytes of length, which are there, and 8 bytes to fill in.
func (c *copyRows) array8(oid uint32, n int) []byte {
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(20+12*n))
	c.arrayHead(oid, n, 0)
	start := len(c.buf)
	c.buf = slices.Grow(c.buf, 12*n)[:start+12*n]
	at := c.buf[start:]
	for i := range n {
		binary.BigEndian.PutUint32(at[12*i:], 8)
	}
	return at
}

func (c *copyRows) arrayHead(oid uint32, n int, nulls uint32) {
	c.buf = binary.BigEndian.AppendUint32(c.buf, 1)
	c.buf = binary.BigEndian.AppendUint32(c.buf, nulls)
	c.buf = binary.BigEndian.AppendUint32(c.buf, oid)
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(n))
	c.buf = binary.BigEndian.AppendUint32(c.buf, 1)
}

// byteas is an array of bytea; nil elements are NULL.
func (c *copyRows) byteas(v [][]byte) {
	at := len(c.buf)
	c.buf = append(c.buf, 0, 0, 0, 0)
	c.arrayHead(oidBytea, len(v), 1)
	for _, b := range v {
		c.maybe(b)
	}
	binary.BigEndian.PutUint32(c.buf[at:], uint32(len(c.buf)-at-4))
}
