package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/metric"
)

const (
	hourMS   = int64(time.Hour / time.Millisecond)
	dayMS    = int64(day / time.Millisecond)
	minuteMS = int64(time.Minute / time.Millisecond)
)

// packing is one run of writing the hot points as packed hours.
type packing struct {
	s         *Store
	tx        pgx.Tx
	gen       int
	epoch     int64
	seq       int64 // of the newest write that is packed
	hot       int   // the table that is packed
	cutoff    int64 // points at or after it stay hot
	days      []int64
	rolled    time.Time
	hours     map[int64]bool // packed before
	packedEnd int64          // the end of the last of them
	touched   map[int64]bool // packed now
	c         coder
	out       copyRows
	rows      int
	carry     []hotPoint
	dirty     [][2]int64 // series, day's start
	late      []late
	done      map[int64]int64 // series → packed to
}

type numbered struct {
	id int64
	e  *entry
}

// pack writes the points of hours before the cutoff as packed rows, moves the
// others to the hot table in use, and empties the one that was, all in one
// transaction.
func (s *Store) pack(ctx context.Context, cutoff int64) error {
	p, list, err := s.freeze(ctx, cutoff)
	if err != nil {
		return err
	}
	for _, d := range p.days {
		if err := rawTable.create(ctx, s.maint, time.UnixMilli(d)); err != nil {
			return err
		}
	}
	if p.tx, err = s.maint.Begin(ctx); err != nil {
		return err
	}
	defer func() { _ = p.tx.Rollback(ctx) }()
	if err := p.start(ctx); err != nil {
		return err
	}
	for len(list) > 0 {
		n := min(4096, len(list))
		if err := p.slice(ctx, list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	if err := p.finish(ctx); err != nil {
		return err
	}
	if err := p.tx.Commit(ctx); err != nil {
		s.reload() // nobody knows whether it counts: a server that ends may say so after the commit
		return fmt.Errorf("commit: %w", err)
	}
	s.packedOff(p)
	return nil
}

// freeze turns to the other hot table, unless the last packing failed: then
// that is tried again.
func (s *Store) freeze(ctx context.Context, cutoff int64) (*packing, []numbered, error) {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if s.writer == nil || s.writer.IsClosed() {
		s.drop()
		if err := s.take(ctx); err != nil {
			return nil, nil, err
		}
	}
	if !s.frozen {
		s.head.freeze()
		s.hot, s.frozen, s.frozenSeq = 1-s.hot, true, s.seq
	}
	h := s.head
	h.mu.RLock()
	defer h.mu.RUnlock()
	p := &packing{s: s, gen: h.gen, epoch: s.epoch, seq: s.frozenSeq, hot: 1 - s.hot, cutoff: cutoff,
		touched: map[int64]bool{}, hours: map[int64]bool{}, done: map[int64]int64{}}
	for d := range h.oldDays {
		if d < cutoff {
			p.days = append(p.days, d)
		}
	}
	var list []numbered
	for id, e := range h.series {
		if e.old.n > 0 {
			list = append(list, numbered{id, e})
		}
	}
	slices.SortFunc(list, func(a, b numbered) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	return p, list, nil
}

// start locks out whoever could take the store in the meantime, and everybody
// from the table that will be emptied.
func (p *packing) start(ctx context.Context) error {
	var epoch int64
	var rolled *time.Time
	// Of a day that is half rolled up, too, some series would miss what comes now.
	err := p.tx.QueryRow(ctx, "select epoch, rolled + (slice > 0)::int from headroom.store_state for share").Scan(&epoch, &rolled)
	if err != nil {
		return err
	}
	if epoch != p.epoch {
		return errors.New("another process has taken the store")
	}
	if rolled != nil {
		p.rolled = *rolled
	}
	if _, err := p.tx.Exec(ctx, fmt.Sprintf("lock table headroom.store_hot_%d in access exclusive mode", p.hot)); err != nil {
		return fmt.Errorf("wait for who reads the hot table: %w", err)
	}
	rows, err := p.tx.Query(ctx, "select hour from headroom.store_hour_packed")
	if err != nil {
		return err
	}
	var hour time.Time
	_, err = pgx.ForEachRow(rows, []any{&hour}, func() error {
		p.hours[hour.UnixMilli()] = true
		p.packedEnd = max(p.packedEnd, hour.UnixMilli()+hourMS-1)
		return nil
	})
	return err
}

func (p *packing) slice(ctx context.Context, list []numbered) error {
	p.out.reset()
	p.rows, p.dirty, p.late = 0, nil, nil
	for _, x := range list {
		p.one(x.id, x.e)
	}
	if err := p.mend(ctx); err != nil {
		return err
	}
	if p.rows > 0 {
		p.out.end()
		if err := copyIn(ctx, p.tx.Conn().PgConn(), bytes.NewReader(p.out.buf),
			"copy headroom.store_raw (series, at, n, times, vals) from stdin with (format binary)"); err != nil {
			return fmt.Errorf("store packed hours: %w", err)
		}
	}
	return p.note(ctx)
}

// one cuts a series' points into hours.
func (p *packing) one(id int64, e *entry) {
	ps := settle(e.old.list(&p.c, nil))
	// Of a series that was idle, or before a start, nobody remembers how far it
	// is packed; it is not beyond the last hour that is.
	known := e.packedTo
	if known == 0 {
		known = p.packedEnd
	}
	for len(ps) > 0 {
		hour := ps[0].At - ps[0].At%hourMS
		n := 0
		for n < len(ps) && ps[n].At < hour+hourMS {
			n++
		}
		part := ps[:n]
		ps = ps[n:]
		if hour >= p.cutoff {
			for _, x := range part {
				p.carry = append(p.carry, hotPoint{id, x.At, x.Value})
			}
			continue
		}
		p.done[id] = max(p.done[id], known, part[n-1].At)
		p.touched[hour] = true
		if d := hour - hour%dayMS; !p.rolled.IsZero() && d < p.rolled.UnixMilli() {
			p.dirty = append(p.dirty, [2]int64{id, d})
		}
		if p.hours[hour] && part[0].At <= known {
			p.late = append(p.late, late{id, hour, slices.Clone(part)})
			continue
		}
		p.row(id, part)
	}
}

func (p *packing) row(id int64, ps []metric.Point) {
	times, values := p.c.pack(ps)
	p.rows++
	p.out.row(5)
	p.out.int8(id)
	p.out.time(ps[0].At)
	p.out.int4(len(ps))
	p.out.bytes(times)
	p.out.bytes(values)
}

func (p *packing) finish(ctx context.Context) error {
	var hours []time.Time
	for h := range p.touched {
		if !p.hours[h] {
			hours = append(hours, time.UnixMilli(h))
		}
	}
	if _, err := p.tx.Exec(ctx, "insert into headroom.store_hour_packed select unnest($1::timestamptz[]) on conflict do nothing", hours); err != nil {
		return err
	}
	if len(p.carry) > 0 {
		if err := copyIn(ctx, p.tx.Conn().PgConn(), new(hotRows).rows(p.seq, fillFrom(p.carry)), hotCopy(1-p.hot)); err != nil {
			return fmt.Errorf("keep the present hour's points: %w", err)
		}
	}
	_, err := p.tx.Exec(ctx, fmt.Sprintf("truncate headroom.store_hot_%d", p.hot))
	return err
}

// packedOff lets go of what is packed.
func (s *Store) packedOff(p *packing) {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	h := s.head
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gen != p.gen {
		return
	}
	s.frozen = false
	idle := min(h.newest, s.o.Now().UnixMilli()) - 2*hourMS
	h.points, h.bytes, h.oldDays = 0, 0, map[int64]bool{}
	for id, e := range h.series {
		e.old = run{}
		e.packedTo = max(e.packedTo, p.done[id])
		if e.now.n == 0 && e.last.At < idle {
			e.series = nil // others may still point to it
			delete(h.series, id)
		}
	}
	for _, x := range p.carry {
		e := h.entry(x.series, 0)
		e.old.add(&h.c, metric.Point{At: x.at, Value: x.value})
		h.oldDays[x.at-x.at%dayMS] = true
	}
	for _, e := range h.series {
		h.points += int(e.now.n + e.old.n)
		h.bytes += entrySize + e.now.size() + e.old.size()
	}
}

// reload has the next use of the writer read the hot tables anew.
func (s *Store) reload() {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	s.drop()
	s.epoch = -1 // no epoch that was ever signed
}

func (s *Store) passErr() error {
	s.emu.Lock()
	defer s.emu.Unlock()
	return s.passError
}
