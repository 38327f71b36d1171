package bulkload

import (
	"bytes"
	"context"
	"errors"

	"headroom/crash"
	"headroom/engine/record"
)

// span is one record in the data to be sent.
type span struct {
	from, to int
	first    int64 // its first line, in the data of its chunk
	at       int64 // the line that COPY calls it by: its last one
	line     int64 // its line in the whole input
	raw      []byte
}

// isolation sends the records of one chunk in pieces, each in a savepoint.
type isolation struct {
	w     *worker
	c     record.Chunk
	data  []byte
	spans []span
	part  int
	rows  int64
}

// isolate finds the records that the server refuses, by the line that it
// names or by halving, and sends all others, in one transaction. A record is
// bad only if it is refused when it is sent alone.
func (w *worker) isolate(ctx context.Context, c record.Chunk, data []byte, first error) error {
	for n := 0; ; n++ {
		known := len(w.bads)
		i := &isolation{w: w, c: c, data: data}
		if err := i.cut(); err != nil {
			return err
		}
		err := i.run(ctx, first)
		if err == nil {
			w.r.rows.Add(i.rows)
			return nil
		}
		if rerr := w.rollback(ctx); rerr != nil || !retriable(err) || n >= tries {
			return errors.Join(err, rerr)
		}
		w.bads = w.bads[:known]
	}
}

// cut lists the records of the data to be sent.
func (i *isolation) cut() error {
	lines := i.lines()
	if !i.w.r.m.raw() { // one line for each record that passed
		from := 0
		for n := 0; from < len(i.data); n++ {
			to := from + bytes.IndexByte(i.data[from:], '\n') + 1
			i.spans = append(i.spans, span{from: from, to: to, first: int64(n + 1), at: int64(n + 1), line: lines[n].line, raw: lines[n].raw})
			from = to
		}
		return nil
	}
	csv := i.w.r.src.opts.Format == record.CSV
	at := int64(0)
	n := 0
	return i.w.each(i.data, func(rec *record.Rec, bad *record.Bad, start, end int64) {
		if bad != nil { // not seen: sift took these out
			return
		}
		at++
		first := at
		if csv {
			at += int64(bytes.Count(rec.Raw, []byte("\n")))
		}
		i.spans = append(i.spans, span{from: int(start), to: int(end), first: first, at: at, line: lines[n].line, raw: lines[n].raw})
		n++
	})
}

// lines lists line and text of the records that were not sifted out.
func (i *isolation) lines() []span {
	out := map[int64]bool{}
	for _, b := range i.w.bads {
		out[b.Line] = true
	}
	var kept []span
	_ = i.w.each(i.c.Data, func(rec *record.Rec, bad *record.Bad, _, _ int64) { // sift has been through it without an error
		if bad == nil && !out[rec.Line+i.c.FirstLine-1] {
			kept = append(kept, span{line: rec.Line + i.c.FirstLine - 1, raw: bytes.Clone(rec.Raw)})
		}
	})
	return kept
}

func (i *isolation) run(ctx context.Context, first error) error {
	if err := exec(ctx, i.w.conn, "begin; set constraints all immediate"); err != nil {
		return err
	}
	if err := i.split(ctx, i.spans, first); err != nil {
		return err
	}
	crash.At("bulkload.isolated")
	if err := i.w.reject(); err != nil {
		return err
	}
	return exec(ctx, i.w.conn, i.w.note(i.c, 0, 0, int64(len(i.w.bads)))+"; commit")
}

// pieces sends some records, and looks closer where they are refused.
func (i *isolation) pieces(ctx context.Context, spans []span) error {
	if len(spans) == 0 {
		return nil
	}
	err := i.try(ctx, spans)
	if err == nil || !ofData(err) {
		return err
	}
	return i.split(ctx, spans, err)
}

// split goes on after the records were refused together.
func (i *isolation) split(ctx context.Context, spans []span, err error) error {
	for len(spans) > 1 {
		n := i.find(spans, err)
		if n < 0 { // no line named: halves
			n = len(spans) / 2
			if err := i.pieces(ctx, spans[:n]); err != nil {
				return err
			}
			return i.pieces(ctx, spans[n:])
		}
		if err := i.pieces(ctx, spans[:n]); err != nil {
			return err
		}
		if err := i.pieces(ctx, spans[n:n+1]); err != nil {
			return err
		}
		if spans = spans[n+1:]; len(spans) == 0 {
			return nil
		}
		if err = i.try(ctx, spans); err == nil || !ofData(err) {
			return err
		}
	}
	if len(spans) == 1 {
		i.bad(spans[0], err)
	}
	return nil
}

// find is the place of the record whose line the error names, or -1.
func (i *isolation) find(spans []span, err error) int {
	line := lineOf(err, i.w.r.table().Name)
	if line <= 0 {
		return -1
	}
	for n, s := range spans {
		if s.at-spans[0].first+1 >= line {
			return n
		}
	}
	return -1
}

// try sends some records in a savepoint of their own, with a note that tells
// their transaction.
func (i *isolation) try(ctx context.Context, spans []span) error {
	if err := exec(ctx, i.w.conn, "savepoint piece"); err != nil {
		return err
	}
	n := int64(len(spans))
	err := i.w.send(ctx, i.data[spans[0].from:spans[n-1].to], n)
	if err == nil {
		i.part++
		i.rows += n
		return exec(ctx, i.w.conn, i.w.note(i.c, i.part, n, 0)+"; release savepoint piece")
	}
	if i.w.conn.IsClosed() || !ofData(err) {
		return err
	}
	if rerr := exec(ctx, i.w.conn, "rollback to savepoint piece; release savepoint piece"); rerr != nil {
		return errors.Join(err, rerr)
	}
	return err
}

func (i *isolation) bad(s span, err error) {
	t := i.w.r.table()
	i.w.bads = append(i.w.bads, record.Bad{Line: s.line, Column: columnOf(err, t.Name, i.w.r.m.columns), Reason: reasonOf(err), Raw: s.raw})
}
