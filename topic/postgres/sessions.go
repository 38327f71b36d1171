package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"headroom/host"
	"headroom/probe/pg"
)

// queryShown is how many characters of a statement are shown in the list of
// sessions.
const queryShown = 1000

// Session is one session of the server as pg_stat_activity shows it. Times are
// in seconds; nil is "not so now", or hidden.
type Session struct {
	PID         int32    `json:"pid"`
	Leader      int32    `json:"leader,omitempty"` // of a parallel worker: the session that it works for
	User        string   `json:"user,omitempty"`
	Database    string   `json:"database,omitempty"`
	Application string   `json:"application,omitempty"`
	Client      string   `json:"client,omitempty"`  // address; "" over a socket, or hidden
	Backend     string   `json:"backend,omitempty"` // client backend, autovacuum worker …
	State       string   `json:"state,omitempty"`   // active, idle, idle in transaction …; "" of the server's own processes
	WaitType    string   `json:"wait_type,omitempty"`
	Wait        string   `json:"wait,omitempty"`
	BlockedBy   []int32  `json:"blocked_by,omitempty"` // of the 100 that have waited longest: sessions that hold what it waits for; 0 is a prepared transaction
	Connected   *float64 `json:"connected_seconds"`    // since it began
	Transaction *float64 `json:"transaction_seconds"`  // since its transaction began
	Statement   *float64 `json:"statement_seconds"`    // since its statement began, which may have ended
	InState     *float64 `json:"state_seconds"`        // since it is in this state
	// Query is the statement that it runs, or ran last, as Redact leaves it:
	// never a literal, never a comment.
	Query string `json:"query,omitempty"`
	// Hidden says that we may not see what this session does:
	// GRANT pg_monitor opens it.
	Hidden bool `json:"hidden,omitempty"`
}

// Sessions lists the server's sessions, ours left out, at most 500: active
// ones first, of them the oldest transaction first. The list is for eyes now:
// it is in no metric.
func Sessions(ctx context.Context, r host.Reader) ([]Session, error) {
	var out []Session
	err := look(ctx, r, func(ctx context.Context, tx pgx.Tx) error {
		sql, err := pg.SQL(metricSQL, "sql", "sessions", pg.Major(tx))
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, sql)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, scanSession)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the sessions: %w", err)
	}
	return out, nil
}

func scanSession(row pgx.CollectableRow) (Session, error) {
	var s Session
	var state, waitType, wait, query *string
	var hidden *bool
	err := row.Scan(&s.PID, &s.Leader, &s.User, &s.Database, &s.Application, &s.Client, &s.Backend, &state, &waitType, &wait,
		&s.BlockedBy, &s.Connected, &s.Transaction, &s.Statement, &s.InState, &query, &hidden)
	s.State, s.WaitType, s.Wait = text(state), text(waitType), text(wait)
	s.Hidden = hidden != nil && *hidden
	if !s.Hidden {
		s.Query = Redact(text(query), queryShown)
	}
	return s, err
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
