package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"headroom/fail"
	"headroom/metric"
)

// found is a series that the store knows.
type found struct {
	*metric.Series
	first time.Time
}

// find lists the series for which all conditions hold, by name and labels; at
// most limit, and whether there are more.
func (s *Store) find(ctx context.Context, ms []Match, limit int) ([]found, bool, error) {
	m, err := compile(ms)
	if err != nil {
		return nil, false, err
	}
	names := m.names
	if s.citus { // recursion is not dealt out; the server's part is read whole
		names = func(context.Context, execer) error { return nil }
	}
	if err := names(ctx, s.read); err != nil {
		return nil, false, err
	}
	sql := "select name, labels, first from headroom.series"
	if len(m.conds) > 0 {
		sql += " where " + strings.Join(m.conds, " and ")
	}
	rows, err := s.read.Query(ctx, sql, m.args...)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	var out []found
	for rows.Next() {
		f, err := scanSeries(rows)
		if err != nil {
			return nil, false, err
		}
		if !m.holds(f.Series) {
			continue
		}
		if len(out) == limit {
			return out, true, nil
		}
		out = append(out, f)
	}
	if err := rows.Err(); err != nil {
		return nil, false, err
	}
	slices.SortFunc(out, func(a, b found) int { return strings.Compare(a.Key(), b.Key()) })
	return out, false, nil
}

func scanSeries(rows pgx.Rows) (found, error) {
	var name string
	var labels []byte
	var f found
	if err := rows.Scan(&name, &labels, &f.first); err != nil {
		return f, err
	}
	var m map[string]string
	if err := json.Unmarshal(labels, &m); err != nil {
		return f, fmt.Errorf("read the labels of a series of %s: %w", name, err)
	}
	ls := make([]metric.Label, 0, len(m))
	for n, v := range m {
		ls = append(ls, metric.Label{Name: n, Value: v})
	}
	var err error
	if f.Series, err = metric.NewSeries(name, ls); err != nil {
		return f, fmt.Errorf("read a series of %s: %w", name, err)
	}
	return f, nil
}

// Series lists what the store knows of the series for which all conditions
// hold and that have points within the time (zero times: any); by key, at most
// limit (0: 10,000).
func (s *Store) Series(ctx context.Context, ms []Match, from, to time.Time, limit int) ([]SeriesInfo, error) {
	if limit <= 0 {
		limit = 10_000
	}
	const most = 1_000_000
	fs, _, err := s.find(ctx, ms, most)
	if err != nil {
		return nil, fmt.Errorf("list series: %w", err)
	}
	last, err := s.lastOf(ctx, fs)
	if err != nil {
		return nil, fmt.Errorf("list series: %w", err)
	}
	var out []SeriesInfo
	for _, f := range fs {
		info := SeriesInfo{Series: f.Series, First: f.first, Last: f.first}
		if p, ok := last[f.ID()]; ok {
			info.Last = time.UnixMilli(p.At).UTC()
		}
		if !from.IsZero() && info.Last.Before(from) || !to.IsZero() && !info.First.Before(to) {
			continue
		}
		if out = append(out, info); len(out) == limit {
			break
		}
	}
	return out, nil
}

// Names lists the metrics' names that the store knows, sorted.
func (s *Store) Names(ctx context.Context, ms []Match) ([]string, error) {
	return s.LabelValues(ctx, "__name__", ms)
}

// LabelValues lists a label's values over the series for which all conditions
// hold, sorted, without the empty one. "__name__" is the metric's name.
func (s *Store) LabelValues(ctx context.Context, label string, ms []Match) ([]string, error) {
	if label == "__name__" && len(ms) == 0 && !s.citus {
		names, err := allNames(ctx, s.read)
		if err != nil {
			return nil, fmt.Errorf("list names: %w", err)
		}
		return names, nil
	}
	out, err := s.labelValues(ctx, label, ms)
	if err != nil {
		return nil, fmt.Errorf("list values of label %s: %w", label, err)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// labelValues has the server do it where no regular expression is among the
// conditions.
func (s *Store) labelValues(ctx context.Context, label string, ms []Match) ([]string, error) {
	m, err := compile(ms)
	if err != nil {
		return nil, err
	}
	if len(m.local) == 0 && label != "__name__" {
		m.args = append(m.args, label)
		n := len(m.args)
		conds := append(m.conds, fmt.Sprintf("labels ->> $%d is not null", n))
		rows, err := s.read.Query(ctx, fmt.Sprintf("select distinct labels ->> $%d from headroom.series where %s", n, strings.Join(conds, " and ")), m.args...)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowTo[string])
	}
	fs, _, err := s.find(ctx, ms, 5_000_000)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range fs {
		if v := f.Get(label); v != "" {
			out = append(out, v)
		}
	}
	return out, nil
}

// LastPoint is the newest point of a series.
type LastPoint struct {
	Series *metric.Series
	Point  metric.Point
}

// Last returns the newest point of each series for which all conditions hold,
// by key; series whose points were all dropped are left out.
func (s *Store) Last(ctx context.Context, ms []Match) ([]LastPoint, error) {
	fs, more, err := s.find(ctx, ms, 100_000)
	if err == nil && more {
		err = fail.Hint(fmt.Errorf("more than 100,000 series match"), "add conditions on name or labels")
	}
	if err != nil {
		return nil, fmt.Errorf("read last points: %w", err)
	}
	last, err := s.lastOf(ctx, fs)
	if err != nil {
		return nil, fmt.Errorf("read last points: %w", err)
	}
	var out []LastPoint
	for _, f := range fs {
		if p, ok := last[f.ID()]; ok {
			out = append(out, LastPoint{f.Series, p})
		}
	}
	return out, nil
}

// lastOf looks first where it costs nothing: into the head, then into packed
// hours, then into days.
func (s *Store) lastOf(ctx context.Context, fs []found) (map[int64]metric.Point, error) {
	out := make(map[int64]metric.Point, len(fs))
	var rest []int64
	s.head.mu.RLock()
	for _, f := range fs {
		if e := s.head.series[f.ID()]; e != nil && e.last.At > 0 {
			out[f.ID()] = e.last
		} else {
			rest = append(rest, f.ID())
		}
	}
	s.head.mu.RUnlock()
	if len(rest) == 0 {
		return out, nil
	}
	rows, err := s.read.Query(ctx, `select r.series, r.at, r.n, r.times, r.vals from headroom.store_raw r,
		(select series, max(at) as at from headroom.store_raw where series = any($1) group by series) m
		where r.series = m.series and r.at = m.at and r.series = any($1)`, rest)
	if err != nil {
		return nil, err
	}
	var c coder
	if err := eachRaw(rows, &c, func(id, _ int64, ps []metric.Point) { out[id] = ps[len(ps)-1] }); err != nil {
		return nil, err
	}
	rest = slices.DeleteFunc(rest, func(id int64) bool { _, ok := out[id]; return ok })
	if len(rest) == 0 {
		return out, nil
	}
	rows, err = s.read.Query(ctx, "select distinct on (series) series, last_at, last from headroom.store_day where series = any($1) order by series, day desc", rest)
	if err != nil {
		return nil, err
	}
	var id int64
	var at time.Time
	var v float64
	_, err = pgx.ForEachRow(rows, []any{&id, &at, &v}, func() error {
		out[id] = metric.Point{At: at.UnixMilli(), Value: v}
		return nil
	})
	return out, err
}
