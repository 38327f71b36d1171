package postgres

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"headroom/metric"
	"headroom/probe/pg"
)

//go:embed sql
var metricSQL embed.FS

// column is one metric, and what a server must have so that the number is
// true. The statement names it as the metric.
type column struct {
	*metric.Def
	since   int64  // the major version that brought it; 0: all have it
	until   int64  // the last that has it; 0: all newer ones do
	instead string // where to look since it is gone
	needs   []want
}

// reading is one statement: its rows become samples. A column that is NULL
// gives none: there is nothing to tell of that row.
type reading struct {
	sql     string            // sql/NAME.sql, sql/NAME.VERSION.sql
	standby bool              // only a server in recovery has it
	fill    *strings.Replacer // what the statement names in braces; nil: nothing
	columns []column
}

// want says why a column cannot be had of a server, and the way out; "" if it
// can.
type want func(s state) (because, hint string)

// state is what sql/state.sql tells: what we may see, and what the server counts.
type state struct {
	role                string
	stats, waldir       bool // rights: pg_read_all_stats, pg_ls_waldir()
	recovery            bool
	ioTiming, walTiming bool
	counts, activities  bool
	checksums, planning bool
}

// of makes a reading: labels and view are those of all its columns
// that have none of their own.
func of(sql, view string, labels []string, columns ...column) reading {
	for i := range columns {
		d := columns[i].Def
		if d.Labels == nil {
			d.Labels = labels
		}
		if whole, ok := strings.CutPrefix(d.Source, "= "); ok {
			d.Source = whole
		} else {
			d.Source = view + " " + d.Source
		}
		if since := columns[i].since; since > 0 {
			d.Source += fmt.Sprintf(" (%d and newer)", since)
		}
		if until := columns[i].until; until > 0 {
			d.Source += fmt.Sprintf(" (%d and older)", until)
		}
	}
	return reading{sql: sql, columns: columns}
}

// all adds needs that each column of the reading has.
func (r reading) all(needs ...want) reading {
	for i := range r.columns {
		r.columns[i].needs = append(slices.Clone(needs), r.columns[i].needs...)
	}
	return r
}

// onStandby says that only a server in recovery has the columns.
func (r reading) onStandby() reading {
	r.standby = true
	return r
}

// col declares a column: what it is, and the column or expression of the
// reading's view that it is made of, or of another with "= " before it. Kind
// and unit are as the name ends.
func col(name, help, source string) column {
	d := &metric.Def{Name: name, Help: help, Source: source, Kind: metric.Gauge, Unit: metric.Count}
	base, counter := strings.CutSuffix(name, "_total")
	if counter {
		d.Kind = metric.Counter
	}
	for _, u := range []string{metric.Seconds, metric.Bytes, metric.Ratio, metric.Info} {
		if strings.HasSuffix(base, "_"+u) {
			d.Unit = u
		}
	}
	return column{Def: d}
}

// from says which major version brought the column.
func (f column) from(major int64) column { f.since = major; return f }

// till says which major version was the last with the column, and what came after.
func (f column) till(major int64, instead string) column {
	f.until, f.instead = major, instead
	return f
}

// wants adds needs.
func (f column) wants(needs ...want) column { f.needs = append(f.needs, needs...); return f }

// labelled gives the column labels of its own.
func (f column) labelled(labels ...string) column {
	f.Labels = append([]string{}, labels...) // not nil: none are its own too
	return f
}

func needStats(s state) (string, string) {
	if s.stats {
		return "", ""
	}
	return "what other roles do cannot be seen", "GRANT pg_monitor TO " + pg.Quote(s.role)
}

func needFolder(s state) (string, string) {
	if s.waldir {
		return "", ""
	}
	return "the folder of the write-ahead log may not be listed", "GRANT pg_monitor TO " + pg.Quote(s.role)
}

func needIOTiming(s state) (string, string) {
	if s.ioTiming {
		return "", ""
	}
	return "track_io_timing is off: the server takes no times of reads and writes", "headroom plan postgres.setting track_io_timing=on"
}

func needWALTiming(s state) (string, string) {
	if s.walTiming {
		return "", ""
	}
	return "track_wal_io_timing is off: the server takes no times of the write-ahead log's writes", "headroom plan postgres.setting track_wal_io_timing=on"
}

func needCounts(s state) (string, string) {
	if s.counts {
		return "", ""
	}
	return "track_counts is off: the server counts nothing, and autovacuum does not come", "headroom plan postgres.setting track_counts=on"
}

func needActivities(s state) (string, string) {
	if s.activities {
		return "", ""
	}
	return "track_activities is off: sessions do not say what they do", "headroom plan postgres.setting track_activities=on"
}

func needChecksums(s state) (string, string) {
	if s.checksums {
		return "", ""
	}
	return "data checksums are off: damaged pages are not noticed", "stop the server, then: pg_checksums --enable -D DATA"
}

func needPlanning(s state) (string, string) {
	if s.planning {
		return "", ""
	}
	return "pg_stat_statements.track_planning is off: the time of planning is not taken", "headroom plan postgres.setting pg_stat_statements.track_planning=on"
}
