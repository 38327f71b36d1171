package firewall

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/change"
	"headroom/engine/fwproof"
	convert "headroom/engine/stateless"
	"headroom/fail"
	"headroom/host"
	"headroom/testkit/need"
)

const simpleRules = `*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A INPUT -i lo -j ACCEPT
-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A INPUT -p tcp -m tcp --dport 22 -m conntrack --ctstate NEW -m comment --comment "ssh" -j ACCEPT
-A INPUT -p udp -m udp --dport 53 -j ACCEPT
COMMIT
`

const natRules = `*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A POSTROUTING -o wan0 -j MASQUERADE
COMMIT
` + simpleRules

func planned(t *testing.T, rules string, args map[string]string) (change.Change, error) {
	t.Helper()
	need.Have(t, "netns", "nft", "iptables")
	path := filepath.Join(t.TempDir(), "rules.v4")
	if err := os.WriteFile(path, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	l := host.Open(host.Options{})
	t.Cleanup(func() { l.Close() })
	spec := change.Spec{ID: "firewall.stateless", Args: map[string]string{"rules": path}}
	for k, v := range args {
		spec.Args[k] = v
	}
	return workStateless(t.Context(), l, nil, spec)
}

func TestPlanStateless(t *testing.T) {
	c, err := planned(t, simpleRules, map[string]string{"dns": "10.0.0.2"})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Steps) != 2 || !c.CutsOff {
		t.Fatalf("%d steps, cuts off: %v", len(c.Steps), c.CutsOff)
	}
	fresh, gone := c.Steps[0].(change.Rules), c.Steps[1].(change.Rules)
	for _, want := range []string{"notrack", `comment "ssh"`, "ip saddr 10.0.0.2", "udp sport 53"} {
		if !strings.Contains(fresh.Content, want) {
			t.Errorf("no %q in\n%s", want, fresh.Content)
		}
	}
	if fresh.Tool != "nft" || fresh.Tables[0] != "ip headroom" || gone.Tool != "iptables" || gone.Tables[0] != "filter" || gone.Content != "" {
		t.Errorf("steps: %s %v; %s %v %q", fresh.Tool, fresh.Tables, gone.Tool, gone.Tables, gone.Content)
	}
	notes := strings.Join(c.Notes, "\n")
	for _, want := range []string{"0 unexpected differences", "TCP without a connection", "answer of another peer"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in the notes:\n%s", want, notes)
		}
	}
}

func TestPlanStatelessForIPTables(t *testing.T) {
	c, err := planned(t, simpleRules, map[string]string{"as": "iptables"})
	if err != nil {
		t.Fatal(err)
	}
	r := c.Steps[0].(change.Rules)
	if len(c.Steps) != 1 || r.Tool != "iptables" || strings.Join(r.Tables, " ") != "filter raw" || !strings.Contains(r.Content, "-j CT --notrack") {
		t.Errorf("%d steps, %s %v:\n%s", len(c.Steps), r.Tool, r.Tables, r.Content)
	}
}

func TestPlanStatelessInPart(t *testing.T) {
	_, err := planned(t, natRules, nil)
	if err == nil || !strings.Contains(err.Error(), "line 6, table ip nat, chain POSTROUTING: -A POSTROUTING -o wan0 -j MASQUERADE: address translation") {
		t.Errorf("NAT: %v", err)
	}
	if hint := fail.HintOf(err); !strings.Contains(hint, "partial=yes takes tcp 22 and udp 53 from tracking") {
		t.Errorf("hint %q", hint)
	}
	c, err := planned(t, natRules, map[string]string{"partial": "yes"})
	if err != nil {
		t.Fatal(err)
	}
	r := c.Steps[0].(change.Rules)
	if len(c.Steps) != 1 || strings.Join(r.Tables, " ") != "filter raw" {
		t.Errorf("%d steps, tables %v", len(c.Steps), r.Tables)
	}
	if notes := strings.Join(c.Notes, "\n"); !strings.Contains(notes, "stays tracked: -A POSTROUTING -o wan0 -j MASQUERADE") {
		t.Errorf("notes:\n%s", notes)
	}
}

func TestPlanStatelessRefuses(t *testing.T) {
	for _, x := range []struct {
		rules, want string
		args        map[string]string
	}{
		{strings.ReplaceAll(simpleRules, "-p udp -m udp --dport 53", "-p udp -m geoweather --rain"), "line 8, table ip filter, chain INPUT: -A INPUT -p udp -m geoweather --rain -j ACCEPT: its match geoweather is not understood", nil},
		{strings.ReplaceAll(simpleRules, "COMMIT\n", ""), "before its COMMIT", nil},
		{strings.ReplaceAll(strings.ReplaceAll(simpleRules, "-m conntrack --ctstate NEW ", ""), "-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n", ""), "nothing to convert", nil},
		{strings.ReplaceAll(simpleRules, "-p udp -m udp --dport 53", "-s 300.1.1.1"), "the rules to be converted: load rules into a namespace: iptables-restore: line 8: host/network `300.1.1.1' not found", nil},
		{strings.ReplaceAll(simpleRules, "--dport 53", "--dport 70000"), "rules.v4: line 8, column 32: 70000 is no port", nil},
		{simpleRules, "dns=me", map[string]string{"dns": "me"}},
		{simpleRules, "peers=70000@10.0.0.1", map[string]string{"peers": "70000@10.0.0.1"}},
		{simpleRules, "as=pf", map[string]string{"as": "pf"}},
		{simpleRules, `no argument "colour"`, map[string]string{"colour": "red"}},
	} {
		if _, err := planned(t, x.rules, x.args); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: %v", x.want, err)
		}
	}
}

// An address set that is not there is named once, with the way out.
func TestPlanStatelessWithoutTheSet(t *testing.T) {
	_, err := planned(t, strings.Replace(simpleRules, "COMMIT\n", "-A INPUT -m set --match-set bad src -j DROP\nCOMMIT\n", 1), nil)
	if err == nil || strings.Count(err.Error(), "Set bad doesn't exist") != 1 || strings.Contains(err.Error(), "\n") || !strings.Contains(fail.HintOf(err), "--rules RULES,SETS") {
		t.Errorf("%v; hint %q", err, fail.HintOf(err))
	}
}

// Of a long list the plan says how many rules were tried.
func TestToldOfLongList(t *testing.T) {
	for _, c := range []struct {
		rules, tried int
		want         bool
	}{{100_000, 120, true}, {40, 38, false}} {
		got := strings.Join(told(&fwproof.Report{Rules: c.rules, Tried: c.tried}, &convert.Result{}), "\n")
		if strings.Contains(got, "packets of 120 of the 100000, chosen by chance") != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
