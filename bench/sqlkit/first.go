package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/stats"
)

// firstRow measures a cursor's first row, over all rows of the table as keys:
// what streams does not read them.
func firstRow(ctx context.Context, c *pgx.Conn, rounds int) ([]figure, error) {
	const declare = "declare f cursor for "
	var out []figure
	fmt.Println("first row of a cursor over every (device, ts)")
	for _, w := range []way{
		{Name: "headroom.distinct_keys", ours: true, sql: declare + "select * from headroom.distinct_keys('k', 'device', 'ts')"},
		{Name: "headroom.distinct_rows", ours: true, sql: declare + "select * from headroom.distinct_rows(null::k, 'device', 'ts')"},
		{Name: "headroom.distinct_after", ours: true, sql: declare + "select * from headroom.distinct_after('k', null, 1, 'device', 'ts')"},
		{Name: "headroom.distinct_cursor", ours: true, sql: "select headroom.distinct_cursor('f', 'k', 'device', 'ts')"},
		{Name: "SELECT DISTINCT", sql: declare + "select distinct device, ts from k"},
	} {
		f := figure{Way: w.Name, Ours: w.ours}
		for range rounds {
			tx, err := c.Begin(ctx)
			if err != nil {
				return nil, err
			}
			start := time.Now()
			_, err = tx.Exec(ctx, w.sql)
			if err == nil {
				_, err = tx.Exec(ctx, "fetch 1 from f")
			}
			f.Seconds = append(f.Seconds, time.Since(start).Seconds())
			if rerr := tx.Rollback(ctx); err != nil || rerr != nil {
				return nil, fmt.Errorf("%s: %w", w.Name, err)
			}
		}
		f.Median = stats.Quantile(f.Seconds, 0.5)
		fmt.Printf("  %-36s %9.1f ms\n", f.Way, 1000*f.Median)
		out = append(out, f)
	}
	return out, nil
}
