package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// parted is a table that is cut by time: whole partitions come and go.
type parted struct {
	name  string
	start func(time.Time) time.Time // of the partition that holds a time
	next  func(time.Time) time.Time // start of the one after
}

func dayStart(t time.Time) time.Time { return t.UTC().Truncate(day) }

func byDay(name string) *parted {
	return &parted{name, dayStart, func(t time.Time) time.Time { return t.AddDate(0, 0, 1) }}
}

var (
	rawTable    = byDay("store_raw")
	minuteTable = byDay("store_minute")
	batchTable  = byDay("store_batch")
	hourTable   = &parted{"store_hour",
		func(t time.Time) time.Time {
			return time.Date(t.UTC().Year(), t.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
		},
		func(t time.Time) time.Time { return t.AddDate(0, 1, 0) }}
	dayTable = &parted{"store_day",
		func(t time.Time) time.Time { return time.Date(t.UTC().Year(), 1, 1, 0, 0, 0, 0, time.UTC) },
		func(t time.Time) time.Time { return t.AddDate(1, 0, 0) }}
)

const stamp = "20060102"

func (p *parted) child(start time.Time) string { return p.name + "_" + start.Format(stamp) }

// execer is a connection, a pool or a transaction.
type execer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

type txer interface {
	execer
	Begin(ctx context.Context) (pgx.Tx, error)
}

// create makes the partition that holds a time, if it is not there.
func (p *parted) create(ctx context.Context, c txer, at time.Time) error {
	start := p.start(at)
	var there bool
	if err := c.QueryRow(ctx, "select to_regclass('headroom.' || $1::text) is not null", p.child(start)).Scan(&there); err != nil || there {
		return err
	}
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	// Names and bounds are of our own making: letters, digits, dates.
	sql := fmt.Sprintf("create table if not exists headroom.%s partition of headroom.%s for values from ('%s') to ('%s')",
		p.child(start), p.name, start.Format(time.DateOnly), p.next(start).Format(time.DateOnly))
	if _, err := tx.Exec(ctx, sql); err != nil {
		return fmt.Errorf("make partition %s: %w", p.child(start), err)
	}
	return tx.Commit(ctx)
}

// list returns the starts of the partitions that there are, rising.
func (p *parted) list(ctx context.Context, c execer) ([]time.Time, error) {
	rows, err := c.Query(ctx, `select c.relname::text from pg_inherits i join pg_class c on c.oid = i.inhrelid
		where i.inhparent = to_regclass('headroom.' || $1::text) order by 1`, p.name)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	var out []time.Time
	for _, n := range names {
		t, err := time.Parse(stamp, strings.TrimPrefix(n, p.name+"_"))
		if err != nil {
			continue // somebody's own partition: not ours to drop
		}
		out = append(out, t)
	}
	return out, nil
}

// dropPart drops one partition.
func (p *parted) dropPart(ctx context.Context, tx pgx.Tx, start time.Time) error {
	if _, err := tx.Exec(ctx, "drop table headroom."+p.child(start)); err != nil {
		return fmt.Errorf("drop partition %s: %w", p.child(start), err)
	}
	return nil
}
