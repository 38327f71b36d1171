// Package all is the list of topics. A new topic is one folder and one line
// here.
package all

import (
	"headroom/topic"
	"headroom/topic/disk"
	"headroom/topic/fastpath"
	"headroom/topic/firewall"
	"headroom/topic/kernel"
	"headroom/topic/memory"
	"headroom/topic/network"
	"headroom/topic/nginx"
	"headroom/topic/own"
	"headroom/topic/pool"
	"headroom/topic/postgres"
	"headroom/topic/raid"
)

// Topics returns every topic, in the order in which they are shown.
func Topics() []topic.Topic {
	return []topic.Topic{
		disk.Topic,
		memory.Topic,
		kernel.Topic,
		network.Topic,
		firewall.Topic,
		raid.Topic,
		nginx.Topic,
		pool.Topic,
		postgres.Topic,
		fastpath.Topic,
		own.Topic,
	}
}

// Still names the facts that only a change moves; a trial warns when one of
// them moved while it ran and no arm did it.
func Still() []string {
	return []string{"pg.settings", "proc.sysctl", "proc.boot", "block.devices"}
}
