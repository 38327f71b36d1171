// Package topic says what a topic is: one subject (disk, memory, postgres …)
// and all that Headroom knows about it, in one folder. A topic never alters
// the machine: it declares facts, checks, recipes, workloads and labs as data.
package topic

import (
	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/lab"
	"headroom/metric"
	"headroom/trial"
)

// Topic is one subject. A field that it does not have stays empty.
type Topic struct {
	Name      string // "disk"; the first part of all its ids
	Title     string // one line
	Facts     []fact.Any
	Checks    []*check.Check
	Recipes   []*change.Recipe
	Workloads []*trial.Workload
	Labs      []*lab.Lab
	// Collectors read its numbers over time, for `headroom up`.
	Collectors []*metric.Collector
}
