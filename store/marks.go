package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// AddMarks stores marks; one whose kind, host and key are there already is
// replaced.
func (s *Store) AddMarks(ctx context.Context, marks []Mark) error {
	var b pgx.Batch
	for _, m := range marks {
		b.Queue(`insert into headroom.store_mark (kind, host, key, at, text, link) values ($1, $2, $3, $4, $5, $6)
			on conflict (kind, host, key) do update set at = excluded.at, text = excluded.text, link = excluded.link`,
			m.Kind, m.Host, m.Key, m.At, m.Text, m.Link)
	}
	if b.Len() == 0 {
		return nil
	}
	if err := pgx.BeginFunc(ctx, s.maint, func(tx pgx.Tx) error { return tx.SendBatch(ctx, &b).Close() }); err != nil {
		return fmt.Errorf("store marks: %w", err)
	}
	return nil
}

// Marks lists what happened from a time to before another, by time; at most
// the newest 10,000.
func (s *Store) Marks(ctx context.Context, from, to time.Time) ([]Mark, error) {
	rows, err := s.read.Query(ctx, `select * from (select at, kind, host, key, text, link from headroom.store_mark
		where at >= $1 and at < $2 order by at desc limit 10000) m order by at, kind, host, key`, from, to)
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Mark, error) {
		var m Mark
		err := r.Scan(&m.At, &m.Kind, &m.Host, &m.Key, &m.Text, &m.Link)
		m.At = m.At.UTC()
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	return out, nil
}

// Findings is what the checks of one host found at a time, as JSON that the
// store does not look into.
type Findings struct {
	Host string          `json:"host"`
	At   time.Time       `json:"at"`
	Body json.RawMessage `json:"body"`
}

// PutFindings stores what the checks of a host found. Where that is what they
// found the time before, nothing is added.
func (s *Store) PutFindings(ctx context.Context, f Findings) error {
	_, err := s.maint.Exec(ctx, `insert into headroom.store_finding (host, at, body)
		select $1, $2, $3::jsonb where $3::jsonb is distinct from
			(select body from headroom.store_finding where host = $1 order by at desc limit 1)
		on conflict (host, at) do update set body = excluded.body`, f.Host, f.At, string(f.Body))
	if err != nil {
		return fmt.Errorf("store findings: %w", err)
	}
	return nil
}

// Findings returns the latest of each host, by host.
func (s *Store) Findings(ctx context.Context) ([]Findings, error) {
	return s.findings(ctx, "select distinct on (host) host, at, body from headroom.store_finding order by host, at desc")
}

// FindingHistory returns a host's findings each time they changed, newest
// first, at most limit.
func (s *Store) FindingHistory(ctx context.Context, host string, limit int) ([]Findings, error) {
	return s.findings(ctx, "select host, at, body from headroom.store_finding where host = $1 order by at desc limit $2", host, limit)
}

func (s *Store) findings(ctx context.Context, sql string, args ...any) ([]Findings, error) {
	rows, err := s.read.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read findings: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (Findings, error) {
		var f Findings
		err := r.Scan(&f.Host, &f.At, &f.Body)
		f.At = f.At.UTC()
		return f, err
	})
	if err != nil {
		return nil, fmt.Errorf("read findings: %w", err)
	}
	return out, nil
}
