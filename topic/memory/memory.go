// Package memory is the topic of the machine's memory: swapping, overcommit,
// changed pages that wait to be written, transparent huge pages, NUMA. What
// PostgreSQL itself does with memory is topic postgres.
package memory

import (
	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/metric"
	"headroom/probe/place"
	"headroom/probe/proc"
	"headroom/topic"
)

// Topic is memory.
var Topic = topic.Topic{
	Name:       "memory",
	Title:      "Memory: swapping, overcommit, dirty pages, huge pages, NUMA",
	Facts:      []fact.Any{proc.CPUs, proc.Memories, proc.Pressures, proc.Sysctls, proc.Boots, proc.Systems, place.Latencies},
	Checks:     []*check.Check{shortage, swappiness, noSwap, overcommit, dirtyLimits, hugeAlways, zoneReclaim},
	Recipes:    []*change.Recipe{sysctlRecipe, thpRecipe},
	Collectors: []*metric.Collector{useCollector, pagingCollector},
}
