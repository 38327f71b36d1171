package watch

import (
	"context"

	"headroom/topic/postgres"
)

// sessions lists what runs now on a server that is watched.
func (w *watcher) sessions(ctx context.Context, server string) ([]postgres.Session, error) {
	h, err := w.open(server, nil)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	return postgres.Sessions(ctx, h)
}
