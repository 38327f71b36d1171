package fwproof_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"headroom/engine/fwproof"
	"headroom/engine/ruleset"
	"headroom/engine/stateless"
	"headroom/testkit/need"
)

// given reads a rule set of testdata: an archive with one file for each tool.
func given(t *testing.T, path string) (rules []*ruleset.Ruleset, side fwproof.Side) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var sets []*ruleset.Set
	for _, f := range txtar.Parse(raw).Files {
		var rs *ruleset.Ruleset
		text := string(f.Data)
		switch f.Name {
		case "iptables":
			rs, err = ruleset.ParseIPTables(f.Name, ruleset.IP, f.Data)
		case "ip6tables":
			rs, err = ruleset.ParseIPTables(f.Name, ruleset.IP6, f.Data)
		case "ipset":
			var ips *ruleset.Ruleset
			if ips, err = ruleset.ParseIPSet(f.Name, f.Data); err == nil {
				sets = ips.Sets
			}
		case "nft":
			var json []byte
			if json, err = fwproof.ReadNFT(t.Context(), text); err == nil {
				rs, err = ruleset.ParseNFT(f.Name, json)
			}
		default:
			t.Fatalf("%s: file %s", path, f.Name)
		}
		if err != nil {
			t.Fatal(err)
		}
		if rs != nil {
			rules = append(rules, rs)
		}
		side = append(side, fwproof.Load{Tool: f.Name, Text: text})
	}
	for _, rs := range rules {
		if rs.Tool == ruleset.IPTables && sets != nil {
			rs.Attach(sets)
		}
	}
	return rules, side
}

// flows is how many flows are tried on each rule set: HEADROOM_FLOWS, or few
// enough for everyday. 3000 are what a plan tries.
func flows() int {
	if n, err := strconv.Atoi(os.Getenv("HEADROOM_FLOWS")); err == nil {
		return n
	}
	return 200
}

func TestTestdata(t *testing.T) {
	need.Have(t, "netns", "nft", "iptables", "ipset")
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 60 {
		t.Fatal(len(files), err)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules, side := given(t, path)
			res, err := stateless.Convert(rules, stateless.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Refused) > 0 {
				for _, r := range res.Refused {
					t.Logf("refused: %s %s: %s", r.Chain, r.Rule, r.Reason)
				}
				res, err = stateless.Convert(rules, stateless.Options{Partial: true})
				if refused := strings.HasPrefix(name, "refused-"); refused || err != nil {
					if !refused || err == nil {
						t.Fatalf("converted in part: %v", err)
					}
					return
				}
			}
			out, err := fwproof.Written(res.Rulesets)
			if err != nil {
				t.Fatal(err)
			}
			if os.Getenv("SHOW") != "" {
				for _, x := range out {
					t.Log(x.Tool + ":\n" + x.Text)
				}
			}
			rep, err := fwproof.Prove(t.Context(), fwproof.Input{Old: rules, Text: side, New: res.Rulesets, Intent: fwproof.Intent{Ports: stateless.DefaultPorts}, Most: flows()})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d conversations, %d packets, %d undeliverable, %d accepted", rep.Conversations, rep.Packets, rep.Undeliverable, rep.Accepted)
			for _, g := range rep.Groups {
				t.Logf("%5d %s (%s)", g.Count, g.Name, g.Example)
			}
			for _, d := range rep.Unexpected[:min(len(rep.Unexpected), 12)] {
				t.Errorf("%s\n  before: %s\n  rule: %s\n  %s", d.Packet, strings.Join(slices.Clone(d.Before), "; "), d.About, d.Why)
			}
			if n := len(rep.Unexpected); n > 0 {
				t.Errorf("%d unexpected", n)
			}
		})
	}
}
