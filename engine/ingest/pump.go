package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"headroom/engine/record"
)

// pump reads records and adds them to the writer. Seq of a row is its input and
// the byte after that it begins at: the same in every run, also when the file
// grew meanwhile.
type pump struct {
	gate    sync.Mutex // held while a row is added
	stopped bool
	at      *Position // behind the last record that was added or set aside
	over    bool      // nothing is read any more

	mu    sync.Mutex
	marks []mark // where records ended, in order, not yet acknowledged
}

// A Seq has so many bits for the place in an input (256 TiB), and the others
// for which input it is.
const (
	seqBits   = 48
	maxInputs = 1<<(63-seqBits) - 1
)

// base is the Seq before an input's first byte.
func base(n int) int64 { return int64(n) << seqBits }

// inputOf is the index of the input that a row came from.
func inputOf(seq int64) int { return int((seq - 1) >> seqBits) }

// mark says that all records before a position have a Seq up to seq.
type mark struct {
	seq int64
	at  Position
}

// stop returns when no further row will be added: the position behind the
// last one, nil if there was none, and whether reading has ended.
func (p *pump) stop() (at *Position, over bool) {
	p.gate.Lock()
	defer p.gate.Unlock()
	p.stopped = true
	return p.at, p.over
}

// run reads all inputs to their end.
func (p *pump) run(ctx context.Context, r *run) error {
	in := r.in
	defer func() {
		if in != nil && in != r.in { // the first is closed with the run
			in.close()
		}
		p.gate.Lock()
		defer p.gate.Unlock()
		p.over = true
	}()
	for {
		err := p.read(ctx, r, in)
		if err != nil {
			return err
		}
		off, line := in.reader.Pos()
		at := Position{Input: in.n, Offset: off, Line: line}
		if in.n+1 == len(r.o.Inputs) {
			p.gate.Lock()
			defer p.gate.Unlock()
			p.at = &at
			return nil
		}
		p.put(base(in.n)+off, at)
		if in != r.in {
			in.close()
		}
		if in, err = r.openInput(in.n + 1); err != nil {
			return err
		}
		if err := r.ended(at.Input, at.Offset); err != nil {
			return err
		}
		if in.convert, err = r.converter(in); err != nil {
			return err
		}
	}
}

// read reads one input to its end.
func (p *pump) read(ctx context.Context, r *run, in *input) error {
	var records, marked int64
	for {
		if off, _ := in.reader.Pos(); in.end >= 0 && off >= in.end {
			return nil
		}
		rec, err := in.reader.Next()
		if err == io.EOF {
			return nil
		}
		var bad *record.Bad
		if err != nil && !errors.As(err, &bad) {
			return fmt.Errorf("%s: %w", label(in.name), err)
		}
		off, line := in.reader.Pos()
		if err := p.one(ctx, r, in, rec, bad); err != nil {
			return err
		}
		if records++; records%markRecords == 0 || off-marked >= markBytes {
			p.put(base(in.n)+off, Position{Input: in.n, Offset: off, Line: line})
			marked = off
		}
	}
}

// one handles one record, unless the run is being stopped.
func (p *pump) one(ctx context.Context, r *run, in *input, rec record.Rec, bad *record.Bad) error {
	p.gate.Lock()
	defer p.gate.Unlock()
	if p.stopped {
		return errStopped
	}
	if bad == nil {
		row, why := in.convert.convert(rec)
		if why == nil {
			row.Seq = base(in.n) + rec.Start + 1
			if err := r.writer.Add(ctx, row); err != nil {
				return err
			}
		}
		bad = why
	}
	if bad != nil {
		if err := r.rejects.Add(r.named(*bad, in.n)); err != nil {
			return fmt.Errorf("%s: %w", label(in.name), err)
		}
	}
	off, line := in.reader.Pos()
	p.at = &Position{Input: in.n, Offset: off, Line: line}
	return nil
}

func (p *pump) put(seq int64, at Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marks = append(p.marks, mark{seq, at})
}

// acked is the last position whose rows are all acknowledged.
func (p *pump) acked(seq int64) (at Position, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.marks) && p.marks[n].seq <= seq {
		at, ok = p.marks[n].at, true
		n++
	}
	p.marks = append(p.marks[:0], p.marks[n:]...)
	return at, ok
}
