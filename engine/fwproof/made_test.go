package fwproof_test

import (
	"context"
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"headroom/engine/fwproof"
	"headroom/engine/rulegen"
	"headroom/engine/ruleset"
	"headroom/engine/stateless"
	"headroom/testkit/need"
)

func parsed(t rapid.TB, tool, text string) []*ruleset.Ruleset {
	t.Helper()
	var rs *ruleset.Ruleset
	var err error
	switch tool {
	case "iptables":
		rs, err = ruleset.ParseIPTables(tool, ruleset.IP, []byte(text))
	case "ip6tables":
		rs, err = ruleset.ParseIPTables(tool, ruleset.IP6, []byte(text))
	default:
		var json []byte
		if json, err = fwproof.ReadNFT(context.Background(), text); err == nil {
			rs, err = ruleset.ParseNFT(tool, json)
		}
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return []*ruleset.Ruleset{rs}
}

// A rule set that somebody may write keeps its policy when it is converted.
// HEADROOM_RULESETS is how many are made, HEADROOM_FLOWS how many flows each
// gets; scripts/bench stateless makes 1,000.
func TestMadeRuleSets(t *testing.T) {
	need.Have(t, "netns", "nft", "iptables")
	n := 12
	if s := os.Getenv("HEADROOM_RULESETS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := flag.Set("rapid.checks", strconv.Itoa(n)); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		tool, text := rulegen.Set(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") })
		old := parsed(t, tool, text)
		res, err := stateless.Convert(old, stateless.Options{})
		if err != nil || len(res.Refused) > 0 {
			t.Fatalf("%v, %v\n%s", err, res, text)
		}
		rep, err := fwproof.Prove(context.Background(), fwproof.Input{
			Old: old, Text: fwproof.Side{{Tool: tool, Text: text}}, New: res.Rulesets, Intent: fwproof.Intent{Ports: stateless.DefaultPorts},
			Random: 60, Most: flows(),
		})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if len(rep.Unexpected) > 0 {
			d := rep.Unexpected[0]
			out, _ := fwproof.Written(res.Rulesets)
			t.Fatalf("%d unexpected, e.g. %s after %s\nmade for %s: %s\n%s\n%v", len(rep.Unexpected), d.Packet, strings.Join(d.Before, "; "), d.About, d.Why, text, out)
		}
	})
}
