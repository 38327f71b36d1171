package watch

import (
	"context"
	"errors"

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
