package watch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"headroom/metric"
	"headroom/queue"
)

// How the worker takes from the queue. A round is one transaction, which costs
// an fsync: many small batches go into one, few large ones too, so that a round
// is about 1 MiB as queued, 150,000 points.
const (
	roundBytes = 1 << 20
	roundLeast = 8 // batches
	roundMost  = 2000
	holdEvery  = 10 * time.Second // the queue's lease is longer
	retryFirst = 250 * time.Millisecond
	retryMost  = 15 * time.Second
)

// sink is where the worker writes; *store.Store is one.
type sink interface {
	// Write stores the batches in one transaction; those there already, by
	// their ID, are skipped.
	Write(ctx context.Context, batches []*metric.Batch) error
}

// worker moves batches from the queue to the store: a batch leaves the queue
// when the transaction that holds it is committed. What the store cannot take
// now is tried again for as long as it takes; what it will never take is set
// aside with the reason.
type worker struct {
	queue     queue.Queue
	sink      sink
	permanent func(error) bool // no repetition can help
	say       func(string)

	decoder *metric.Decoder

	mu    sync.Mutex
	state WorkerState
}

// WorkerState is how the way from queue to store goes.
type WorkerState struct {
	Stored    int64     // points since the start
	Batches   int64     // batches since the start
	Killed    int64     // batches set aside since the start
	Last      time.Time // when something was stored last; zero: not yet
	Lag       float64   // seconds between a batch's arrival in the queue and its commit, of the last round
	Trouble   string    // why nothing can be stored now; "" if it can
	Since     time.Time // of Trouble
	announced bool
}

// State returns how it goes.
func (w *worker) State() WorkerState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// run works until the context ends. It returns nil then, and an error only if
// the queue itself fails for good.
func (w *worker) run(ctx context.Context) error {
	pause, n := retryFirst, roundLeast
	for ctx.Err() == nil {
		msgs, err := w.queue.Fetch(ctx, n)
		if ctx.Err() != nil {
			w.giveBack(msgs)
			return nil
		}
		if err != nil {
			w.trouble(fmt.Errorf("read the queue: %w", err))
			pause = wait(ctx, pause)
			continue
		}
		pause, n = retryFirst, nextRound(n, msgs)
		if err := w.round(ctx, msgs); err != nil {
			return err
		}
	}
	return nil
}

// nextRound says how many batches of the size of these make a round; it grows
// slowly, so that large ones behind small ones do not fill the memory.
func nextRound(n int, msgs []queue.Message) int {
	size := 0
	for _, m := range msgs {
		size += len(m.Data())
	}
	fit := roundBytes * len(msgs) / max(size, 1)
	return min(max(fit, roundLeast), 4*n, roundMost)
}

// taken is a message and what it holds.
type taken struct {
	msg   queue.Message
	batch *metric.Batch
}

// round stores what was fetched, however long that takes, or gives it back
// when the context ends.
func (w *worker) round(ctx context.Context, msgs []queue.Message) error {
	round := make([]taken, 0, len(msgs))
	for _, m := range msgs {
		b, err := w.decoder.Decode(m.Data())
		if err != nil {
			w.kill(ctx, m, err)
			continue
		}
		round = append(round, taken{m, b})
	}
	if len(round) == 0 {
		return nil
	}
	stop := w.hold(ctx, round)
	defer stop()
	pause := retryFirst
	for {
		err := w.write(ctx, round)
		switch {
		case err == nil:
			w.done(ctx, round)
			return nil
		case ctx.Err() != nil:
			w.giveBack(msgs)
			return nil
		case w.permanent(err) && len(round) == 1:
			w.kill(ctx, round[0].msg, err)
			return nil
		case w.permanent(err):
			stop()
			half := len(round) / 2
			for _, part := range [][]taken{round[:half], round[half:]} {
				if err := w.round(ctx, messages(part)); err != nil {
					return err
				}
			}
			return nil
		}
		w.trouble(err)
		pause = wait(ctx, pause)
	}
}

func messages(part []taken) []queue.Message {
	out := make([]queue.Message, len(part))
	for i := range part {
		out[i] = part[i].msg
	}
	return out
}

func (w *worker) write(ctx context.Context, round []taken) error {
	batches := make([]*metric.Batch, len(round))
	for i := range round {
		batches[i] = round[i].batch
	}
	return w.sink.Write(ctx, batches)
}

// done acknowledges what is committed. A batch whose acknowledgement is lost
// comes again and is skipped by the store.
func (w *worker) done(ctx context.Context, round []taken) {
	now := time.Now()
	points := 0
	for _, t := range round {
		points += t.batch.Len()
		if err := t.msg.Ack(ctx); err != nil && ctx.Err() == nil {
			w.say(fmt.Sprintf("note: batch %s is stored, and the queue did not take that in: %v; it will come again and be skipped", t.batch.ID, err))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.Stored += int64(points)
	w.state.Batches += int64(len(round))
	first := w.state.Last.IsZero()
	w.state.Last = now
	w.state.Lag = max(now.Sub(round[0].msg.Put()).Seconds(), 0) // the clock may have been set back meanwhile
	switch {
	case w.state.announced && !first:
		w.say(fmt.Sprintf("the store takes samples again, after %s", now.Sub(w.state.Since).Round(time.Second)))
	case w.state.announced:
		w.say("the store takes samples")
	}
	w.state.Trouble, w.state.Since, w.state.announced = "", time.Time{}, false
}

// trouble notes why nothing can be stored, and says it once.
func (w *worker) trouble(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state.Trouble == "" {
		w.state.Since = time.Now()
	}
	w.state.Trouble = err.Error()
	if !w.state.announced && time.Since(w.state.Since) > 2*time.Second {
		w.state.announced = true
		if !errors.As(err, new(notOpen)) { // that was said
			w.say("samples wait in the queue: " + words(err))
		}
	}
}

// kill sets a message aside for good.
func (w *worker) kill(ctx context.Context, m queue.Message, why error) {
	if err := m.Kill(ctx, why.Error()); err != nil {
		w.say(fmt.Sprintf("set a batch aside: %v; it will come again", err))
		return
	}
	w.say("a batch was set aside: " + why.Error() + "; headroom up dead lists what was, and puts it back")
	w.mu.Lock()
	w.state.Killed++
	w.mu.Unlock()
}

// hold keeps messages ours while the store is away; the function returned ends
// that and may be called twice.
func (w *worker) hold(ctx context.Context, round []taken) func() {
	ctx, stop := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() {
		tick := time.NewTicker(holdEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				for _, t := range round {
					_ = t.msg.Hold(ctx) // a lease that ends only brings the batch again
				}
			}
		}
	})
	return func() { stop(); ended.Wait() }
}

// giveBack returns messages at the end, so that the next start need not wait
// for their leases.
func (w *worker) giveBack(msgs []queue.Message) {
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	for _, m := range msgs {
		_ = m.Back(ctx, 0) // a lease that ends does the same, later
	}
}

// wait sleeps for d and returns how long to sleep next time.
func wait(ctx context.Context, d time.Duration) time.Duration {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return min(2*d, retryMost)
}
