package store

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/fail"
	"headroom/metric"
)

// known notes a row, and its series if that has to be looked up.
func (s *Store) known(w *work, r metric.Row, met map[int64]uint64) error {
	if e := w.last.next(r.Series); e != nil {
		w.take(r, e, e.hash)
		return nil
	}
	id, hash := r.Series.ID(), maphash.String(s.seed, r.Series.Key())
	e := s.head.series[id]
	var have uint64
	if e != nil {
		have = e.hash
	}
	if have == 0 {
		have = met[id]
	}
	if have == 0 {
		met[id], w.strange = hash, append(w.strange, len(w.rows))
	} else if have != hash {
		return fmt.Errorf("series %s has the id %d, which another series has already", r.Series, id)
	}
	w.take(r, e, hash)
	return nil
}

// register stores series that are new here, and refuses one whose id belongs
// to another key.
func (s *Store) register(ctx context.Context, tx pgx.Tx, w *work) error {
	if len(w.strange) == 0 {
		return nil
	}
	n := len(w.strange)
	ids, names, labels, keys, firsts := make([]int64, n), make([]string, n), make([]string, n), make([]string, n), make([]time.Time, n)
	byID := make(map[int64]string, n)
	for i, at := range w.strange {
		r := w.rows[at].Row
		ids[i], names[i], keys[i] = r.Series.ID(), r.Series.Name, r.Series.Key()
		if labels[i] = labelsJSON(r.Series); len(r.Points) > 0 {
			firsts[i] = time.UnixMilli(r.Points[0].At)
		} else {
			firsts[i] = s.o.Now()
		}
		byID[ids[i]] = keys[i]
	}
	rows, err := tx.Query(ctx, "select id, key from headroom.series where id = any($1)", ids)
	if err != nil {
		return err
	}
	var id int64
	var key string
	have := 0
	if _, err := pgx.ForEachRow(rows, []any{&id, &key}, func() error {
		have++
		if byID[id] != key {
			return permanent(fmt.Errorf("series %s has the id %d, which the stored series %s has already", byID[id], id, key))
		}
		return nil
	}); err != nil || have == n {
		return err
	}
	if s.nids += int64(n - have); s.nids > s.o.MaxSeries {
		s.nids -= int64(n - have)
		return permanent(fail.Hint(fmt.Errorf("%d series are stored, and %d more would be over the limit of %d; the first is %s", s.nids, n-have, s.o.MaxSeries, keys[0]),
			"a label that never repeats (a request's id, a time) is the usual cause: drop it where it is made"))
	}
	_, err = tx.Exec(ctx, `insert into headroom.series (id, name, labels, key, first)
		select i, n, l::jsonb, k, f from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::timestamptz[]) u(i, n, l, k, f)
		on conflict (id) do nothing`, ids, names, labels, keys, firsts)
	return err
}

func labelsJSON(s *metric.Series) string {
	m := make(map[string]string, len(s.Labels))
	for _, l := range s.Labels {
		m[l.Name] = l.Value
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic("BUG: labels of valid UTF-8 that JSON refuses: " + err.Error())
	}
	return string(b)
}
