// Package upsert writes keyed rows into a PostgreSQL table, as fast as it is
// safe. It knows nothing of files.
//
// Rows are dealt out over connections by their key, so that the rows of one
// key are written in the order they came and our connections never wait for
// each other's locks. Each connection writes batches, one transaction each;
// in a batch there is one row for each key, sorted, so that two processes
// that write to the same table do not deadlock either (and if others make them,
// the batch is tried again).
//
// A row is acknowledged when it is committed at the chosen durability, or was
// refused by the server and handed to Options.Reject. A batch whose fate is
// unknown, because the connection broke during its commit, is written again,
// which changes nothing but for Add; there the server is asked what became of
// the transaction, so that nothing is added twice. Before a batch is written
// again the backend that may still work on it is ended.
//
// What a batch costs the server was measured (bench/upsert); which strategy,
// batch size and number of connections are best is found while it runs.
package upsert

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"headroom/fail"
)

// Writer writes rows. Its methods may be called at the same time; rows of one
// key are written in the order in which their Adds returned.
type Writer struct {
	opt  Options
	plan *plan
	side *side
	// known is what earlier writers of the source left; it does not change.
	known  *known
	writer string          // no other has this name
	ctx    context.Context // ends when the writer does
	stop   context.CancelFunc
	all    sync.WaitGroup

	mu      sync.Mutex
	change  sync.Cond // something below got smaller, or ended
	err     error     // what ended the writer
	closed  bool
	paused  bool // lanes are being re-dealt
	lanes   []*lane
	width   int // lanes in use
	batch   int // rows
	form    form
	memory  int64
	last    int64 // Seq
	free    []*batch
	stats   counts
	blocked time.Duration // time in which Add waited
	waiting time.Time     // since when an Add waits; zero if none does
	waits   int           // Adds that wait

	rejecting sync.Mutex
}

type counts struct {
	rows, known, done, written, rejected, batches, retries int64

	latency *hdrhistogram.Histogram
}

// Open looks at the table, checks that all that is asked for can be done, and
// returns a writer. It uses Connections connections and one more.
func Open(ctx context.Context, o Options) (*Writer, error) {
	w, err := open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open table %s for upserts: %w", o.Table.SQL(), err)
	}
	return w, nil
}

func open(ctx context.Context, o Options) (_ *Writer, err error) {
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	w := &Writer{opt: o, writer: rand.Text(), known: &known{}}
	w.stats.latency = hdrhistogram.New(1, int64(time.Hour), 3)
	w.change.L = &w.mu
	w.ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	w.side = &side{opt: &w.opt}
	defer func() {
		if err != nil {
			w.stop()
			w.side.close()
		}
	}()
	if w.plan, err = w.side.prepare(ctx); err != nil {
		return nil, err
	}
	n := o.Connections
	if n == 0 {
		n = autoLanes
	}
	if w.plan.vague && n > 1 {
		o.say("only the server knows which keys of %s are equal: one connection is used", w.plan.table.SQL())
		n = 1
	}
	w.width, w.batch, w.form = n, o.Batch, w.firstForm()
	if w.batch == 0 {
		w.batch = 4000
	}
	if o.Connections == 0 {
		w.width = min(n, 4)
	}
	if o.Source != "" {
		if w.known, err = w.side.claim(ctx, w.writer, w.widths(n)); err != nil {
			return nil, err
		}
	}
	for i := range n {
		l := &lane{w: w, n: i, fence: fence{writer: w.writer, lane: i, source: o.Source}, wake: make(chan struct{}, 1), ready: make(chan *batch)}
		w.lanes = append(w.lanes, l)
		w.all.Go(l.settle)
		w.all.Go(l.send)
	}
	w.all.Go(w.tick)
	w.all.Go(w.tune)
	w.all.Go(w.side.watchWAL(w.ctx))
	return w, nil
}

// size is what a batch's row costs beside its bytes.
const itemSize = 40 + 16 + 32

// Add takes a row; nothing of it is kept after the return. It waits while too
// much is under way. An error, other than ctx's, is final: Flush and Close
// return the same.
func (w *Writer) Add(ctx context.Context, r Row) error {
	if len(r.Key) != len(w.plan.key) || len(r.Values) != len(w.plan.values) {
		return fmt.Errorf("add a row to %s: %d key and %d other values, not %d and %d", w.plan.table.SQL(), len(r.Key), len(r.Values), len(w.plan.key), len(w.plan.values))
	}
	s := encoders.Get().(*encoder)
	defer encoders.Put(s)
	refusal, err := s.encode(ctx, w, r)
	if err != nil {
		return w.fail(err)
	}
	if refusal != nil {
		return w.refuse(ctx, r, refusal)
	}
	size := int64(len(s.key)+len(s.fields)+len(s.raw)) + itemSize
	hash := hashKey(s.key)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known.has(hash, r.Seq) {
		return w.pass(r.Seq)
	}
	l, err := w.room(ctx, hash, size)
	if err != nil {
		return err
	}
	if r.Seq, err = w.number(r.Seq); err != nil {
		return err
	}
	b := l.open
	if len(b.items) == 0 {
		b.before, b.born, b.width = w.last, time.Now(), w.width
	}
	w.last = r.Seq
	b.items = append(b.items, item{prefix: prefixOf(s.key), off: len(b.data), key: int32(len(s.key)), fields: int32(len(s.fields)), seq: r.Seq, line: r.Line})
	b.data = append(append(append(b.data, s.key...), s.fields...), s.raw...)
	b.bytes += size
	w.memory += size
	w.stats.rows++
	if w.full(b) && len(l.queue) == 0 {
		l.submit()
	}
	return nil
}

// number is a row's Seq, with w.mu held.
func (w *Writer) number(seq int64) (int64, error) {
	if w.opt.Source != "" && seq <= w.last {
		return 0, fmt.Errorf("add a row to %s: Seq %d after %d, and each row of a source needs one of its own", w.plan.table.SQL(), seq, w.last)
	}
	if seq == 0 {
		return w.last + 1, nil
	}
	if seq < w.last {
		return 0, fmt.Errorf("add a row to %s: Seq %d after %d", w.plan.table.SQL(), seq, w.last)
	}
	return seq, nil
}

// pass acknowledges a row that is in already, with w.mu held.
func (w *Writer) pass(seq int64) (err error) {
	if w.err != nil {
		return w.err
	}
	if w.last, err = w.number(seq); err != nil {
		return err
	}
	w.stats.rows++
	w.stats.known++
	return nil
}

// full says that a batch takes no further row.
func (w *Writer) full(b *batch) bool {
	return len(b.items) >= w.batch || b.bytes >= max(w.opt.MaxMemory/int64(4*w.width), 1<<16)
}

// room waits until the lane of a key can take a row, with w.mu held.
func (w *Writer) room(ctx context.Context, hash uint64, size int64) (*lane, error) {
	waits := false
	for {
		if w.err != nil {
			return nil, w.err
		}
		if w.closed {
			return nil, fmt.Errorf("add a row to %s: the writer is closed", w.plan.table.SQL())
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("add a row to %s: %w", w.plan.table.SQL(), err)
		}
		if l := w.lanes[hash%uint64(w.width)]; !w.paused && w.fits(l, size) {
			return l, nil
		}
		if !waits {
			waits = true
			w.waits++
			if w.waits == 1 {
				w.waiting = time.Now()
			}
			defer func() {
				if w.waits--; w.waits == 0 {
					w.blocked += time.Since(w.waiting)
					w.waiting = time.Time{}
				}
			}()
			defer context.AfterFunc(ctx, func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.change.Broadcast()
			})()
		}
		w.change.Wait()
	}
}

// fits readies a lane's open batch for one more row, if there is room.
func (w *Writer) fits(l *lane, size int64) bool {
	if w.memory > 0 && w.memory+size > w.opt.MaxMemory {
		for _, x := range w.lanes { // what is not under way would never make room
			if len(x.queue) == 0 {
				x.submit()
			}
		}
		return false
	}
	if l.open != nil && w.full(l.open) {
		if len(l.queue) > 0 {
			return false
		}
		l.submit()
	}
	if l.open == nil {
		if n := len(w.free); n > 0 {
			l.open, w.free = w.free[n-1], w.free[:n-1]
		} else {
			l.open = &batch{}
		}
	}
	return true
}

// Acked is the highest Seq such that every row with it or a lower one is
// committed at the chosen durability, or refused. 0 before the first.
func (w *Writer) Acked() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acked()
}

func (w *Writer) acked() int64 {
	acked := w.last
	for _, l := range w.lanes {
		switch {
		case len(l.pending) > 0:
			acked = min(acked, l.pending[0].before)
		case l.open != nil && len(l.open.items) > 0:
			acked = min(acked, l.open.before)
		}
	}
	return acked
}

// Flush returns when all rows added before are acknowledged, or with the error
// that ended the writer.
func (w *Writer) Flush(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	until := make([]int64, len(w.lanes))
	for i, l := range w.lanes {
		l.submit()
		until[i] = l.submitted
	}
	return w.await(ctx, func() bool {
		for i, l := range w.lanes {
			if l.finished < until[i] {
				return false
			}
		}
		return true
	})
}

// await waits for something that broadcasts, with w.mu held.
func (w *Writer) await(ctx context.Context, ok func() bool) error {
	defer context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.change.Broadcast()
	})()
	for !ok() {
		if w.err != nil {
			return w.err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("write to %s: %w", w.plan.table.SQL(), err)
		}
		w.change.Wait()
	}
	return nil
}

// Close flushes, and frees everything. When ctx ends it does not wait any
// longer; Acked then says what is certain.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	if w.closed {
		defer w.mu.Unlock()
		return w.err
	}
	w.mu.Unlock()
	err := w.Flush(ctx)
	w.mu.Lock()
	w.closed = true
	w.change.Broadcast()
	w.mu.Unlock()
	w.stop()
	w.all.Wait()
	w.side.close()
	return err
}

// fail ends the writer; the first error stays.
func (w *Writer) fail(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = fail.Hint(fmt.Errorf("upsert into %s: %w", w.plan.table.SQL(), err), "all up to the acknowledged row is in; go on from there when the cause is gone")
		w.stop()
	}
	w.change.Broadcast()
	return w.err
}

// refuse tells of a row that is refused before it got into a batch.
func (w *Writer) refuse(ctx context.Context, r Row, why error) error {
	if err := w.reject(r, why); err != nil {
		return w.fail(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var err error
	if r.Seq, err = w.number(r.Seq); err != nil {
		return err
	}
	w.last = r.Seq
	w.stats.rows++
	return w.err
}

// reject counts a refused row and hands it to its taker.
func (w *Writer) reject(r Row, why error) error {
	why = reason(why)
	w.rejecting.Lock()
	defer w.rejecting.Unlock()
	if w.opt.Reject == nil {
		return fail.Hint(fmt.Errorf("write row %s: %w", w.plan.keyText(r), why), "correct the row, or have refused rows set aside")
	}
	if err := w.opt.Reject(r, why); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.rejected++
	return nil
}

// tick sends what has waited long enough.
func (w *Writer) tick() {
	t := time.NewTicker(max(w.opt.FlushEvery/4, time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case now := <-t.C:
			w.mu.Lock()
			for _, l := range w.lanes {
				if l.open != nil && len(l.queue) == 0 && len(l.open.items) > 0 && now.Sub(l.open.born) >= w.opt.FlushEvery {
					l.submit()
				}
			}
			w.mu.Unlock()
		}
	}
}
