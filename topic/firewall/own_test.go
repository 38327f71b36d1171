package firewall

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headroom/change"
	"headroom/fail"
	"headroom/host"
	"headroom/probe/firewall"
	"headroom/testkit/need"
)

func ownRules(t *testing.T, text string) (change.Change, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "own")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l := host.Open(host.Options{})
	defer l.Close()
	return workRules(t.Context(), l, nil, change.Spec{ID: "firewall.rules", Args: map[string]string{"rules": file}})
}

// A file as people write them becomes a step that replaces its own tables only.
func TestOwnRules(t *testing.T) {
	need.Have(t, "root", "netns", "nft")
	c, err := ownRules(t, "#!/usr/sbin/nft -f\nflush ruleset\ndefine wan = wan0\ntable inet f {\n\tchain input {\n\t\ttype filter hook input priority 0; policy drop;\n\t\tiifname $wan tcp dport 22 accept\n\t}\n}\ntable ip more {\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	s := c.Steps[0].(change.Rules)
	if len(c.Steps) != 1 || s.Tool != "nft" || !slices.Equal(s.Tables, []string{"inet f", "ip more"}) || !s.Boot || !c.CutsOff ||
		strings.Contains(s.Content, "flush") || !strings.Contains(s.Content, `iifname "wan0" tcp dport 22 accept`) {
		t.Errorf("%+v", c)
	}
	c, err = ownRules(t, "*filter\n:INPUT DROP [0:0]\n-A INPUT -s fe80::/10 -j ACCEPT\nCOMMIT\n")
	if err != nil {
		t.Fatal(err)
	}
	if s := c.Steps[0].(change.Rules); s.Tool != "ip6tables" || !slices.Equal(s.Tables, []string{"filter"}) {
		t.Errorf("%+v", s)
	}
}

func TestOwnRulesRefused(t *testing.T) {
	need.Have(t, "root", "netns", "nft")
	for text, want := range map[string]string{
		"":                           "it is empty",
		"hello\n":                    "nft does not load them: line 1, column 6",
		"create a hash:ip\n":         "it holds address sets, no rules",
		"*filter\n:INPUT DROP [0:0]": "before its COMMIT",
		"flush ruleset\n":            "there is no table in it",
		"table ip a {\n chain c {\n": "line 3, column 1: syntax error, unexpected end of file",
	} {
		if _, err := ownRules(t, text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "/own") {
			t.Errorf("%q: %v", text, err)
		}
	}
	_, err := workRules(t.Context(), nil, nil, change.Spec{ID: "firewall.rules", Args: map[string]string{}})
	if fail.Code(err) != fail.Usage || !strings.Contains(fail.HintOf(err), "--rules FILE") {
		t.Errorf("no file: %v", err)
	}
}

// What the file does not name goes on judging, which the plan says.
func TestOwnRulesBesideOthers(t *testing.T) {
	live := firewall.NewRules([]firewall.Dump{{Source: "iptables-save", Family: "ip", Text: "*filter\n:INPUT DROP [0:0]\nCOMMIT\n*mangle\n:INPUT ACCEPT [0:0]\nCOMMIT\n"}})
	got := staying(live, []string{"inet f"}, true)
	if len(got) != 1 || !strings.Contains(got[0], "judge packets, too: ip filter.") || !strings.Contains(got[0], "`flush ruleset` in the file is not done") {
		t.Errorf("%q", got)
	}
	if got := staying(live, []string{"ip filter"}, true); got != nil {
		t.Errorf("%q", got)
	}
}
