// Package network is the topic of the network as the kernel counts it:
// interfaces, TCP, the connection tracking table.
package network

import (
	"headroom/metric"
	"headroom/topic"
)

// Topic is the network.
var Topic = topic.Topic{
	Name:       "network",
	Title:      "Network: interfaces, TCP, connection tracking",
	Collectors: []*metric.Collector{interfaceCollector, tcpCollector, conntrackCollector},
}
