package api

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// bodyBlock is how much of a body is read at once, and in Limits.Patience.
const bodyBlock = 1 << 20

// tooBig is the error of a body over a limit.
func tooBig(limit int64, what string) error {
	return refuse(http.StatusRequestEntityTooLarge, "send it in several requests", "the body has more than %d bytes %s", limit, what)
}

// wire reads a body as sent: bounded in size, and each block in time.
type wire struct {
	r        io.Reader
	c        *http.ResponseController
	left     int64
	limit    int64
	block    int // read since the deadline was set
	patience time.Duration
}

func (w *wire) Read(p []byte) (int, error) {
	if w.left < 0 {
		return 0, tooBig(w.limit, "as sent")
	}
	if w.block == 0 || w.block >= bodyBlock {
		_ = w.c.SetReadDeadline(time.Now().Add(w.patience)) // in tests there is no connection
		w.block = 0
	}
	n, err := w.r.Read(p[:min(len(p), bodyBlock)])
	w.block += n
	if w.left -= int64(n); w.left < 0 {
		return 0, tooBig(w.limit, "as sent")
	}
	return n, err
}

// raw bounds what comes out of unpacking.
type raw struct {
	r           io.Reader
	left, limit int64
}

func (r *raw) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if r.left -= int64(n); r.left < 0 {
		return 0, tooBig(r.limit, "after unpacking")
	}
	return n, err
}

var (
	gzips = sync.Pool{New: func() any { return new(gzip.Reader) }}
	zstds = sync.Pool{New: func() any {
		d, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderLowmem(true)) // options are sound
		return d
	}}
)

// openBody returns the unpacked body of a request, bounded before and after
// unpacking, once there is a place for it; done gives back what it took.
func (a *API) openBody(w http.ResponseWriter, r *http.Request) (body io.Reader, done func(), err error) {
	if r.ContentLength > a.Limits.WireBytes {
		return nil, nil, tooBig(a.Limits.WireBytes, "as sent")
	}
	in := bufio.NewReader(&wire{r: r.Body, c: http.NewResponseController(w), left: a.Limits.WireBytes, limit: a.Limits.WireBytes, patience: a.Limits.Patience})
	coding := strings.Join(r.Header.Values("Content-Encoding"), ", ")
	memory, err := a.memoryFor(coding, in)
	if err != nil {
		return nil, nil, err
	}
	leave, err := a.slots.take(r.Context(), a.newBringer(r.Context()).id, memory)
	if err != nil {
		return nil, nil, err
	}
	body, give, err := a.unpack(coding, in, r.ContentLength)
	if err != nil {
		leave()
		return nil, nil, err
	}
	return body, func() { give(); leave() }, nil
}

// zstdMemory is what unpacking zstd takes: the window that is allowed, twice.
const zstdMemory = 2 * zstdWindow

const zstdWindow = 8 << 20

// memoryFor is what a body will take at most, about. A block of snappy, which
// is held whole, says so in its first bytes.
func (a *API) memoryFor(coding string, in *bufio.Reader) (int64, error) {
	least := max(1, a.Limits.Memory/int64(a.Limits.Requests))
	switch coding {
	case "zstd":
		return least + zstdMemory, nil
	case "snappy":
		head, err := in.Peek(binary.MaxVarintLen64)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, bodyError(err)
		}
		n, used := binary.Uvarint(head)
		if used <= 0 {
			return 0, bodyError(snappy.ErrCorrupt)
		}
		if n > uint64(a.Limits.RawBytes) {
			return 0, tooBig(a.Limits.RawBytes, "after unpacking")
		}
		return least + 2*int64(n), nil
	}
	return least, nil
}

// unpack returns what a body holds.
func (a *API) unpack(coding string, in io.Reader, size int64) (body io.Reader, done func(), err error) {
	done = func() {}
	switch coding {
	case "", "identity":
	case "gzip":
		z := gzips.Get().(*gzip.Reader)
		if err := z.Reset(in); err != nil {
			gzips.Put(z)
			return nil, nil, bodyError(err)
		}
		in, done = z, func() { gzips.Put(z) }
	case "zstd":
		z := zstds.Get().(*zstd.Decoder)
		if err := z.Reset(in); err != nil {
			zstds.Put(z)
			return nil, nil, bodyError(err)
		}
		in, done = z, func() { _ = z.Reset(nil); zstds.Put(z) } // a reset to nothing cannot fail
	case "snappy":
		return unsnap(in, size)
	default:
		return nil, nil, refuse(http.StatusUnsupportedMediaType, "send it as it is, or as gzip, zstd or snappy (block format)", "content encoding %.40q is not known", coding)
	}
	return &raw{in, a.Limits.RawBytes, a.Limits.RawBytes}, done, nil
}

// rooms are buffers for whole bodies.
var rooms = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// roomKept bounds the buffers that are kept.
const roomKept = 4 << 20

func giveBack(room *bytes.Buffer) {
	if room.Cap() <= roomKept {
		room.Reset()
		rooms.Put(room)
	}
}

// unsnap unpacks snappy's block format, whose length is known beforehand. size
// is that of the body as sent; -1: not known.
func unsnap(in io.Reader, size int64) (io.Reader, func(), error) {
	packed := rooms.Get().(*bytes.Buffer)
	defer giveBack(packed)
	packed.Grow(int(min(max(size, 0), roomKept)) + bytes.MinRead)
	if _, err := packed.ReadFrom(in); err != nil {
		return nil, nil, bodyError(err)
	}
	n, err := snappy.DecodedLen(packed.Bytes())
	if err != nil {
		return nil, nil, bodyError(err)
	}
	if int64(n) > 64*int64(packed.Len())+64 { // no snappy block shrinks that much
		return nil, nil, bodyError(snappy.ErrCorrupt)
	}
	room := rooms.Get().(*bytes.Buffer)
	room.Grow(n)
	text, err := snappy.Decode(room.AvailableBuffer()[:n], packed.Bytes())
	if err != nil {
		giveBack(room)
		return nil, nil, bodyError(err)
	}
	return &bytesReader{text}, func() { giveBack(room) }, nil
}

// whole reads a body to its end. What it returns is the body's, and good until
// that is done.
func whole(body io.Reader) ([]byte, error) {
	if b, ok := body.(*bytesReader); ok {
		return b.rest, nil
	}
	return io.ReadAll(body)
}

// bytesReader gives its bytes out without a copy to those who know it.
type bytesReader struct{ rest []byte }

func (b *bytesReader) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// bodyError gives an error of reading a body its status.
func bodyError(err error) error {
	var f *fault
	if errors.As(err, &f) {
		return err
	}
	if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		return refuse(http.StatusRequestEntityTooLarge, "pack it with a window of at most 8 MiB", "unpack body: %v", err)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return refuse(http.StatusRequestTimeout, "", "read body: it came too slowly")
	}
	return &fault{error: fmt.Errorf("read body: %w", err), status: http.StatusBadRequest}
}
