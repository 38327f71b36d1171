package api

import (
	"time"

	"headroom/store"
)

// storeJSON is the store's status in base units.
type storeJSON struct {
	PostgreSQL string        `json:"postgresql"`
	Citus      bool          `json:"citus"`
	Series     int64         `json:"series"`
	Bytes      int64         `json:"bytes"`
	Oldest     time.Time     `json:"oldest,omitzero"`
	Newest     time.Time     `json:"newest,omitzero"`
	Lag        float64       `json:"lag_seconds"` // from the newest point to now
	Clock      string        `json:"clock,omitempty"`
	Hot        int64         `json:"unpacked_points"`
	HotBytes   int64         `json:"unpacked_bytes"`
	PackedTo   time.Time     `json:"packed_to,omitzero"`
	RolledTo   time.Time     `json:"rolled_to,omitzero"`
	Dirty      int64         `json:"to_roll_up_anew"`
	Problem    string        `json:"problem,omitempty"`
	Retention  string        `json:"retention"`
	Forecast   *forecastJSON `json:"forecast"` // null: nothing to reckon with yet
	Tables     []tableJSON   `json:"tables"`
}

type forecastJSON struct {
	Raw        int64 `json:"raw_bytes"`
	Minute     int64 `json:"minute_bytes"`
	Hour       int64 `json:"hour_bytes"`
	DayPerYear int64 `json:"day_bytes_per_year"`
	Total      int64 `json:"total_bytes"`
}

type tableJSON struct {
	Name       string `json:"name"`
	Rows       int64  `json:"rows"` // estimated
	Bytes      int64  `json:"bytes"`
	Partitions int    `json:"partitions"`
}

func storeOf(s store.Status) storeJSON {
	j := storeJSON{PostgreSQL: s.Server, Citus: s.Citus, Series: s.Series, Bytes: s.Bytes, Oldest: s.Oldest, Newest: s.Newest,
		Lag: s.Lag.Seconds(), Clock: s.Clock, Hot: s.Hot, HotBytes: s.HotBytes, PackedTo: s.PackedTo, RolledTo: s.RolledTo, Dirty: s.Dirty,
		Problem: s.Problem, Retention: s.Retention.String(), Tables: []tableJSON{}}
	for _, t := range []*time.Time{&j.Oldest, &j.Newest, &j.PackedTo, &j.RolledTo} {
		if !t.IsZero() {
			*t = t.UTC()
		}
	}
	if f := s.Forecast; f.Known {
		j.Forecast = &forecastJSON{f.Raw, f.Minute, f.Hour, f.DayPerYear, f.Total}
	}
	for _, t := range s.Tables {
		j.Tables = append(j.Tables, tableJSON(t))
	}
	return j
}
