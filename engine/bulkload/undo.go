package bulkload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/crash"
	"headroom/fail"
)

// undo takes out the rows of this load and puts back what was dropped: the
// table is as it was (or empty, if it was emptied). It can be run any number
// of times, and after a crash at any point.
func (j *job) undo(ctx context.Context) error {
	if j.State == Planned { // nothing was altered
		return j.end(ctx, Undone, Planned)
	}
	if j.State != Undoing {
		if err := j.setState(ctx, j.conn, Undoing, Loading, Loaded); err != nil {
			return err
		}
	}
	crash.At("bulkload.undoing")
	j.enter("undo")
	if len(j.Plan.Create) > 0 {
		if _, err := j.conn.Exec(ctx, "drop table if exists "+j.table().ident()); err != nil {
			return fmt.Errorf("drop table %s, which this load made: %w", j.table(), err)
		}
	} else {
		if err := j.remove(ctx); err != nil {
			return err
		}
		crash.At("bulkload.removed")
		if err := j.rebuild(ctx); err != nil {
			return fmt.Errorf("put back what was dropped: %w", err)
		}
	}
	return j.end(ctx, Undone, Undoing)
}

// remove takes out the rows of this load, and no others: those that were
// written by the transactions of its notes.
func (j *job) remove(ctx context.Context) error {
	t := j.table()
	if j.Plan.empty() && t.MayTruncate && len(t.Referenced) == 0 && t.Kind == "r" {
		emptied, err := j.emptyAgain(ctx)
		if emptied || err != nil {
			return err
		}
	}
	var loaded, gone int64
	err := j.patiently(ctx, "take out the rows", func() error {
		tx, err := j.conn.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		if _, err := tx.Exec(ctx, "set local statement_timeout = 0; set local lock_timeout = '5s'", pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		// A session of a run that was killed may be committing: wait for it.
		if _, err := tx.Exec(ctx, "lock table "+t.ident()+" in share row exclusive mode"); err != nil {
			return err
		}
		if loaded, err = j.noted(ctx, tx); err != nil || loaded == 0 {
			return err
		}
		tag, err := tx.Exec(ctx, "delete from "+t.ident()+" t using headroom.load_chunk c where c.load = $1 and t.xmin = c.xmin", j.ID)
		if err != nil {
			return err
		}
		if gone = tag.RowsAffected(); gone > loaded {
			return fmt.Errorf("%d rows carry the marks of this load, which wrote %d: transaction numbers have come round", gone, loaded)
		}
		return tx.Commit(ctx)
	})
	if err != nil {
		return fmt.Errorf("take out the rows: %w", err)
	}
	if loaded == 0 {
		return nil
	}
	if gone < loaded {
		j.o.say("%d of the %d rows that were loaded are no longer there, or were changed by others and stay", loaded-gone, loaded)
	}
	if _, err := j.conn.Exec(ctx, "vacuum "+t.ident()); err != nil {
		j.o.say("the room of the rows taken out waits for autovacuum: %v", err)
	}
	return nil
}

// noted is how many rows the notes of this load count.
func (j *job) noted(ctx context.Context, tx pgx.Tx) (n int64, err error) {
	err = tx.QueryRow(ctx, "select coalesce(sum(records), 0)::pg_catalog.int8 from headroom.load_chunk where load = $1", j.ID).Scan(&n)
	return n, err
}

// emptyAgain truncates a table that holds nothing but this load's rows.
func (j *job) emptyAgain(ctx context.Context) (bool, error) {
	t := j.table()
	tx, err := j.conn.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	_, err = tx.Exec(ctx, fmt.Sprintf("set local statement_timeout = 0; set local lock_timeout = '5s'; lock table %s in access exclusive mode", t.ident()), pgx.QueryExecModeSimpleProtocol)
	var pe *pgconn.PgError
	if errors.As(err, &pe) && pe.Code == "55P03" {
		return false, nil // deleting the rows takes longer, but no such lock
	}
	if err != nil {
		return false, err
	}
	if loaded, err := j.noted(ctx, tx); err != nil || loaded == 0 {
		return loaded == 0, err
	}
	var others bool
	err = tx.QueryRow(ctx, "select exists (select from "+t.ident()+" t where not exists (select from headroom.load_chunk c where c.load = $1 and c.xmin = t.xmin))", j.ID).Scan(&others)
	if err != nil || others {
		return false, err
	}
	var triggers bool
	err = tx.QueryRow(ctx, "select exists (select from pg_catalog.pg_trigger where tgrelid = $1 and not tgisinternal and tgtype & 32 <> 0)", t.OID).Scan(&triggers)
	if err != nil || triggers {
		return false, err
	}
	if _, err := tx.Exec(ctx, "truncate table "+t.ident()); err != nil {
		return false, err
	}
	return true, tx.Commit(ctx)
}

// explain names the rows that break a constraint which could not be made.
func (j *job) explain(ctx context.Context, v *violation) error {
	rows, err := j.offenders(ctx, v.object)
	text := v.err.Error()
	if err != nil {
		return fmt.Errorf("%s (naming the rows failed: %w)", text, err)
	}
	if len(rows) > 0 {
		text += ": " + strings.Join(rows, "; ")
	}
	return errors.New(text)
}

const offendersMost = 10

// offenders lists rows that break a constraint: key, places in the table, and
// places in the input.
func (j *job) offenders(ctx context.Context, o Object) ([]string, error) {
	sql := ""
	switch {
	case o.Kind == ForeignKey:
		sql = j.orphansSQL(o)
	case o.IsUnique && len(o.Exprs) > 0:
		sql = j.doublesSQL(o)
	default:
		return nil, nil
	}
	ctx, stop := context.WithTimeout(ctx, 10*time.Minute)
	defer stop()
	tx, err := j.conn.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	rows, err := tx.Query(ctx, sql, j.ID)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (*offender, error) {
		var f offender
		return &f, r.Scan(&f.key, &f.places, &f.chunks)
	})
	if err != nil {
		return nil, err
	}
	j.findLines(o, found)
	var out []string
	for _, f := range found {
		out = append(out, f.String())
	}
	return out, nil
}

// doublesSQL finds keys that are there more than once.
func (j *job) doublesSQL(o Object) string {
	var texts, nulls []string
	for _, e := range o.Exprs {
		texts = append(texts, "coalesce(("+e+")::pg_catalog.text, 'NULL')")
		if !o.NullsEqual {
			nulls = append(nulls, "("+e+") is not null")
		}
	}
	where := strings.Join(nulls, " and ")
	if o.Where != "" {
		where = "(" + o.Where + ") and " + orElse(where, "true")
	}
	return fmt.Sprintf(`select array[%s], (array_agg(t.ctid::pg_catalog.text order by t.ctid))[1:5],
		coalesce((array_agg(distinct c.line) filter (where c.line is not null))[1:5], '{}')
		from %s t left join headroom.load_chunk c on c.load = $1 and c.xmin = t.xmin
		where %s group by %s having count(*) > 1 order by min(t.ctid) limit %d`,
		strings.Join(texts, ", "), j.table().ident(), orElse(where, "true"), strings.Join(o.Exprs, ", "), offendersMost)
}

// orphansSQL finds rows whose foreign key refers to nothing.
func (j *job) orphansSQL(o Object) string {
	var texts, on, nulls []string
	for n, c := range o.Columns {
		texts = append(texts, "coalesce(t."+ident(c)+"::pg_catalog.text, 'NULL')")
		on = append(on, "r."+ident(o.RefColumns[n])+" = t."+ident(c))
		nulls = append(nulls, "t."+ident(c)+" is not null")
	}
	return fmt.Sprintf(`select array[%s], array[t.ctid::pg_catalog.text], coalesce(array_remove(array[c.line], null), '{}')
		from %s t left join headroom.load_chunk c on c.load = $1 and c.xmin = t.xmin
		where %s and not exists (select from %s r where %s) limit %d`,
		strings.Join(texts, ", "), j.table().ident(), strings.Join(nulls, " and "), o.Refers, strings.Join(on, " and "), offendersMost)
}

// failed ends a load that cannot go on: the table is put back as it was, and
// the error says what became of it.
func (j *job) failed(ctx context.Context, cause error) error {
	var v *violation
	ctx = context.WithoutCancel(ctx)
	if errors.As(cause, &v) {
		cause = j.explain(ctx, v)
	}
	j.o.say("putting the table back as it was, because: %v", cause)
	if err := j.undo(ctx); err != nil {
		return fail.With(fail.Hint(fmt.Errorf("%w; and putting the table back failed: %w", cause, err),
			"when that is mended: headroom load restore %s", j.ID), fail.NotReverted)
	}
	was := "the table is as it was"
	switch {
	case len(j.Plan.Create) > 0:
		was = "the table that was made for it is gone again"
	case j.Plan.Truncate:
		was = "the table is empty, and its indexes and keys are as they were"
	}
	return fail.With(fmt.Errorf("%w; %s", cause, was), fail.Reverted)
}
