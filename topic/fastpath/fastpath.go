// Package fastpath is the topic of fast ways into PostgreSQL: ready-made
// experiments on upserts, bulk loads, hot rows and the SQL that goes with
// them. Each repeats what a source measured then, and puts beside it what the
// verbs ingest, load and sql do.
package fastpath

import (
	"headroom/lab"
	"headroom/topic"
)

// Topic is the subject as a whole.
var Topic = topic.Topic{
	Name:  "fastpath",
	Title: "Fast paths into PostgreSQL: upserts, bulk loads, hot rows, distinct values, counts",
	Labs:  []*lab.Lab{Upsert, BulkLoad, HotRow, Distinct, ValueCounts, UpsertSizes},
}
