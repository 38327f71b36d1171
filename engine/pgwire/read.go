package pgwire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"syscall"
)

// maxMessage bounds one message of the server, in bytes.
const maxMessage = 64 << 20

const firstBuffer = 16 << 10

var errGarbled = errors.New("the server's bytes are not the PostgreSQL protocol")

// reader cuts a byte stream into messages. Its buffer grows with the bytes that
// have really come, never with a length that is only announced.
type reader struct {
	src  io.Reader
	buf  []byte
	r, w int // unread bytes are buf[r:w]
}

// next returns the next message; body is good until the next call.
func (r *reader) next() (kind byte, body []byte, err error) {
	if err := r.need(5); err != nil {
		return 0, nil, err
	}
	kind = r.buf[r.r]
	size := int64(binary.BigEndian.Uint32(r.buf[r.r+1:]))
	if size < 4 || kind < '1' || kind > 'z' {
		return 0, nil, fmt.Errorf("%w: message type %q of %d bytes", errGarbled, kind, size)
	}
	if size > maxMessage {
		return 0, nil, fmt.Errorf("the server's message of %d bytes is above the limit of %d", size, maxMessage)
	}
	if err := r.need(int(size) + 1); err != nil {
		return 0, nil, err
	}
	body = r.buf[r.r+5 : r.r+int(size)+1]
	r.r += int(size) + 1
	return kind, body, nil
}

// need reads until n bytes are there.
func (r *reader) need(n int) error {
	for r.w-r.r < n {
		r.room(n)
		got, err := r.src.Read(r.buf[r.w:])
		r.w += got
		if got > 0 {
			continue
		}
		if err == nil || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			err = errors.New("the server closed the connection")
		}
		return err
	}
	return nil
}

func (r *reader) room(n int) {
	if r.r == r.w {
		r.r, r.w = 0, 0
		if len(r.buf) > 64*firstBuffer && n <= firstBuffer { // one huge row is not kept for ever
			r.buf = nil
		}
	}
	if r.buf == nil {
		r.buf = make([]byte, firstBuffer)
	}
	if r.r > 0 && r.r+n > len(r.buf) {
		r.w = copy(r.buf, r.buf[r.r:r.w])
		r.r = 0
	}
	if r.w == len(r.buf) {
		more := make([]byte, 2*len(r.buf))
		copy(more, r.buf[:r.w])
		r.buf = more
	}
}

// cursor takes fields from a message body; after the first that does not fit,
// ok stays false and the rest is zero.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) || c.bad {
		c.bad = true
		return nil
	}
	out := c.b[:n:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) int16() int {
	if b := c.take(2); b != nil {
		return int(int16(binary.BigEndian.Uint16(b)))
	}
	return 0
}

func (c *cursor) int32() int {
	if b := c.take(4); b != nil {
		return int(int32(binary.BigEndian.Uint32(b)))
	}
	return 0
}

// text takes bytes up to a zero byte.
func (c *cursor) text() []byte {
	for i, b := range c.b {
		if b == 0 {
			out := c.take(i)
			c.take(1)
			return out
		}
	}
	c.bad = true
	return nil
}
