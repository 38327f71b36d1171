package ingest

import (
	"bytes"
	"fmt"
	"io"

	"headroom/engine/record"
	"headroom/fail"
)

// headBytes is how much of an input is looked at to guess what it holds.
const headBytes = 64 << 10

// input is one open input.
type input struct {
	n       int   // its place in Options.Inputs
	end     int64 // what lies behind it came too late; -1: nothing does
	name    string
	reader  *record.Reader
	o       record.Options
	names   []string // columns of CSV and text
	head    []byte   // decompressed
	closers []io.Closer
	convert *converter
}

func (in *input) close() {
	for i := len(in.closers) - 1; i >= 0; i-- {
		_ = in.closers[i].Close() // read only: nothing can be lost
	}
	in.closers = nil
}

// label names an input in a message.
func label(name string) string {
	if name == "-" {
		return "standard input"
	}
	return "input " + name
}

// openInput opens an input and finds out how it is written.
func (r *run) openInput(n int) (_ *input, err error) {
	in := &input{n: n, end: r.endOf(n), name: r.o.Inputs[n]}
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	raw, closer, err := r.openFile(in.name)
	if err != nil {
		return nil, err
	}
	if closer != nil {
		in.closers = append(in.closers, closer)
	}
	grown, err := r.saved.know(n, in.name, raw)
	if err != nil {
		return nil, err
	}
	if grown && in.end >= 0 {
		r.o.say("%s has grown since the next one was begun: what is new is not read; give it as an input of its own", label(in.name))
	}
	plain, _, err := record.Decompress(raw)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", label(in.name), err)
	}
	in.closers = append(in.closers, plain)
	head, src, err := peek(plain)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", label(in.name), err)
	}
	in.head = head
	if in.o, err = r.form(in); err != nil {
		return nil, err
	}
	in.reader = record.NewReader(src, in.o)
	if in.names, err = in.reader.Header(); err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", label(in.name), err)
	}
	if in.o.Format != record.NDJSON && !in.o.Header {
		in.names = r.o.Fields
		if len(in.names) == 0 && err == nil {
			return nil, fail.With(fail.Hint(fmt.Errorf("read %s: it is %s without a header", label(in.name), in.o.Format),
				"name its columns in order: --fields id,ts,host; or say that the first line names them: --header"), fail.Usage)
		}
	}
	return in, nil
}

// form is how an input is written: as asked, else as guessed.
func (r *run) form(in *input) (record.Options, error) {
	o := record.Guess(in.name, in.head)
	if r.o.Format != "" {
		f, err := record.ParseFormat(r.o.Format)
		if err != nil {
			return o, err
		}
		if f != o.Format {
			o = record.Guess("x."+map[record.Format]string{record.CSV: "csv", record.TSV: "tsv", record.Text: "txt", record.NDJSON: "ndjson"}[f], in.head)
		}
	}
	asked := r.o.Read
	o.Null, o.HasNull, o.MaxRecord = asked.Null, asked.HasNull, asked.MaxRecord
	o.Quote, o.Escape = asked.Quote, asked.Escape
	if asked.Delimiter != 0 {
		o.Delimiter = asked.Delimiter
	}
	if r.o.Header != nil {
		o.Header = *r.o.Header
	} else if len(r.o.Fields) > 0 {
		o.Header = false
	}
	return o, o.Check()
}

// peek reads enough of the input to guess by, and no more than is there: two
// lines, or one of JSON. The returned reader gives all of it, and can be
// sought in if the given one can.
func peek(r io.Reader) ([]byte, io.Reader, error) {
	head := make([]byte, 0, headBytes)
	var err error
	for err == nil && len(head) < cap(head) && !enough(head) {
		var n int
		n, err = r.Read(head[len(head):cap(head)])
		head = head[:len(head)+n]
	}
	if err == io.EOF {
		err = nil
	}
	if err != nil && len(head) == 0 {
		return nil, nil, err
	}
	if s, ok := r.(io.Seeker); ok {
		if _, serr := s.Seek(-int64(len(head)), io.SeekCurrent); serr == nil {
			return head, r, nil
		}
	}
	return head, io.MultiReader(bytes.NewReader(bytes.Clone(head)), r), nil
}

func enough(head []byte) bool {
	want := 2
	if first := bytes.TrimLeft(head, " \t\r\n\xef\xbb\xbf"); len(first) > 0 && first[0] == '{' {
		want = 1
	}
	return bytes.Count(head, []byte("\n")) >= want
}

// skipTo goes to where an earlier run came to.
func (in *input) skipTo(p Position) error {
	if p.Input != in.n || p.Offset == 0 {
		return nil
	}
	if off, _ := in.reader.Pos(); p.Offset <= off {
		return nil
	}
	if err := in.reader.SkipTo(p.Offset, p.Line); err != nil {
		return fail.Hint(fmt.Errorf("resume %s: %w", label(in.name), err), "give the same input from its beginning, or remove the checkpoint file to begin anew")
	}
	return nil
}
