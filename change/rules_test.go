package change

import (
	"context"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"headroom/fail"
	"headroom/host"
	"headroom/testkit/need"
)

// inNamespace puts the test's thread into a network namespace of its own,
// where it is the machine. The thread ends with the test.
func inNamespace(t *testing.T, more ...string) *host.Local {
	t.Helper()
	need.Have(t, append([]string{"root", "netns"}, more...)...)
	runtime.LockOSThread()
	must(t, unix.Unshare(unix.CLONE_NEWNET))
	l := host.Open(host.Options{})
	t.Cleanup(l.Close)
	return l
}

func feed(t *testing.T, w host.Writer, input string, argv ...string) string {
	t.Helper()
	out, err := w.Feed(ctx, []byte(input), argv...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

const nftOld = `table inet mine {
	set banned {
		type ipv4_addr
		flags dynamic,timeout
		timeout 1h
		elements = { 192.0.2.1 }
	}

	chain input {
		type filter hook input priority filter; policy accept;
		iif "lo" counter packets 5 bytes 300 accept comment "a { b } # c"
		ip saddr @banned drop
	}
}
table ip other {
	chain c {
		type filter hook input priority 10; policy accept;
	}
}
`

const nftNew = `# made by a plan
table inet mine {
	chain input {
		type filter hook input priority filter; policy drop;
		tcp dport { 22, 80 } accept
	}
}
`

func TestRulesNft(t *testing.T) {
	w := inNamespace(t, "nft")
	feed(t, w, nftOld, "nft", "-f", "-")
	foreign := feed(t, w, "", "nft", "list", "table", "ip", "other")
	s := Rules{Tool: "nft", Tables: []string{"inet mine"}, Content: nftNew}
	p := prepare(t, w, Change{Steps: Steps{s}})
	before := p.Changes[0].Steps[0].Before
	if strings.Contains(before.Stored["inet mine"], "192.0.2.1") || strings.Contains(before.Stored["inet mine"], "packets 5") {
		t.Errorf("what moves by itself is compared: %s", before.Stored["inet mine"])
	}
	if !strings.Contains(before.Loads, "192.0.2.1") || !strings.Contains(before.Loads, "packets 5") {
		t.Errorf("what moves by itself would be lost by undoing: %s", before.Loads)
	}
	feed(t, w, "add element inet mine banned { 192.0.2.2 }\nadd table ip6 third\n", "nft", "-f", "-")
	must(t, s.Apply(ctx, w))
	now, err := s.Read(ctx, w)
	must(t, err)
	if !now.reached(p.Changes[0].Steps[0].After) {
		t.Errorf("applied: %+v\nwant %+v", now, p.Changes[0].Steps[0].After)
	}
	undo := p.Changes[0].Steps[0].Undo
	must(t, undo.Apply(ctx, w))
	must(t, undo.Apply(ctx, w)) // again, as after an interruption
	now, err = s.Read(ctx, w)
	must(t, err)
	if !now.reached(before) || !strings.Contains(now.Loads, "counter packets 5 bytes 300") || !strings.Contains(now.Loads, "192.0.2.1") {
		t.Errorf("undone: %+v\nwant %+v", now, before)
	}
	if got := feed(t, w, "", "nft", "list", "table", "ip", "other"); got != foreign {
		t.Errorf("somebody else's table was touched: %s", got)
	}
	if got := feed(t, w, "", "nft", "list", "tables"); !strings.Contains(got, "table ip6 third") {
		t.Errorf("somebody else's table is gone: %s", got)
	}
}

func TestRulesNftAbsent(t *testing.T) {
	w := inNamespace(t, "nft")
	s := Rules{Tool: "nft", Tables: []string{"inet mine", "ip mine"}, Content: nftNew}
	p := prepare(t, w, Change{Steps: Steps{s}})
	st := p.Changes[0].Steps[0]
	must(t, s.Apply(ctx, w))
	must(t, verify(ctx, w, s, st.After, false))
	must(t, st.Undo.Apply(ctx, w))
	must(t, verify(ctx, w, s, st.Before, false))
	if got := feed(t, w, "", "nft", "list", "tables"); got != "" {
		t.Errorf("left: %s", got)
	}
	if !prepare(t, w, Change{Steps: Steps{Rules{Tool: "nft", Tables: []string{"inet mine"}}}}).Nothing() {
		t.Error("a table that is not there is to be removed")
	}
}

const xtOld = `*filter
:INPUT ACCEPT [7:420]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:own - [0:0]
[3:180] -A INPUT -p tcp -m tcp --dport 22 -m comment --comment "ssh -A \"x\"" -j own
[1:60] -A own -j ACCEPT
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A POSTROUTING -o lo -j MASQUERADE
COMMIT
`

const xtNew = `*raw
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
-A PREROUTING -j CT --notrack
COMMIT
*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A INPUT -m set --match-set friends src -j ACCEPT
COMMIT
`

func TestRulesIptables(t *testing.T) {
	for _, tool := range []string{"iptables-legacy", "iptables-nft"} {
		t.Run(tool, func(t *testing.T) {
			w := inNamespace(t, "iptables", "ipset")
			feed(t, w, "create friends hash:ip\nadd friends 192.0.2.1\n", "ipset", "restore")
			feed(t, w, xtOld, tool+"-restore", "--counters")
			all := feed(t, w, "", tool+"-save")
			s := Rules{Tool: tool, Tables: []string{"raw", "filter"}, Content: xtNew}
			p := prepare(t, w, Change{Steps: Steps{s}})
			st := p.Changes[0].Steps[0]
			must(t, s.Apply(ctx, w))
			must(t, verify(ctx, w, s, st.After, false))
			if got := feed(t, w, "", tool+"-save", "-t", "nat"); !strings.Contains(got, "MASQUERADE") {
				t.Errorf("somebody else's table is gone: %s", got)
			}
			must(t, st.Undo.Apply(ctx, w))
			must(t, verify(ctx, w, s, st.Before, false))
			if got := feed(t, w, "", tool+"-save", "-t", "filter", "--counters"); !strings.Contains(got, "[3:180]") || !strings.Contains(got, ":INPUT ACCEPT [7:420]") {
				t.Errorf("counters were not put back: %s\nwas %s", got, all)
			}
		})
	}
}

// A content that reaches beyond its tables is refused before anything is done.
func TestRulesRefused(t *testing.T) {
	w := inNamespace(t, "nft", "iptables")
	feed(t, w, nftOld, "nft", "-f", "-")
	for content, want := range map[string]string{
		"flush ruleset\n" + nftNew:                            `"flush ruleset" is no table block`,
		"flush ruleset; " + nftNew:                            `"flush ruleset" is no table block`,
		"delete table ip other\n":                             "no table block",
		"include \"/etc/nftables.conf\"\n" + nftNew:           "include",
		"table inet mine {\n include \"/etc/shadow\"\n}\n":    "include",
		"table ip other {\n}\n":                               "none of the named tables",
		"table inet mine {\n}\ntable ip other { }\n":          "none of the named tables",
		"table inet mine {\n chain c {\n":                     "in the middle",
		"table inet mine {\n}\n}\n":                           "too many",
		"table inet mine { chain c { bogus; }\n}\n":           "try the rules",
		"table inet mine { chain c { ip saddr @no drop\n}}\n": "try the rules",
		"add rule ip other c drop\n":                          "no table block",
		"table inet mine\n":                                   "no table block",
	} {
		_, err := Prepare(ctx, w, Change{Steps: Steps{Rules{Tool: "nft", Tables: []string{"inet mine"}, Content: content}}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", content, err, want)
		}
	}
	for content, want := range map[string]string{
		"*filter\n-F\nCOMMIT\n":                         "not what iptables-save writes",
		"*filter\n:INPUT ACCEPT\n":                      "COMMIT is missing",
		"*nat\nCOMMIT\n":                                "none of the named ones",
		"*filter\nCOMMIT\n*filter\nCOMMIT\n":            "twice",
		"*filter\n-A INPUT -m nosuch -j DROP\nCOMMIT\n": "try the rules",
		"-A INPUT -j DROP\n":                            "not what iptables-save writes",
	} {
		_, err := Prepare(ctx, w, Change{Steps: Steps{Rules{Tool: "iptables", Tables: []string{"filter"}, Content: content}}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", content, err, want)
		}
	}
	for _, s := range []Rules{{Tool: "pf", Tables: []string{"x"}}, {Tool: "nft"}, {Tool: "nft", Tables: []string{"mine"}}, {Tool: "nft", Tables: []string{"inet a; flush ruleset"}}, {Tool: "iptables", Tables: []string{"nonsense"}}} {
		if _, err := Prepare(ctx, w, Change{Steps: Steps{s}}); fail.Code(err) != fail.Usage {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// A device is kept by its number in nft's rules: the rehearsal has it, too.
func TestRulesSpeakOfDevices(t *testing.T) {
	w := inNamespace(t, "nft")
	for _, name := range []string{"gap0", "up0"} {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = name
		must(t, netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}))
	}
	s := Rules{Tool: "nft", Tables: []string{"inet mine"}, Content: "table inet mine { chain c { type filter hook input priority 0; iif up0 accept; }; }\n"}
	p := prepare(t, w, Change{Steps: Steps{s}})
	must(t, s.Apply(ctx, w))
	must(t, verify(ctx, w, s, p.Changes[0].Steps[0].After, false))
}

// An edit between plan and apply is refused, with the edit.
func TestRulesDrift(t *testing.T) {
	for _, c := range []struct {
		tool, table, old, content, edit string
		do                              []string
		list                            []string
	}{
		{"nft", "inet mine", nftOld, nftNew, "nft table inet mine: edited: - ip saddr @banned drop; + tcp dport 8080 accept",
			[]string{"nft", "replace rule inet mine input handle 4 tcp dport 8080 accept"}, []string{"nft", "-s", "list", "ruleset"}},
		{"iptables-nft", "filter", "*filter\n:INPUT DROP [0:0]\n-A INPUT -i lo -j ACCEPT\nCOMMIT\n", "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n",
			"iptables-nft table filter: edited: + -A INPUT -p tcp -m tcp --dport 8080 -j ACCEPT",
			[]string{"iptables-nft", "-A", "INPUT", "-p", "tcp", "--dport", "8080", "-j", "ACCEPT"}, []string{"iptables-nft-save"}},
	} {
		t.Run(c.tool, func(t *testing.T) {
			w := inNamespace(t, "nft", "iptables")
			load := []string{"nft", "-f", "-"}
			if c.tool != "nft" {
				load = []string{c.tool + "-restore"}
			}
			feed(t, w, c.old, load...)
			p := prepare(t, w, Change{Steps: Steps{Rules{Tool: c.tool, Tables: []string{c.table}, Content: c.content}}})
			feed(t, w, "", c.do...)
			was := feed(t, w, "", c.list...)
			_, err := Apply(context.Background(), w, p, Options{Journal: newJournal(t)})
			if fail.Code(err) != fail.Drift || !strings.Contains(err.Error(), c.edit) {
				t.Errorf("edited since the plan: %v", err)
			}
			if now := feed(t, w, "", c.list...); comments.ReplaceAllString(now, "") != comments.ReplaceAllString(was, "") {
				t.Errorf("changed all the same: %s", now)
			}
		})
	}
}

var comments = regexp.MustCompile(`(?m)^#.*\n`)

func TestRulesSurviveJSON(t *testing.T) {
	s := Rules{Tool: "nft", Tables: []string{"inet mine"}, Content: nftNew, Boot: true}
	b, err := marshalStep(s)
	must(t, err)
	back, err := unmarshalStep(b)
	must(t, err)
	if got, ok := back.(Rules); !ok || got.Content != s.Content || !got.Boot || len(got.Tables) != 1 {
		t.Errorf("%+v", back)
	}
}

// Rules that nft lists and cannot load again are not replaced: there would be
// no way back.
func TestRulesWithoutAWayBack(t *testing.T) {
	w := inNamespace(t, "nft", "iptables")
	feed(t, w, "*filter\n-A INPUT -m string --algo bm --string x -j DROP\nCOMMIT\n", "iptables-nft-restore")
	_, err := Prepare(ctx, w, Change{Steps: Steps{Rules{Tool: "nft", Tables: []string{"ip filter"}, Content: "table ip filter {\n}\n"}}})
	if err == nil || !strings.Contains(err.Error(), "the present rules could not be put back") {
		t.Errorf("plan: %v", err)
	}
}
