package bulkload

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// crew is the connections that carry rows. They are dialed all at once, while
// the load is being written down.
type crew struct {
	stop  context.CancelFunc // ends the dialing
	dials chan dialed
	all   int
	taken atomic.Int32
}

type dialed struct {
	conn *pgx.Conn
	err  error
}

// call begins to dial as many connections as the plan says.
func (j *job) call(ctx context.Context) *crew {
	ctx, stop := context.WithCancel(ctx)
	c := &crew{stop: stop, all: j.Plan.Connections, dials: make(chan dialed, j.Plan.Connections)}
	cfg := j.o.Config
	for range c.all {
		go func() {
			conn, err := dial(ctx, cfg, map[string]string{
				"synchronous_commit": "off", // the end of the load is committed durably, and with it all before
				"lock_timeout":       "60s", "statement_timeout": "0", "idle_in_transaction_session_timeout": "0",
			})
			c.dials <- dialed{conn, err}
		}()
	}
	return c
}

// take returns a connection, which is then the caller's to close.
func (c *crew) take(ctx context.Context) (*pgx.Conn, error) {
	select {
	case d := <-c.dials:
		c.taken.Add(1)
		return d.conn, d.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// dismiss closes what nobody took, once nobody takes any more.
func (c *crew) dismiss() {
	c.stop()
	for range c.all - int(c.taken.Load()) {
		if d := <-c.dials; d.conn != nil {
			_ = d.conn.Close(context.Background())
		}
	}
}
