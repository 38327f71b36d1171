package watch

import (
	"context"
	"encoding/json"
	"time"

	"headroom/peer"
	"headroom/store"
)

// When what other hosts told goes into the store, and how long it stays there.
const (
	keepEvery = 2 * time.Second
	keepTold  = 14 * 24 * time.Hour
)

// newBook makes the book of other hosts. A machine that is watched from within
// speaks for itself.
func (o Options) newBook() *peer.Book {
	p := peer.Options{Silent: o.Silent, Keep: keepTold}
	if !o.NoCollect {
		p.Own = o.Host
	}
	return peer.NewBook(p)
}

// keepHosts has the store keep what other hosts told, and puts back what it
// kept before the start. While the store is away what is told is in memory; what
// was told last is kept at the end.
func (w *watcher) keepHosts(ctx context.Context) error {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	restored, said := false, ""
	for {
		if s, err := w.house.get(); err == nil {
			if !restored {
				restored, err = restore(ctx, s, w.hosts)
			}
			if err == nil {
				err = keep(ctx, s, w.hosts)
			}
			if err != nil && err.Error() != said && ctx.Err() == nil {
				said = err.Error()
				w.o.Say("note: what other hosts told of themselves is not in the store: " + words(err))
			}
		}
		select {
		case <-ctx.Done():
			return w.keepLast(ctx)
		case <-tick.C:
		}
	}
}

// keepLast keeps what was told since the last round.
func (w *watcher) keepLast(ctx context.Context) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
	defer stop()
	if s, err := w.house.get(); err == nil {
		_ = keep(ctx, s, w.hosts) // hosts tell it again
	}
	return nil
}

func restore(ctx context.Context, s *store.Store, b *peer.Book) (bool, error) {
	list, err := s.Told(ctx, time.Now().Add(-keepTold))
	if err != nil {
		return false, err
	}
	kept := make([]peer.Kept, len(list))
	for i, t := range list {
		kept[i] = peer.Kept{Host: t.Host, Kind: peer.Kind(t.Kind), Received: t.At, Body: t.Body}
	}
	b.Restore(kept)
	return true, nil
}

// keep stores what was told since the last time: whole, and the findings in
// the history of their host as well.
func keep(ctx context.Context, s *store.Store, b *peer.Book) error {
	list := b.Unkept()
	told := make([]store.Told, len(list))
	for i, k := range list {
		told[i] = store.Told{Host: k.Host, Kind: string(k.Kind), At: k.Received, Body: k.Body}
	}
	if err := s.PutTold(ctx, told); err != nil {
		return err
	}
	for _, k := range list {
		d, ok := b.Told(k.Host, peer.Findings)
		if k.Kind != peer.Findings || !ok {
			continue
		}
		if err := s.PutFindings(ctx, store.Findings{Host: k.Host, At: d.Received, Body: brief(d.Inspections)}); err != nil {
			return err
		}
	}
	b.IsKept(list)
	return nil
}

// brief is findings as the store's history has them.
func brief(list []peer.Inspection) json.RawMessage {
	body, err := json.Marshal(briefly(list))
	if err != nil {
		return json.RawMessage("[]") // texts only: it cannot fail
	}
	return body
}
