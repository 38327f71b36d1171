package ruleset

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestBadDumps(t *testing.T) {
	const head = "*filter\n:INPUT DROP [0:0]\n"
	ip := func(b []byte) (*Ruleset, error) { return ParseIPTables("dump", IP, b) }
	set := func(b []byte) (*Ruleset, error) { return ParseIPSet("dump", b) }
	nft := func(b []byte) (*Ruleset, error) { return ParseNFT("dump", b) }
	for _, c := range []struct {
		read func([]byte) (*Ruleset, error)
		dump string
		want string
	}{
		{ip, head, "line 2, column 1: the dump ends within table filter, before its COMMIT"},
		{ip, "-A INPUT -j DROP\n", "line 1, column 1: a line outside of any table"},
		{ip, head + "-A INPUT -p tcp -m comment --comment \"half\n", "line 3, column 38: a quote that does not end"},
		{ip, head + "-A INPUT -p\nCOMMIT\n", "line 3, column 12: the line ends where the value of -p is expected"},
		{ip, head + "-A INPUT -p tcp --dport\nCOMMIT\n", "line 3, column 24: the line ends where the value of --dport is expected"},
		{ip, head + "-A INPUT -p udp -m udp --dport 70000 -j ACCEPT\nCOMMIT\n", "line 3, column 32: 70000 is no port: they end at 65535"},
		{ip, head + "-A INPUT -p tcp -m multiport --dports 80,1024:99999999999999999999 -j ACCEPT\nCOMMIT\n", "99999999999999999999 is no port"},
		{ip, head + "-A OTHER -j DROP\nCOMMIT\n", "line 3, column 4: chain OTHER was not declared"},
		{ip, head + "-A INPUT garbage\nCOMMIT\n", "line 3, column 10: expected an option, found \"garbage\""},
		{ip, head + "-A INPUT --dport 22\nCOMMIT\n", "line 3, column 10: option --dport without a match or target"},
		{ip, head + "[1:x] -A INPUT\nCOMMIT\n", "line 3, column 1: no counters [packets:bytes]: [1:x]"},
		{ip, "*filter\n:INPUT MAYBE [0:0]\n", "line 2, column 8: chain INPUT cannot have the policy MAYBE"},
		{ip, head + "*nat\n", "line 3, column 1: table nat begins before the COMMIT of table filter"},
		{ip, head + "-D INPUT 1\n", "line 3, column 1: not a command of a saved rule set: -D"},
		{ip, head + "-A INPUT -j DROP -j DROP\n", "line 3, column 18: a second target"},
		{set, "create a\n", "line 1, column 10: a set without a type"},
		{set, "add a 10.0.0.1\n", "line 1, column 5: set a was not created"},
		{set, "create a hash:ip\nadd a\n", "line 2, column 7: the line ends where an element is expected"},
		{nft, "", "line 1, column 1: the dump ends before its last bracket"},
		{nft, `{"nftables": [`, "line 1, column 15: the dump ends before its last bracket"},
		{nft, "{\"nftables\": [\n{\"table\": {\"family\": \"ip\", \"name\": \"t\", }}", "line 2, column 37: invalid character '}'"},
		{nft, `{"other": []}`, "line 1, column 9: not the JSON of nft: expected nftables, found other"},
		{nft, `{"nftables": [{"metainfo": {"json_schema_version": 2}}]}`, "schema 2; this Headroom reads schema 1"},
		{nft, `{"nftables": [{"rule": {"family": "ip", "table": "t", "chain": "c"}}]}`, "a rule of chain c, which was not declared"},
		{nft, `{"nftables": [3]}`, "not an object of nft"},
	} {
		_, err := c.read([]byte(c.dump))
		var syntax *SyntaxError
		if err == nil || !errors.As(err, &syntax) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.dump, err, c.want)
		}
	}
}

// TestNothingIsDropped: an option or target that is not known stays in the rule
// with its line, whatever stands around it.
func TestNothingIsDropped(t *testing.T) {
	rs, err := ParseIPTables("dump", IP, []byte("*filter\n:INPUT DROP [0:0]\n"+
		"-A INPUT -p tcp -m new --alpha 1 2 ! --beta -m tcp --dport 22 -j ACCEPT\n"+
		"-A INPUT -p tcp -m tcp --dport 22 --future x -j ODD --with 5\n"+
		"-A INPUT -s host.example -p odd -j ACCEPT\n"+
		"-A INPUT -p udp -m policy --dir in --pol ipsec --proto esp -m comment --comment -dash -j ACCEPT\nCOMMIT\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"3 proto:-p tcp other:-m new --alpha 1 2 ! --beta dport:--dport 22 accept",
		"4 proto:-p tcp other:-m tcp --dport 22 --future x other-j ODD --with 5",
		"5 other:-s host.example other:-p odd accept",
		"6 proto:-p udp other:-m policy --dir in --pol ipsec --proto esp accept", // not the packet's protocol
	}
	for i, r := range rs.Tables[0].Chains[0].Rules {
		got := fmt.Sprint(r.Line)
		for _, m := range r.Matches {
			got += fmt.Sprintf(" %s:%s", m.Field, m.Text)
		}
		got += " " + string(r.Verdict.Kind)
		if r.Verdict.Kind == OtherVerdict {
			got += r.Verdict.Text
		}
		if got != want[i] {
			t.Errorf("got  %s\nwant %s", got, want[i])
		}
	}
}

func manyRules(n int) string {
	var b strings.Builder
	b.WriteString("*filter\n:INPUT DROP [0:0]\n")
	for i := range n {
		fmt.Fprintf(&b, "[%d:%d] -A INPUT -s 10.%d.%d.%d/32 -p tcp -m multiport --dports 22,80,443 -m comment --comment \"rule %d\" -j DROP\n", i, i*60, i>>16, i>>8&255, i&255, i)
	}
	return b.String() + "COMMIT\n"
}

// manyNFT is what nft lists of n rules.
func manyNFT(n int) string {
	return `{"nftables": [{"table": {"family": "ip", "name": "t"}}, {"chain": {"family": "ip", "table": "t", "name": "c"}}` +
		strings.Repeat(`, {"rule": {"family": "ip", "table": "t", "chain": "c", "handle": 5, "expr": [{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": "10.0.0.1"}}, {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": {"set": [22, 80]}}}, {"counter": {"packets": 1, "bytes": 2}}, {"accept": null}]}}`, n) + "]}"
}

// TestManyRules reads 100,000 rules of either kind.
func TestManyRules(t *testing.T) {
	const n = 100_000
	start := time.Now()
	rs, err := ParseIPTables("many", IP, []byte(manyRules(n)))
	if err != nil || len(rs.Tables[0].Chains[0].Rules) != n {
		t.Fatal(err)
	}
	rs, err = ParseNFT("many", []byte(manyNFT(n)))
	if err != nil || len(rs.Tables[0].Chains[0].Rules) != n {
		t.Fatal(err)
	}
	t.Logf("2 × 100,000 rules in %s", time.Since(start))
}

func BenchmarkNFT(b *testing.B) {
	dump := []byte(manyNFT(100_000))
	for b.Loop() {
		if _, err := ParseNFT("many", dump); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIPTables(b *testing.B) {
	dump := []byte(manyRules(100_000))
	for b.Loop() {
		if _, err := ParseIPTables("many", IP, dump); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzIPTables(f *testing.F) {
	all, err := os.ReadFile("testdata/all.save")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(all))
	for line := range strings.Lines(string(all)) {
		f.Add("*filter\n:INPUT DROP [0:0]\n:f2b-sshd - [0:0]\n" + line + "COMMIT\n")
	}
	f.Fuzz(func(t *testing.T, dump string) {
		rs, err := ParseIPTables("fuzz", IP, []byte(dump))
		if err != nil {
			return
		}
		written(t, rs)
	})
}

// written writes what was read in both syntaxes: a rule is written or listed,
// and what is written can be read.
func written(t *testing.T, rs *Ruleset) {
	rs.NFT()
	text, _ := rs.IPTables(IP)
	if _, err := ParseIPTables("again", IP, text); err != nil && rs.Tool == IPTables {
		t.Errorf("%v\n%s", err, text)
	}
}

func FuzzNFT(f *testing.F) {
	all, err := os.ReadFile("testdata/all.json")
	if err != nil {
		f.Fatal(err)
	}
	var dump struct{ Nftables []json.RawMessage }
	if err := json.Unmarshal(all, &dump); err != nil {
		f.Fatal(err)
	}
	for _, o := range dump.Nftables { // small seeds: a big one is mutated too slowly
		f.Add([]byte(`{"nftables": [{"chain": {"family": "inet", "table": "filter", "name": "input"}}, ` + string(o) + "]}"))
	}
	f.Add([]byte(`{"nftables": [{"table": {"family": "ip", "name": "t"}}, {"chain": {"family": "ip", "table": "t", "name": "c"}}, {"rule": {"family": "ip", "table": "t", "chain": "c", "expr": [{"match": {"op": "in", "left": {"&": [1]}, "right": []}}]}}]}`))
	f.Fuzz(func(t *testing.T, dump []byte) {
		if rs, err := ParseNFT("fuzz", dump); err == nil {
			written(t, rs)
		}
	})
}

func FuzzIPSet(f *testing.F) {
	f.Add("create a hash:ip,port family inet6\nadd a ::1,tcp:80 timeout 5\n# x\n")
	f.Fuzz(func(t *testing.T, dump string) {
		if rs, err := ParseIPSet("fuzz", []byte(dump)); err == nil {
			ip := &Ruleset{Tool: IPTables}
			ip.Attach(rs.Sets)
			written(t, ip)
		}
	})
}
