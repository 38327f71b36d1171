package bulkload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/crash"
	"headroom/fail"
)

// violation says that the rows do not allow what stood before.
type violation struct {
	object Object
	err    error
}

func (v *violation) Error() string { return v.err.Error() }

func (v *violation) Unwrap() error { return v.err }

// rebuild makes again what of the plan's drops is missing: indexes side by
// side, the largest first, then constraints and details, then foreign keys are
// checked. It can be run any number of times.
func (j *job) rebuild(ctx context.Context) error {
	drops := inOrder(j.Plan.Drops())
	if len(drops) == 0 {
		return nil
	}
	now, err := lookTable(ctx, j.conn, j.table().OID)
	if err != nil {
		return err
	}
	j.enter("build")
	if err := j.buildIndexes(ctx, missing(drops, now)); err != nil {
		return err
	}
	crash.At("bulkload.built")
	j.enter("keys")
	if err := j.constraints(ctx, drops); err != nil {
		return err
	}
	crash.At("bulkload.keyed")
	if err := j.validate(ctx, drops); err != nil {
		return err
	}
	crash.At("bulkload.validated")
	return j.verify(ctx, drops)
}

// missing lists the objects whose index must be built, the largest first.
func missing(drops []Object, now *Table) []Object {
	var out []Object
	for _, o := range drops {
		if o.buildSQL() == "" || now.object(o.Kind, o.Name) != nil || now.object(Index, o.Name) != nil {
			continue
		}
		out = append(out, o)
	}
	m := Measured()
	return slices.SortedStableFunc(slices.Values(out), func(a, b Object) int {
		x, y := of(m.Build, a.Method), of(m.Build, b.Method)
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return int(min(max(b.Bytes-a.Bytes, -1), 1))
	})
}

// buildIndexes builds side by side. The first error stops what has not begun.
func (j *job) buildIndexes(ctx context.Context, objects []Object) error {
	if len(objects) == 0 {
		return nil
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	queue := make(chan Object, len(objects))
	for _, o := range objects {
		queue <- o
	}
	close(queue)
	var all sync.WaitGroup
	var once sync.Once
	var first error
	for range min(len(objects), max(j.Plan.Sessions, 1)) {
		all.Go(func() {
			if err := j.builder(ctx, queue); err != nil {
				once.Do(func() { first = err; stop(err) })
			}
		})
	}
	all.Wait()
	return first
}

// builder builds one index after the other on a connection of its own.
func (j *job) builder(ctx context.Context, queue <-chan Object) error {
	conn, err := dial(ctx, j.o.Config, j.builderSettings())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := plainPath(ctx, conn); err != nil {
		return err
	}
	for o := range queue {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		start := time.Now()
		if _, err := conn.Exec(ctx, "select pg_catalog.set_config('default_tablespace', $1, false)", o.Tablespace); err != nil {
			return fmt.Errorf("build %s: %w", o, err)
		}
		err := j.patiently(ctx, "build "+o.String(), func() error {
			_, err := conn.Exec(ctx, o.buildSQL())
			return err
		})
		if err != nil && !j.builtMeanwhile(ctx, conn, o, err) {
			return j.violated(ctx, o, err)
		}
		j.built(o, time.Since(start))
		crash.At("bulkload.index-built")
	}
	return nil
}

// builtMeanwhile says whether the index is there because a session of a run
// that was killed has finished building it: the server notices the loss of a
// client only at the next command.
func (j *job) builtMeanwhile(ctx context.Context, conn *pgx.Conn, o Object, err error) bool {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) || pe.Code != "42P07" && (pe.Code != "23505" || pe.TableName != "pg_class") {
		return false
	}
	now, lerr := lookTable(ctx, conn, j.table().OID)
	if lerr != nil {
		return false
	}
	is := now.object(Index, o.Name)
	return is != nil && is.Valid && (o.New || is.IndexDef == o.IndexDef)
}

func (j *job) builderSettings() map[string]string {
	return map[string]string{
		"maintenance_work_mem":             fmt.Sprintf("%dkB", j.Plan.Memory>>10),
		"max_parallel_maintenance_workers": fmt.Sprint(j.Plan.Workers),
		"statement_timeout":                "0", // a role's own would end a long build half way
		"lock_timeout":                     "5s",
	}
}

// plainPath puts the catalog first in the search_path: definitions are
// qualified, and what they call may rest on the user's own path.
func plainPath(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "select pg_catalog.set_config('search_path', 'pg_catalog, ' || coalesce(nullif(pg_catalog.current_setting('search_path'), ''), 'pg_catalog'), false)")
	return err
}

// patiently repeats what fails only because somebody holds a lock, and says so.
func (j *job) patiently(ctx context.Context, what string, f func() error) error {
	end := time.Now().Add(j.o.patience())
	told := false
	for {
		err := f()
		var pe *pgconn.PgError
		if !errors.As(err, &pe) || pe.Code != "55P03" && pe.Code != "40P01" {
			return err
		}
		if time.Now().After(end) {
			return fail.Hint(fmt.Errorf("%w; it is held by %s", err, orElse(j.holders(ctx, j.table().OID), "a session that this user may not see")),
				"when it has ended: headroom load resume %s", j.ID)
		}
		if !told {
			j.o.say("%s: waiting for %s", what, orElse(j.holders(ctx, j.table().OID), "a lock"))
			told = true
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// violated tells a violation from other errors.
func (j *job) violated(ctx context.Context, o Object, err error) error {
	var pe *pgconn.PgError
	if errors.As(err, &pe) && pe.Code[:2] == "23" {
		return &violation{o, fmt.Errorf("build %s: %w", o, err)}
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("build %s: %w", o, err)
}

// constraints makes the constraints over the indexes, and all details, in one
// transaction: either the table has all of its keys back, or none.
func (j *job) constraints(ctx context.Context, drops []Object) error {
	conn, err := dial(ctx, j.o.Config, j.builderSettings())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := plainPath(ctx, conn); err != nil {
		return err
	}
	var v *violation
	err = j.patiently(ctx, "make constraints", func() error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		if err := j.constraintsIn(ctx, tx, drops); err != nil {
			if errors.As(err, &v) {
				return nil
			}
			return err
		}
		crash.At("bulkload.keying")
		return tx.Commit(ctx)
	})
	if v != nil {
		return v
	}
	if err != nil {
		return fmt.Errorf("make constraints of %s: %w", j.table(), err)
	}
	return nil
}

func (j *job) constraintsIn(ctx context.Context, tx pgx.Tx, drops []Object) error {
	t := j.table()
	if _, err := tx.Exec(ctx, "lock table "+t.ident()+" in access exclusive mode"); err != nil {
		return err
	}
	now, err := lookIn(ctx, tx, t.OID)
	if err != nil {
		return err
	}
	for _, o := range drops {
		there := now.object(o.Kind, o.Name)
		if sql := o.constraintSQL(t); sql != "" && there == nil {
			if _, err := tx.Exec(ctx, "select pg_catalog.set_config('default_tablespace', $1, true)", o.Tablespace); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, sql); err != nil {
				var pe *pgconn.PgError
				if errors.As(err, &pe) && pe.Code[:2] == "23" {
					return &violation{o, fmt.Errorf("make %s: %w", o, err)}
				}
				return fmt.Errorf("make %s: %w", o, err)
			}
		}
		if there != nil && o.same(*there) {
			continue
		}
		for _, sql := range o.detailSQL(t) {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return fmt.Errorf("make %s: %w", o, err)
			}
		}
	}
	return nil
}

// validate checks all rows against the foreign keys, side by side with what
// others do: it blocks no writer.
func (j *job) validate(ctx context.Context, drops []Object) error {
	t := j.table()
	for _, o := range drops {
		sql := o.validateSQL(t)
		if sql == "" {
			continue
		}
		conn, err := dial(ctx, j.o.Config, j.builderSettings())
		if err != nil {
			return err
		}
		err = j.patiently(ctx, "validate "+o.String(), func() error {
			_, err := conn.Exec(ctx, sql)
			return err
		})
		_ = conn.Close(context.WithoutCancel(ctx))
		if err != nil {
			return j.violated(ctx, o, err)
		}
		j.built(o, 0)
	}
	return nil
}

// verify looks once more: what came back must be what was there.
func (j *job) verify(ctx context.Context, drops []Object) error {
	now, err := lookTable(ctx, j.conn, j.table().OID)
	if err != nil {
		return err
	}
	for _, o := range drops {
		is := now.object(o.Kind, o.Name)
		if is == nil {
			return fmt.Errorf("check what was made again: %s is missing", o)
		}
		if d := o.differs(*is); d != "" {
			return fmt.Errorf("check what was made again: %s: %s", o, d)
		}
	}
	return nil
}
