package upsert

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"headroom/host"
)

// lane is one connection and the batches for it.
type lane struct {
	w *Writer
	n int

	// Below, w.mu holds.
	open                *batch
	queue               []*batch // full, and not yet taken
	pending             []*batch // submitted and not yet acknowledged, oldest first
	submitted, finished int64

	wake  chan struct{}
	ready chan *batch // sorted

	// Only the sending goroutine uses what follows.
	wire   *wire
	gone   *wire // the last one, lost while it may have been working
	buffer scratch
	fence  fence
}

// submit hands the open batch on, with w.mu held.
func (l *lane) submit() {
	if l.open == nil || len(l.open.items) == 0 {
		return
	}
	l.queue, l.pending = append(l.queue, l.open), append(l.pending, l.open)
	l.open = nil
	l.submitted++
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// settle sorts one batch while another is being written.
func (l *lane) settle() {
	for {
		l.w.mu.Lock()
		var b *batch
		if len(l.queue) > 0 {
			b = l.queue[0]
			l.queue = l.queue[1:]
			if l.open != nil && l.w.full(l.open) {
				l.submit()
			}
			l.w.change.Broadcast()
		}
		l.w.mu.Unlock()
		if b == nil {
			select {
			case <-l.w.ctx.Done():
				return
			case <-l.wake:
			}
			continue
		}
		b.settle(l.w.plan)
		select {
		case <-l.w.ctx.Done():
			return
		case l.ready <- b:
		}
	}
}

// send writes batches until the writer ends.
func (l *lane) send() {
	defer func() {
		if l.wire != nil {
			l.wire.close()
		}
	}()
	for {
		select {
		case <-l.w.ctx.Done():
			return
		case b := <-l.ready:
			start := time.Now()
			if err := l.deliver(l.w.ctx, b); err != nil {
				if l.w.ctx.Err() == nil {
					_ = l.w.fail(err)
				}
				return
			}
			l.finish(b, time.Since(start))
		}
	}
}

// finish acknowledges a batch.
func (l *lane) finish(b *batch, took time.Duration) {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	l.pending = l.pending[1:]
	l.finished++
	w.memory -= b.bytes
	w.stats.batches++
	w.stats.done += int64(len(b.items))
	w.stats.written += int64(len(b.rows) + len(b.lone))
	_ = w.stats.latency.RecordValue(min(took.Nanoseconds(), int64(time.Hour)))
	b.reset()
	if len(w.free) < 2*w.width {
		w.free = append(w.free, b)
	}
	w.change.Broadcast()
}

// deliver gets a batch in, all but what is refused.
func (l *lane) deliver(ctx context.Context, b *batch) error {
	from := 0
	for _, to := range b.cuts {
		if err := l.part(ctx, b, b.rows[from:to]); err != nil {
			return err
		}
		from = to
	}
	for i := range b.lone {
		if err := l.part(ctx, b, b.lone[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// part writes rows; if one is refused it finds it by halves.
func (l *lane) part(ctx context.Context, b *batch, rows []outRow) error {
	if len(rows) == 0 {
		return nil
	}
	err := l.commit(ctx, b, rows)
	if err == nil {
		return nil
	}
	if k := classify(err, l.w.plan.table.RowSecurity); k != data && k != twice {
		return err
	}
	if n := len(rows); n > 1 {
		if err := l.part(ctx, b, rows[:n/2]); err != nil {
			return err
		}
		return l.part(ctx, b, rows[n/2:])
	}
	r := rows[0]
	if r.hi-r.lo == 1 {
		if err := l.w.reject(b.original(l.w.plan, r.lo), err); err != nil {
			return err
		}
		if l.w.opt.Source != "" {
			b.mark(rows, true)
		}
		return nil
	}
	for i := r.lo; i < r.hi; i++ { // several rows with one key: the others of them may be good
		if err := l.part(ctx, b, []outRow{b.one(i)}); err != nil {
			return err
		}
	}
	return nil
}

// commit writes rows in one transaction, again and again while the server
// cannot take them. It returns nil only when they are committed.
func (l *lane) commit(ctx context.Context, b *batch, rows []outRow) error {
	l.fence.batch++
	note := ""
	switch {
	case l.w.opt.Source != "":
		b.mark(rows, true)
		l.fence.width = b.width
		note = b.fact(l.n, l.w.known).note(l.w.opt.Source, l.fence.writer, l.fence.batch)
	case l.w.opt.Mode == Add:
		note = l.fence.note()
	}
	err := l.persist(ctx, rows, note)
	if err != nil && l.w.opt.Source != "" {
		b.mark(rows, false)
	}
	return err
}

// persist is commit, with the note that goes along.
func (l *lane) persist(ctx context.Context, rows []outRow, note string) error {
	w := l.w
	f := w.formFor(rows)
	doubt := "" // the number of a transaction that may be committed
	for wait := newWait(w.opt.RetryFor); ; {
		err := l.connected(ctx)
		if err == nil && doubt != "" { // its session has ended by now
			in, ferr := w.side.fate(ctx, doubt, l.fence)
			if ferr != nil {
				return ferr
			}
			if !in {
				doubt = ""
			} else if err = l.replicated(ctx); err == nil {
				return nil
			}
		}
		if err == nil {
			doubt, err = l.try(ctx, f, rows, note)
			if err != nil && classify(err, false) != reconnect {
				doubt = "" // an answer says that it is not
			}
		}
		if err == nil {
			wait.over(w.opt)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var pe *pgconn.PgError
		if errors.As(err, &pe) && pe.Code == "23505" && (f == mergeForm || f == stagedMerge) {
			f = plainForm[f] // another writer was faster with this key; MERGE does not expect that
			w.retried()
			continue
		}
		k := classify(err, w.plan.table.RowSecurity)
		if k == reconnect {
			l.drop()
		}
		if k != passing && k != reconnect {
			return err
		}
		w.retried()
		wait.say(w.opt, err)
		if werr := wait.next(ctx); werr != nil {
			return fmt.Errorf("%w: %w", werr, err)
		}
	}
}

var plainForm = map[form]form{mergeForm: conflictForm, stagedMerge: stagingForm}

// connected makes the lane's connection if there is none.
func (l *lane) connected(ctx context.Context) error {
	if l.wire != nil {
		return nil
	}
	return l.connect(ctx)
}

// try writes rows once.
func (l *lane) try(ctx context.Context, f form, rows []outRow, note string) (xid string, err error) {
	if l.wire.pooled && (f == stagingForm || f == stagedMerge) {
		f = conflictForm
	}
	xid, err = l.wire.run(ctx, l.w.plan, &l.w.opt, f, rows, &l.buffer, note)
	if errors.Is(err, errUnreplicated) {
		err = l.replicated(ctx)
	}
	return xid, err
}

// replicated returns when all that is committed is on the standbys, too, where
// the durability asks for that.
func (l *lane) replicated(ctx context.Context) error {
	if l.w.opt.Durability != Replicated {
		return nil
	}
	for {
		err := l.wire.awaitStandby(ctx)
		if !errors.Is(err, errUnreplicated) || ctx.Err() != nil {
			return err
		}
	}
}

// drop gives a connection up.
func (l *lane) drop() {
	if l.wire != nil {
		_ = l.wire.conn.Close()
		l.gone, l.wire = l.wire, nil
	}
}

// connect makes the lane's connection. What the lost one was doing must have
// an end first: it could write its batch after later ones.
func (l *lane) connect(ctx context.Context) error {
	w, err := l.w.opt.dial(ctx)
	if err != nil {
		return &lost{err}
	}
	if w.pooled && l.gone == nil && l.n == 0 {
		l.w.opt.say("a connection pooler stands before the server: each transaction carries its own settings and statements, which costs speed")
	}
	if l.gone != nil && !l.gone.pooled {
		if err := l.gone.end(ctx, w); err != nil {
			w.close()
			return err
		}
	}
	l.wire, l.gone = w, nil
	return nil
}

// end ends a lost connection's backend by another connection, and returns
// when it is gone.
func (w *wire) end(ctx context.Context, by *wire) error {
	defer by.guard(ctx)()
	sql := "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE pid = " + strconv.FormatUint(uint64(w.pid), 10) +
		" AND usename = current_user AND extract(epoch FROM backend_start)::text = " + host.Literal(w.since)
	for {
		found, err := by.query(sql)
		if err != nil {
			return fmt.Errorf("end our lost session: %w", err)
		}
		if found == "" {
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// wait is how long to wait between attempts: longer each time, with a share
// of chance, and not for ever.
type wait struct {
	limit, step time.Duration
	began       time.Time
	said        bool
}

func newWait(limit time.Duration) *wait {
	return &wait{limit: limit, step: 5 * time.Millisecond, began: time.Now()}
}

func (w *wait) next(ctx context.Context) error {
	if time.Since(w.began) > w.limit {
		return fmt.Errorf("gave up after %s of attempts", time.Since(w.began).Round(time.Second))
	}
	d := w.step/2 + rand.N(w.step)
	w.step = min(2*w.step, 3*time.Second)
	return pause(ctx, d)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// say tells of an outage once it has lasted a second.
func (w *wait) say(o Options, err error) {
	if !w.said && time.Since(w.began) > time.Second {
		w.said = true
		o.say("the server does not take a batch, trying again for up to %s: %v", w.limit, err)
	}
}

func (w *wait) over(o Options) {
	if w.said {
		o.say("the server takes batches again after %s", time.Since(w.began).Round(time.Second))
	}
}
