// Package store keeps samples in PostgreSQL: raw points by day, packed when
// their hour is over; minutes, hours and days for as long as the retention
// says. All of it is plain tables and views of schema headroom.
package store

import (
	"time"

	"headroom/metric"
)

// Match is one condition on a label ("__name__" is the metric's name).
type Match struct {
	Label string
	Op    string // = != =~ !~ (regular expressions are anchored at both ends)
	Value string
}

// Query asks for numbers over time. The result has one line for each group.
type Query struct {
	Match    []Match       // all must hold; at least one = or =~ on the name
	From, To time.Time     // From inclusive, To exclusive
	Step     time.Duration // width of a bucket; 0: such that there are at most Points
	Points   int           // 0: 1000; at most 11,000
	Func     string        // of each series in a bucket: avg min max last sum count rate increase p50 p90 p95 p99
	By       []string      // labels that make groups; nil: each series by itself; [""]: one group of all
	Agg      string        // of the series of a group: sum avg min max count
	Top      int           // only the k lines with the largest mean; 0: all
	Limit    int           // most series that may match before the query is refused; 0: 10,000
}

// Frame is a query's answer.
type Frame struct {
	From, To   time.Time
	Step       time.Duration
	Resolution string   // what it was made of: raw, 1m, 1h or 1d
	At         []int64  // bucket starts, milliseconds, the same for all lines
	Lines      []Line   // sorted by label text; by mean, falling, with Top
	Warnings   []string // what the reader must know: a resolution coarser than asked, data cut by retention
}

// Line is one series or group. A bucket without data is NaN.
type Line struct {
	Labels []metric.Label
	Name   string // metric's name, where all series of the line share it
	Values []float64
}

// SeriesInfo is one series the store knows.
type SeriesInfo struct {
	Series      *metric.Series
	First, Last time.Time // of its points; Last to within a minute
}

// Mark is something that happened, drawn on every chart's time axis.
type Mark struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"` // change, revert, trial, restart, boot, gap
	Host string    `json:"host,omitempty"`
	Key  string    `json:"key"` // with Kind and Host: the same mark is kept once
	Text string    `json:"text"`
	Link string    `json:"link,omitempty"` // path of the page that tells more
}
