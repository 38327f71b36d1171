// Package firewall is the topic of the packet filter: what its rules let in,
// what they cost, the connection tracking table, and the kernel's own checks of
// packets around them.
package firewall

import (
	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/lab"
	"headroom/probe/firewall"
	"headroom/topic"
)

// Topic is the packet filter.
var Topic = topic.Topic{
	Name:    "firewall",
	Title:   "Firewall: what gets in, what rules cost, connection tracking",
	Labs:    []*lab.Lab{Cost},
	Recipes: []*change.Recipe{statelessRecipe, rulesRecipe},
	Facts:   []fact.Any{firewall.Live, firewall.Tracked, firewall.Told, firewall.Around},
	Checks: []*check.Check{
		tableFull, trackUse, trackFlood, trackTimeouts, trackBuckets, trackedUDP,
		mtuMismatch, pathMTU, longChain, lateRule, shadowed, defaultAccept, ipv6Open, rpFilter, synCookies,
	},
}
