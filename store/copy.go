package store

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// copyIn runs COPY FROM STDIN with what r gives. When it returns, r is not read
// any more: where a connection breaks, pgx returns while it may still read.
func copyIn(ctx context.Context, c *pgconn.PgConn, r io.Reader, sql string) error {
	l := &lent{r: r}
	defer l.end()
	_, err := c.CopyFrom(ctx, l, sql)
	return err
}

// lent is a reader until its end.
type lent struct {
	mu sync.Mutex
	r  io.Reader
}

var errTakenBack = errors.New("the copy is over")

func (l *lent) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.r == nil {
		return 0, errTakenBack
	}
	return l.r.Read(p)
}

// end waits for a Read that is under way; there is none after it.
func (l *lent) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.r = nil
}
