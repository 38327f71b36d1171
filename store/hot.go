package store

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

const hotRow = 4096 // points in one row of a hot table

type hotPoint struct {
	series, at int64
	value      float64
}

func hotCopy(table int) string {
	return fmt.Sprintf("copy headroom.store_hot_%d (seq, series, at, value) from stdin with (format binary)", table)
}

// hotRows is points as rows of a hot table in PostgreSQL's binary COPY format.
// Each row is made when it is read, so that a large Write needs no more memory
// than a small one.
type hotRows struct {
	seq   int64
	fill  func([]hotPoint) int // the next points, as many as there are and fit
	flat  []hotPoint
	out   copyRows
	given int  // bytes of out
	begun bool // out has had the head
	ended bool // out has had the end
}

// rows begins to read points anew; the room is used again.
func (h *hotRows) rows(seq int64, fill func([]hotPoint) int) io.Reader {
	if h.flat == nil {
		h.flat = make([]hotPoint, hotRow)
	}
	h.seq, h.fill, h.given, h.begun, h.ended = seq, fill, 0, false, false
	h.out.buf = h.out.buf[:0]
	return h
}

func (h *hotRows) Read(p []byte) (int, error) {
	if h.given == len(h.out.buf) {
		if h.ended {
			return 0, io.EOF
		}
		h.more()
	}
	n := copy(p, h.out.buf[h.given:])
	h.given += n
	return n, nil
}

// more makes the next row, or the end.
func (h *hotRows) more() {
	h.given, h.out.buf = 0, h.out.buf[:0]
	if !h.begun {
		h.begun = true
		h.out.reset()
	}
	n := h.fill(h.flat)
	if n == 0 {
		h.ended = true
		h.out.end()
		return
	}
	h.out.hot(h.seq, h.flat[:n])
}

// hot is one row of a hot table.
func (c *copyRows) hot(seq int64, ps []hotPoint) {
	c.row(4)
	c.int8(seq)
	at := c.array8(oidInt8, len(ps))
	for i := range ps {
		binary.BigEndian.PutUint64(at[12*i+4:], uint64(ps[i].series))
	}
	at = c.array8(oidInt8, len(ps))
	for i := range ps {
		binary.BigEndian.PutUint64(at[12*i+4:], uint64(ps[i].at))
	}
	at = c.array8(oidFloat8, len(ps))
	for i := range ps {
		binary.BigEndian.PutUint64(at[12*i+4:], math.Float64bits(ps[i].value))
	}
}

// fillFrom gives out points of a list.
func fillFrom(list []hotPoint) func([]hotPoint) int {
	return func(dst []hotPoint) int {
		n := copy(dst, list)
		list = list[n:]
		return n
	}
}
