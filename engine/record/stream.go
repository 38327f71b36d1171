package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"headroom/fail"
)

const (
	startBuffer = 256 << 10
	keptRaw     = 1 << 10 // of a record that is too long
)

// stream holds the piece of the input that is being cut. Positions: buf[pos]
// is the byte at off in the input, on the given line, and begins a record.
type stream struct {
	r     io.Reader
	o     Options
	cut   cutter
	style style
	buf   []byte
	pos   int
	off   int64
	line  int64
	err   error // of r, io.EOF among them
	small int   // the size that the buffer goes back to
}

func newStream(r io.Reader, o Options, size int) stream {
	return stream{r: r, o: o, line: 1, small: size, buf: make([]byte, 0, size), cut: cutter{o: o, eol: '\n'}}
}

// rest is what was read and not given out.
func (s *stream) rest() []byte { return s.buf[s.pos:] }

func (s *stream) take(n int, lines int64) {
	s.pos += n
	s.off += int64(n)
	s.line += lines
}

// more reads on, and says whether there are more bytes. It moves what is in
// the buffer, and doubles a full one.
func (s *stream) more() bool {
	if s.err != nil {
		return false
	}
	if len(s.buf) == cap(s.buf) || s.tooLarge() {
		s.room()
	}
	for range 100 {
		n, err := s.r.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf, s.err = s.buf[:len(s.buf)+n], err
		if n > 0 || err != nil {
			return n > 0
		}
	}
	s.err = io.ErrNoProgress
	return false
}

// tooLarge says that the buffer is still as large as a huge record that has
// passed.
func (s *stream) tooLarge() bool { return cap(s.buf) > 4*s.small && len(s.rest()) < s.small/2 }

// room makes room at the end of the buffer.
func (s *stream) room() {
	left := s.rest()
	switch {
	case s.tooLarge():
		s.buf = append(make([]byte, 0, s.small), left...)
	case s.pos > 0:
		s.buf = s.buf[:copy(s.buf, left)]
	default:
		s.buf = append(make([]byte, 0, 2*cap(s.buf)), left...)
	}
	s.pos = 0
}

// begin finds out how the input is written and reads the header.
func (s *stream) begin(p *parser) ([]string, error) {
	for len(s.rest()) < 3 && s.more() {
	}
	switch b := s.rest(); {
	case bytes.HasPrefix(b, []byte("\xef\xbb\xbf")):
		s.take(3, 0)
	case bytes.HasPrefix(b, []byte("\xff\xfe")), bytes.HasPrefix(b, []byte("\xfe\xff")):
		return nil, fail.Hint(errors.New("read the input: it is UTF-16"), "convert it first: iconv -f UTF-16 -t UTF-8")
	case len(b) == 0 && s.err != io.EOF:
		return nil, s.err
	}
	if s.o.Format != NDJSON {
		s.findStyle()
	}
	if !s.o.Header || s.o.Format == NDJSON {
		return nil, nil
	}
	return s.header(p)
}

func (s *stream) findStyle() {
	for {
		st, ok := styleOf(s.rest(), s.o)
		if !ok && len(s.rest()) <= s.o.MaxRecord && s.more() {
			continue
		}
		s.style = st
		if st == cr {
			s.cut.eol = '\r'
		}
		return
	}
}

func (s *stream) header(p *parser) ([]string, error) {
	line := s.line
	raw, ended, err := s.next()
	var bad *Bad
	if errors.As(err, &bad) { // without its header the input is of no use
		return nil, fmt.Errorf("read the header, line %d: %s", bad.Line, bad.Reason)
	}
	if err != nil {
		return nil, err
	}
	raw, why := s.style.trim(raw, ended, s.o.Format)
	var fields [][]byte
	if why == "" && s.o.Format == CSV {
		fields, why = p.csv(raw)
	} else if why == "" {
		fields, why = p.text(raw)
	}
	if why != "" {
		return nil, fmt.Errorf("read the header, line %d: %s", line, why)
	}
	var names []string
	for i, f := range fields {
		name := string(f)
		if name == "" {
			return nil, fail.Hint(fmt.Errorf("read the header: column %d has no name", i+1), "name it, or say that there is no header: --header=false")
		}
		if slices.Contains(names, name) {
			return nil, fmt.Errorf("read the header: two columns are named %q", name)
		}
		names = append(names, name)
	}
	return names, nil
}

// next returns the next record with the line break that ended it, if one did.
func (s *stream) next() (raw []byte, ended bool, err error) {
	s.cut.reset()
	fed := 0
	for {
		n := s.cut.feed(s.rest()[fed:])
		if n >= 0 {
			if fed+n > s.o.MaxRecord+2 {
				return nil, false, s.tooLong(fed + n)
			}
			raw = s.rest()[:fed+n]
			s.take(fed+n, s.cut.lines)
			return raw, true, nil
		}
		fed = len(s.rest())
		if fed > s.o.MaxRecord+2 {
			return nil, false, s.tooLong(-1)
		}
		if s.more() {
			continue
		}
		switch {
		case s.err != io.EOF:
			return nil, false, s.err
		case fed == 0:
			return nil, false, io.EOF
		case s.cut.open():
			return nil, false, s.unclosed(s.line)
		}
		raw = s.rest()
		s.take(fed, s.cut.lines)
		return raw, false, nil
	}
}

// unclosed ends the reading: with a quote that is never closed, nobody can
// say where the records behind it begin.
func (s *stream) unclosed(line int64) error {
	return fail.Hint(fmt.Errorf("read line %d: a quote that opens in this record is never closed", line),
		"correct that line, or name the right quote character; records before it are whole")
}

// tooLong passes over a record that is longer than allowed. size is its
// length if its end is in the buffer, else -1: all of the buffer belongs to it
// and has been fed.
func (s *stream) tooLong(size int) error {
	b := &Bad{Line: s.line, Raw: bytes.Clone(s.rest()[:min(keptRaw, len(s.rest()))])}
	from := s.off
	if size >= 0 {
		s.take(size, s.cut.lines)
	}
	for size < 0 {
		s.take(len(s.rest()), 0)
		if !s.more() {
			if s.err != io.EOF {
				return s.err
			}
			if s.cut.open() {
				return s.unclosed(b.Line)
			}
			break
		}
		if n := s.cut.feed(s.rest()); n >= 0 {
			s.take(n, s.cut.lines)
			break
		}
	}
	b.Bytes, b.End = s.off-from, s.off
	b.Reason = tooLong(b.Bytes, s.o.MaxRecord)
	return b
}

func tooLong[T int | int64](size T, most int) string {
	return fmt.Sprintf("the record has %d bytes; at most %d are taken", size, most)
}

// afterMarker is what follows COPY's end marker: nothing, or an error, because
// COPY would drop it without a word.
func (s *stream) afterMarker(line int64) error {
	for {
		at := s.line
		raw, _, err := s.next()
		if err != nil {
			var bad *Bad
			if !errors.As(err, &bad) {
				return err
			}
			raw = bad.Raw
		}
		if !blank(bytes.TrimRight(raw, "\r\n")) {
			return fail.Hint(fmt.Errorf(`read line %d: there is more behind the end marker \. of line %d`, at, line),
				`take out the marker, or what follows it; a value \. is written \\.`)
		}
	}
}

// skipTo passes over all bytes before off.
func (s *stream) skipTo(off, line int64) error {
	n := off - s.off
	if n < 0 {
		return fmt.Errorf("go on at byte %d: reading is already at %d", off, s.off)
	}
	have := int(min(n, int64(len(s.rest()))))
	s.take(have, 0)
	n -= int64(have)
	if n > 0 && s.err == nil {
		var err error
		if seek, ok := s.r.(io.Seeker); ok {
			err = seekOver(seek, n)
		} else {
			var m int64
			if m, err = io.CopyN(io.Discard, s.r, n); err == io.EOF {
				err = fmt.Errorf("the input ends %d bytes before", n-m)
			}
		}
		if err != nil {
			return fmt.Errorf("go on at byte %d: %w", off, err)
		}
		s.off += n
	} else if n > 0 {
		return fmt.Errorf("go on at byte %d: the input ends %d bytes before", off, n)
	}
	s.line = line
	return nil
}

func seekOver(f io.Seeker, n int64) error {
	here, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if end < here+n {
		return fmt.Errorf("the input ends %d bytes before", here+n-end)
	}
	_, err = f.Seek(here+n, io.SeekStart)
	return err
}
