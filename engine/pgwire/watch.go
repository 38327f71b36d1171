package pgwire

import (
	"context"
	"time"
)

// The server is asked this often to stop, since a request that arrives between
// two statements is lost; after the patience ends the socket is shut.
const (
	cancelEvery    = 25 * time.Millisecond
	cancelPatience = 100 * time.Millisecond
)

// Watch ties c to ctx until stop is called: when ctx ends, the statement that
// runs is cancelled on the server, and if its round trip has not ended within
// 100 ms, c is interrupted. stop must be called, and before the next use of c
// under another context; it returns only when no cancel request is under way.
func (c *Conn) Watch(ctx context.Context) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	done, left := make(chan struct{}), make(chan struct{})
	off := context.AfterFunc(ctx, func() {
		defer close(left)
		c.cancelUntil(done, context.Cause(ctx))
	})
	return func() {
		close(done)
		if !off() {
			<-left
		}
	}
}

func (c *Conn) cancelUntil(done <-chan struct{}, cause error) {
	limit, stop := context.WithTimeout(context.Background(), cancelPatience)
	defer stop()
	tick := time.NewTicker(cancelEvery)
	defer tick.Stop()
	for {
		// A refused request is repeated; the last resort needs no server.
		_ = c.Cancel(limit)
		select {
		case <-done:
			return
		case <-limit.Done():
			c.Interrupt(cause)
			return
		case <-tick.C:
		}
	}
}

// Exec runs sql, one or more statements, in the simple protocol and under ctx.
func (c *Conn) Exec(ctx context.Context, sql string) (Reply, error) {
	if err := ctx.Err(); err != nil {
		return Reply{}, context.Cause(ctx)
	}
	defer c.Watch(ctx)()
	c.Query(sql)
	return c.Do(nil)
}
