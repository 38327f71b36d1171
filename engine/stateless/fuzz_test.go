package stateless_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"headroom/engine/rulegen"
	"headroom/engine/ruleset"
	"headroom/engine/stateless"
)

// FuzzConvert: whatever rules of iptables can be read are converted to rules
// that can be written and read back, or refused with a reason. mode chooses the
// family and the options.
func FuzzConvert(f *testing.F) {
	files, err := filepath.Glob("../fwproof/testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for i, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, x := range txtar.Parse(raw).Files {
			switch x.Name {
			case "iptables":
				f.Add(string(x.Data), uint8(i)&^1)
			case "ip6tables":
				f.Add(string(x.Data), uint8(i)|1)
			}
		}
	}
	for seed := range uint64(20) {
		if tool, text := rulegen.Set(rand.New(rand.NewPCG(seed, 0)).IntN); tool == "iptables" {
			f.Add(text, uint8(seed)&^1)
		}
	}
	f.Fuzz(func(t *testing.T, text string, mode uint8) {
		family := ruleset.IP
		if mode&1 != 0 {
			family = ruleset.IP6
		}
		rs, err := ruleset.ParseIPTables("rules", family, []byte(text))
		if err != nil {
			return
		}
		o := stateless.Options{Partial: mode&2 != 0, As: []ruleset.Tool{"", ruleset.NFT, ruleset.IPTables, ruleset.IPTables}[mode>>2&3]}
		convert(t, rs, o)
	})
}

// What FuzzConvertMade puts rules together from.
var (
	matches = []string{"", "-p tcp", "-p udp", "-p icmp", "! -p tcp", "-p tcp -m tcp --dport 22", "-p udp -m udp --sport 53", "-p udp -m udp ! --dport 53", "-p tcp -m multiport --dports 80,443,8000:8100",
		"-s 10.0.0.0/8", "! -s 10.0.0.0/8", "-d 192.0.2.7/32", "-i eth0", "! -i eth0", "-o eth+", "-i lo", "-f", "-p icmp -m icmp --icmp-type 8", "-p icmp -m icmp ! --icmp-type 3/4",
		"-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN", "-p tcp -m tcp ! --tcp-flags SYN SYN", "-m limit --limit 5/min", "-m mark --mark 1", "-m length --length 100:200", "-p 47", "-m recent --update --name x", "-m addrtype --dst-type LOCAL"}
	states = []string{"", "", "-m conntrack --ctstate RELATED,ESTABLISHED", "-m conntrack --ctstate NEW", "-m conntrack --ctstate INVALID", "-m conntrack --ctstate ESTABLISHED", "-m conntrack ! --ctstate NEW",
		"-m state --state NEW,ESTABLISHED", "-m conntrack --ctstate RELATED", "-m conntrack --ctstate UNTRACKED", "-m conntrack ! --ctstate RELATED,ESTABLISHED", "-m conntrack --ctstate NEW,INVALID"}
	verdicts = []string{"", "-j ACCEPT", "-j ACCEPT", "-j DROP", "-j RETURN", "-j REJECT", "-j LOG", "-j a", "-j b", "-g a", "-g b", "-j a", "-j NFLOG"}
	chains   = []string{"INPUT", "OUTPUT", "FORWARD", "a", "b", "INPUT"}
)

// FuzzConvertMade does the same with rules put together from usual parts in
// unusual ways.
func FuzzConvertMade(f *testing.F) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		choices := make([]byte, 4*(1+rng.IntN(12))+2)
		for i := range choices {
			choices[i] = byte(rng.Uint32())
		}
		f.Add(choices)
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		if len(choices) < 6 || len(choices) > 200 {
			return
		}
		policy := func(bit int) string { return []string{"ACCEPT", "DROP"}[choices[0]>>bit&1] }
		var b strings.Builder
		fmt.Fprintf(&b, "*filter\n:INPUT %s [0:0]\n:FORWARD %s [0:0]\n:OUTPUT %s [0:0]\n:a - [0:0]\n:b - [0:0]\n", policy(0), policy(1), policy(2))
		for x := range slices.Chunk(choices[2:], 4) {
			if len(x) < 4 {
				break
			}
			parts := []string{"-A", pick(chains, x[0]), pick(matches, x[1]), pick(states, x[2]), pick(verdicts, x[3])}
			b.WriteString(strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ") + "\n")
		}
		b.WriteString("COMMIT\n")
		rs, err := ruleset.ParseIPTables("rules", ruleset.IP, []byte(b.String()))
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		convert(t, rs, stateless.Options{Partial: choices[1]&1 != 0, As: []ruleset.Tool{ruleset.NFT, ruleset.IPTables}[choices[1]>>1&1]})
	})
}

func pick(from []string, b byte) string { return from[int(b)%len(from)] }

// FuzzConvertNFT does the same with what nft lists.
func FuzzConvertNFT(f *testing.F) {
	raw, err := os.ReadFile("../ruleset/testdata/all.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(raw), uint8(0))
	f.Add(`{"nftables": [{"table": {"family": "inet", "name": "t"}}, {"chain": {"family": "inet", "table": "t", "name": "c", "type": "filter", "hook": "input", "prio": 0, "policy": "drop"}},
		{"rule": {"family": "inet", "table": "t", "chain": "c", "expr": [{"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established", "related"]}}, {"accept": null}]}},
		{"rule": {"family": "inet", "table": "t", "chain": "c", "expr": [{"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": {"set": [22, {"range": [80, 90]}]}}}, {"accept": null}]}},
		{"rule": {"family": "inet", "table": "t", "chain": "c", "expr": [{"vmap": {"key": {"ct": {"key": "state"}}, "data": {"set": [["invalid", {"drop": null}], ["new", {"jump": {"target": "d"}}]]}}}]}},
		{"chain": {"family": "inet", "table": "t", "name": "d"}},
		{"rule": {"family": "inet", "table": "t", "chain": "d", "expr": [{"match": {"op": "!=", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": {"prefix": {"addr": "10.0.0.0", "len": 8}}}}, {"return": null}]}}]}`, uint8(0))
	f.Fuzz(func(t *testing.T, text string, mode uint8) {
		rs, err := ruleset.ParseNFT("rules", []byte(text))
		if err != nil {
			return
		}
		convert(t, rs, stateless.Options{Partial: mode&2 != 0})
	})
}

func convert(t *testing.T, rs *ruleset.Ruleset, o stateless.Options) {
	res, err := stateless.Convert([]*ruleset.Ruleset{rs}, o)
	if err != nil {
		if err.Error() == "" {
			t.Fatal("refused without a reason")
		}
		return
	}
	for _, r := range res.Refused {
		if r.Reason == "" {
			t.Fatalf("refused without a reason: %s", r.Rule)
		}
	}
	if len(res.Refused) == 0 && len(res.Rulesets) == 0 {
		t.Fatal("neither converted nor refused")
	}
	for _, out := range res.Rulesets {
		if out.Tool == ruleset.NFT {
			text, missing := out.NFT()
			if len(missing) == 0 && strings.TrimSpace(string(text)) == "" {
				t.Fatal("nothing was written")
			}
			continue
		}
		for _, f := range []ruleset.Family{ruleset.IP, ruleset.IP6} {
			text, missing := out.IPTables(f)
			for _, m := range missing {
				if m.Reason == "" {
					t.Fatalf("left out without a reason: %s", m)
				}
			}
			again, err := ruleset.ParseIPTables("converted", f, text)
			if err != nil {
				t.Fatalf("cannot be read back: %v\n%s", err, text)
			}
			more, left := again.IPTables(f)
			if len(left) > 0 || strings.Count(string(more), "\n-A ") != strings.Count(string(text), "\n-A ") {
				t.Fatalf("written:\n%s\nread back and written again, without %v:\n%s", text, left, more)
			}
		}
	}
}
