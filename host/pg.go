package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/fail"
)

// Time limits towards a live server. A look that takes longer is given up.
const (
	lookTimeout  = 5 * time.Second
	lockTimeout  = 500 * time.Millisecond
	execTimeout  = 30 * time.Second
	dialTimeout  = 10 * time.Second
	clientLeeway = 2 * time.Second // how much longer than the server we wait before we cut the line
)

// pgLink is the one connection to the server, made at first use and made anew
// when it broke (for example by a restart that we asked for).
type pgLink struct {
	mu      sync.Mutex
	conn    *pgx.Conn
	pooled  bool  // a pooler stands between us and the server
	foreign bool  // messages come in the server's language: we may not choose it
	failed  error // why connecting failed; asked once, so that a dead server costs one time-out
}

// Pooled says whether a connection pooler (PgBouncer and its like) answers in
// the server's place: the process number in the start-up packet is not the
// back end's own. Known after the first PG call.
func (l *Local) Pooled() bool {
	l.pg.mu.Lock()
	defer l.pg.mu.Unlock()
	return l.pg.pooled
}

// close ends the connection and forgets a failure: the next use connects anew.
func (p *pgLink) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = nil
	if p.conn != nil {
		ctx, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		_ = p.conn.Close(ctx)
		p.conn = nil
	}
}

// open connects if need be. p.mu is held.
func (p *pgLink) open(ctx context.Context, o Options) (*pgx.Conn, error) {
	if !o.WithPG {
		return nil, fail.Hint(fmt.Errorf("connect to PostgreSQL: no server named: %w", fail.ErrAbsent),
			"name one with --db DSN or the PG* environment variables")
	}
	if p.conn != nil && !p.conn.IsClosed() {
		return p.conn, nil
	}
	if p.failed == nil || o.Retry {
		p.failed = p.connect(ctx, o)
	}
	return p.conn, p.failed
}

func (p *pgLink) connect(ctx context.Context, o Options) error {
	cfg, err := ParseDSN(o.DSN)
	if err != nil {
		return err
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "headroom"
	}
	// Unnamed statements only: named ones do not survive a pooler.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	if cfg.ConnectTimeout == 0 { // connect_timeout, PGCONNECT_TIMEOUT
		cfg.ConnectTimeout = dialTimeout
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return connectHint(err, cfg)
	}
	var pid uint32
	if err := conn.QueryRow(ctx, "select pg_catalog.pg_backend_pid()").Scan(&pid); err != nil {
		_ = conn.Close(ctx)
		if strings.Contains(err.Error(), "admin console") {
			err = fail.Hint(err, "this is PgBouncer's own console: name a database of the server, e.g. dbname=postgres")
		}
		return fmt.Errorf("ask the server who it is: %w", err)
	}
	p.conn, p.pooled = conn, pid != conn.PgConn().PID()
	return nil
}

// connectHint adds the way out that fits the reason.
func connectHint(err error, cfg *pgx.ConnConfig) error {
	tried := places(cfg)
	cause := plain(err)
	if len(tried) > 1 {
		cause = oneLine(err)
	}
	out := fmt.Errorf("connect to PostgreSQL at %s as %s: %w", strings.Join(tried, ", "), cfg.User, cause)
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return fail.Hint(out, "is the server running there? name another with --db DSN or PGHOST, PGPORT")
	}
	switch pe.Code {
	case "28P01", "28000":
		if pe.Code == "28000" && strings.Contains(strings.ToLower(pe.Message), "peer") || strings.Contains(pe.Message, "does not exist") {
			return fail.Hint(out, "connect as a user that the server knows: --db 'user=…', or run it as the server's account: runuser -u postgres -- headroom …")
		}
		return fail.Hint(out, "give the password in ~/.pgpass or PGPASSWORD, or check pg_hba.conf and the user (PGUSER)")
	case "3D000":
		return fail.Hint(out, "name a database that exists with --db 'dbname=…' or PGDATABASE")
	case "53300":
		return fail.Hint(out, "all connections are taken; try again, or connect as a superuser (reserved connections)")
	case "57P03":
		return fail.Hint(out, "the server is starting up or shutting down; try again in a moment")
	}
	if strings.Contains(pe.Message, "startup parameter") {
		return fail.Hint(out, "a connection pooler is in the way: leave out PGOPTIONS and options=, or connect to the server's own port")
	}
	return fail.Hint(out, "see the server's own words above")
}

// Plainly is err with a failed connection in it told on one line, in the
// server's or the kernel's own words. Other errors come back as they are.
func Plainly(err error) error {
	var ce *pgconn.ConnectError
	if !errors.As(err, &ce) {
		return err
	}
	return &told{strings.Replace(err.Error(), ce.Error(), "connect as "+ce.Config.User+": "+plain(ce).Error(), 1), err}
}

// places names each address that is tried, in order.
func places(cfg *pgx.ConnConfig) (out []string) {
	all := append([]*pgconn.FallbackConfig{{Host: cfg.Host, Port: cfg.Port}}, cfg.Fallbacks...)
	for _, f := range all {
		where := fmt.Sprintf("%s:%d", f.Host, f.Port)
		if strings.HasPrefix(f.Host, "/") {
			where = fmt.Sprintf("socket %s/.s.PGSQL.%d", f.Host, f.Port)
		}
		if !slices.Contains(out, where) {
			out = append(out, where)
		}
	}
	return out
}

// oneLine is err with each of its lines said once, on one line.
func oneLine(err error) error {
	var ce *pgconn.ConnectError
	if errors.As(err, &ce) && ce.Unwrap() != nil {
		err = ce.Unwrap()
	}
	var said []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, line) }) {
			said = append(said, line)
		}
	}
	return &told{strings.Join(said, "; "), err}
}

// told is an error in other words.
type told struct {
	words string
	error
}

func (t *told) Error() string { return t.words }
func (t *told) Unwrap() error { return t.error }

// plain strips pgx's repetition of the connection parameters and keeps the
// server's or the kernel's own words. It never holds the password.
func plain(err error) error {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe
	}
	var no syscall.Errno
	if errors.As(err, &no) { // the kernel's words; the address is told already
		return no
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &told{"it does not answer in time", err}
	}
	return oneLine(err)
}

// PG implements Reader.
func (l *Local) PG(ctx context.Context, f func(context.Context, pgx.Tx) error) error {
	l.pg.mu.Lock()
	defer l.pg.mu.Unlock()
	tx, err := l.pg.begin(ctx, l.opt)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	ctx, stop := context.WithTimeout(ctx, 4*(lookTimeout+clientLeeway))
	defer stop()
	return rights(f(ctx, tx))
}

// ErrConnect is wrapped by errors of Reader.PG and Reader.Console where there
// is no connection, as opposed to a query that failed. Test with errors.Is.
var ErrConnect = errors.New("no connection")

// unconnected marks an error of connecting, in its own words.
func unconnected(err error) error { return &told{err.Error(), errors.Join(ErrConnect, err)} }

// begin connects if need be and begins a transaction for looking. A server
// that was restarted since the last look costs nothing but another connect.
// p.mu is held.
func (p *pgLink) begin(ctx context.Context, o Options) (pgx.Tx, error) {
	fresh := p.conn == nil || p.conn.IsClosed()
	for {
		conn, err := p.open(ctx, o)
		if err != nil {
			return nil, unconnected(err)
		}
		tx, err := look(ctx, conn, p.foreign)
		if isDenied(err) && !p.foreign { // lc_messages takes a superuser
			p.foreign = true
			tx, err = look(ctx, conn, true)
		}
		if err == nil || fresh || ctx.Err() != nil || !conn.IsClosed() && !isGoing(err) {
			return tx, err
		}
		_ = conn.Close(ctx)
		fresh = true
	}
}

// isGoing says whether the server ends the session: it stops or restarts.
func isGoing(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && (pe.Code == "57P01" || pe.Code == "57P02")
}

// look begins a read-only transaction with time limits, in one message. They
// are SET LOCAL and not start-up parameters: a pooler refuses or leaks those.
func look(ctx context.Context, conn *pgx.Conn, foreign bool) (pgx.Tx, error) {
	begin := fmt.Sprintf("begin read only; set local statement_timeout = %d; set local lock_timeout = %d; set local search_path = pg_catalog, pg_temp",
		lookTimeout.Milliseconds(), lockTimeout.Milliseconds())
	if !foreign {
		begin += "; set local lc_messages = 'C'"
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err == nil {
		return tx, nil
	}
	if !conn.IsClosed() {
		_, _ = conn.Exec(context.WithoutCancel(ctx), "rollback", pgx.QueryExecModeSimpleProtocol)
	}
	return nil, fmt.Errorf("begin a read-only transaction with time limits: %w", err)
}

func isDenied(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == "42501"
}

// rights marks the server's "permission denied" as fail.ErrDenied and names
// the GRANT that opens what looking needs.
func rights(err error) error {
	if isDenied(err) {
		return fail.Hint(fmt.Errorf("%w: %w", fail.ErrDenied, err),
			"looking needs no superuser: GRANT pg_monitor TO the user that Headroom connects as")
	}
	return err
}

// PGExec implements Writer.
func (l *Local) PGExec(ctx context.Context, sql string) error {
	l.pg.mu.Lock()
	defer l.pg.mu.Unlock()
	conn, err := l.pg.open(ctx, l.opt)
	if err != nil {
		return err
	}
	if l.pg.pooled {
		return fail.Hint(errors.New("change the server: a connection pooler answers in its place"),
			"connect to the server itself: its own port or socket in --db")
	}
	limits := fmt.Sprintf("set statement_timeout = %d; set lock_timeout = %d",
		execTimeout.Milliseconds(), lockTimeout.Milliseconds())
	if _, err := conn.Exec(ctx, limits, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("set the time limits: %w", err)
	}
	if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		var pe *pgconn.PgError
		if errors.As(err, &pe) && pe.Code == "42501" && strings.HasPrefix(pe.Message, "could not ") { // a file's rights, not the role's
			return fail.Hint(fmt.Errorf("%w: %w", fail.ErrDenied, err), "the server's account must be able to write in its data folder")
		}
		if errors.As(err, &pe) && pe.Code == "42501" {
			return fail.Hint(fmt.Errorf("%w: %w", fail.ErrDenied, err), "connect as a superuser, or let one give the right: %s", grantFor(sql, cfgUser(conn)))
		}
		return err
	}
	return nil
}

func cfgUser(c *pgx.Conn) string { return pgx.Identifier{c.Config().User}.Sanitize() }

// grantFor is the right that a statement of a change takes.
func grantFor(sql, user string) string {
	words := strings.Fields(sql)
	switch {
	case len(words) > 3 && strings.EqualFold(words[0]+" "+words[1], "alter system"):
		return fmt.Sprintf("GRANT ALTER SYSTEM ON PARAMETER %s TO %s (PostgreSQL 15 and newer)", words[3], user)
	case strings.Contains(sql, "pg_reload_conf"):
		return "GRANT EXECUTE ON FUNCTION pg_reload_conf() TO " + user
	case len(words) > 1 && strings.EqualFold(words[1], "extension"):
		return "GRANT CREATE ON DATABASE … TO " + user + " (for extensions that are trusted)"
	}
	return "see the server's own words above"
}

// Ping connects to the server, if that has not been done, and says why it
// cannot be reached.
func (l *Local) Ping(ctx context.Context) error {
	return l.PG(ctx, func(context.Context, pgx.Tx) error { return nil })
}
