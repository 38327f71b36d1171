package readtable

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/fail"
)

// ErrBusy says that another session is refreshing the same copy.
var ErrBusy = errors.New("another session is refreshing it")

// Refresh brings the copy up to the moment of the call, in one transaction.
// Readers and writers go on meanwhile. ErrBusy if somebody else is at it.
func (t Table) Refresh(ctx context.Context, conn *pgx.Conn) (Done, error) {
	begun := time.Now()
	var mine bool
	// Of a session, not of the transaction: asking must not take its snapshot.
	const lock = "hashtextextended('headroom read table ' || $1, 0)"
	err := conn.QueryRow(ctx, "SELECT pg_catalog.pg_try_advisory_lock("+lock+")", t.SQL()).Scan(&mine)
	if err == nil && !mine {
		err = ErrBusy
	}
	var d Done
	if err == nil {
		d, err = t.refresh(ctx, conn)
		clean, stop := context.WithTimeout(context.WithoutCancel(ctx), lockLimit)
		defer stop()
		_, uerr := conn.Exec(clean, "SELECT pg_catalog.pg_advisory_unlock("+lock+")", t.SQL())
		if err == nil {
			err = uerr
		}
	}
	if err != nil {
		return d, fmt.Errorf("refresh %s: %w", t.SQL(), err)
	}
	d.Took = time.Since(begun)
	return d, nil
}

func (t Table) refresh(ctx context.Context, conn *pgx.Conn) (d Done, err error) {
	if t.Way == MatView {
		err := inTx(ctx, conn, func(tx pgx.Tx) error {
			if err := do(ctx, tx, "REFRESH MATERIALIZED VIEW CONCURRENTLY "+t.SQL()); err != nil {
				return err
			}
			return tx.QueryRow(ctx, "SELECT count(*) FROM "+t.SQL()).Scan(&d.Rows)
		})
		d.Changed, d.Deleted, d.Whole = -1, -1, true
		return d, err
	}
	if t.Way != Merge {
		return d, fail.Hint(fmt.Errorf("there is no read table: %w", fail.ErrAbsent), "make one: headroom ingest … --read-table merge")
	}
	err = inTx(ctx, conn, func(tx pgx.Tx) error {
		horizon, err := t.horizon(ctx, tx)
		if err != nil {
			return err
		}
		if horizon != "" {
			if err := t.merge(ctx, tx, horizon, &d); err != nil {
				return err
			}
		}
		same, err := t.sameCount(ctx, tx, &d)
		if err != nil {
			return err
		}
		if horizon == "" || !same {
			d.Whole = true
			if err := t.compare(ctx, tx, &d); err != nil {
				return err
			}
		}
		return t.keep(ctx, tx)
	})
	return d, err
}

// merge brings over the rows that changed since the horizon.
func (t Table) merge(ctx context.Context, tx pgx.Tx, horizon string, d *Done) error {
	// age counts backwards from now in a ring of 2^32; what was frozen long ago
	// may look young again, which costs a comparison and no more.
	changed := "CREATE TEMP TABLE headroom_changed ON COMMIT DROP AS SELECT " + list("", t.Columns) + " FROM ONLY " + t.write() +
		" w WHERE pg_catalog.age(w.xmin) <= (SELECT pg_catalog.age('" + horizon + "'::xid8::xid))"
	if err := do(ctx, tx, changed); err != nil {
		return err
	}
	var err error
	d.Changed, err = t.put(ctx, tx, "SELECT "+list("", t.Columns)+" FROM pg_temp.headroom_changed")
	return err
}

// put writes rows into the copy, those that are new or differ.
func (t Table) put(ctx context.Context, tx pgx.Tx, rows string) (int64, error) {
	var set []string
	for _, c := range t.Columns {
		set = append(set, quote(c)+" = excluded."+quote(c))
	}
	tag, err := tx.Exec(ctx, "INSERT INTO "+t.SQL()+" AS r ("+list("", t.Columns)+") "+rows+
		" ON CONFLICT ("+list("", t.Key)+") DO UPDATE SET "+strings.Join(set, ", ")+
		" WHERE "+t.differ("r.", "excluded."), pgx.QueryExecModeExec)
	return tag.RowsAffected(), err
}

// differ compares two rows as stored, which works for types without =, too.
// Without the casts the operator would be taken for one of each column.
func (t Table) differ(a, b string) string {
	return "ROW(" + list(a, t.Columns) + ")::record OPERATOR(pg_catalog.*<>) ROW(" + list(b, t.Columns) + ")::record"
}

// sameCount says whether both tables have the same number of rows.
func (t Table) sameCount(ctx context.Context, tx pgx.Tx, d *Done) (bool, error) {
	var written int64
	err := tx.QueryRow(ctx, "SELECT (SELECT count(*) FROM ONLY "+t.write()+"), (SELECT count(*) FROM "+t.SQL()+")").Scan(&written, &d.Rows)
	return written == d.Rows, err
}

// compare compares all keys and rows.
func (t Table) compare(ctx context.Context, tx pgx.Tx, d *Done) error {
	tag, err := tx.Exec(ctx, "DELETE FROM "+t.SQL()+" AS r WHERE NOT EXISTS (SELECT FROM ONLY "+t.write()+" w WHERE "+t.same("w", "r")+")", pgx.QueryExecModeExec)
	if err != nil {
		return err
	}
	d.Deleted = tag.RowsAffected()
	n, err := t.put(ctx, tx, "SELECT "+list("w.", t.Columns)+" FROM ONLY "+t.write()+" w LEFT JOIN "+t.SQL()+" r ON "+t.same("w", "r")+
		" WHERE r."+quote(t.Key[0])+" IS NULL OR "+t.differ("r.", "w."))
	if err != nil {
		return err
	}
	d.Changed += n
	same, err := t.sameCount(ctx, tx, d)
	if err == nil && !same {
		err = errors.New("BUG: after a full comparison the rows are not as many as those of the table")
	}
	return err
}

// makeState makes the table that keeps the horizons.
func makeState(ctx context.Context, tx pgx.Tx, way Way) error {
	if way != Merge {
		return nil
	}
	for _, sql := range []string{
		"CREATE SCHEMA IF NOT EXISTS headroom",
		"CREATE TABLE IF NOT EXISTS headroom.read_table (schema name, name name, write oid NOT NULL, horizon xid8 NOT NULL, refreshed timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (schema, name))",
	} {
		err := do(ctx, tx, sql)
		var pe *pgconn.PgError
		if errors.As(err, &pe) && pe.Code == "42501" {
			return fail.Hint(fmt.Errorf("%w: %w", fail.ErrDenied, err), "where what was merged is kept needs: GRANT CREATE ON DATABASE … TO the user, or a schema headroom of the user's")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// horizon is the oldest transaction that the last refresh may not have seen;
// "" if there is none to believe.
func (t Table) horizon(ctx context.Context, tx pgx.Tx) (string, error) {
	var h string
	err := tx.QueryRow(ctx, `SELECT horizon::text FROM headroom.read_table
		WHERE schema = $1 AND name = $2 AND write = $3
		AND pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::numeric - horizon::text::numeric BETWEEN 0 AND 1000000000`, t.Schema, t.Read, t.oid).Scan(&h)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return h, err
}

// keep writes down from where the next refresh must look.
func (t Table) keep(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `INSERT INTO headroom.read_table (schema, name, write, horizon)
		VALUES ($1, $2, $3, pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()))
		ON CONFLICT (schema, name) DO UPDATE SET write = excluded.write, horizon = excluded.horizon, refreshed = now()`, t.Schema, t.Read, t.oid)
	return err
}

func (t Table) forget(ctx context.Context, tx pgx.Tx) error {
	if t.Way != Merge {
		return nil
	}
	var there bool
	if err := tx.QueryRow(ctx, "SELECT pg_catalog.to_regclass('headroom.read_table') IS NOT NULL").Scan(&there); err != nil || !there {
		return err
	}
	_, err := tx.Exec(ctx, "DELETE FROM headroom.read_table WHERE schema = $1 AND name = $2", t.Schema, t.Read)
	return err
}
