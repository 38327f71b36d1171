package upsert

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/fail"
)

// side is a connection for questions, beside those that write.
type side struct {
	opt *Options

	mu    sync.Mutex
	conn  *pgx.Conn
	local bool              // a pooler stands between: settings must end with the transaction
	seen  map[string]string // how the server writes a value, by column and text
	first string            // WAL position at the beginning
	wal   atomic.Int64      // bytes since then; -1 unknown
}

// maxSeen bounds how many answers are kept.
const maxSeen = 20_000

// connected is the connection, made anew if it broke; with s.mu held.
func (s *side) connected(ctx context.Context) (*pgx.Conn, error) {
	if s.conn != nil && !s.conn.IsClosed() {
		return s.conn, nil
	}
	c := s.opt.config()
	c.DefaultQueryExecMode = pgx.QueryExecModeExec // works through any pooler
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	var pid uint32
	if err = conn.QueryRow(ctx, "SELECT pg_catalog.pg_backend_pid()").Scan(&pid); err == nil {
		if s.local = pid != conn.PgConn().PID(); !s.local {
			_, err = conn.Exec(ctx, sideSettings("SET "), pgx.QueryExecModeSimpleProtocol)
		}
	}
	if err != nil {
		_ = conn.Close(ctx)
		return nil, fmt.Errorf("ready the session: %w", err)
	}
	s.conn = conn
	return conn, nil
}

func sideSettings(word string) string {
	return word + strings.Join([]string{"statement_timeout = '60s'", "lock_timeout = '10s'", "standard_conforming_strings = on",
		"datestyle = 'ISO'", "intervalstyle = 'postgres'", "bytea_output = 'hex'", "extra_float_digits = 1"}, "; "+word)
}

// set runs f with the settings in force.
func (s *side) set(ctx context.Context, conn *pgx.Conn, f func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if s.local {
			if _, err := tx.Exec(ctx, sideSettings("SET LOCAL "), pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
		}
		return f(tx)
	})
}

func (s *side) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		ctx, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		_ = s.conn.Close(ctx)
		s.conn = nil
	}
}

// prepare looks at the table and checks all that can be checked beforehand.
func (s *side) prepare(ctx context.Context) (*plan, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	conn, err := s.connected(ctx)
	if err != nil {
		return nil, err
	}
	o := s.opt
	t, err := Describe(ctx, conn, o.Table.SQL(), columnNames(o.Table.Key), columnNames(o.Table.Values))
	if err != nil {
		return nil, err
	}
	if err := durable(ctx, conn, *o, t); err != nil {
		return nil, err
	}
	if o.Mode == Add {
		make := makeFence
		if o.Source != "" {
			make = makeSource
		}
		if err := make(ctx, conn); err != nil {
			return nil, err
		}
	}
	zone := ""
	if z := conn.PgConn().ParameterStatus("TimeZone"); slices.Contains([]string{"UTC", "Etc/UTC", "GMT", "Etc/GMT"}, z) {
		zone = z
	}
	p, err := newPlan(*o, t, zone)
	if err != nil {
		return nil, err
	}
	err = s.set(ctx, conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, explain(conflictForm, p), pgx.QueryExecModeSimpleProtocol)
		return err
	})
	if err != nil {
		return nil, denied(err, p)
	}
	s.wal.Store(-1)
	if err := conn.QueryRow(ctx, "SELECT pg_catalog.pg_current_wal_insert_lsn()::text").Scan(&s.first); err == nil {
		s.wal.Store(0)
	}
	return p, nil
}

func columnNames(cols []Column) []string {
	var out []string
	for _, c := range cols {
		out = append(out, c.Name)
	}
	return out
}

// denied adds the way out where a right is missing.
func denied(err error, p *plan) error {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) || pe.Code != "42501" {
		return fmt.Errorf("try the statement: %w", err)
	}
	rights := "SELECT, INSERT"
	if p.mode != Ignore {
		rights += ", UPDATE"
	}
	return fail.Hint(fmt.Errorf("try the statement: %w", err), "GRANT %s ON %s TO the role that connects (and USAGE on its schema)", rights, p.table.SQL())
}

// durable checks that the server can keep what the durability promises.
func durable(ctx context.Context, conn *pgx.Conn, o Options, t Table) error {
	var standbys, fsync, fullPages string
	if err := conn.QueryRow(ctx, "SELECT current_setting('synchronous_standby_names'), current_setting('fsync'), current_setting('full_page_writes')").Scan(&standbys, &fsync, &fullPages); err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	name := t.SQL()
	switch {
	case o.Durability == Memory && !t.Unlogged:
		return fail.With(fail.Hint(fmt.Errorf("durability memory is for unlogged tables, and %s is logged", name),
			"use durability async, or make it unlogged: ALTER TABLE %s SET UNLOGGED", name), fail.Usage)
	case o.Durability != Memory && t.Unlogged:
		return fail.With(fail.Hint(fmt.Errorf("durability %s cannot be kept: %s is unlogged, and a crash of the server empties it", o.Durability, name),
			"use durability memory, or make it crash-safe: ALTER TABLE %s SET LOGGED", name), fail.Usage)
	case o.Durability == Replicated && strings.TrimSpace(standbys) == "":
		return fail.Hint(errors.New("durability replicated needs a synchronous standby, and synchronous_standby_names is empty: a commit would wait for nobody"),
			"name the standby in synchronous_standby_names, or use durability local")
	}
	if fsync == "off" && o.Durability != Memory {
		o.say("the server runs with fsync = off: no durability survives a crash of its machine")
	} else if fullPages == "off" && o.Durability != Memory {
		o.say("the server runs with full_page_writes = off: a crash of its machine may tear pages")
	}
	return nil
}

// ask has the server write a key's value its own way. Answers are kept.
func (s *side) ask(ctx context.Context, c *column, text []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := c.sql + "\x00" + string(text)
	if v, ok := s.seen[id]; ok {
		return []byte(v), nil
	}
	var v string
	err := s.persist(ctx, func(conn *pgx.Conn) error {
		return s.set(ctx, conn, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, "SELECT $1::text::"+c.cast+"::text", string(text)).Scan(&v)
		})
	})
	if err != nil {
		return nil, err
	}
	if len(s.seen) >= maxSeen || s.seen == nil {
		s.seen = map[string]string{}
	}
	s.seen[id] = v
	return []byte(v), nil
}

// persist asks again while the server cannot be reached; with s.mu held.
func (s *side) persist(ctx context.Context, f func(*pgx.Conn) error) error {
	for w := newWait(s.opt.RetryFor); ; {
		conn, err := s.connected(ctx)
		if err == nil {
			err = f(conn)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		if k := classify(err, false); k != passing && k != reconnect {
			return err
		}
		if werr := w.next(ctx); werr != nil {
			return fmt.Errorf("%w: %w", werr, err)
		}
	}
}

// fate says whether a batch was committed, after its transaction has ended.
func (s *side) fate(ctx context.Context, xid string, f fence) (committed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := newWait(s.opt.RetryFor); ; {
		var status *string
		err := s.persist(ctx, func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT pg_catalog.pg_xact_status($1::text::pg_catalog.xid8)", xid).Scan(&status)
		})
		var pe *pgconn.PgError
		switch {
		case errors.As(err, &pe) && pe.Code == "22023": // in the future: it was lost with a crash or a fail-over
			return false, nil
		case err != nil:
			return false, fmt.Errorf("ask what became of transaction %s: %w", xid, err)
		case status != nil && *status == "aborted":
			return false, nil
		case status == nil || *status == "committed":
			err := s.persist(ctx, func(conn *pgx.Conn) (err error) {
				committed, err = f.noted(ctx, conn)
				return err
			})
			if err != nil {
				err = fmt.Errorf("ask what became of transaction %s: %w", xid, err)
			}
			return committed, err
		}
		if err := w.next(ctx); err != nil {
			return false, fmt.Errorf("ask what became of transaction %s: %w", xid, err)
		}
	}
}

// watchWAL measures the server's WAL once a second.
func (s *side) watchWAL(ctx context.Context) func() {
	return func() {
		t := time.NewTicker(time.Second)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			s.measureWAL(ctx)
		}
	}
}

func (s *side) measureWAL(ctx context.Context) {
	if !s.mu.TryLock() { // busy with a question
		return
	}
	defer s.mu.Unlock()
	if s.first == "" {
		return
	}
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	conn, err := s.connected(ctx)
	if err != nil {
		return // the writing connections tell of that
	}
	var n int64
	err = conn.QueryRow(ctx, "SELECT (pg_catalog.pg_current_wal_insert_lsn() - $1::text::pg_catalog.pg_lsn)::bigint", s.first).Scan(&n)
	if err == nil { // else the last figure stays
		s.wal.Store(n)
	}
}
