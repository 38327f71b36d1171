package upsert

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// wire is a connection over which messages are written as whole buffers. The
// driver makes it (hosts, TLS, passwords) and then hands it over: it would
// copy each batch twice and throw its buffers away.
type wire struct {
	conn  net.Conn
	front *pgproto3.Frontend
	limit time.Duration // for the answer to one batch

	pid      uint32
	since    string // when the backend began, which with pid names it for ever
	pooled   bool   // a pooler stands between: no session state holds
	prepared map[form]bool
	staged   bool
	ended    time.Time // of the last answer
}

// session is what each of our sessions sets; with a pooler, each transaction.
func (o Options) session(local bool) string {
	word := "SET "
	if local {
		word = "SET LOCAL "
	}
	commit, messages := "off", "error"
	switch o.Durability {
	case Local:
		commit = "local"
	case Replicated:
		commit, messages = "remote_apply", "warning" // see errUnreplicated
	}
	settings := []string{
		"synchronous_commit = " + commit,
		fmt.Sprintf("statement_timeout = %d", o.StatementTimeout.Milliseconds()),
		fmt.Sprintf("lock_timeout = %d", o.LockTimeout.Milliseconds()),
		"client_min_messages = " + messages,
		"idle_in_transaction_session_timeout = '60s'", // a client that died must not hold rows
		"standard_conforming_strings = on",
	}
	settings = append(settings,
		"plan_cache_mode = force_generic_plan", "jit = off",
		// With few rows on one side a look-up by key each is right; the
		// planner does not know how few they are.
		"enable_hashjoin = off", "enable_mergejoin = off", "enable_seqscan = off", "enable_bitmapscan = off", "enable_material = off")
	if !local {
		settings = append(settings, "default_transaction_isolation = 'read committed'") // else concurrent writers fail each other
	}
	return word + strings.Join(settings, "; "+word)
}

// config is the caller's, for a server that can be written to.
func (o Options) config() *pgx.ConnConfig {
	c := o.Config.Copy()
	if c.RuntimeParams == nil {
		c.RuntimeParams = map[string]string{}
	}
	c.RuntimeParams["application_name"] = "headroom"
	c.RuntimeParams["client_encoding"] = "UTF8"
	c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = 10 * time.Second
	}
	c.OnNotice, c.OnNotification = nil, nil
	return c
}

// dial connects and readies the session.
func (o Options) dial(ctx context.Context) (*wire, error) {
	pc, err := pgconn.ConnectConfig(ctx, &o.config().Config)
	if err != nil {
		return nil, err
	}
	w, err := take(ctx, pc, o)
	if err != nil {
		_ = pc.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return w, nil
}

func take(ctx context.Context, pc *pgconn.PgConn, o Options) (*wire, error) {
	res := pc.ExecParams(ctx, "SELECT pg_catalog.pg_backend_pid(), (SELECT extract(epoch FROM backend_start)::text FROM pg_catalog.pg_stat_activity WHERE pid = pg_catalog.pg_backend_pid())", nil, nil, nil, nil).Read()
	if res.Err != nil {
		return nil, fmt.Errorf("look at the session: %w", res.Err)
	}
	w := &wire{limit: o.StatementTimeout + 30*time.Second, prepared: map[form]bool{}}
	// A pooler hands out numbers of its own.
	w.pooled = string(res.Rows[0][0]) != fmt.Sprint(pc.PID())
	w.since = string(res.Rows[0][1])
	if !w.pooled {
		if _, err := pc.Exec(ctx, o.session(false)).ReadAll(); err != nil {
			return nil, fmt.Errorf("ready the session: %w", err)
		}
	}
	if err := pc.SyncConn(ctx); err != nil {
		return nil, err
	}
	h, err := pc.Hijack()
	if err != nil {
		return nil, err
	}
	w.conn, w.front, w.pid = h.Conn, h.Frontend, h.PID
	return w, nil
}

func (w *wire) close() {
	_ = w.conn.SetDeadline(time.Now().Add(time.Second))
	_, _ = w.conn.Write([]byte{'X', 0, 0, 0, 4}) // a courtesy: closing ends it as well
	_ = w.conn.Close()
}

// guard bounds what follows in time and by ctx; the function it returns ends that.
func (w *wire) guard(ctx context.Context) func() {
	_ = w.conn.SetDeadline(time.Now().Add(w.limit))
	stop := context.AfterFunc(ctx, func() { _ = w.conn.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }
}

// answer reads up to ReadyForQuery. It returns the first column of the last
// row and the first error, which is a *pgconn.PgError if the connection still
// stands.
func (w *wire) answer() (value string, err error) {
	for {
		m, rerr := w.front.Receive()
		if rerr != nil {
			if err != nil { // the server's last words say more than the lost connection
				return "", &lost{err}
			}
			return "", &lost{rerr}
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			pe := pgconn.ErrorResponseToPgError(m)
			if err == nil {
				err = pe
			}
			if pe.Severity == "FATAL" || pe.SeverityUnlocalized == "FATAL" || pe.SeverityUnlocalized == "PANIC" {
				return "", &lost{pe}
			}
		case *pgproto3.NoticeResponse:
			if m.Routine == "SyncRepWaitForLSN" && err == nil {
				err = errUnreplicated
			}
		case *pgproto3.DataRow:
			if len(m.Values) > 0 {
				value = string(m.Values[0])
			}
		case *pgproto3.CopyInResponse:
			// expected: the data is already on its way
		case *pgproto3.ReadyForQuery:
			w.ended = time.Now()
			return value, err
		}
	}
}

// errUnreplicated: somebody cancelled a commit that waited for a standby. The
// transaction is in, here; the server answers with success and a warning.
var errUnreplicated = errors.New("committed here, and not known to be on a standby")

// awaitStandby commits something small after it: once that is replicated, all
// before it is.
func (w *wire) awaitStandby(ctx context.Context) error {
	defer w.guard(ctx)()
	_, err := w.query("SELECT pg_catalog.pg_logical_emit_message(true, 'headroom', '')")
	return err
}

// lost is an error after which the connection is gone, and whether what was
// under way was done is not known.
type lost struct{ error }

func (l *lost) Unwrap() error { return l.error }

// write sends a buffer whole.
func (w *wire) write(b []byte) error {
	if _, err := w.conn.Write(b); err != nil {
		// The server may have said why before it closed.
		_ = w.conn.SetReadDeadline(time.Now().Add(time.Second))
		_, said := w.answer()
		var pe *pgconn.PgError
		if errors.As(said, &pe) {
			return &lost{pe}
		}
		return &lost{err}
	}
	return nil
}

// query runs SQL in the simple protocol.
func (w *wire) query(sql string) (string, error) {
	out, at := begin(nil, 'Q')
	out = append(append(out, sql...), 0)
	end(out, at)
	if err := w.write(out); err != nil {
		return "", err
	}
	return w.answer()
}

// appendParse has a statement prepared under a name, "" for the next use only.
func appendParse(dst []byte, name, sql string, types []uint32) []byte {
	dst, at := begin(dst, 'P')
	dst = append(append(dst, name...), 0)
	dst = append(append(dst, sql...), 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(types)))
	for _, t := range types {
		dst = binary.BigEndian.AppendUint32(dst, t)
	}
	end(dst, at)
	return dst
}

// ready prepares a form's statements, once for a session.
func (w *wire) ready(p *plan, f form) error {
	if w.pooled || w.prepared[f] {
		return nil
	}
	if (f == stagingForm || f == stagedMerge) && !w.staged {
		if _, err := w.query(p.stageSQL()); err != nil {
			return fmt.Errorf("make a staging table: %w", err)
		}
		w.staged = true
		out := appendParse(nil, "copy", copySQL(), nil)
		if err := w.write(append(out, syncMessage...)); err != nil {
			return err
		}
		if _, err := w.answer(); err != nil {
			return fmt.Errorf("prepare COPY: %w", err)
		}
	}
	out := appendParse(nil, string(f), p.statement(f, false), nil)
	if err := w.write(append(out, syncMessage...)); err != nil {
		return err
	}
	if _, err := w.answer(); err != nil {
		return fmt.Errorf("prepare the statement: %w", err)
	}
	w.prepared[f] = true
	return nil
}
