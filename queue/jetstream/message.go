package jetstream

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"headroom/queue"
)

type message struct {
	l    *line
	m    js.Msg
	meta *js.MsgMetadata
}

func (m *message) Data() []byte    { return m.m.Data() }
func (m *message) Put() time.Time  { return m.meta.Timestamp }
func (m *message) Deliveries() int { return int(m.meta.NumDelivered) }

// answer turns what the connection says after Close into ErrStopped.
func (m *message) answer(what string, err error) error {
	switch {
	case err == nil || errors.Is(err, js.ErrMsgAlreadyAckd):
		return nil
	case m.l.isClosed():
		return queue.ErrStopped
	}
	return fmt.Errorf("%s message %d: %w", what, m.meta.Sequence.Stream, err)
}

func (m *message) Ack(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	return m.answer("acknowledge", m.m.DoubleAck(ctx))
}

func (m *message) Back(_ context.Context, delay time.Duration) error {
	return m.answer("give back", m.m.NakWithDelay(max(delay, time.Millisecond)))
}

func (m *message) Hold(context.Context) error {
	return m.answer("hold", m.m.InProgress())
}

func (m *message) Kill(ctx context.Context, reason string) error {
	g, err := m.l.current()
	if err != nil {
		return err
	}
	wait, stop := context.WithTimeout(ctx, patience)
	defer stop()
	letter := &nats.Msg{Subject: deadSubject, Data: m.Data(), Header: nats.Header{reasonHeader: {url.QueryEscape(reason[:min(len(reason), 4<<10)])}}}
	if _, err := g.js.PublishMsg(wait, letter, js.WithExpectStream(deadName)); err != nil {
		return m.answer("set aside", err)
	}
	m.l.killed.Add(1)
	return m.Ack(ctx)
}

// gone is how many messages of a stream there are no more.
func gone(info *js.StreamInfo) uint64 { return info.State.LastSeq - info.State.Msgs }

func (l *line) Dead(ctx context.Context, before string, n int) ([]queue.DeadLetter, error) {
	g, err := l.current()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	info, err := g.dead.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	var out []queue.DeadLetter
	last := info.State.LastSeq
	if before != "" {
		seq, err := strconv.ParseUint(before, 10, 64)
		if err != nil || seq == 0 {
			return nil, fmt.Errorf("list dead letters before %.60q: %w", before, queue.ErrNoLetter)
		}
		last = min(last, seq-1)
	}
	for seq := last; seq >= info.State.FirstSeq && seq > 0 && len(out) < n; seq-- {
		raw, err := g.dead.GetMsg(ctx, seq)
		if errors.Is(err, js.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("list dead letters: %w", err)
		}
		reason, err := url.QueryUnescape(raw.Header.Get(reasonHeader))
		if err != nil {
			reason = raw.Header.Get(reasonHeader)
		}
		out = append(out, queue.DeadLetter{ID: strconv.FormatUint(seq, 10), At: raw.Time, Reason: reason, Data: raw.Data})
	}
	return out, nil
}

func (l *line) Retry(ctx context.Context, id string) error {
	g, d, err := l.letter(ctx, id)
	if err != nil {
		return fmt.Errorf("retry dead letter %.60q: %w", id, err)
	}
	if err := l.Put(ctx, d.Data); err != nil {
		return fmt.Errorf("retry dead letter %s: %w", id, err)
	}
	if err := l.remove(ctx, g, d); err != nil {
		return fmt.Errorf("dead letter %s is in the queue again, and stays in both: %w", id, err)
	}
	return nil
}

func (l *line) Drop(ctx context.Context, id string) error {
	g, d, err := l.letter(ctx, id)
	if err == nil {
		err = l.remove(ctx, g, d)
	}
	if err != nil {
		return fmt.Errorf("drop dead letter %.60q: %w", id, err)
	}
	return nil
}

// letter reads the dead letter of an ID.
func (l *line) letter(ctx context.Context, id string) (*generation, *js.RawStreamMsg, error) {
	g, err := l.current()
	if err != nil {
		return nil, nil, err
	}
	seq, err := strconv.ParseUint(id, 10, 64)
	if err != nil || seq == 0 {
		return nil, nil, queue.ErrNoLetter
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	d, err := g.dead.GetMsg(ctx, seq)
	if errors.Is(err, js.ErrMsgNotFound) {
		err = queue.ErrNoLetter
	}
	return g, d, err
}

func (l *line) remove(ctx context.Context, g *generation, d *js.RawStreamMsg) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	if err := g.dead.DeleteMsg(ctx, d.Sequence); err != nil {
		return err
	}
	l.taken.Add(1)
	return nil
}
