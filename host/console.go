package host

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"headroom/fail"
)

// Table is what a console command answers: texts, "" for NULL.
type Table struct {
	Columns []string
	Rows    [][]string
}

// consoleRows is the most rows that a console command may answer.
const consoleRows = 100_000

// consoleLink is the one connection to PgBouncer's console.
type consoleLink struct {
	mu   sync.Mutex
	conn *pgconn.PgConn
}

func (c *consoleLink) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}

// drop ends the connection. c.mu is held.
func (c *consoleLink) drop() {
	if c.conn != nil {
		ctx, stop := context.WithTimeout(context.Background(), clientLeeway)
		defer stop()
		_ = c.conn.Close(ctx)
		c.conn = nil
	}
}

// consoles are the commands that only show.
var consoles = map[string]bool{
	"show stats": true, "show stats_totals": true, "show pools": true, "show lists": true, "show config": true, "show version": true,
	"show databases": true, "show state": true, "show mem": true,
}

// Console implements Reader.
func (l *Local) Console(ctx context.Context, command string) (Table, error) {
	if !consoles[command] {
		return Table{}, fail.Hint(fmt.Errorf("ask the console %q: not on the list of commands that only show", command),
			"this is a fault in Headroom: a look tried to run a command that could change the pooler")
	}
	if !l.opt.WithPG {
		return Table{}, fmt.Errorf("connect to PgBouncer's console: none named: %w", fail.ErrAbsent)
	}
	ctx, stop := context.WithTimeout(ctx, lookTimeout)
	defer stop()
	l.console.mu.Lock()
	defer l.console.mu.Unlock()
	fresh := l.console.conn == nil || l.console.conn.IsClosed()
	for {
		if fresh {
			if err := l.console.dial(ctx, l.opt.DSN); err != nil {
				return Table{}, unconnected(err)
			}
		}
		t, err := ask(ctx, l.console.conn, command)
		if err == nil {
			return t, nil
		}
		if fresh || !l.console.conn.IsClosed() {
			return Table{}, fmt.Errorf("ask PgBouncer's console to %s: %w", command, plain(err))
		}
		fresh = true // it was restarted since the last time
	}
}

func (c *consoleLink) dial(ctx context.Context, dsn string) error {
	c.drop()
	cfg, err := ParseDSN(dsn)
	if err != nil {
		return err
	}
	cfg.Database = "pgbouncer"
	conn, err := pgconn.ConnectConfig(ctx, &cfg.Config)
	if err != nil {
		var pe *pgconn.PgError
		out := fmt.Errorf("connect to PgBouncer's console as %s: %w", cfg.User, plain(err))
		if errors.As(err, &pe) {
			return fail.Hint(out, "put this user into stats_users of pgbouncer.ini, and its password, if it has one, into ~/.pgpass")
		}
		return fail.Hint(out, "is PgBouncer running there?")
	}
	c.conn = conn
	return nil
}

func ask(ctx context.Context, conn *pgconn.PgConn, command string) (Table, error) {
	var t Table
	mr := conn.Exec(ctx, command)
	for mr.NextResult() {
		rr := mr.ResultReader()
		for _, f := range rr.FieldDescriptions() {
			t.Columns = append(t.Columns, f.Name)
		}
		for rr.NextRow() {
			if len(t.Rows) == consoleRows {
				_ = mr.Close()
				return Table{}, errors.New("more than 100000 rows")
			}
			row := make([]string, len(rr.Values()))
			for i, v := range rr.Values() {
				row[i] = string(v)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t, mr.Close()
}
