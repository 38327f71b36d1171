// Package record cuts input into records: CSV and text as PostgreSQL's COPY
// reads them, and JSON, one document per line. It knows no database.
//
// Reader parses one record after the other; Splitter only cuts, at the speed
// of memory, for loaders that hand the bytes on to COPY as they are. Both see
// the same boundaries. What is not a record becomes a *Bad with its line and
// reason, and the next call goes on behind it; any other error ends the input.
//
// Memory is bounded by Options.MaxRecord and the caller's own chunk size,
// whatever the input holds.
package record

import (
	"fmt"
	"io"
	"strings"

	"headroom/fail"
)

// Format is a way to write records.
type Format int

// The formats. TSV is COPY's text format in a file of that name: it may have
// a header, which PostgreSQL itself takes only since version 15.
const (
	CSV Format = iota
	TSV
	Text
	NDJSON
)

// String is the name as the flag --format takes it.
func (f Format) String() string {
	switch f {
	case CSV:
		return "csv"
	case TSV:
		return "tsv"
	case Text:
		return "text"
	}
	return "ndjson"
}

// ParseFormat reads a name that String writes, also "json" and "jsonl". The
// error is a usage error.
func ParseFormat(s string) (Format, error) {
	switch strings.ToLower(s) {
	case "csv":
		return CSV, nil
	case "tsv":
		return TSV, nil
	case "text", "txt":
		return Text, nil
	case "ndjson", "jsonl", "json":
		return NDJSON, nil
	}
	return 0, fail.With(fail.Hint(fmt.Errorf("read format %q: unknown", s), "there are: csv, tsv, text, ndjson"), fail.Usage)
}

// backslashes says whether the format is COPY's text format.
func (f Format) backslashes() bool { return f == TSV || f == Text }

// MaxRecord is the size of a record, in bytes, that PostgreSQL itself cannot
// pass: one byte less than 1 GiB.
const MaxRecord = 1<<30 - 1

// Options say how the input is written. The zero value is CSV as COPY reads
// it without options.
type Options struct {
	Format    Format
	Header    bool   // the first record names the columns (not NDJSON)
	Delimiter byte   // 0: comma for CSV, tab for text
	Quote     byte   // CSV; 0: the double quote
	Escape    byte   // CSV; 0: the same as Quote
	Null      string // what stands for NULL, unquoted
	HasNull   bool   // Null is given; else it is empty for CSV, \N for text
	MaxRecord int    // bytes; longer records are bad; 0: the constant MaxRecord
}

// full fills in the defaults.
func (o Options) full() Options {
	if o.Delimiter == 0 {
		o.Delimiter = ','
		if o.Format.backslashes() {
			o.Delimiter = '\t'
		}
	}
	if o.Quote == 0 {
		o.Quote = '"'
	}
	if o.Escape == 0 {
		o.Escape = o.Quote
	}
	if !o.HasNull {
		o.Null = ""
		if o.Format.backslashes() {
			o.Null = `\N`
		}
	}
	if o.MaxRecord <= 0 || o.MaxRecord > MaxRecord {
		o.MaxRecord = MaxRecord
	}
	return o
}

// Check refuses options that COPY refuses, too: usage errors.
func (o Options) Check() error {
	f := o.full()
	var why string
	switch {
	case f.Format == NDJSON:
		return nil
	case strings.ContainsRune("\r\n\x00", rune(f.Delimiter)) || f.Delimiter >= 0x80:
		why = "the delimiter must be one ASCII character, not a line break"
	case f.Format.backslashes() && strings.IndexByte(`\.abcdefghijklmnopqrstuvwxyz0123456789`, f.Delimiter) >= 0:
		why = fmt.Sprintf("the delimiter cannot be %q in the text format", f.Delimiter)
	case strings.ContainsAny(f.Null, "\r\n"):
		why = "the text for NULL cannot hold a line break"
	case strings.IndexByte(f.Null, f.Delimiter) >= 0:
		why = "the text for NULL cannot hold the delimiter"
	case f.Format == CSV && (f.Quote == f.Delimiter || f.Quote >= 0x80 || f.Escape >= 0x80 || strings.IndexByte("\r\n\x00", f.Quote) >= 0):
		why = "the quote must be one ASCII character, and not the delimiter"
	case f.Format == CSV && strings.IndexByte(f.Null, f.Quote) >= 0:
		why = "the text for NULL cannot hold the quote"
	default:
		return nil
	}
	return fail.With(fmt.Errorf("read %s: %s", f.Format, why), fail.Usage)
}

// Rec is one record. Raw and Fields are valid until the next call of Next.
type Rec struct {
	Line   int64    // its first line, from 1
	Start  int64    // where it begins in the decompressed input, bytes
	End    int64    // where the next one begins
	Raw    []byte   // as written, without the line break that ends it
	Fields [][]byte // unquoted and unescaped; nil is NULL; none for NDJSON
}

// Bad says that one record cannot be used, and why. The records behind it are
// not touched by that.
type Bad struct {
	Line   int64  // its first line, from 1
	Column string // which column or path, if that is known
	Reason string // one clause, without line and column
	Raw    []byte // as written, or its beginning; valid until the next Next
	Bytes  int64  // its whole length where Raw is only the beginning, else 0
	End    int64  // where the next record begins in the decompressed input
}

func (b *Bad) Error() string {
	if b.Column != "" {
		return fmt.Sprintf("read line %d, column %s: %s", b.Line, b.Column, b.Reason)
	}
	return fmt.Sprintf("read line %d: %s", b.Line, b.Reason)
}

// Pos is where the next record begins: bytes of the decompressed input, line.
func (r *Reader) Pos() (off, line int64) { return r.s.off, r.s.line }

// Reader parses records one by one.
type Reader struct {
	s     stream
	p     parser
	names []string
	begun bool
	over  error // what every further Next returns
}

// NewReader reads records from r, which gives decompressed bytes (Decompress).
func NewReader(r io.Reader, o Options) *Reader {
	o = o.full()
	return &Reader{s: newStream(r, o, startBuffer), p: parser{o: o}}
}

// Header returns the names of the columns, nil without Options.Header. Two
// equal names are an error. An empty input has no names and gives io.EOF.
func (r *Reader) Header() ([]string, error) {
	r.begin()
	if r.over != nil && r.names == nil && r.s.o.Header {
		return nil, r.over
	}
	return r.names, nil
}

// begin reads the mark of the encoding, the style of line breaks and the
// header, once.
func (r *Reader) begin() {
	if r.begun {
		return
	}
	r.begun = true
	r.names, r.over = r.s.begin(&r.p)
}

// SkipTo goes on at a boundary that an earlier run told: off is Rec.End of
// the last record done, line the line of the next. The header is read first.
// Seekable input is not read in between. An input that ends before off is an
// error.
func (r *Reader) SkipTo(off, line int64) error {
	r.begin()
	if r.over != nil && r.over != io.EOF {
		return r.over
	}
	r.over = r.s.skipTo(off, line)
	return r.over
}

// Next returns the next record; io.EOF at the end; a *Bad for one that cannot
// be used, after which Next may be called again; or an error that ends it.
func (r *Reader) Next() (Rec, error) {
	r.begin()
	for r.over == nil {
		rec, err := r.next()
		if err == nil && r.s.o.Format == NDJSON && blank(rec.Raw) {
			continue
		}
		if _, bad := err.(*Bad); err != nil && !bad {
			r.over = err
			break
		}
		return rec, err
	}
	return Rec{}, r.over
}

func (r *Reader) next() (Rec, error) {
	rec := Rec{Line: r.s.line, Start: r.s.off}
	raw, ended, err := r.s.next()
	if err != nil {
		return rec, err
	}
	rec.End = r.s.off
	bad := func(why string) (Rec, error) {
		return rec, &Bad{Line: rec.Line, Reason: why, Raw: raw, End: rec.End}
	}
	raw, why := r.s.style.trim(raw, ended, r.s.o.Format)
	if len(raw) > r.s.o.MaxRecord {
		why = tooLong(len(raw), r.s.o.MaxRecord)
	}
	if why != "" {
		return bad(why)
	}
	rec.Raw = raw
	switch r.s.o.Format {
	case NDJSON:
		return rec, nil
	case CSV:
		if isMarker(raw) {
			return bad(markerCSV)
		}
		rec.Fields, why = r.p.csv(raw)
	default:
		if isMarker(raw) {
			return rec, r.s.afterMarker(rec.Line)
		}
		if hasMarker(raw) {
			return bad(markerText)
		}
		rec.Fields, why = r.p.text(raw)
	}
	if why != "" {
		return bad(why)
	}
	return rec, nil
}

// blank says whether a line of JSON holds nothing.
func blank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}
