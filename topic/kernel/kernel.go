// Package kernel is the topic of what the machine as a whole does: CPU time,
// what work waits for, processes and their limits, the clock.
package kernel

import (
	"headroom/metric"
	"headroom/topic"
)

// Topic is the kernel.
var Topic = topic.Topic{
	Name:       "kernel",
	Title:      "Kernel: CPU time, pressure, processes and files against their limits, clock",
	Collectors: []*metric.Collector{cpuCollector, pressureCollector, limitCollector, clockCollector, infoCollector},
}
