package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// statelessText tells of rule sets that were converted to do without
// connection tracking.
func statelessText(raw []byte) (string, error) {
	var r struct {
		Kernel        string         `json:"kernel"`
		Cores         int            `json:"cores"`
		Seed          uint64         `json:"seed"`
		RuleSets      int            `json:"rule_sets"`
		IPTables      int            `json:"iptables"`
		IP6Tables     int            `json:"ip6tables"`
		NFT           int            `json:"nft"`
		Rules         int            `json:"rules"`
		Conversations int            `json:"conversations"`
		Packets       int            `json:"packets"`
		Accepted      int            `json:"accepted"`
		Unexpected    int            `json:"unexpected"`
		Failed        []any          `json:"failed"`
		Explained     map[string]int `json:"explained"`
		Seconds       float64        `json:"seconds"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	if r.RuleSets == 0 || r.IPTables+r.IP6Tables+r.NFT != r.RuleSets {
		return "", fmt.Errorf("%d rule sets of %d", r.IPTables+r.IP6Tables+r.NFT, r.RuleSets)
	}
	names := slices.SortedFunc(maps.Keys(r.Explained), func(a, b string) int { return r.Explained[b] - r.Explained[a] })
	rows := make([][]string, len(names))
	for i, n := range names {
		rows[i] = []string{n, fmt.Sprint(r.Explained[n]), fmt.Sprintf("%.2f %%", 100*float64(r.Explained[n])/float64(r.Packets))}
	}
	return fmt.Sprintf("%d rule sets made by chance (seed %d; %d of iptables, %d of ip6tables, %d of nft, %d rules in all) were converted by `firewall.stateless`, "+
		"and %d packets in %d conversations went through the old and the new rules in Linux %s, in %.0f s on %d cores. The old rules let %d pass. "+
		"**Unexpected verdicts: %d**, rule sets that failed: %d. The differences that statelessness explains:\n\n",
		r.RuleSets, r.Seed, r.IPTables, r.IP6Tables, r.NFT, r.Rules, r.Packets, r.Conversations, r.Kernel, r.Seconds, r.Cores, r.Accepted, r.Unexpected, len(r.Failed)) +
		table([]string{"difference", "packets", "of all"}, rows), nil
}
