package bulkload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/crash"
	"headroom/fail"
)

// takeTable locks the table for the load's first step and sees that it is as
// the plan has it. Who waits for a lock holds up all that come after, so it
// gives up soon and says who stands in the way; nobody is ended.
func (j *job) takeTable(ctx context.Context, tx pgx.Tx) error {
	t := j.table()
	for _, sql := range []string{
		fmt.Sprintf("set local lock_timeout = %d; set local statement_timeout = 0", j.o.lockTimeout().Milliseconds()),
		"lock table " + t.ident() + " in access exclusive mode",
	} {
		if _, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return j.blocked(ctx, fmt.Errorf("take table %s: %w", t, err), t.OID)
		}
	}
	now, err := lookIn(ctx, tx, t.OID)
	if err != nil {
		return err
	}
	for _, was := range j.Plan.Table.Objects {
		is := now.object(was.Kind, was.Name)
		if is == nil {
			return movedError(t, was.String()+" is gone")
		}
		if d := was.differs(*is); d != "" {
			return movedError(t, was.String()+": "+d)
		}
	}
	if len(now.Objects) != len(j.Plan.Table.Objects) || now.ident() != t.ident() || !slices.Equal(now.Columns, j.Plan.Table.Columns) {
		return movedError(t, "indexes, columns or its name")
	}
	return nil
}

func movedError(t *Table, what string) error {
	return fail.With(fail.Hint(fmt.Errorf("load into %s: the table was changed since the plan was made: %s", t, what), "run it again"), fail.Drift)
}

// drop takes away what the plan drops, in tx.
func (j *job) drop(ctx context.Context, tx pgx.Tx) error {
	t := j.table()
	if j.Plan.Truncate {
		if _, err := tx.Exec(ctx, "truncate table "+t.ident()); err != nil {
			return fmt.Errorf("empty table %s: %w", t, err)
		}
	}
	drops := inOrder(j.Plan.Drops())
	slices.Reverse(drops)
	for _, o := range drops {
		if _, err := tx.Exec(ctx, o.dropSQL(t)); err != nil {
			return j.blocked(ctx, fmt.Errorf("drop %s: %w", o, err), t.OID)
		}
	}
	return nil
}

// create makes the table that the plan makes, in tx.
func (j *job) create(ctx context.Context, tx pgx.Tx) error {
	for _, sql := range j.Plan.Create {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return fmt.Errorf("create table %s: %w", j.table(), err)
		}
	}
	if len(j.Plan.Create) == 0 {
		return nil
	}
	return tx.QueryRow(ctx, "select $1::pg_catalog.regclass::pg_catalog.oid", j.table().ident()).Scan(&j.Plan.Table.OID)
}

// begin is the first step that alters anything: what goes is gone, and the
// load is on record as loading, both or neither.
func (j *job) begin(ctx context.Context) error {
	tx, err := j.conn.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if err := j.prepareIn(ctx, tx); err != nil {
		return err
	}
	if err := j.setState(ctx, tx, Loading, Planned); err != nil {
		return err
	}
	crash.At("bulkload.dropping")
	if err := tx.Commit(ctx); err != nil {
		j.State = Planned
		return fmt.Errorf("drop what is in the way: %w", err)
	}
	crash.At("bulkload.dropped")
	return nil
}

// prepareIn makes the table ready to be loaded into, in tx.
func (j *job) prepareIn(ctx context.Context, tx pgx.Tx) error {
	if len(j.Plan.Create) > 0 {
		return j.create(ctx, tx)
	}
	if len(j.Plan.Drops()) == 0 && !j.Plan.Truncate && j.Plan.Way == Chunks {
		return nil // it stays as it is: nothing to lock
	}
	if err := j.takeTable(ctx, tx); err != nil {
		return err
	}
	return j.drop(ctx, tx)
}

// blocked adds to an error of waiting for a lock who holds it.
func (j *job) blocked(ctx context.Context, err error, oid uint32) error {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) || pe.Code != "55P03" {
		return err
	}
	who := j.holders(ctx, oid)
	if who == "" {
		who = "a session that this user may not see"
	}
	return fail.Hint(fmt.Errorf("%w; it is held by %s", err, who), "wait for it to end, or wait longer: --lock-timeout 1m; nothing was changed")
}

// holders tells which sessions hold locks on a table.
func (j *job) holders(ctx context.Context, oid uint32) string {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	conn, err := dial(ctx, j.o.Config, nil)
	if err != nil {
		return ""
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, holdersSQL, oid)
	if err != nil {
		return ""
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return ""
	}
	return strings.Join(list, "; ")
}

const holdersSQL = `select pg_catalog.format('pid %s (%s, user %s), %s since %s', a.pid,
    case when a.application_name = '' then a.backend_type else a.application_name end, coalesce(a.usename, '?'),
    coalesce(a.state, '?'), pg_catalog.to_char(coalesce(a.xact_start, a.query_start, a.backend_start), 'YYYY-MM-DD HH24:MI:SS'))
  from pg_catalog.pg_stat_activity a
 where a.pid <> pg_catalog.pg_backend_pid()
   and a.pid in (select l.pid from pg_catalog.pg_locks l where l.relation = $1 and l.granted
                  and l.database = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database()))
   and a.application_name <> 'headroom'
 order by a.xact_start limit 5`
