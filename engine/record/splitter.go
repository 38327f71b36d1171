package record

import (
	"bytes"
	"io"
	"sync"
)

// Chunk is a piece of the input that holds whole records, as written.
type Chunk struct {
	Data       []byte // the caller's until Splitter.Free
	FirstLine  int64  // the line its first record begins on, from 1
	Records    int64  // without blank lines of NDJSON
	Start, End int64  // where it lies in the decompressed input, bytes
}

// Splitter cuts the input into chunks of whole records without taking them
// apart, faster than memory can be copied many times. Every cut is where
// Reader, too, sees a record end.
type Splitter struct {
	s     stream
	size  int
	names []string
	begun bool
	over  error

	mu   sync.Mutex
	free [][]byte
}

const keptFree = 16 // buffers kept for reuse

// NewSplitter cuts r into chunks of at most size bytes, or one record if that
// is longer. r gives decompressed bytes (Decompress).
func NewSplitter(r io.Reader, o Options, size int) *Splitter {
	size = max(size, 1<<10)
	return &Splitter{s: newStream(r, o.full(), size), size: size}
}

// Header is Reader.Header. The header is in no chunk.
func (s *Splitter) Header() ([]string, error) {
	s.begin()
	if s.over != nil && s.names == nil && s.s.o.Header {
		return nil, s.over
	}
	return s.names, nil
}

func (s *Splitter) begin() {
	if !s.begun {
		s.begun = true
		s.names, s.over = s.s.begin(&parser{o: s.s.o})
	}
}

// SkipTo is Reader.SkipTo.
func (s *Splitter) SkipTo(off, line int64) error {
	s.begin()
	if s.over != nil && s.over != io.EOF {
		return s.over
	}
	s.over = s.s.skipTo(off, line)
	return s.over
}

// Next returns the next chunk; io.EOF at the end; a *Bad for a record that no
// COPY may see (longer than allowed, or one that COPY would take for the end
// of the data), after which Next may be called again; or an error that ends
// it. A quote that is never closed is such an error.
func (s *Splitter) Next() (Chunk, error) {
	s.begin()
	if s.over != nil {
		return Chunk{}, s.over
	}
	c, err := s.next()
	if _, bad := err.(*Bad); err != nil && !bad {
		s.over = err
	}
	return c, err
}

func (s *Splitter) next() (Chunk, error) {
	want := s.size
	for {
		for len(s.s.rest()) < want && s.s.more() {
		}
		if s.s.err != nil && len(s.s.rest()) == 0 {
			return Chunk{}, s.s.err
		}
		w := s.walk(want)
		switch {
		case w.end > 0:
			return s.chunk(w), nil
		case w.special:
			return Chunk{}, s.special()
		case want < len(s.s.rest()):
			want *= 2
		case len(s.s.rest()) > s.s.o.MaxRecord+2:
			return Chunk{}, s.special()
		case s.s.err == nil:
			want = 2 * max(want, len(s.s.rest()))
		case s.s.err != io.EOF:
			return Chunk{}, s.s.err
		default:
			return Chunk{}, s.s.unclosed(s.s.line)
		}
	}
}

// walked is how far whole records reach in the buffer.
type walked struct {
	end     int
	records int64
	lines   int64
	special bool // the record at end must not be sent
}

// walk looks at the first bytes of the buffer, at most so many.
func (s *Splitter) walk(most int) walked {
	st := &s.s
	b := st.rest()
	b = b[:min(len(b), most)]
	whole := st.err == io.EOF && len(b) == len(st.rest())
	markers := st.o.Format != NDJSON && bytes.Contains(b, []byte(`\.`))
	var w walked
	for w.end < len(b) {
		st.cut.reset()
		n := st.cut.feed(b[w.end:])
		if n < 0 {
			if !whole || st.cut.open() {
				return w
			}
			n = len(b) - w.end
		}
		rec := b[w.end : w.end+n]
		if n > st.o.MaxRecord+2 || markers && s.marked(rec) {
			w.special = true
			return w
		}
		w.end += n
		w.lines += st.cut.lines
		if st.o.Format != NDJSON || rec[0] > ' ' || !blank(bytes.TrimSuffix(rec, []byte("\n"))) {
			w.records++
		}
	}
	return w
}

// marked says whether COPY would take something in the record for the end of
// the data.
func (s *Splitter) marked(rec []byte) bool {
	if s.s.o.Format == CSV {
		return isMarker(bytes.TrimRight(rec, "\r\n"))
	}
	return hasMarker(rec)
}

// chunk gives out the beginning of the buffer and goes on in another one.
func (s *Splitter) chunk(w walked) Chunk {
	st := &s.s
	c := Chunk{Data: st.rest()[:w.end], FirstLine: st.line, Records: w.records, Start: st.off}
	rest := st.rest()[w.end:]
	st.take(w.end, w.lines)
	st.buf = append(s.buffer(len(rest)), rest...)
	st.pos = 0
	c.End = st.off
	return c
}

// buffer returns an empty buffer that takes a chunk and the given bytes.
func (s *Splitter) buffer(n int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := len(s.free); k > 0 && cap(s.free[k-1]) >= n {
		b := s.free[k-1]
		s.free = s.free[:k-1]
		return b
	}
	return make([]byte, 0, max(s.size, n))
}

// Free gives a chunk's memory back, to be used again. It may be called from
// any goroutine, and need not be.
func (s *Splitter) Free(c Chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := cap(c.Data); n >= s.size && n <= 4*s.size && len(s.free) < keptFree {
		s.free = append(s.free, c.Data[:0])
	}
}

// special takes the record at the beginning of the buffer, which is not to be
// sent, and says why.
func (s *Splitter) special() error {
	line := s.s.line
	raw, ended, err := s.s.next()
	if err != nil {
		return err
	}
	end := s.s.off
	short, why := s.s.style.trim(raw, ended, s.s.o.Format)
	switch {
	case why != "":
	case s.s.o.Format == CSV:
		why = markerCSV
	case isMarker(short):
		return s.s.afterMarker(line)
	default:
		why = markerText
	}
	return &Bad{Line: line, Reason: why, Raw: short, End: end}
}
