package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/fail"
	"headroom/metric"
)

// How far a point's time may be from our clock, or from the newest point that
// is stored where our clock jumped. It bounds the number of partitions.
const (
	takePast   = 35 * day
	takeFuture = 2 * day
)

// BatchMemory is how long the store remembers a batch's ID: a queue must not
// hold a message for longer, or a redelivery would be stored twice.
const BatchMemory = 8 * day

// Write stores batches in one transaction, each once: those whose ID is there
// already are passed over. When it returns nil they are on disk. After an
// error none is stored, or all are and the next Write passes them over.
// IsPermanent tells whether repeating can help. Of two points of a series at
// one time, the one written later wins.
func (s *Store) Write(ctx context.Context, batches []*metric.Batch) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	err := s.write(ctx, batches)
	if err != nil && missing(err) && s.writer != nil { // dropped by somebody: make it anew, once
		if err = s.restoreTables(ctx); err == nil {
			err = s.write(ctx, batches)
		}
	}
	if err != nil {
		return fmt.Errorf("write to the store: %w", err)
	}
	return nil
}

func (s *Store) restoreTables(ctx context.Context) error {
	if err := s.ensure(ctx); err != nil {
		return err
	}
	return s.todaysBatches(ctx)
}

// todaysBatches makes the partitions that the IDs of now and soon go to, by
// the server's clock.
func (s *Store) todaysBatches(ctx context.Context) error {
	var now time.Time
	if err := s.writer.QueryRow(ctx, "select now()").Scan(&now); err != nil {
		return err
	}
	for _, at := range []time.Time{now, now.Add(day)} {
		if err := batchTable.create(ctx, s.writer, at); err != nil {
			return err
		}
	}
	return nil
}

// ready brings the writer's connection back if it broke.
func (s *Store) ready(ctx context.Context) error {
	if s.writer != nil && s.writer.IsClosed() {
		s.drop()
	}
	if s.writer == nil {
		if err := s.take(ctx); err != nil {
			return err
		}
	}
	if s.head.full(3 * s.o.HeadBytes) {
		return fail.Hint(fmt.Errorf("%d MiB of points wait to be packed: %w", s.head.size()>>20, errors.Join(s.passErr(), errBehind)), "see the log for why packing fails")
	}
	return nil
}

var errBehind = errors.New("packing is behind")

func (s *Store) write(ctx context.Context, batches []*metric.Batch) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	tx, err := s.writer.Begin(ctx)
	if err != nil {
		s.drop()
		return err
	}
	defer func() { // a rollback that fails ends the session, and with it the transaction
		if tx.Rollback(ctx) != nil && s.writer != nil && s.writer.IsClosed() {
			s.drop()
		}
	}()
	fresh, err := s.unknown(ctx, tx, batches)
	if err != nil || len(fresh) == 0 {
		return err
	}
	w, err := s.collect(fresh)
	if err != nil {
		return err
	}
	defer s.let(w)
	if err := s.register(ctx, tx, w); err != nil {
		return ofBatch(err)
	}
	if err := s.put(ctx, tx, w, fresh); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		// Nobody knows whether it counts: the next hold reads what is there.
		s.drop()
		return err
	}
	s.apply(w)
	if s.head.full(s.o.HeadBytes) {
		select {
		case s.full <- struct{}{}:
		default: // is known
		}
	}
	return nil
}

// unknown returns the batches that are not stored yet, each once.
func (s *Store) unknown(ctx context.Context, tx pgx.Tx, batches []*metric.Batch) ([]*metric.Batch, error) {
	ids := make([][16]byte, len(batches))
	for i, b := range batches {
		ids[i] = b.ID
	}
	rows, err := tx.Query(ctx, "select id from headroom.store_batch where id = any($1)", ids)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	if err != nil {
		return nil, err
	}
	seen := map[metric.ID]bool{}
	for _, id := range found {
		seen[id] = true
	}
	var fresh []*metric.Batch
	for _, b := range batches {
		if !seen[b.ID] {
			seen[b.ID] = true
			fresh = append(fresh, b)
		}
	}
	return fresh, nil
}

// work is what one Write brings, in the order of writing.
type work struct {
	rows    []written
	last    *entry // of the last row that memory knows
	points  int
	strange []int // rows whose series is to be looked up, one for each series
}

// written is a row, what memory knows of its series (nil: nothing), and the
// hash of its key.
type written struct {
	metric.Row
	e    *entry
	hash uint64
}

func (w *work) take(r metric.Row, e *entry, hash uint64) {
	w.rows = append(w.rows, written{r, e, hash})
	if e != nil {
		w.last = e
	}
}

func (s *Store) collect(batches []*metric.Batch) (*work, error) {
	w := &work{rows: s.rows[:0], last: s.head.wrote}
	n := 0
	for _, b := range batches {
		n += len(b.Rows)
	}
	w.rows = slices.Grow(w.rows, n)
	reach := s.reach()
	met := map[int64]uint64{}
	s.head.mu.RLock()
	defer s.head.mu.RUnlock()
	for _, b := range batches {
		for i := range b.Rows {
			r := b.Rows[i]
			if err := reach.takes(r); err != nil {
				return nil, permanent(fmt.Errorf("batch %s from %s: %w", b.ID, b.Origin, err))
			}
			if err := s.known(w, r, met); err != nil {
				return nil, permanent(fmt.Errorf("batch %s from %s: %w", b.ID, b.Origin, err))
			}
			w.points += len(r.Points)
		}
	}
	return w, nil
}

// rowsKept bounds the room that is kept from one Write to the next.
const rowsKept = 64 << 10

// let gives the room of a Write's rows to the next.
func (s *Store) let(w *work) {
	clear(w.rows)
	if s.rows = w.rows[:0]; cap(s.rows) > rowsKept {
		s.rows = nil
	}
}

// reach is the times that are taken, milliseconds: near our clock, or near the
// newest point.
type reach struct{ now, newest [2]int64 }

func (s *Store) reach() reach {
	near := func(clock int64) [2]int64 {
		return [2]int64{clock - takePast.Milliseconds(), clock + takeFuture.Milliseconds()}
	}
	x := reach{now: near(s.o.Now().UnixMilli())}
	if newest := s.head.latest(); newest != 0 {
		x.newest = near(newest)
	}
	return x
}

func (x *reach) takes(r metric.Row) error {
	for _, p := range r.Points {
		switch {
		case p.Value-p.Value != 0:
			return fmt.Errorf("series %s: %v is not a number that is kept", r.Series, p.Value)
		case p.At <= 0 || (p.At <= x.now[0] || p.At >= x.now[1]) && (p.At <= x.newest[0] || p.At >= x.newest[1]):
			return fmt.Errorf("series %s: a point of %s is too far from now", r.Series, time.UnixMilli(p.At).UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// put copies the points into the hot table and notes the batches.
func (s *Store) put(ctx context.Context, tx pgx.Tx, w *work, fresh []*metric.Batch) error {
	if w.points > 0 {
		if err := copyIn(ctx, tx.Conn().PgConn(), s.out.rows(s.seq+1, w.fill()), hotCopy(s.hot)); err != nil {
			return ofBatch(err)
		}
	}
	ids := make([][16]byte, len(fresh))
	for i, b := range fresh {
		ids[i] = b.ID
	}
	_, err := tx.Exec(ctx, "insert into headroom.store_batch (id) select unnest($1::uuid[])", ids)
	return err
}

// fill gives out all points in the order of writing.
func (w *work) fill() func([]hotPoint) int {
	row, point := 0, 0
	return func(dst []hotPoint) int {
		n := 0
		for row < len(w.rows) && n < len(dst) {
			r := &w.rows[row]
			id := r.id()
			for point < len(r.Points) && n < len(dst) {
				dst[n] = hotPoint{id, r.Points[point].At, r.Points[point].Value}
				point, n = point+1, n+1
			}
			if point == len(r.Points) {
				row, point = row+1, 0
			}
		}
		return n
	}
}

// id is the series' id, from where it costs least.
func (r *written) id() int64 {
	if r.e != nil {
		return r.e.id
	}
	return r.Series.ID()
}

// apply adds what was committed to the head.
func (s *Store) apply(w *work) {
	s.seq++
	h := s.head
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.wrote
	for i := range w.rows {
		r := &w.rows[i]
		e := r.e
		if e == nil {
			e = h.entry(r.Series.ID(), r.hash)
		}
		e.hash, e.series = r.hash, r.Series
		if last != nil && last != e {
			last.after = e
		}
		last = e
		for _, p := range r.Points {
			p.Value += 0 // -0 becomes 0, as the packed form has no place for it
			h.add(e, p)
		}
	}
	h.wrote = last
}
