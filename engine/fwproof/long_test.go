package fwproof_test

import (
	"fmt"
	"strings"
	"testing"

	"headroom/engine/fwproof"
	"headroom/engine/stateless"
	"headroom/testkit/need"
)

// Of a long list some rules are tried, inside and just outside of what they
// take, and the report says how many.
func TestLongList(t *testing.T) {
	need.Have(t, "netns", "nft", "iptables")
	const n = 3000
	var b strings.Builder
	b.WriteString("*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n")
	for i := range n {
		fmt.Fprintf(&b, "-A INPUT -s 100.%d.%d.0/25 -j DROP\n", i>>8, i&255)
	}
	b.WriteString("-A INPUT -p tcp -m tcp --dport 23 -j DROP\nCOMMIT\n")
	old := parsed(t, "iptables", b.String())
	res, err := stateless.Convert(old, stateless.Options{})
	if err != nil || len(res.Refused) > 0 {
		t.Fatal(err, res)
	}
	in := fwproof.Input{Old: old, Text: fwproof.Side{{Tool: "iptables", Text: b.String()}}, New: res.Rulesets, Intent: fwproof.Intent{Ports: stateless.DefaultPorts}, Random: 10, Most: 200}
	rep, err := fwproof.Prove(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Unexpected) > 0 || rep.Rules != n+2 || rep.Tried < 20 || rep.Tried > 200 {
		t.Errorf("%d of %d rules tried, unexpected: %+v", rep.Tried, rep.Rules, rep.Unexpected)
	}
	for _, rs := range res.Rulesets { // rules a bit too wide are noticed at their edges
		for _, c := range rs.Tables[0].Chains {
			for _, r := range c.Rules {
				if len(r.Matches) == 1 && len(r.Matches[0].Addrs) == 1 {
					a := &r.Matches[0].Addrs[0]
					a.Hi = a.Hi.Next()
				}
			}
		}
	}
	if rep, err = fwproof.Prove(t.Context(), in); err != nil || len(rep.Unexpected) == 0 {
		t.Errorf("each rule takes one address too many: %d unexpected, %v", len(rep.Unexpected), err)
	}
}
