package agent

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"headroom/fail"
	"headroom/metric"
	"headroom/queue"
)

// ShipOptions says where batches go.
type ShipOptions struct {
	URL   string                 // of the other Headroom: https://host:8420
	Token func() (string, error) // asked before each request, and while it waits: a new token is taken up at once
	CA    string                 // file with the certificates to trust besides the system's; "" for none
	Queue queue.Queue            // where batches wait
	Host  string                 // ours: agents that start rounds in the same second send apart
	// Look is told when the other asks for more because somebody looks at this
	// host; may be nil.
	Look func(Look)
}

// Shipper brings batches to another Headroom: Put stores them here, Run sends
// them, in order, and forgets each once the other has it on disk.
type Shipper struct {
	opt  ShipOptions
	post poster
	unit time.Duration // the shortest pause; a second
	mu   sync.Mutex
	st   ShipState
	bad  int    // failures in a row
	used string // the token of the last request
}

// ShipState is how sending goes.
type ShipState struct {
	Paused  string    `json:"paused,omitempty"` // why nothing is sent now
	Hint    string    `json:"hint,omitempty"`
	Last    time.Time `json:"last,omitzero"` // when the other last took something
	Sent    int64     `json:"sent"`          // batches since the start
	Refused int64     `json:"refused"`       // batches set aside for good
}

// NewShipper checks where batches shall go. Plain HTTP is refused except to
// this machine itself: the token and the figures would be readable on the way.
func NewShipper(o ShipOptions) (*Shipper, error) {
	p, err := newPoster(o.URL, o.CA)
	if err != nil {
		return nil, err
	}
	return &Shipper{opt: o, post: p, unit: time.Second}, nil
}

// Put stores a batch until it is sent. It returns nil once the batch is on disk.
func (s *Shipper) Put(ctx context.Context, b *metric.Batch) error {
	for _, part := range b.Split() { // one message holds 1 MiB; a repeat has the same parts
		if err := s.opt.Queue.Put(ctx, part.Encode(nil)); err != nil {
			return err
		}
	}
	return nil
}

// State says how sending goes.
func (s *Shipper) State() ShipState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.st
}

// Limits of sending.
const (
	shipBatches = 128
	shipBytes   = 2 << 20 // of one request
	shipPauses  = 60      // units: the longest pause
	shipSpread  = 800     // milliseconds
)

// Run sends until the context ends; it returns nil then, and the queue's error
// if that stops.
func (s *Shipper) Run(ctx context.Context) error {
	caughtUp := false
	for {
		msgs, err := s.opt.Queue.Fetch(ctx, shipBatches)
		pause := time.Duration(0)
		switch {
		case ctx.Err() != nil:
			s.giveBack(ctx, msgs)
			return nil
		case errors.Is(err, queue.ErrStopped):
			return err
		case err != nil:
			pause = s.note("the queue cannot be read: "+err.Error(), "")
		default:
			if caughtUp {
				s.spread(ctx)
			}
			pause = s.send(ctx, msgs)
		}
		caughtUp = pause == 0 && len(msgs) < shipBatches
		s.rest(ctx, pause)
	}
}

// rest waits before the next try. A token that was changed meanwhile ends it
// within a second: whoever did that looks whether it helps.
func (s *Shipper) rest(ctx context.Context, pause time.Duration) {
	for end := time.Now().Add(pause); ctx.Err() == nil && time.Now().Before(end); {
		sleep(ctx, min(s.unit, time.Until(end)))
		if t, err := s.opt.Token(); err == nil && t != s.used {
			s.mu.Lock()
			s.bad = 0
			s.mu.Unlock()
			return
		}
	}
}

// spread waits a moment that differs from host to host.
func (s *Shipper) spread(ctx context.Context) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.opt.Host))
	sleep(ctx, time.Duration(h.Sum32()%shipSpread)*time.Millisecond)
}

// backOff is the pause after so many failures in a row: doubling, and between
// half and all of that, so that many agents do not come back at once.
func (s *Shipper) backOff(failures int) time.Duration {
	d := min(s.unit<<min(failures-1, 10), shipPauses*s.unit)
	return d/2 + rand.N(d/2)
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// send sends messages in as many requests as their size takes, and returns how
// long to wait before the next try; 0 if all were taken.
func (s *Shipper) send(ctx context.Context, msgs []queue.Message) time.Duration {
	for len(msgs) > 0 {
		n, size := 0, 0
		for n < len(msgs) && (n == 0 || size+len(msgs[n].Data()) <= shipBytes) {
			size += len(msgs[n].Data())
			n++
		}
		if pause := s.request(ctx, msgs[:n]); pause > 0 {
			s.giveBack(ctx, msgs)
			return pause
		}
		msgs = msgs[n:]
	}
	return 0
}

// request sends some messages at once. If the other refuses them for good,
// they are sent one by one, so that only the one that is bad is set aside.
func (s *Shipper) request(ctx context.Context, msgs []queue.Message) time.Duration {
	token, err := s.opt.Token()
	if err != nil {
		s.used = ""
		return s.note(err.Error(), fail.HintOf(err))
	}
	s.used = token
	a := s.post.send(ctx, token, msgs)
	switch {
	case a.stored:
		s.looked(a.look)
		return s.stored(ctx, msgs)
	case a.refused && len(msgs) > 1:
		for i := range msgs {
			if pause := s.request(ctx, msgs[i:i+1]); pause > 0 {
				return pause
			}
		}
		return 0
	case a.refused:
		if err := msgs[0].Kill(ctx, a.why); err != nil {
			return s.note(fmt.Sprintf("a batch that the other refuses cannot be set aside: %v", err), "")
		}
		s.mu.Lock()
		s.st.Refused++
		s.mu.Unlock()
		return 0
	}
	pause := max(s.note(a.why, a.hint), a.pause)
	if a.long {
		pause = max(pause, shipPauses/2*s.unit)
	}
	return pause
}

// stored forgets what the other has on disk. If that fails the messages come
// again, and the other knows them by their IDs.
func (s *Shipper) stored(ctx context.Context, msgs []queue.Message) time.Duration {
	for _, m := range msgs {
		if err := m.Ack(ctx); err != nil {
			return s.note(fmt.Sprintf("what was sent cannot be taken from the queue: %v", err), "")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.st.Paused, s.st.Hint, s.st.Last = "", "", time.Now()
	s.st.Sent += int64(len(msgs))
	s.bad = 0
	return 0
}

// note keeps why nothing is sent, and returns how long to wait.
func (s *Shipper) note(why, hint string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.st.Paused, s.st.Hint = why, hint
	s.bad++
	return s.backOff(s.bad)
}

// giveBack puts messages back in line; those already acknowledged ignore it.
func (s *Shipper) giveBack(ctx context.Context, msgs []queue.Message) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer stop()
	for _, m := range msgs {
		_ = m.Back(ctx, 0) // it comes again by itself when its lease ends
	}
}
