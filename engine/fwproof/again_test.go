package fwproof

import (
	"math/rand/v2"
	"testing"

	"headroom/engine/ruleset"
	"headroom/testkit/need"
)

// A packet that got lost on its way is no difference: what is in doubt is asked
// once more.
func TestLostPacketsAreNoDifference(t *testing.T) {
	need.Have(t, "netns", "nft", "iptables")
	const text = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n" +
		"-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\nCOMMIT\n"
	rs, err := ruleset.ParseIPTables("rules", ruleset.IP, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	all := []*ruleset.Ruleset{rs}
	p := &proof{in: Input{Old: all, New: all}, corpus: newCorpus(all, 10, 100, rand.New(rand.NewPCG(1, 1))), rep: &Report{}, aims: aims(all)}
	if err := p.write(); err != nil {
		t.Fatal(err)
	}
	done, err := p.play(t.Context())
	defer done()
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for i := range p.talk {
		if i%3 == 0 && p.is[i][0] {
			p.is[i][0] = false
			lost++
		}
	}
	if lost < 10 {
		t.Fatalf("%d packets passed", lost)
	}
	if err := p.judge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(p.rep.Unexpected); n > 0 {
		t.Errorf("%d lost packets are %d differences, e.g. %s: %s", lost, n, p.rep.Unexpected[0].Packet, p.rep.Unexpected[0].Why)
	}
}
