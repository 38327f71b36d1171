package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"headroom/metric"
	"headroom/store"
)

// history is a store with two weeks of minutes, and before that two years of
// an hour's points, which come through Write, are packed and rolled up as in
// life.
type history struct {
	Series        int     `json:"series"`
	MinutePoints  int     `json:"points_of_two_weeks"`
	YearSeries    int     `json:"series_of_two_years"`
	YearPoints    int     `json:"points_of_two_years"`
	CPU           spent   `json:"cpu_seconds"`
	Wall          float64 `json:"seconds"`
	BytesMinute   float64 `json:"bytes_per_minute_bucket"`
	BytesHourDay  float64 `json:"bytes_per_series_and_day_of_hours"`
	BytesDay      float64 `json:"bytes_per_day_bucket"`
	ForecastBytes int64   `json:"forecast_bytes_under_the_default_retention"`
}

type question struct {
	What   string  `json:"what"`
	Runs   int     `json:"runs"`
	P50    float64 `json:"p50_ms"`
	P95    float64 `json:"p95_ms"`
	Max    float64 `json:"max_ms"`
	Points int     `json:"values_in_an_answer"`
}

func (b *bench) history(n int) (*history, []question, error) {
	end := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := newClock(end.AddDate(-2, 0, 0))
	s, pg, err := b.open(c)
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	defer pg.Close(b.ctx)
	const each = 100
	all, err := fleetSeries(n/each, each)
	if err != nil {
		return nil, nil, err
	}
	h := &history{Series: n, YearSeries: 3 * each}
	cpu, took, err := b.measure(func() error { return h.fill(b, s, c, end, all) })
	if err != nil {
		return nil, nil, err
	}
	h.CPU, h.Wall = cpu, took.Seconds()
	err = pg.QueryRow(b.ctx, `select
		(select sum(pg_total_relation_size(relid)) from pg_partition_tree('headroom.store_minute'))::float8 / (select sum(n) from headroom.store_minute),
		(select sum(pg_total_relation_size(relid)) from pg_partition_tree('headroom.store_hour'))::float8 / (select count(*) from headroom.store_hour),
		(select sum(pg_total_relation_size(relid)) from pg_partition_tree('headroom.store_day'))::float8 / (select count(*) from headroom.store_day)`).
		Scan(&h.BytesMinute, &h.BytesHourDay, &h.BytesDay)
	if err != nil {
		return nil, nil, err
	}
	st, err := s.Status(b.ctx)
	if err != nil {
		return nil, nil, err
	}
	h.ForecastBytes = st.Forecast.Total
	fmt.Printf("%+v\n", *h)
	qs, err := b.ask(s, end, n/each)
	return h, qs, err
}

// fill writes two years of one point an hour of a few series, then two weeks
// of one a minute of all.
func (h *history) fill(b *bench, s *store.Store, c *clock, end time.Time, all [][]*metric.Series) error {
	weeks := end.AddDate(0, 0, -14)
	for round := 0; c.now().Before(weeks); round++ {
		var bs []*metric.Batch
		for hour := range 24 {
			for i, series := range all[:3] {
				bs = append(bs, scrape(series, i*100, round*24+hour, c.now().Add(time.Duration(hour)*time.Hour).UnixMilli()))
				h.YearPoints += len(series)
			}
		}
		c.add(24 * time.Hour)
		if err := s.Write(b.ctx, bs); err != nil {
			return err
		}
		if err := s.Maintain(b.ctx); err != nil {
			return err
		}
	}
	for round := 0; c.now().Before(end); round++ {
		var bs []*metric.Batch
		for i, series := range all {
			bs = append(bs, scrape(series, i*100, round, c.now().UnixMilli()))
			h.MinutePoints += len(series)
		}
		if err := s.Write(b.ctx, bs); err != nil {
			return err
		}
		if round%60 == 5 {
			if err := s.Maintain(b.ctx); err != nil {
				return err
			}
		}
		c.add(time.Minute)
	}
	return s.Maintain(b.ctx)
}

func (b *bench) ask(s *store.Store, end time.Time, hosts int) ([]question, error) {
	day := 24 * time.Hour
	name := func(f string) func() []store.Match {
		return func() []store.Match {
			return []store.Match{{Label: "__name__", Op: "=", Value: fmt.Sprintf(f, rand.IntN(33)*3)}, {Label: "host", Op: "=~", Value: some(12, hosts)}}
		}
	}
	counter := func() []store.Match {
		return []store.Match{{Label: "__name__", Op: "=", Value: fmt.Sprintf("host_thing_%d_total", rand.IntN(33)*3+1)}, {Label: "host", Op: "=~", Value: some(12, hosts)}}
	}
	one := func() []store.Match { // of the few with two years
		return []store.Match{{Label: "__name__", Op: "=~", Value: fmt.Sprintf("host_level_(%d|%d|%d|%d)", rand.IntN(8)*3, 24+rand.IntN(8)*3, 48+rand.IntN(8)*3, 72+rand.IntN(8)*3)}, {Label: "host", Op: "=~", Value: "host-000[012]"}}
	}
	var out []question
	for _, q := range []struct {
		what  string
		match func() []store.Match
		back  time.Duration
		step  time.Duration
		fn    string
	}{
		{"2 weeks, 12 gauges, 1,000 points, mean", name("host_level_%d"), 14 * day, 0, "avg"},
		{"2 weeks, 12 counters, 1,000 points, rate", counter, 14 * day, 0, "rate"},
		{"2 weeks, 12 gauges, each of 10,080 double minutes, max", name("host_level_%d"), 14 * day, 2 * time.Minute, "max"},
		{"2 weeks, 12 gauges, hours, 95th percentile", name("host_level_%d"), 14 * day, time.Hour, "p95"},
		{"2 years, 12 gauges, days, mean", one, 730 * day, day, "avg"},
		{"2 years, 12 gauges, days, 95th percentile", one, 730 * day, day, "p95"},
		{"90 days, 12 gauges, hours, mean", one, 90 * day, time.Hour, "avg"},
		{"1 hour, 12 counters, 30 s, rate", counter, time.Hour, 30 * time.Second, "rate"},
	} {
		var waits []time.Duration
		x := question{What: q.what, Runs: 200}
		for range x.Runs {
			start := time.Now()
			f, err := s.Query(b.ctx, store.Query{Match: q.match(), From: end.Add(-q.back), To: end, Step: q.step, Func: q.fn})
			if err != nil {
				return nil, err
			}
			waits = append(waits, time.Since(start))
			if len(f.Lines) != 12 {
				return nil, fmt.Errorf("%s: %d lines of %s, want 12", q.what, len(f.Lines), f.Resolution)
			}
			x.Points = len(f.Lines) * len(f.At)
		}
		slices.Sort(waits)
		x.P50, x.P95, x.Max = ms(waits[len(waits)/2]), ms(waits[len(waits)*95/100]), ms(waits[len(waits)-1])
		fmt.Printf("%+v\n", x)
		out = append(out, x)
	}
	return out, nil
}

// some is a regular expression for k hosts of n.
func some(k, n int) string {
	out := ""
	for _, h := range rand.Perm(n)[:k] {
		out += fmt.Sprintf("|host-%04d", h)
	}
	return out[1:]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func quantiles(waits []time.Duration) (p50, p99 float64) {
	slices.Sort(waits)
	return ms(waits[len(waits)/2]), ms(waits[len(waits)*99/100])
}
