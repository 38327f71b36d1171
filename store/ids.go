package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// IDs lists the ids of all series that the store knows.
func (s *Store) IDs(ctx context.Context) ([]int64, error) {
	rows, err := s.read.Query(ctx, "select id from headroom.series")
	if err != nil {
		return nil, fmt.Errorf("list series: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("list series: %w", err)
	}
	return ids, nil
}
