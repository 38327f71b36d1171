// Package own is the topic of Headroom itself: what its process takes of the
// machine, and how its collectors do. Who watches must be watched as well.
package own

import (
	"headroom/metric"
	"headroom/topic"
)

// Topic is Headroom itself.
var Topic = topic.Topic{
	Name:       "own",
	Title:      "Headroom itself: what it takes, and how its collectors do",
	Collectors: []*metric.Collector{process, rounds},
}
