package ruleset_test

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"headroom/engine/netns"
	"headroom/engine/ruleset"
	"headroom/host"
	"headroom/testkit/need"
)

func space(t *testing.T, needs ...string) *netns.Namespace {
	t.Helper()
	need.Have(t, append([]string{"root", "netns"}, needs...)...)
	n, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

func run(t *testing.T, n *netns.Namespace, stdin string, argv ...string) string {
	t.Helper()
	out, err := n.Run(context.Background(), host.Cmd{Argv: argv, Stdin: strings.NewReader(stdin)}, 64<<20)
	if err != nil {
		t.Fatalf("%v\n%s", err, stdin)
	}
	return string(out)
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var comment = regexp.MustCompile(`(?m)^#.*\n`)

// TestIPTablesRoundTrip: what iptables lists of the rules that it was given,
// read and written again, is listed the same.
func TestIPTablesRoundTrip(t *testing.T) {
	for _, variant := range []string{"legacy", "nft"} {
		t.Run(variant, func(t *testing.T) {
			first := listed(t, variant, read(t, "all.save"))
			rs, err := ruleset.ParseIPTables("first", ruleset.IP, []byte(first))
			if err != nil {
				t.Fatal(err)
			}
			text, missing := rs.IPTables(ruleset.IP)
			for _, m := range missing {
				t.Error(m)
			}
			second := listed(t, variant, string(text))
			if a, b := tables(first), tables(second); a != b {
				t.Errorf("listed at first:\n%s\nafter a round trip:\n%s", a, b)
			}
		})
	}
}

// tables puts the tables into an order: the kernel lists the newest first.
func tables(list string) string {
	parts := strings.SplitAfter(comment.ReplaceAllString(list, ""), "COMMIT\n")
	slices.Sort(parts)
	return strings.Join(parts, "")
}

func listed(t *testing.T, variant, rules string) string {
	t.Helper()
	n := space(t, "iptables", "ipset")
	run(t, n, "create bad hash:ip\ncreate badp hash:ip,port\nadd bad 10.1.2.3\n", "ipset", "restore")
	run(t, n, rules, "iptables-"+variant+"-restore", "-c")
	return run(t, n, "", "iptables-"+variant+"-save", "-c")
}

// TestIPv6RoundTrip does the same for IPv6.
func TestIPv6RoundTrip(t *testing.T) {
	const rules = `*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A INPUT -s fe80::/10 -p ipv6-icmp -m icmp6 --icmpv6-type 135 -j ACCEPT
-A INPUT -p ipv6-icmp -m icmp6 --icmpv6-type 1/4 -j ACCEPT
-A INPUT -d ff02::1/128 -p udp -m udp --dport 546 -m hl --hl-eq 255 -j ACCEPT
-A INPUT -m hl --hl-gt 250 -j REJECT --reject-with icmp6-adm-prohibited
COMMIT
`
	var lists []string
	for range 2 {
		n := space(t, "iptables")
		in := rules
		if len(lists) > 0 {
			rs, err := ruleset.ParseIPTables("first", ruleset.IP6, []byte(lists[0]))
			if err != nil {
				t.Fatal(err)
			}
			text, missing := rs.IPTables(ruleset.IP6)
			if len(missing) > 0 {
				t.Error(missing)
			}
			in = string(text)
		}
		run(t, n, in, "ip6tables-restore")
		lists = append(lists, comment.ReplaceAllString(run(t, n, "", "ip6tables-save"), ""))
	}
	if lists[0] != lists[1] || strings.Count(lists[0], "-A INPUT") != 4 {
		t.Errorf("listed at first:\n%s\nafter a round trip:\n%s", lists[0], lists[1])
	}
}

// same are ways to say one thing, of which the writer takes the second.
var same = []struct{ as, now string }{
	{`iif "lo"`, `iifname "lo"`}, {"tcp dport >= 1024", "tcp dport 1024-65535"}, {"ip protocol icmp", "meta l4proto icmp"},
	{"ip protocol tcp reject", "meta l4proto tcp reject"}, {"ip length 100-200", "meta nfproto ipv4 meta length 100-200"},
	{"ip ttl < 5", "ip ttl 0-4"}, {"meta length > 1000", "meta length 1001-65535"},
}

// TestNFTRoundTrip: what nft lists of the rules that it was given, read as JSON
// and written as text, is listed the same.
func TestNFTRoundTrip(t *testing.T) {
	n := space(t, "nft")
	run(t, n, read(t, "all.nft"), "nft", "-f", "-")
	want := run(t, n, "", "nft", "list", "ruleset")
	rs, err := ruleset.ParseNFT("nft", []byte(run(t, n, "", "nft", "-j", "list", "ruleset")))
	if err != nil {
		t.Fatal(err)
	}
	text, missing := rs.NFT()
	for _, m := range missing {
		t.Error(m)
	}
	again := space(t)
	run(t, again, string(text), "nft", "-f", "-")
	got := run(t, again, "", "nft", "list", "ruleset")
	for _, s := range same {
		want = strings.ReplaceAll(want, s.as, s.now)
	}
	if got != want {
		t.Errorf("listed at first:\n%s\nafter a round trip:\n%s", want, got)
	}
}

// TestIPTablesAsNFT: rules of iptables in nft's syntax mean to the kernel what
// iptables-nft made of them: nft lists the same, apart from what only
// iptables' own modules say.
func TestIPTablesAsNFT(t *testing.T) {
	rs, err := ruleset.ParseIPTables("all.save", ruleset.IP, []byte(read(t, "all.save")))
	if err != nil {
		t.Fatal(err)
	}
	sets, err := ruleset.ParseIPSet("ipset", []byte("create bad hash:ip family inet timeout 0\nadd bad 10.1.2.3 timeout 600 comment \"a b\"\nadd bad 10.1.2.4 timeout 0\ncreate badp hash:ip,port\n"))
	if err != nil {
		t.Fatal(err)
	}
	rs.Attach(sets.Sets)
	text, missing := rs.NFT()
	n := space(t, "nft")
	run(t, n, string(text), "nft", "-f", "-")
	var left []string
	for _, m := range missing {
		left = append(left, m.Rule.Text)
	}
	var want []string
	for line := range strings.Lines(read(t, "all.save")) {
		for _, only := range []string{"CT --helper", "--save-mark", "DSCP --set", "--ctorigdstport", "--ports", "recent", "badp", "string", "hashlimit", "connlimit", "statistic", "-j SET"} {
			if strings.Contains(line, only) {
				want = append(want, strings.TrimSpace(line))
				break
			}
		}
	}
	if strings.Join(left, "\n") != strings.Join(want, "\n") {
		t.Errorf("left out:\n%s\nexpected:\n%s", strings.Join(left, "\n"), strings.Join(want, "\n"))
	}
	list := run(t, n, "", "nft", "list", "ruleset")
	for _, rule := range []string{
		`iifname "lo" counter packets 1 bytes 60 accept`, `ct state established,related accept`, `tcp dport { 22, 80-90 } jump f2b-sshd comment "web 'and' ssh"`,
		`ip saddr != 10.0.0.0/8 udp dport != 53 limit rate 5/minute burst 7 packets log prefix "x: "`, `10.1.2.3 timeout 10m expires`, `comment "a b"`, `10.1.2.4`,
		`tcp flags syn / fin,syn,rst,ack log prefix "a b" group 5`, `ip saddr @bad drop`, `ct status dnat accept`, `meta mark set meta mark | 0x00000010`,
		`dnat to 10.0.0.1:8080`, `masquerade fully-random`, `tcp option maxseg size set rt mtu`, `udp dport 53 notrack`,
	} {
		if !strings.Contains(list, rule) {
			t.Errorf("not in the list: %s", rule)
		}
	}
	if t.Failed() {
		t.Log(list)
	}
}

// TestOtherVersions reads JSON as other versions of nft write it.
func TestOtherVersions(t *testing.T) {
	objects := []any{
		map[string]any{"metainfo": map[string]any{"version": "1.2.0", "json_schema_version": 1, "new": true}},
		map[string]any{"table": map[string]any{"family": "inet", "name": "t", "handle": 1, "flags": "owner"}},
		map[string]any{"chain": map[string]any{"family": "inet", "table": "t", "name": "c", "handle": 2, "type": "filter", "hook": "ingress", "prio": 0, "dev": []string{"a", "b"}, "policy": "drop"}},
		map[string]any{"tunnel": map[string]any{"family": "inet", "table": "t", "name": "x", "handle": 3}},
		map[string]any{"rule": map[string]any{"family": "inet", "table": "t", "chain": "c", "handle": 4, "expr": []any{
			map[string]any{"match": map[string]any{"op": "==", "left": map[string]any{"new": map[string]any{"key": 1}}, "right": 1}},
			map[string]any{"brandnew": nil}, map[string]any{"xt": nil}}}},
		map[string]any{"set": map[string]any{"family": "inet", "table": "t", "name": "s", "handle": 5, "type": map[string]any{"typeof": map[string]any{"payload": map[string]any{"protocol": "ip", "field": "saddr"}}}}},
	}
	dump, err := json.Marshal(map[string]any{"nftables": objects})
	if err != nil {
		t.Fatal(err)
	}
	rs, err := ruleset.ParseNFT("new", dump)
	if err != nil {
		t.Fatal(err)
	}
	tb := rs.Tables[0]
	if len(tb.Others) != 1 || tb.Others[0].Kind != "tunnel" || len(tb.Chains[0].Devices) != 2 || tb.Chains[0].Policy != ruleset.Drop {
		t.Errorf("table: %+v", tb)
	}
	r := tb.Chains[0].Rules[0]
	if len(r.Matches) != 2 || r.Matches[0].Field != ruleset.Other || r.Matches[1].Module != "xt" || len(r.Actions) != 1 || r.Actions[0].Name != ruleset.OtherAction || r.Verdict.Kind != ruleset.OtherVerdict {
		t.Errorf("what is not understood must stay: %+v", r)
	}
	if _, missing := rs.NFT(); len(missing) != 2 {
		t.Errorf("what cannot be written must be listed: %v", missing)
	}
}
