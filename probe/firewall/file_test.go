package firewall

import (
	"fmt"
	"strings"
	"testing"

	"headroom/engine/ruleset"
	"headroom/fail"
	"headroom/testkit/need"
)

func TestFromFile(t *testing.T) {
	for _, c := range []struct {
		name, content string
		tool          ruleset.Tool
		family        ruleset.Family
	}{
		{"a", "# x\n*filter\n:INPUT DROP [0:0]\nCOMMIT\n", ruleset.IPTables, ruleset.IP},
		{"/etc/iptables/rules.v6", "*filter\n:INPUT DROP [0:0]\nCOMMIT\n", ruleset.IPTables, ruleset.IP6},
		{"b", "*filter\n:INPUT DROP [0:0]\n-A INPUT -s fe80::/10 -j ACCEPT\nCOMMIT\n", ruleset.IPTables, ruleset.IP6},
		{"c", `{"nftables": [{"table": {"family": "ip", "name": "t"}}]}`, ruleset.NFT, ruleset.IP},
		{"d", "create a hash:ip family inet\nadd a 10.0.0.1\n", ruleset.IPSet, ""},
	} {
		rs, err := FromFile(t.Context(), c.name, []byte(c.content))
		if err != nil || rs.Tool != c.tool || c.family != "" && rs.Tables[0].Family != c.family {
			t.Errorf("%s: %+v, %v", c.name, rs, err)
		}
	}
	if _, err := FromFile(t.Context(), "newer", []byte(`{"nftables": [{"metainfo": {"json_schema_version": 2}}]}`)); !strings.Contains(fmt.Sprint(err), "schema 2") || !strings.Contains(fail.HintOf(err), "without -j") {
		t.Errorf("JSON of a newer nft: %v", err)
	}
	if _, err := FromFile(t.Context(), "empty", []byte(" \n")); err == nil {
		t.Error("an empty file holds no rules")
	}
}

func TestFromNFTFile(t *testing.T) {
	need.Have(t, "root", "netns", "nft")
	rs, err := FromFile(t.Context(), "web.nft", []byte("#!/usr/sbin/nft -f\nflush ruleset\ndefine web = { 80, 443 }\ntable inet f {\n\tchain input {\n\t\ttype filter hook input priority 0; policy drop;\n\t\ttcp dport $web accept\n\t}\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if r := rs.Tables[0].Chains[0].Rules[0]; r.Text != "tcp dport { 80, 443 } accept" {
		t.Errorf("%+v", r)
	}
	_, err = FromFile(t.Context(), "bad.nft", []byte("table inet f {\n\tchain input {\n\t\ttcp dprt 80 accept\n\t}\n}\n"))
	if err == nil || !strings.Contains(err.Error(), "read rules of bad.nft: nft does not load them: line 3, column 7: syntax error") {
		t.Errorf("%v", err)
	}
}

// Devices that this machine does not have do not keep a file from being read.
func TestFromNFTFileOfAnotherMachine(t *testing.T) {
	need.Have(t, "root", "netns", "nft")
	rs, err := FromFile(t.Context(), "router.nft", []byte("table inet f {\n\tchain input {\n\t\ttype filter hook input priority 0; policy drop;\n\t\tiif lo accept\n\t\tiif \"wan-0\" tcp dport 22 accept\n\t\toif != { lan0, lan1.20 } drop\n\t}\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(rs.Tables[0].Chains[0].Rules); n != 3 {
		t.Errorf("%d rules: %+v", n, rs.Tables[0].Chains[0])
	}
}
