package watch

import (
	"context"
	"errors"

	"headroom/metric"
	"headroom/queue"
	"headroom/queue/jetstream"
)

// openQueue opens the queue on this machine, or in a cluster where one is
// named.
func openQueue(ctx context.Context, o Options, dir string) (queue.Queue, error) {
	limits := queue.Options{Dir: dir, MaxBytes: o.QueueBytes, Note: o.Say}
	if o.NATS == "" {
		return queue.Open(ctx, limits)
	}
	return jetstream.Connect(ctx, jetstream.ClusterOptions{Options: limits, URL: o.NATS, Creds: o.NATSCreds})
}

// permanentPut says that a batch will never be queued, however often it is
// tried.
func permanentPut(err error) bool { return errors.Is(err, queue.ErrTooLarge) }

// enqueue puts a batch, in parts if it is too large for one message. A repeat
// after an error gives the same parts under the same IDs.
func enqueue(ctx context.Context, q queue.Queue, b *metric.Batch) error {
	for _, part := range b.Split() {
		if err := q.Put(ctx, part.Encode(nil)); err != nil {
			return err
		}
	}
	return nil
}
