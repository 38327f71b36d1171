// Package letter says what is in dead letters of a queue, and works on several
// of them.
package letter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"headroom/metric"
	"headroom/queue"
)

// Letter is a batch of samples that was set aside.
type Letter struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at,omitzero"` // when it was set aside; zero: damaged
	Reason string    `json:"reason"`
	Bytes  int       `json:"bytes"`
	// What the batch holds, where it can be read; else Unknown says why not.
	Batch   string    `json:"batch,omitempty"` // its ID, by which the store knows it
	Origin  string    `json:"origin,omitempty"`
	Series  int       `json:"series"`
	Points  int       `json:"points"`
	From    time.Time `json:"from,omitzero"`
	To      time.Time `json:"to,omitzero"`
	Unknown string    `json:"unknown_because,omitempty"`
}

// List tells of at most n letters, the newest first, older than the one of the
// ID before; "" begins with the newest.
func List(ctx context.Context, q queue.Queue, before string, n int) ([]Letter, error) {
	dead, err := q.Dead(ctx, before, n)
	if err != nil {
		return nil, err
	}
	out := make([]Letter, len(dead))
	var d metric.Decoder
	for i, l := range dead {
		out[i] = Letter{ID: l.ID, Reason: l.Reason, Bytes: len(l.Data)}
		if !l.At.IsZero() {
			out[i].At = l.At.UTC()
		}
		b, err := d.Decode(l.Data)
		if err != nil {
			out[i].Unknown = err.Error()
			continue
		}
		out[i].describe(b)
	}
	return out, nil
}

func (l *Letter) describe(b *metric.Batch) {
	l.Batch, l.Origin, l.Series, l.Points = b.ID.String(), b.Origin, len(b.Rows), b.Len()
	for _, r := range b.Rows {
		for _, p := range r.Points {
			at := time.UnixMilli(p.At).UTC()
			if l.From.IsZero() || at.Before(l.From) {
				l.From = at
			}
			if at.After(l.To) {
				l.To = at
			}
		}
	}
}

// Outcome is what became of several letters.
type Outcome struct {
	Done   int       `json:"done"`
	Failed []Failure `json:"failed,omitempty"` // the others that were tried
}

// Failure is a letter that stayed as it was.
type Failure struct {
	ID  string `json:"id"`
	Why string `json:"error"`
}

// Retry puts letters back into the queue, in the order given. A letter that is
// not there or damaged is told in the outcome; the error is one that stops all,
// such as a queue that is full, and the outcome holds then what was done before.
func Retry(ctx context.Context, q queue.Queue, ids []string) (Outcome, error) {
	return each(ctx, ids, q.Retry)
}

// Drop removes letters for good. The outcome is as Retry's.
func Drop(ctx context.Context, q queue.Queue, ids []string) (Outcome, error) {
	return each(ctx, ids, q.Drop)
}

func each(ctx context.Context, ids []string, do func(context.Context, string) error) (out Outcome, err error) {
	for _, id := range ids {
		err := do(ctx, id)
		switch {
		case err == nil:
			out.Done++
		case errors.Is(err, queue.ErrNoLetter), errors.Is(err, queue.ErrDamaged):
			out.Failed = append(out.Failed, Failure{id, err.Error()})
		case out.Done > 0:
			return out, fmt.Errorf("after %d: %w", out.Done, err)
		default:
			return out, err
		}
	}
	return out, nil
}
