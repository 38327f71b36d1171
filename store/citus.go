package store

import (
	"context"
	"fmt"
)

// distributed are the tables that Citus deals out over its servers, and by
// which column: the series, so that one series lies on one server at all
// levels. What is written but not packed, and what the store knows of itself,
// stays on the coordinator.
var distributed = [][2]string{
	{"headroom.series", "id"}, {"headroom.store_raw", "series"}, {"headroom.store_minute", "series"},
	{"headroom.store_hour", "series"}, {"headroom.store_day", "series"},
}

// distribute deals the tables out where the extension is there and that has
// not been done.
func (s *Store) distribute(ctx context.Context) error {
	if err := s.writer.QueryRow(ctx, "select exists (select from pg_extension where extname = 'citus')").Scan(&s.citus); err != nil || !s.citus {
		return err
	}
	for i, t := range distributed {
		var done bool
		if err := s.writer.QueryRow(ctx, "select exists (select from pg_dist_partition where logicalrelid = $1::text::regclass and partmethod = 'h')", t[0]).Scan(&done); err != nil {
			return err
		}
		if done {
			continue
		}
		with := "headroom.series"
		if i == 0 {
			with = "none"
		}
		if _, err := s.writer.Exec(ctx, "select create_distributed_table($1::text::regclass, $2, colocate_with => $3)", t[0], t[1], with); err != nil {
			return fmt.Errorf("deal out %s over the servers of Citus: %w", t[0], err)
		}
	}
	return nil
}
