package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"headroom/fail"
	"headroom/host"
	"headroom/metric"
	"headroom/probe/pg"
)

// readingLimit is how long the server may work on one reading: shorter than a
// collector's deadline, so that one slow statement is a gap of its own.
const readingLimit = 2 * time.Second

// collector makes one of readings, which are done in one transaction and one
// round trip.
func collector(name, doc string, every time.Duration, fast bool, readings ...reading) *metric.Collector {
	c := &metric.Collector{Name: name, Doc: doc, Of: metric.Postgres, Every: every, Fast: fast}
	for _, r := range readings {
		for _, f := range r.columns {
			c.Defs = append(c.Defs, f.Def)
		}
	}
	c.Collect = func(ctx context.Context, r host.Reader, out *metric.Out) error {
		return collect(ctx, r, out, readings)
	}
	return c
}

// collect does readings. One that the server refuses becomes a gap, and those
// after it are asked for anew, as the refusal ended the transaction.
func collect(ctx context.Context, r host.Reader, out *metric.Out, todo []reading) error {
	for {
		var s state
		done := -1 // the state comes before the first reading
		err := look(ctx, r, func(ctx context.Context, tx pgx.Tx) error {
			return batch(ctx, tx, out, todo, &s, &done)
		})
		var pe *pgconn.PgError
		switch {
		case err == nil:
			return nil
		case done < 0 || done == len(todo) || ctx.Err() != nil || !errors.As(err, &pe):
			return fmt.Errorf("read the server's statistics: %w", err)
		}
		refused(out, todo[done], s, err)
		if todo = todo[done+1:]; len(todo) == 0 {
			return nil
		}
	}
}

// look runs f in a transaction that ends with a commit: a rollback, which is
// how a Reader ends what it looked at, would be counted as one of the server's.
func look(ctx context.Context, r host.Reader, f func(ctx context.Context, tx pgx.Tx) error) error {
	return r.PG(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := f(ctx, tx); err != nil {
			return err
		}
		if err := tx.Commit(ctx); !errors.Is(err, pgx.ErrTxCommitRollback) {
			return err
		}
		return nil // f was refused something, and has said so
	})
}

// batch sends all statements at once and reads the answers; done is how many
// readings were read in full.
func batch(ctx context.Context, tx pgx.Tx, out *metric.Out, todo []reading, s *state, done *int) error {
	major := pg.Major(tx)
	first, err := pg.SQL(metricSQL, "sql", "state", major)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue("set local statement_timeout = " + strconv.FormatInt(readingLimit.Milliseconds(), 10))
	b.Queue(first)
	absent := make([]error, len(todo))
	for i, rd := range todo {
		var sql string
		if sql, absent[i] = pg.SQL(metricSQL, "sql", rd.sql, major); absent[i] == nil {
			if rd.fill != nil {
				sql = rd.fill.Replace(sql)
			}
			b.Queue(sql)
		}
	}
	res := tx.SendBatch(ctx, b)
	defer res.Close()
	if _, err := res.Exec(); err != nil {
		return err
	}
	if err := s.scan(res.QueryRow()); err != nil {
		return err
	}
	*done = 0
	for i, rd := range todo {
		if absent[i] != nil {
			gapAll(out, rd, absent[i].Error(), "")
		} else if err := rd.read(res.Query, out, *s, major); err != nil {
			return err
		}
		*done++
	}
	return res.Close()
}

func (s *state) scan(row pgx.Row) error {
	return row.Scan(&s.role, &s.stats, &s.waldir, &s.recovery, &s.ioTiming, &s.walTiming, &s.counts, &s.activities, &s.checksums, &s.planning)
}

// read makes samples of the rows of one statement. Nothing is added if it
// fails on the way.
func (rd reading) read(query func() (pgx.Rows, error), out *metric.Out, s state, major int64) error {
	rows, err := query()
	if err != nil {
		return err
	}
	defer rows.Close()
	mark := len(out.Rows)
	columns := rd.there(out, s, major)
	line := newLine(rows, columns)
	for rows.Next() {
		if err := rows.Scan(line.to...); err != nil {
			out.Rows = out.Rows[:mark]
			return err
		}
		line.add(out)
	}
	if err := rows.Err(); err != nil {
		out.Rows = out.Rows[:mark]
		return err
	}
	return nil
}

// there returns the columns that this server has, and notes the gaps.
func (rd reading) there(out *metric.Out, s state, major int64) []column {
	if rd.standby && !s.recovery {
		return nil
	}
	var list []column
	why := map[[2]string][]*metric.Def{}
	var order [][2]string
	for _, f := range rd.columns {
		because, hint := f.missing(s, major)
		if because == "" {
			list = append(list, f)
			continue
		}
		k := [2]string{because, hint}
		if why[k] == nil {
			order = append(order, k)
		}
		why[k] = append(why[k], f.Def)
	}
	for _, k := range order {
		out.Gap(k[0], k[1], why[k]...)
	}
	return list
}

// missing says why a server cannot give a column, "" if it can.
func (f column) missing(s state, major int64) (because, hint string) {
	switch {
	case major < f.since:
		return fmt.Sprintf("PostgreSQL %d does not count this: it came with %d", major, f.since), ""
	case f.until > 0 && major > f.until:
		return fmt.Sprintf("PostgreSQL %d no longer counts this: %d was the last", major, f.until), f.instead
	}
	for _, n := range f.needs {
		if because, hint = n(s); because != "" {
			return because, hint
		}
	}
	return "", ""
}

// gapAll notes that a whole reading is missing.
func gapAll(out *metric.Out, rd reading, because, hint string) {
	defs := make([]*metric.Def, len(rd.columns))
	for i, f := range rd.columns {
		defs[i] = f.Def
	}
	out.Gap(because, hint, defs...)
}

// refused notes why the server did not answer a reading.
func refused(out *metric.Out, rd reading, s state, err error) {
	var pe *pgconn.PgError
	errors.As(err, &pe)
	switch {
	case errors.Is(err, fail.ErrDenied):
		gapAll(out, rd, "the server refuses it: "+pe.Message, "GRANT pg_monitor TO "+pg.Quote(s.role))
	case pe.Code == "57014":
		gapAll(out, rd, "given up: the server took longer than its time limit", "")
	case pe.Code == "55P03":
		gapAll(out, rd, "given up: it waited for a lock longer than its time limit", "")
	case pe.Code == "42703" || pe.Code == "42P01" || pe.Code == "42883":
		gapAll(out, rd, "this server's catalogue is not as expected: "+pe.Message, "")
	default:
		gapAll(out, rd, "the server refuses it: "+pe.Message, fail.HintOf(err))
	}
}
