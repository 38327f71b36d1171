package watch

import (
	"context"
	"errors"

	"headroom/queue"
)

// openQueue opens the queue on this machine, or in a cluster where one is
// named.
func openQueue(ctx context.Context, o Options, dir string, say func(string)) (queue.Queue, error) {
	return queue.Open(ctx, queue.Options{Dir: dir, MaxBytes: o.QueueBytes, Note: say})
}

// permanentPut says that a batch will never be queued, however often it is
// tried.
func permanentPut(err error) bool { return errors.Is(err, queue.ErrTooLarge) }
