// Package pgwire is a lean PostgreSQL connection for driving load.
//
// Connecting is pgconn's work, so addresses, environment, password and service
// files, TLS and authentication behave as in libpq. After that the package
// speaks protocol 3 itself, with buffers that are kept: a round trip allocates
// nothing. A plain socket is read and written with blocking system calls,
// which cost less per round trip than the runtime's poller; so give each busy
// Conn its own goroutine.
//
// A request is built with Parse, Bind, Execute, Sync or Query and sent by Do,
// which also reads every answer. Any number of statements may travel in one
// round trip.
package pgwire

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"headroom/host"
)

// ErrLost is in the chain of every error after which the connection cannot be
// used any more: the server went away, a deadline passed, or the bytes that
// came are not the protocol.
var ErrLost = errors.New("connection lost")

// Config says where and how to connect.
type Config struct{ pg *pgconn.Config }

// ParseConfig reads a libpq connection string as host.ParseDSN does. The application name is
// "headroom" unless one is given.
func ParseConfig(dsn string) (*Config, error) {
	cfg, err := host.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	pg := &cfg.Config
	if pg.RuntimeParams["application_name"] == "" {
		pg.RuntimeParams["application_name"] = "headroom"
	}
	return &Config{pg}, nil
}

// Conn is one connection. It is for one goroutine at a time, but for Cancel,
// Interrupt, SetDeadline and Watch, which any goroutine may call.
type Conn struct {
	origin *pgconn.PgConn // made the connection; only good for cancelling now
	link   transport
	pid    uint32
	params map[string]string
	in     reader
	out    []byte
	units  int // Sync and Query messages in out
	status byte
	values [][]byte
	tag    []byte
	lost   error // sticky

	mu       sync.Mutex
	closed   bool
	cause    error // why it was interrupted
	deadline *time.Timer
}

// Connect opens a connection as ParseConfig reads dsn.
func Connect(ctx context.Context, dsn string) (*Conn, error) {
	cfg, err := ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	return cfg.Connect(ctx)
}

// Connect opens a connection. Errors are pgconn's: they name the address and
// never the password.
func (c *Config) Connect(ctx context.Context) (*Conn, error) {
	pg, err := pgconn.ConnectConfig(ctx, c.pg)
	if err != nil {
		return nil, err
	}
	if err := pg.SyncConn(ctx); err != nil {
		pg.Close(ctx)
		return nil, err
	}
	h, err := pg.Hijack()
	if err != nil {
		pg.Close(ctx)
		return nil, fmt.Errorf("take over connection: %w", err)
	}
	link, err := newTransport(h.Conn)
	if err != nil {
		h.Conn.Close()
		return nil, fmt.Errorf("take over connection: %w", err)
	}
	return newConn(link, pg, h), nil
}

func newConn(link transport, origin *pgconn.PgConn, h *pgconn.HijackedConn) *Conn {
	return &Conn{origin: origin, link: link, pid: h.PID, params: maps.Clone(h.ParameterStatuses),
		in: reader{src: link}, out: make([]byte, 0, 8192), status: h.TxStatus}
}

// PID is the server's process number of this connection.
func (c *Conn) PID() uint32 { return c.pid }

// Parameter is the last value the server reported for one of its settings,
// such as server_version, or "".
func (c *Conn) Parameter(name string) string { return c.params[name] }

// TxStatus is the server's word after the last round trip: 'I' idle, 'T' in a
// transaction, 'E' in a failed one.
func (c *Conn) TxStatus() byte { return c.status }

// Lost is nil while the connection can be used.
func (c *Conn) Lost() error { return c.lost }

// SetWait has c wait for answers by calling wait with its descriptor instead of
// blocking its thread, so that one thread can serve several connections; nil
// brings blocking back. A connection over TLS takes no notice.
func (c *Conn) SetWait(wait func(fd int)) {
	if s, ok := c.link.(*socket); ok {
		s.wait = wait
	}
}

// Cancel asks the server, over a connection of its own, to stop the statement
// that runs on c. The statement's round trip then ends with SQLSTATE 57014. It
// does nothing if no statement runs.
func (c *Conn) Cancel(ctx context.Context) error {
	if err := c.origin.CancelRequest(ctx); err != nil {
		return fmt.Errorf("cancel statement: %w", err)
	}
	return nil
}

// Interrupt makes the round trip that runs on c, and all later ones, fail at
// once with ErrLost and cause, which is not nil.
func (c *Conn) Interrupt(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.cause != nil {
		return
	}
	c.cause = cause
	c.link.interrupt()
}

// SetDeadline interrupts the connection at t, with context.DeadlineExceeded as
// cause; the zero time takes the deadline back.
func (c *Conn) SetDeadline(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deadline != nil {
		c.deadline.Stop()
		c.deadline = nil
	}
	if !t.IsZero() && !c.closed {
		c.deadline = time.AfterFunc(time.Until(t), func() { c.Interrupt(context.DeadlineExceeded) })
	}
}

// Close says goodbye to the server and frees the socket. A Conn that was
// interrupted must be closed too.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	if c.deadline != nil {
		c.deadline.Stop()
	}
	if c.lost == nil && c.cause == nil {
		// A server that does not read any more gets no goodbye; five bytes
		// always fit into an idle socket.
		_, _ = c.link.Write([]byte{'X', 0, 0, 0, 4})
	}
	if c.lost == nil {
		c.lost = fmt.Errorf("%w: it was closed", ErrLost)
	}
	return c.link.Close()
}

func (c *Conn) lose(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		err = c.cause
	}
	if c.lost == nil {
		c.lost = fmt.Errorf("%w: %w", ErrLost, err)
	}
	return c.lost
}
