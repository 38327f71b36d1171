package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"headroom/engine/pgwire"
	"headroom/fail"
	"headroom/trial"
)

// trialSchema holds the tables of all workloads, so that taking them away
// touches nothing else. On a live server a schema of that name is ours only if
// its comment says so.
const trialSchema = "headroom_trial"

const (
	schemaNote = "made by headroom try; safe to drop"
	// schemaLock is the advisory lock, for each database, of who works in the
	// schema: the letters "headroom".
	schemaLock = 0x68656164726f6f6d
)

// schema is our schema on a live server, held by a session of its own: no two
// trials work in it, and what a killed one left is known as such. On a private
// server nobody else is about.
type schema struct {
	lock *pgwire.Conn
	mine bool // made by us, and not yet removed
}

// make makes the schema, empty. It refuses to touch one that is not ours or
// that another trial works in.
func (h *schema) make(ctx context.Context, s *trial.Stand, say func(string)) error {
	if s.Live {
		if err := h.claim(ctx, s, say); err != nil {
			return err
		}
	}
	h.mine = true
	err := script(ctx, s.DSN, "drop schema if exists "+trialSchema+" cascade", "create schema "+trialSchema,
		"comment on schema "+trialSchema+" is '"+schemaNote+"'")
	return fail.Hint(err, "the trial needs a schema of its own: %s", grantCreate(err))
}

func grantCreate(err error) string {
	var se *pgwire.ServerError
	if errors.As(err, &se) && se.Code == "42501" {
		return "GRANT CREATE ON DATABASE … TO the role that you connect as"
	}
	return "run it again when the server lets it be made"
}

// claim takes the lock and looks whose the schema is.
func (h *schema) claim(ctx context.Context, s *trial.Stand, say func(string)) (err error) {
	if h.lock, err = pgwire.Connect(ctx, s.DSN); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.free())
		}
	}()
	got, err := one(ctx, h.lock, fmt.Sprintf("select pg_try_advisory_lock(%d)", schemaLock))
	if err != nil {
		return err
	}
	if got != "t" {
		return fail.With(fail.Hint(errors.New("use schema "+trialSchema+": another trial works in it on this server"), "wait until that trial ends"), fail.Locked)
	}
	note, err := one(ctx, h.lock, "select coalesce(obj_description(oid, 'pg_namespace'), 'nobody') from pg_namespace where nspname = '"+trialSchema+"'")
	switch {
	case err != nil:
		return err
	case note == schemaNote:
		say(trial.Found + "schema " + trialSchema + ", which an interrupted trial left, is removed")
	case note != "":
		return fail.Hint(errors.New("use schema "+trialSchema+": there is one on this server that no trial made (its comment is not ours), and it is left alone"),
			"rename it: ALTER SCHEMA %s RENAME TO …", trialSchema)
	}
	return nil
}

// keep takes the lock again if the server was restarted meanwhile.
func (h *schema) keep(ctx context.Context, s *trial.Stand) error {
	if h.lock == nil {
		return nil
	}
	if _, err := one(ctx, h.lock, "select 1"); err == nil {
		return nil
	}
	_ = h.free()
	var err error
	if h.lock, err = pgwire.Connect(ctx, s.DSN); err != nil {
		return err
	}
	_, err = one(ctx, h.lock, fmt.Sprintf("select pg_try_advisory_lock(%d)", schemaLock))
	return err
}

// remove takes the schema away, if we made it.
func (h *schema) remove(ctx context.Context, s *trial.Stand) error {
	var err error
	if h.mine {
		if err = script(ctx, s.DSN, "drop schema if exists "+trialSchema+" cascade"); err != nil {
			err = fail.Hint(fmt.Errorf("remove the trial's tables: %w", err), "take them away by hand: DROP SCHEMA %s CASCADE", trialSchema)
		}
	}
	h.mine = false
	_ = h.free() // what closing says does not matter
	return err
}

func (h *schema) free() error {
	if h.lock == nil {
		return nil
	}
	c := h.lock
	h.lock = nil
	// The server ends a session, and with it the lock, some time after we are gone.
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	_, _ = one(ctx, c, "select pg_advisory_unlock_all()") // a broken connection has none
	return c.Close()
}

// one is the first value of a query, "" if there is none.
func one(ctx context.Context, c *pgwire.Conn, sql string) (v string, err error) {
	defer c.Watch(ctx)()
	c.Query(sql)
	_, err = c.Do(&pgwire.Handler{Row: func(_ int, row [][]byte) error { v = string(row[0]); return nil }})
	return v, err
}
