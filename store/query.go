package store

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/fail"
	"headroom/metric"
)

// Bounds of one query's memory.
const (
	queryCells = 500_000   // buckets that are worked on at a time
	queryDays  = 100_000   // the same, where they are days
	queryMost  = 8_000_000 // values in an answer, before Top
)

// Query answers with one line for each group. A metric that is not known is no
// error: the frame is empty. Errors: a condition or function that makes no
// sense (status Usage); more series than Limit; a server that is away or takes
// more than 30 s.
func (s *Store) Query(ctx context.Context, q Query) (*Frame, error) {
	f, err := s.query(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	return f, nil
}

func (s *Store) query(ctx context.Context, q Query) (*Frame, error) {
	p, err := s.resolve(ctx, q)
	if err != nil {
		return nil, err
	}
	fs, more, err := s.find(ctx, p.q.Match, p.q.Limit)
	if err != nil {
		return nil, err
	}
	if more {
		return nil, fail.Hint(fail.With(fmt.Errorf("more than %d series match", p.q.Limit), fail.Usage), "add conditions on labels")
	}
	g := newGroups(p)
	if len(fs)*p.n > queryMost && q.By == nil {
		return nil, fail.Hint(fail.With(fmt.Errorf("%d series of %d points are too many for one answer", len(fs), p.n), fail.Usage), "ask for a longer step, or for groups")
	}
	cells := queryCells
	if p.level == levelDay {
		cells = queryDays
	}
	for chunk := max(1, cells/p.n); len(fs) > 0; {
		n := min(chunk, len(fs))
		if err := s.chunk(ctx, p, fs[:n], g); err != nil {
			return nil, err
		}
		fs = fs[n:]
	}
	f := &Frame{From: time.UnixMilli(p.from).UTC(), To: p.q.To.UTC(), Step: time.Duration(p.step) * time.Millisecond,
		Resolution: levelName[p.level], Lines: g.lines(), Warnings: p.warnings}
	for i := range p.n {
		f.At = append(f.At, p.from+int64(i)*p.step)
	}
	return f, nil
}

// chunk reads some series and adds them to the groups. What is in memory is
// read first: a packing in between may show a point twice, which counts once,
// and never hides one.
func (s *Store) chunk(ctx context.Context, p *plan, fs []found, g *groups) error {
	var c coder
	ids := make([]int64, len(fs))
	sums := make(map[int64]*sums, len(fs))
	hot := make(map[int64][]metric.Point, len(fs))
	raw := p.rolled // from here on raw
	if p.level == levelRaw {
		raw = p.from
	}
	for i, f := range fs {
		id := f.ID()
		ids[i], sums[id] = id, newSums(p)
		if ps := s.head.read(&c, id, p.from-hourMS, p.to); len(ps) > 0 {
			hot[id] = ps
			if d := ps[0].At - ps[0].At%dayMS; d < raw && ps[0].At >= p.from && d >= p.rawFrom {
				raw = d // late points, not in the roll-ups yet
			}
		}
	}
	if err := s.stored(ctx, p, ids, raw, sums, hot); err != nil {
		return err
	}
	for _, f := range fs {
		g.add(f.Series, sums[f.ID()].values())
	}
	return nil
}

// stored reads roll-ups up to raw, then points, in one snapshot.
func (s *Store) stored(ctx context.Context, p *plan, ids []int64, raw int64, sums map[int64]*sums, hot map[int64][]metric.Point) error {
	return pgx.BeginTxFunc(ctx, s.read, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if p.level > levelRaw && p.from < raw {
			if err := p.rollUps(ctx, tx, ids, min(raw, p.to), sums); err != nil {
				return err
			}
		}
		return p.points(ctx, tx, ids, max(raw, p.from), sums, hot)
	})
}

func (p *plan) rollUps(ctx context.Context, tx pgx.Tx, ids []int64, to int64, sums map[int64]*sums) error {
	from := time.UnixMilli(p.from).UTC().Truncate(day)
	if p.rate {
		from = from.AddDate(0, 0, -1)
	}
	rows, err := tx.Query(ctx, p.sql(), ids, from, time.UnixMilli(to+dayMS-1).UTC().Truncate(day))
	if err != nil {
		return err
	}
	if p.level == levelDay {
		return daysInOrder(rows, func(id int64, b bucket) { sums[id].bucket(b, dayMS) })
	}
	var c coder
	width := levelWidth[p.level]
	return eachPacked(rows, &c, width, func(id int64, _ time.Time, bs []bucket) {
		a := sums[id]
		for _, b := range bs {
			if b.at < to {
				a.bucket(b, width)
			}
		}
	})
}

// points reads packed points from a time on and joins those in memory.
func (p *plan) points(ctx context.Context, tx pgx.Tx, ids []int64, from int64, sums map[int64]*sums, hot map[int64][]metric.Point) error {
	if from >= p.to {
		return nil
	}
	rows, err := tx.Query(ctx, rawSQL, ids, time.UnixMilli(from-hourMS), time.UnixMilli(p.to))
	if err != nil {
		return err
	}
	var c coder
	done := map[int64]bool{}
	feed := func(id int64, ps []metric.Point) {
		done[id] = true
		sums[id].points(settle(append(ps, hot[id]...)), from)
	}
	g := perDay{done: feed}
	if err := eachRaw(rows, &c, g.add); err != nil {
		return err
	}
	g.flush()
	for id := range hot {
		if !done[id] {
			feed(id, nil)
		}
	}
	return nil
}

// sums gathers one series, in the order of time.
type sums struct {
	p      *plan
	cells  []cell
	keys   map[int][]int64 // of sketches, by bucket
	before float64         // the value before the next
	upto   int64           // its time; 0: there was none
}

type cell struct {
	count               int64
	sum, min, max, last float64
	inc, secs           float64
	sk                  *sketch
	blind               bool // a part has no sketch
}

func newSums(p *plan) *sums {
	return &sums{p: p, cells: make([]cell, p.n), keys: map[int][]int64{}}
}

func (a *sums) bucket(b bucket, width int64) {
	end := b.at + width
	i := a.p.index(b.at)
	if i >= 0 {
		c := &a.cells[i]
		c.take(b.count, b.sum, b.min, b.max, b.last)
		if a.upto > 0 {
			c.inc += rise(a.before, b.first)
			c.secs += float64(end-a.upto) / 1000
		} else {
			c.secs += float64(width) / 1000
		}
		c.inc += b.inc
		if a.p.quantile > 0 {
			sk := b.withSketch()
			c.sk, c.blind = joinSketch(c.sk, sk), c.blind || sk == nil
		}
	}
	a.before, a.upto = b.last, end
}

// points takes points that rise; those before from only say what came before.
func (a *sums) points(ps []metric.Point, from int64) {
	for _, x := range ps {
		if x.At < from {
			a.before, a.upto = x.Value, x.At // to the millisecond, where a roll-up knows its minute
			continue
		}
		if i := a.p.index(x.At); i >= 0 {
			c := &a.cells[i]
			c.take(1, x.Value, x.Value, x.Value, x.Value)
			if a.upto > 0 {
				c.inc += rise(a.before, x.Value)
				c.secs += float64(x.At-a.upto) / 1000
			}
			if a.p.quantile > 0 {
				a.keys[i] = append(a.keys[i], sketchKey(x.Value))
			}
		}
		a.before, a.upto = x.Value, x.At
	}
}

func (p *plan) index(at int64) int {
	if at < p.from || at >= p.to {
		return -1
	}
	return int((at - p.from) / p.step)
}

func (c *cell) take(n int64, sum, lo, hi, last float64) {
	if c.count == 0 {
		c.min, c.max = lo, hi
	}
	c.count += n
	c.sum += sum
	c.min, c.max = min(c.min, lo), max(c.max, hi)
	c.last = last
}

func (a *sums) values() []float64 {
	out := make([]float64, len(a.cells))
	for i := range a.cells {
		c := &a.cells[i]
		if c.count == 0 {
			out[i] = math.NaN()
			continue
		}
		if ks := a.keys[i]; len(ks) > 0 {
			c.sk = joinSketch(c.sk, sketchOf(ks))
		}
		out[i] = c.value(a.p)
	}
	return out
}

func (c *cell) value(p *plan) float64 {
	switch p.q.Func {
	case "avg":
		return c.sum / float64(c.count)
	case "min":
		return c.min
	case "max":
		return c.max
	case "last":
		return c.last
	case "sum":
		return c.sum
	case "count":
		return float64(c.count)
	}
	switch {
	case p.rate && c.secs == 0, p.quantile > 0 && (c.blind || c.sk == nil):
		return math.NaN()
	case p.q.Func == "rate":
		return c.inc / c.secs
	case p.rate:
		return c.inc
	}
	return min(max(c.sk.quantile(p.quantile), c.min), c.max)
}
