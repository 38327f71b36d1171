package watch

import (
	"context"
	"errors"
	"fmt"

	"headroom/agent"
	"headroom/fail"
	"headroom/host"
	"headroom/metric"
	"headroom/topic/postgres"
)

// sessions lists what runs now on a server that is watched.
func (w *watcher) sessions(ctx context.Context, server string) ([]postgres.Session, error) {
	return sessionsOn(ctx, w.targets(), server)
}

// sessionsOn lists what runs now on one of the targets.
func sessionsOn(ctx context.Context, targets []agent.Target, server string) ([]postgres.Session, error) {
	for _, t := range targets {
		if t.Kind != metric.Postgres || t.Name != server {
			continue
		}
		if t.Missing != "" {
			return nil, fail.Hint(errors.New(t.Missing), "%s", t.Hint)
		}
		h := host.Open(host.Options{DSN: t.DSN, WithPG: true})
		defer h.Close()
		return postgres.Sessions(ctx, h)
	}
	return nil, fmt.Errorf("list the sessions of %q: it is not watched here", server)
}
