// Package jetstream is queues of NATS JetStream: Connect uses a cluster that is
// there, OpenEmbedded a server within this process.
//
// The embedded one is not the default. It acknowledges after fsync, but one
// damaged bit may cost it all messages of a file, and all where the bit is in
// the stream's description; queue.Open loses the message that was hit.
package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"headroom/queue"
)

// line is a queue over a connection to JetStream.
type line struct {
	o    queue.Options
	kind string
	// failed is told of an error of Put, or of no answer, that may mean that the
	// server cannot write any more; it returns what the caller is to be told.
	failed func(g *generation, err error) error
	done   func() error // ends what stands behind the line
	free   func() uint64

	mu     sync.Mutex
	now    *generation // nil while there is none
	pause  error
	closed bool
	stop   chan struct{}

	notes queue.Notes

	fsyncLast             atomic.Int64
	refused, killed, lost atomic.Uint64
	taken                 atomic.Uint64 // dead letters that were retried or dropped by hand
}

// generation is one connection, with what was found over it.
type generation struct {
	nc       *nats.Conn
	js       js.JetStream
	messages js.Stream
	dead     js.Stream
	reader   js.Consumer
	deadGone uint64 // dead letters that were gone when it was opened
}

func (l *line) current() (*generation, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, queue.ErrStopped
	case l.pause != nil:
		return nil, l.pause
	}
	return l.now, nil
}

func (l *line) note(form string, args ...any) { l.notes.Add(l.o.Note, form, args...) }

// patience is how long an answer of the server is waited for where the caller
// sets no end.
const patience = 10 * time.Second

func (l *line) Put(ctx context.Context, msg []byte) error {
	err := l.put(ctx, msg)
	if err != nil {
		l.refused.Add(1)
	}
	return err
}

func (l *line) put(ctx context.Context, msg []byte) error {
	if len(msg) > queue.MaxMessage {
		return queue.ErrTooLarge
	}
	g, err := l.current()
	if err != nil {
		return err
	}
	wait, stop := context.WithTimeout(ctx, patience)
	defer stop()
	start := time.Now()
	_, err = g.js.Publish(wait, subject, msg, js.WithExpectStream(streamName))
	l.fsyncLast.Store(int64(time.Since(start)))
	var api *js.APIError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &api) && strings.Contains(api.Description, "maximum bytes exceeded"):
		return queue.ErrFull
	}
	if _, stopped := l.current(); errors.Is(stopped, queue.ErrStopped) {
		return stopped
	}
	if ctx.Err() != nil {
		return fmt.Errorf("put message: %w", err)
	}
	return l.failed(g, err)
}

// fetchMost bounds the memory of what one Fetch returns.
const fetchMost = 64

func (l *line) Fetch(ctx context.Context, n int) ([]queue.Message, error) {
	n = min(max(n, 1), fetchMost)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		g, err := l.current()
		if errors.Is(err, queue.ErrStopped) && l.isClosed() {
			return nil, err
		}
		var got []queue.Message
		if err == nil {
			got, err = l.fetch(ctx, g, n)
		}
		if len(got) > 0 {
			return got, nil
		}
		if err != nil {
			l.sleep(ctx, 100*time.Millisecond)
		}
	}
}

// fetch takes what is there, or waits for one.
func (l *line) fetch(ctx context.Context, g *generation, n int) ([]queue.Message, error) {
	b, err := g.reader.FetchNoWait(n)
	got, err := l.collect(b, err)
	if len(got) > 0 || err != nil {
		return got, err
	}
	wait, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	go func() {
		select {
		case <-l.stop:
			stop()
		case <-wait.Done():
		}
	}()
	b, err = g.reader.Fetch(1, js.FetchContext(wait))
	first, err := l.collect(b, err)
	if len(first) == 0 || n == 1 {
		if ctx.Err() != nil || wait.Err() != nil {
			err = nil
		}
		return first, err
	}
	b, err = g.reader.FetchNoWait(n - 1)
	rest, _ := l.collect(b, err)
	return append(first, rest...), nil
}

func (l *line) collect(b js.MessageBatch, err error) ([]queue.Message, error) {
	if err != nil {
		return nil, err
	}
	var got []queue.Message
	for m := range b.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return got, err
		}
		got = append(got, &message{l: l, m: m, meta: meta})
	}
	return got, b.Error()
}

func (l *line) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

func (l *line) sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-l.stop:
	case <-time.After(d):
	}
}

func (l *line) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.stop)
	l.mu.Unlock()
	return l.done()
}

func (l *line) Status(ctx context.Context) (queue.Status, error) {
	s := queue.Status{Kind: l.kind, Limit: uint64(l.o.MaxBytes), FsyncLast: time.Duration(l.fsyncLast.Load()),
		Killed: l.killed.Load(), Refused: l.refused.Load(), Lost: l.lost.Load(), DiskFree: l.free()}
	s.Notes = l.notes.List()
	g, err := l.current()
	if err != nil {
		if l.isClosed() {
			return s, err
		}
		s.Paused = err.Error()
		return s, nil
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	info, err := g.messages.Info(ctx)
	if err != nil {
		return s, fmt.Errorf("read state of queue: %w", err)
	}
	s.Messages, s.Bytes = info.State.Msgs, info.State.Bytes
	if s.Messages > 0 {
		s.Oldest = info.State.FirstTime
	}
	if info, err = g.dead.Info(ctx); err != nil {
		return s, fmt.Errorf("read state of dead letters: %w", err)
	}
	s.Dead = info.State.Msgs
	taken := g.deadGone + l.taken.Load()
	s.DeadDropped = max(gone(info), taken) - taken
	return s, nil
}
