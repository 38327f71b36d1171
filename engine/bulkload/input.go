package bulkload

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"headroom/engine/record"
	"headroom/fail"
)

// Estimate is what is known of the input before it is read.
type Estimate struct {
	Path        string    `json:"path"`
	Compression string    `json:"compression"`
	Format      string    `json:"format"`
	Header      bool      `json:"header"`
	Known       bool      `json:"known"` // size and rows are; not so for a stream
	Bytes       int64     `json:"bytes"` // decompressed, about
	Rows        int64     `json:"rows"`  // about
	Width       float64   `json:"width"` // bytes of a record
	Again       bool      `json:"again"` // it can be read a second time
	Size        int64     `json:"size,omitempty"`
	ModTime     time.Time `json:"mod_time,omitzero"`
	Head        string    `json:"head"` // SHA-256 of its first bytes, to know it again
	// Bad counts the records of the sample that do not fit the table.
	Sampled int64 `json:"sampled"`
	Bad     int64 `json:"sampled_bad,omitempty"`
}

const (
	sampleSize = 1 << 20   // bytes of the input that are looked at beforehand
	headSize   = 256 << 10 // bytes that identify it
)

// source is the opened input.
type source struct {
	Estimate
	opts  record.Options
	head  []byte // the first decompressed bytes
	whole bool   // head is all there is
	body  io.Reader
	close []func() error

	records int // how many a sample has
	ahead   struct {
		sample sample
		err    error
		header bool // as it was read
		done   bool
	}
}

type counter struct {
	r io.Reader
	n int64
}

// Read counts what it passes on.
func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// openSource opens the input and looks at its beginning.
func openSource(o *Options) (*source, error) {
	s := &source{Estimate: Estimate{Path: o.Path}}
	var raw io.Reader
	if o.Path == "-" {
		if o.Stdin == nil {
			return nil, fail.With(errors.New("read standard input: there is none"), fail.Usage)
		}
		raw = struct{ io.Reader }{o.Stdin} // a pipe, even if it could be sought in
	} else {
		f, err := os.Open(o.Path)
		if err != nil {
			return nil, fmt.Errorf("open the input: %w", err)
		}
		s.close = append(s.close, f.Close)
		st, err := f.Stat()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open the input: %w", err), s.Close())
		}
		if st.IsDir() {
			return nil, errors.Join(fail.With(fmt.Errorf("open the input: %s is a folder", o.Path), fail.Usage), s.Close())
		}
		if st.Mode().IsRegular() {
			s.Again, s.Size, s.ModTime = true, st.Size(), st.ModTime().UTC()
		}
		raw = struct{ io.Reader }{f}
	}
	if err := s.begin(raw, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// begin decompresses and reads the head.
func (s *source) begin(raw io.Reader, o *Options) error {
	count := &counter{r: raw}
	body, kind, err := record.Decompress(count)
	if err != nil {
		return err
	}
	s.close = append([]func() error{body.Close}, s.close...)
	s.Compression = kind.String()
	buf := bufio.NewReaderSize(body, sampleSize)
	s.head, err = buf.Peek(sampleSize)
	if err != nil && err != io.EOF {
		return err
	}
	s.whole = err == io.EOF
	s.head = bytes.Clone(s.head)
	s.body = buf
	sum := sha256.Sum256(s.head[:min(len(s.head), headSize)])
	s.Head = hex.EncodeToString(sum[:])
	switch {
	case s.whole:
		s.Known, s.Bytes = true, int64(len(s.head))
	case s.Again && kind == record.Plain:
		s.Known, s.Bytes = true, s.Size
	case s.Again && count.n > 0: // what was taken so far tells the ratio, roughly
		s.Known, s.Bytes = true, clamp(float64(s.Size)*float64(len(s.head))/float64(count.n))
	}
	s.format(o)
	return s.opts.Check()
}

// format is how the input is written: as asked, else as it looks.
func (s *source) format(o *Options) {
	name := o.Path
	if o.Format != nil {
		name = map[record.Format]string{record.CSV: "x.csv", record.TSV: "x.tsv", record.Text: "x.txt", record.NDJSON: "x.ndjson"}[*o.Format]
	}
	s.opts = record.Guess(name, s.head)
	if o.Header != nil {
		s.opts.Header = *o.Header
	}
	if o.Delimiter != 0 {
		s.opts.Delimiter = o.Delimiter
	}
	if o.Quote != 0 {
		s.opts.Quote = o.Quote
	}
	if o.Escape != 0 {
		s.opts.Escape = o.Escape
	}
	if o.Null != nil {
		s.opts.Null, s.opts.HasNull = *o.Null, true
	}
	if s.opts.MaxRecord = o.MaxRecord; o.MaxRecord == 0 {
		s.opts.MaxRecord = recordMost
	}
	s.Format = s.opts.Format.String()
}

// Close closes the input.
func (s *source) Close() error {
	var err error
	for _, c := range s.close {
		err = errors.Join(err, c())
	}
	s.close = nil
	return err
}

// sample is the beginning of the input in records.
type sample struct {
	names   []string // of the header
	records [][][]byte
	raw     [][]byte
	lines   []int64
}

// Records that are looked at beforehand: more where the types of a new table
// are guessed from them.
const (
	sampleRecords = 1000
	guessRecords  = 5000
)

// sampleAhead parses the head as it seems to be written, before the table is
// known that could tell better whether there is a header.
func (s *source) sampleAhead(o *Options) {
	s.records = sampleRecords
	if o.Create != nil || o.PartitionOf != "" {
		s.records = guessRecords
	}
	s.ahead.sample, s.ahead.err = s.parse()
	s.ahead.header, s.ahead.done = s.opts.Header, true
}

// sample is the beginning of the input in records, read as s.opts say now.
func (s *source) sample() (sample, error) {
	if a := &s.ahead; a.done && a.header == s.opts.Header {
		return a.sample, a.err
	}
	return s.parse()
}

// parse parses the head; the last record may be cut off, and is left out then.
func (s *source) parse() (sample, error) {
	var out sample
	r := record.NewReader(bytes.NewReader(s.head), s.opts)
	names, err := r.Header()
	if err != nil && err != io.EOF {
		return out, err
	}
	out.names = names
	var end int64
	for len(out.raw) < max(s.records, sampleRecords) {
		rec, err := r.Next()
		var bad *record.Bad
		if errors.As(err, &bad) {
			continue
		}
		if err != nil { // the end, or what reading will say again
			break
		}
		if rec.End == int64(len(s.head)) && !s.whole {
			break
		}
		end = rec.End
		fields := make([][]byte, len(rec.Fields))
		for i, f := range rec.Fields {
			fields[i] = bytes.Clone(f)
			if f != nil && fields[i] == nil {
				fields[i] = []byte{}
			}
		}
		out.records = append(out.records, fields)
		out.raw = append(out.raw, bytes.Clone(rec.Raw))
		out.lines = append(out.lines, rec.Line)
	}
	s.Sampled = int64(len(out.raw))
	if len(out.raw) > 0 {
		s.Width = float64(end) / float64(len(out.raw))
		s.Rows = clamp(float64(s.Bytes) / s.Width)
		if s.whole {
			s.Rows = max(s.Rows, s.Sampled)
		}
	}
	return out, nil
}

// sameAs says why the input is not the one that a load began with; nil if it is.
func (s *source) sameAs(was Estimate) error {
	changed := func(what string) error {
		return fail.Hint(fmt.Errorf("resume: the input is not the one that the load began with: %s", what),
			"give the same input again, or take back what was loaded: headroom load restore")
	}
	switch {
	case s.Head != was.Head:
		return changed("its beginning differs")
	case s.Again && was.Again && s.Size != was.Size:
		return changed(fmt.Sprintf("it has %d bytes, and had %d", s.Size, was.Size))
	case s.Compression != was.Compression:
		return changed("it is compressed in another way")
	}
	return nil
}
