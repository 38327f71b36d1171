package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/engine/readtable"
)

// keeper refreshes the read table while rows come in.
type keeper struct {
	o    Options
	t    readtable.Table
	stop context.CancelFunc
	all  sync.WaitGroup
	conn *pgx.Conn // used by one goroutine at a time

	mu   sync.Mutex
	n    int
	last readtable.Done
}

// newKeeper begins to refresh.
func newKeeper(ctx context.Context, o Options, t readtable.Table) *keeper {
	k := &keeper{o: o, t: t}
	ctx, k.stop = context.WithCancel(ctx)
	k.all.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(o.Refresh):
			}
			// A refresh that fails costs freshness, and the next one makes up for it.
			if err := k.refresh(ctx); err != nil && ctx.Err() == nil {
				o.say("%v; it is tried again in %s", err, o.Refresh)
			}
		}
	})
	return k
}

func (k *keeper) refresh(ctx context.Context) error {
	if k.conn == nil || k.conn.IsClosed() {
		conn, err := Connect(ctx, k.o.Config)
		if err != nil {
			return fmt.Errorf("refresh %s: %w", k.t.SQL(), err)
		}
		k.conn = conn
	}
	d, err := k.t.Refresh(ctx, k.conn)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n++
	k.last = d
	return nil
}

// end stops refreshing; if all rows are in, after one more refresh.
func (k *keeper) end(ctx context.Context, whole bool) error {
	k.stop()
	k.all.Wait()
	if !whole {
		return nil
	}
	err := k.refresh(ctx)
	for errors.Is(err, readtable.ErrBusy) { // whoever is at it began before our last rows
		select {
		case <-ctx.Done():
			return err
		case <-time.After(200 * time.Millisecond):
		}
		err = k.refresh(ctx)
	}
	return err
}

// close frees the connection.
func (k *keeper) close() {
	k.stop()
	k.all.Wait()
	if k.conn != nil {
		ctx, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		_ = k.conn.Close(ctx)
	}
}

// told is what was done: the copy's name, refreshes, and the last of them.
func (k *keeper) told() (name string, n int, last readtable.Done) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.t.SQL(), k.n, k.last
}
