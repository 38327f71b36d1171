package fwproof_test

import (
	"slices"
	"strings"
	"testing"

	"headroom/engine/fwproof"
	"headroom/engine/ruleset"
	"headroom/engine/stateless"
	"headroom/testkit/need"
)

// chainOf finds a chain of a converted rule set.
func chainOf(t *testing.T, res *stateless.Result, name string) *ruleset.Chain {
	t.Helper()
	for _, rs := range res.Rulesets {
		for _, tb := range rs.Tables {
			for _, c := range tb.Chains {
				if c.Name == name {
					return c
				}
			}
		}
	}
	t.Fatalf("no chain %s", name)
	return nil
}

// without takes one field's matches out of the rules of a chain.
func without(c *ruleset.Chain, f ruleset.Field) {
	for i, r := range c.Rules {
		x := *r
		x.Matches = slices.DeleteFunc(slices.Clone(r.Matches), func(m ruleset.Match) bool { return m.Field == f })
		c.Rules[i] = &x
	}
}

// A conversion with a fault is not believed: the proof can fail.
func TestFaultsAreFound(t *testing.T) {
	need.Have(t, "netns", "nft", "iptables")
	for _, x := range []struct {
		name, set, says string
		spoil           func(t *testing.T, res *stateless.Result)
	}{
		{"rule left out", "web-basic", "TCP SYN", func(t *testing.T, res *stateless.Result) {
			c := chainOf(t, res, "INPUT")
			c.Rules = c.Rules[:len(c.Rules)-1]
		}},
		{"mirror for all peers", "strict-out", "UDP", func(t *testing.T, res *stateless.Result) {
			without(chainOf(t, res, "hr_replies_input"), ruleset.SAddr)
		}},
		{"mirror from all ports", "strict-out", "UDP", func(t *testing.T, res *stateless.Result) {
			without(chainOf(t, res, "hr_replies_input"), ruleset.SPort)
		}},
		{"answers not let out", "strict-out", "out of", func(t *testing.T, res *stateless.Result) {
			chainOf(t, res, "hr_replies_output").Rules = nil
		}},
		{"any flags", "web-basic", "TCP", func(t *testing.T, res *stateless.Result) {
			without(chainOf(t, res, "hr_replies_input"), ruleset.TCPFlags)
		}},
		{"path MTU refused", "web-basic", "ICMP type 3", func(t *testing.T, res *stateless.Result) {
			c := chainOf(t, res, "INPUT")
			c.Rules = slices.DeleteFunc(slices.Clone(c.Rules), func(r *ruleset.Rule) bool {
				return slices.ContainsFunc(r.Matches, func(m ruleset.Match) bool {
					return m.Field == ruleset.ICMPType && slices.Contains(m.Numbers, ruleset.Range{Lo: 3, Hi: 3}) && !m.Not
				})
			})
		}},
		{"policy", "nft-server", "in on", func(t *testing.T, res *stateless.Result) {
			chainOf(t, res, "input").Policy = ruleset.Accept
		}},
		{"fragments not put together", "router-two-nets", "in fragments", func(_ *testing.T, res *stateless.Result) {
			for _, rs := range res.Rulesets {
				for _, tb := range rs.Tables {
					tb.Chains = slices.DeleteFunc(tb.Chains, func(c *ruleset.Chain) bool { return c.Name == "hr_reassemble" })
				}
			}
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			rules, side := given(t, "testdata/"+x.set+".txtar")
			res, err := stateless.Convert(rules, stateless.Options{})
			if err != nil {
				t.Fatal(err)
			}
			x.spoil(t, res)
			rep, err := fwproof.Prove(t.Context(), fwproof.Input{Old: rules, Text: side, New: res.Rulesets, Intent: fwproof.Intent{Ports: stateless.DefaultPorts}, Most: 800, Random: 50})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(rep.Unexpected, func(d fwproof.Difference) bool { return strings.Contains(d.Packet, x.says) }) {
				t.Errorf("%d unexpected differences, none about %q", len(rep.Unexpected), x.says)
			}
		})
	}
}

// Two copies of one rule set do not differ, and a rule set that accepts all is
// not taken for one that filters.
func TestMethod(t *testing.T) {
	need.Have(t, "netns", "nft", "iptables")
	rules, side := given(t, "testdata/web-basic.txtar")
	same, err := fwproof.Prove(t.Context(), fwproof.Input{Old: rules, Text: side, New: rules, Most: 500, Random: 50})
	if err != nil {
		t.Fatal(err)
	}
	if len(same.Groups) > 0 || len(same.Unexpected) > 0 || same.Accepted == 0 || same.Accepted == same.Packets {
		t.Errorf("with itself: %d groups, %d unexpected, %d of %d accepted", len(same.Groups), len(same.Unexpected), same.Accepted, same.Packets)
	}
	open := &ruleset.Ruleset{Tool: ruleset.NFT, Tables: []*ruleset.Table{{Family: ruleset.IP, Name: "open", Chains: []*ruleset.Chain{
		{Name: "in", Hook: "input", Type: "filter", Policy: ruleset.Accept},
	}}}}
	wide, err := fwproof.Prove(t.Context(), fwproof.Input{Old: rules, Text: side, New: []*ruleset.Ruleset{open}, Most: 500, Random: 50})
	if err != nil {
		t.Fatal(err)
	}
	if len(wide.Unexpected) < 100 {
		t.Errorf("an open rule set has %d unexpected differences", len(wide.Unexpected))
	}
}
