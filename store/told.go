package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Told is what another host told of itself last, of one kind, as JSON that the
// store does not look into.
type Told struct {
	Host string
	Kind string
	At   time.Time // when it came
	Body json.RawMessage
}

// PutTold stores what hosts told; each takes the place of what the host told
// of the kind before.
func (s *Store) PutTold(ctx context.Context, list []Told) error {
	var b pgx.Batch
	for _, t := range list {
		b.Queue(`insert into headroom.store_told (host, kind, at, body) values ($1, $2, $3, $4::jsonb)
			on conflict (host, kind) do update set at = excluded.at, body = excluded.body`, t.Host, t.Kind, t.At, string(t.Body))
	}
	if b.Len() == 0 {
		return nil
	}
	if err := pgx.BeginFunc(ctx, s.maint, func(tx pgx.Tx) error { return tx.SendBatch(ctx, &b).Close() }); err != nil {
		return fmt.Errorf("store what hosts told: %w", err)
	}
	return nil
}

// Told lists what hosts told last, from a time on, by host and kind. What is
// older is dropped.
func (s *Store) Told(ctx context.Context, since time.Time) ([]Told, error) {
	if _, err := s.maint.Exec(ctx, "delete from headroom.store_told where at < $1", since); err != nil {
		return nil, fmt.Errorf("drop what hosts told long ago: %w", err)
	}
	rows, err := s.read.Query(ctx, "select host, kind, at, body from headroom.store_told order by host, kind")
	if err != nil {
		return nil, fmt.Errorf("read what hosts told: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Told, error) {
		var t Told
		err := r.Scan(&t.Host, &t.Kind, &t.At, &t.Body)
		t.At = t.At.UTC()
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("read what hosts told: %w", err)
	}
	return out, nil
}
