package upsert

import (
	"context"
	"errors"
	"slices"
	"time"
)

// A transaction of arrays is cut into statements of so many rows and bytes:
// the server's work on one overlaps with the sending of the next, and its
// memory stays small.
const (
	chunkRows  = 1000
	chunkBytes = 1 << 20
	writeSize  = 128 << 10
)

// scratch is buffers that a connection's batches share.
type scratch struct {
	out  []byte
	rest [][]byte
}

func (s *scratch) trim() {
	if cap(s.out) > 1<<23 {
		s.out = nil
	}
}

// run writes rows in one transaction. With a note (fence) it returns the
// transaction's number as soon as that is known, also with an error.
func (w *wire) run(ctx context.Context, p *plan, o *Options, f form, rows []outRow, s *scratch, note string) (xid string, err error) {
	defer w.guard(ctx)()
	if err := w.ready(p, f); err != nil {
		return "", err
	}
	defer s.trim()
	if note == "" && !w.pooled {
		return "", w.exchange(p, f, rows, s)
	}
	opening := "BEGIN ISOLATION LEVEL READ COMMITTED"
	if w.pooled {
		opening += "; " + o.session(true)
	}
	if _, err = w.query(opening); err == nil {
		err = w.exchange(p, f, rows, s)
	}
	if err == nil && note != "" {
		if xid, err = w.query(note); err == nil && xid == "" {
			err = errTaken
		}
	}
	if err == nil {
		_, err = w.query("COMMIT")
		return xid, err
	}
	if classify(err, false) != reconnect { // the session stands, in a failed transaction
		if _, undo := w.query("ROLLBACK"); undo != nil {
			return "", undo
		}
	}
	return "", err // not committed: the number is of no use
}

// exchange writes all that makes up a batch, up to Sync, and reads the answers.
func (w *wire) exchange(p *plan, f form, rows []outRow, s *scratch) error {
	out := s.out[:0]
	defer func() { s.out = out[:0] }()
	name := string(f)
	if w.pooled {
		var types []uint32
		for _, c := range p.all {
			t := c.elem
			if f != singleForm {
				t = 0 // the casts say it
			}
			types = append(types, t)
		}
		out, name = appendParse(out, "", p.statement(f, false), types), ""
	}
	var err error
	switch f {
	case singleForm:
		return w.sendSingles(p, name, rows, out)
	case stagingForm, stagedMerge:
		out, err = w.sendCopy(p, name, rows, out)
	default:
		s.rest = slices.Grow(s.rest[:0], chunkRows)
		for len(rows) > 0 && err == nil {
			n := chunk(rows)
			out = p.appendArrays(out, name, rows[:n], s.rest)
			rows = rows[n:]
			if len(out) >= writeSize && len(rows) > 0 {
				err = w.write(out)
				out = out[:0]
			}
		}
	}
	if err != nil {
		return err
	}
	out = append(out, syncMessage...)
	if err := w.write(out); err != nil {
		return err
	}
	_, err = w.answer()
	return err
}

// chunk is how many rows the next statement takes.
func chunk(rows []outRow) int {
	bytes := 0
	for i, r := range rows {
		if bytes += len(r.fields); i > 0 && (i == chunkRows || bytes > chunkBytes) {
			return i
		}
	}
	return len(rows)
}

func (w *wire) sendCopy(p *plan, name string, rows []outRow, out []byte) ([]byte, error) {
	out, at := appendBind(out, "copy", 0)
	out = appendBound(out, at)
	out, at = begin(out, 'd')
	out = append(out, copyHeader...)
	end(out, at)
	for len(rows) > 0 {
		n := 1
		for bytes := len(rows[0].fields); n < len(rows) && bytes < writeSize/2; n++ {
			bytes += len(rows[n].fields)
		}
		out = p.appendCopy(out, rows[:n])
		if rows = rows[n:]; len(out) >= writeSize {
			if err := w.write(out); err != nil {
				return out, err
			}
			out = out[:0]
		}
	}
	out, at = begin(out, 'd')
	out = append(out, copyEnd...)
	end(out, at)
	out = append(out, 'c', 0, 0, 0, 4)
	out, at = appendBind(out, name, 0)
	return appendBound(out, at), nil
}

// sendSingles writes from a second goroutine: the answers of many statements
// can be more than fits between us and the server, which then would no longer
// read.
func (w *wire) sendSingles(p *plan, name string, rows []outRow, out []byte) error {
	done := make(chan error, 1)
	go func() {
		for i, r := range rows {
			out = p.appendSingle(out, name, r)
			if i == len(rows)-1 {
				out = append(out, syncMessage...)
			}
			if len(out) >= writeSize || i == len(rows)-1 {
				if _, err := w.conn.Write(out); err != nil {
					done <- err
					return
				}
				out = out[:0]
			}
		}
		done <- nil
	}()
	_, err := w.answer()
	var l *lost
	if errors.As(err, &l) {
		_ = w.conn.SetWriteDeadline(time.Unix(1, 0))
	}
	if werr := <-done; werr != nil && err == nil {
		return &lost{werr}
	}
	return err
}

// strategy is what a form is called outside.
func (f form) strategy() Strategy {
	return map[form]Strategy{conflictForm: Unnest, mergeForm: UnnestMerge, stagingForm: Staging, stagedMerge: StagingMerge, singleForm: Pipeline}[f]
}
