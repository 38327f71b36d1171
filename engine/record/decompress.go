package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"headroom/fail"
)

// Kind is how the input is compressed.
type Kind int

// The kinds that Decompress knows, by their first bytes.
const (
	Plain Kind = iota
	Gzip
	Zstd
)

// String names the kind.
func (k Kind) String() string { return [...]string{"plain", "gzip", "zstd"}[k] }

// maxWindow bounds what a zstd stream may make us keep, in bytes: that of
// every level of the zstd program but --ultra and --long.
const maxWindow = 32 << 20

// Decompress returns the decompressed bytes of r, as its first bytes tell:
// gzip and zstd, also several members one after the other; everything else as
// it is. Input that ends within a member is an error, not an end. A plain
// file that can be sought in stays so. Close frees the decoder; r stays open.
func Decompress(r io.Reader) (io.ReadCloser, Kind, error) {
	head, r, err := peek(r, 4)
	if err != nil {
		return nil, Plain, fmt.Errorf("read the input: %w", err)
	}
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, Gzip, broken(Gzip, err)
		}
		return &decoder{Gzip, z, z.Close}, Gzip, nil
	case bytes.Equal(head, []byte("\x28\xb5\x2f\xfd")), len(head) == 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:], []byte("\x2a\x4d\x18")):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, Zstd, broken(Zstd, err)
		}
		return &decoder{Zstd, z, func() error { z.Close(); return nil }}, Zstd, nil
	}
	if f, ok := r.(io.ReadSeeker); ok {
		return plainFile{f}, Plain, nil
	}
	return io.NopCloser(r), Plain, nil
}

// peek looks at the first bytes; the returned reader still gives them.
func peek(r io.Reader, n int) ([]byte, io.Reader, error) {
	head := make([]byte, n)
	if f, ok := r.(io.ReadSeeker); ok {
		if at, err := f.Seek(0, io.SeekCurrent); err == nil {
			n, err := io.ReadFull(f, head)
			if _, serr := f.Seek(at, io.SeekStart); serr == nil {
				return head[:n], f, notEOF(err)
			}
			return head[:n], io.MultiReader(bytes.NewReader(head[:n]), r), notEOF(err)
		}
	}
	n, err := io.ReadFull(r, head)
	return head[:n], io.MultiReader(bytes.NewReader(head[:n]), r), notEOF(err)
}

func notEOF(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}

// plainFile can be sought in, and is not ours to close.
type plainFile struct{ io.ReadSeeker }

// Close does nothing.
func (plainFile) Close() error { return nil }

type decoder struct {
	kind  Kind
	r     io.Reader
	close func() error
}

// Read gives decompressed bytes.
func (d *decoder) Read(b []byte) (int, error) {
	n, err := d.r.Read(b)
	if err != nil && err != io.EOF {
		err = broken(d.kind, err)
	}
	return n, err
}

// Close frees the decoder.
func (d *decoder) Close() error { return d.close() }

func broken(k Kind, err error) error {
	out := fmt.Errorf("decompress %s: %w", k, err)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), err == io.EOF:
		return fail.Hint(fmt.Errorf("decompress %s: the input ends in the middle: %w", k, io.ErrUnexpectedEOF),
			"the file was cut off or is still being written; fetch it again, or wait, and resume")
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fail.Hint(out, "it was made with --long or --ultra; decompress it outside: zstd -dc --long=31 FILE | headroom …")
	}
	return fail.Hint(out, "the compressed file is damaged: test it with %s -t", k)
}
