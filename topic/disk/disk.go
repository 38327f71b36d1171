// Package disk is the topic of storage: how the kernel takes and treats each
// disk, which folders share one, and how full file systems are.
package disk

import (
	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/metric"
	"headroom/probe/block"
	"headroom/probe/place"
	"headroom/probe/proc"
	"headroom/topic"
	"headroom/trial"
)

// Topic is disk.
var Topic = topic.Topic{
	Name:       "disk",
	Title:      "Storage: queues, read-ahead, mount options, room, what shares a disk",
	Facts:      []fact.Any{block.Devices, block.Mounts, place.Layouts, place.Latencies, proc.Boots},
	Checks:     []*check.Check{rotationalFlag, scheduler, readAhead, noBarrier, nearlyFull, sharedDevice, atime},
	Recipes:    []*change.Recipe{queueRecipe},
	Workloads:  []*trial.Workload{RandRead, SeqRead},
	Collectors: []*metric.Collector{ioCollector, spaceCollector},
}
