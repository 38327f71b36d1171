package api

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"headroom/metric"
	"headroom/queue"
)

// putsAtOnce is how many batches of one request are on their way to disk at
// the same time.
const putsAtOnce = 4

// puts is the batches of one request that are on their way.
type puts struct {
	ctx  context.Context
	stop context.CancelFunc
	a    *API
	room chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex
	points int // on disk
	count  int // batches on disk
	err    error
}

func newPuts(ctx context.Context, a *API) *puts {
	ctx, stop := context.WithCancel(ctx)
	return &puts{ctx: ctx, stop: stop, a: a, room: make(chan struct{}, putsAtOnce)}
}

// send puts a load, which belongs to puts from now on.
func (p *puts) send(l *load) {
	p.room <- struct{}{}
	p.wg.Go(func() {
		defer func() { <-p.room }()
		err := p.ctx.Err()
		if err == nil {
			err = p.a.Take(p.ctx, &l.batch)
		}
		p.note(l.batch.Len(), err)
		l.reset()
		loads.Put(l)
	})
}

func (p *puts) note(points int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.points += points
		p.count++
	case p.err == nil:
		p.err = err
		p.stop() // what comes after it would fail as well
	}
}

// failed says whether going on makes sense.
func (p *puts) failed() bool { return p.ctx.Err() != nil }

// wait returns when all is on disk, or the first error.
func (p *puts) wait() error {
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = p.ctx.Err()
	}
	p.stop()
	return p.err
}

var encoded = sync.Pool{New: func() any { return new([]byte) }}

// Take is the one door for samples, of this machine's collectors as well: a
// batch is cut to size, put, and shown to those who look when all of it is on
// disk. After an error its fate is unknown: take it again under the same ID.
func (a *API) Take(ctx context.Context, b *metric.Batch) error {
	for _, piece := range b.Split() {
		buf := encoded.Get().(*[]byte)
		*buf = piece.Encode((*buf)[:0])
		size := len(*buf)
		if err := a.Queue.Put(ctx, *buf); err != nil {
			return err // the queue may still hold the buffer: it is not used again
		}
		encoded.Put(buf)
		a.took(piece, size)
	}
	return nil
}

// took counts and shows what is on disk.
func (a *API) took(b *metric.Batch, size int) {
	a.flow.note(a.Now(), size)
	a.counts.bytes.Add(int64(size))
	a.counts.batches.Add(1)
	a.counts.points.Add(int64(b.Len()))
	a.Hub.Publish(b)
}

// putError gives an error of the queue its answer.
func putError(err error) error {
	again := "send the whole request again: what is stored already is not stored twice if it carries the same Idempotency-Key"
	switch {
	case errors.Is(err, queue.ErrTooLarge):
		return refuse(500, "", "put samples: %v", err)
	case errors.Is(err, queue.ErrFull), errors.Is(err, queue.ErrDiskFull):
		return later(10*time.Second, again, fmt.Errorf("put samples: %w; nothing that was acknowledged is lost", err))
	}
	return later(5*time.Second, again, fmt.Errorf("put samples: %w", err))
}

// sendWhole puts a batch that came encoded, under the ID it came with. data is
// its encoded form, nil if it was altered.
func (p *puts) sendWhole(b *metric.Batch, data []byte) {
	p.room <- struct{}{}
	p.wg.Go(func() {
		defer func() { <-p.room }()
		err := p.ctx.Err()
		switch {
		case err != nil:
		case data == nil:
			err = p.a.Take(p.ctx, b)
		default:
			if err = p.a.Queue.Put(p.ctx, data); err == nil {
				p.a.took(b, len(data))
			}
		}
		p.note(b.Len(), err)
	})
}
