package change

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headroom/host"
)

// bootRoot is a machine's files, with names that end in @ as links.
func bootRoot(t *testing.T, files map[string]string) (*host.Local, string) {
	t.Helper()
	inNamespace(t, "nft", "iptables")
	root := t.TempDir()
	for p, content := range files {
		p, link := strings.CutSuffix(p, "@")
		must(t, os.MkdirAll(filepath.Dir(root+p), 0o755))
		if link {
			must(t, os.Symlink(content, root+p))
			continue
		}
		must(t, os.WriteFile(root+p, []byte(content), 0o644))
	}
	l := host.Open(host.Options{Root: root})
	t.Cleanup(l.Close)
	return l, root
}

const nftUnit = "[Service]\nType=oneshot\nExecStart=/usr/sbin/nft -f /etc/nftables.conf\nExecStop=/usr/sbin/nft flush ruleset\n"

// saved is the content that a plan writes into a file on confirmation; "" if
// it writes none.
func saved(t *testing.T, p *Plan, path string) string {
	t.Helper()
	for _, s := range p.Changes[0].Steps {
		if f, ok := s.Step.(File); ok && f.Path == path {
			if !s.OnConfirm {
				t.Errorf("%s is written before the change is confirmed", path)
			}
			return f.Content
		}
	}
	return ""
}

func TestBootNft(t *testing.T) {
	const conf = "#!/usr/sbin/nft -f\nflush ruleset\n\ntable inet mine { chain old { }; }\ntable ip other { chain c { }; }\n"
	l, root := bootRoot(t, map[string]string{
		"/lib/systemd/system/nftables.service":                       nftUnit,
		"/etc/systemd/system/sysinit.target.wants/nftables.service@": "/lib/systemd/system/nftables.service",
		"/etc/nftables.conf":                                         conf,
	})
	rules := Rules{Tool: "nft", Tables: []string{"inet mine"}, Content: nftSSH, Boot: true}
	p := prepare(t, l, Change{Steps: Steps{rules}})
	got := saved(t, p, "/etc/nftables.conf")
	if !strings.HasPrefix(got, conf) || !strings.Contains(got, "tcp dport 22 accept") || len(p.Changes[0].Notes) > 0 {
		t.Errorf("notes %q, file:\n%s", p.Changes[0].Notes, got)
	}
	must(t, os.WriteFile(root+"/etc/nftables.conf", []byte(got+"# more by hand\n"), 0o755))
	rules.Content = nftShut
	again := saved(t, prepare(t, l, Change{Steps: Steps{rules}}), "/etc/nftables.conf")
	if strings.Count(again, "headroom: begin") != 1 || strings.Contains(again, "tcp dport 22") || !strings.HasSuffix(again, "# more by hand\n") {
		t.Errorf("saved again:\n%s", again)
	}
	must(t, os.WriteFile(root+"/etc/nftables.conf", []byte(strings.Replace(got, "# headroom: end", "# end", 1)), 0o755))
	if _, err := Prepare(ctx, l, Change{Steps: Steps{rules}}); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("a block without its end: %v", err)
	}
	must(t, os.WriteFile(root+"/etc/nftables.conf", []byte("table inet mine { chain input { bogus }; }\n"), 0o755))
	if _, err := Prepare(ctx, l, Change{Steps: Steps{rules}}); err == nil || !strings.Contains(err.Error(), "for the next boot") {
		t.Errorf("a file that nft does not take: %v", err)
	}
}

// nft lists the elements of a set of flags in an order that depends on the order
// in which they were loaded; that is no difference, neither in a file for the
// next boot nor on the way back.
func TestBootSetsOfFlags(t *testing.T) {
	const flags = "tcp flags & (fin | syn | rst | ack) == { fin | ack, syn | ack, rst | ack, rst, ack } accept"
	with := func(rule string) string {
		return "table inet mine {\n\tset f {\n\t\ttype inet_service\n\t\telements = { 22 comment \"a | b, { c\" }\n\t}\n\tset g {\n\t\ttype tcp_flag\n\t\telements = { ack, fin | ack, rst, rst | ack, syn | ack }\n\t}\n" +
			"\tchain c {\n\t\ttype filter hook input priority filter; policy drop;\n\t\t" + rule + "\n\t\ttcp flags @g log prefix \"x { b, a | c }\"\n\t}\n}\n"
	}
	l, _ := bootRoot(t, map[string]string{
		"/lib/systemd/system/nftables.service":                       nftUnit,
		"/etc/systemd/system/sysinit.target.wants/nftables.service@": "x",
		"/etc/nftables.conf":                                         "#!/usr/sbin/nft -f\nflush ruleset\n",
	})
	s := Rules{Tool: "nft", Tables: []string{"inet mine"}, Content: with(flags), Boot: true}
	file := saved(t, prepare(t, l, Change{Steps: Steps{s}}), "/etc/nftables.conf")
	for _, want := range []string{`comment "a | b, { c"`, `"x { b, a | c }"`, "{ ack, fin | ack, rst, rst | ack, syn | ack }"} {
		if !strings.Contains(file, want) {
			t.Errorf("no %s in:\n%s", want, file)
		}
	}
	feed(t, l, with(flags), "nft", "-f", "-") // now in force, in either order
	for range 2 {
		s.Content = with("accept")
		st := prepare(t, l, Change{Steps: Steps{s}}).Changes[0].Steps[0]
		must(t, s.Apply(ctx, l))
		must(t, st.Undo.Apply(ctx, l))
		must(t, verify(ctx, l, s, st.Before, false))
	}
}

// Where nothing loads rules at boot, the plan says so and how to mend it.
func TestBootNowhere(t *testing.T) {
	for want, files := range map[string]map[string]string{
		"there is no nftables.service":      {},
		"systemctl enable nftables":         {"/lib/systemd/system/nftables.service": nftUnit},
		"cannot be told from its ExecStart": {"/lib/systemd/system/nftables.service": "[Service]\n", "/etc/systemd/system/x.wants/nftables.service@": "x"},
	} {
		l, _ := bootRoot(t, files)
		p := prepare(t, l, Change{Steps: Steps{Rules{Tool: "nft", Tables: []string{"inet mine"}, Content: nftSSH, Boot: true}}})
		if notes := strings.Join(p.Changes[0].Notes, ""); !strings.Contains(notes, want) || len(p.Steps()) != 1 {
			t.Errorf("notes %q, %d steps, want %q", notes, len(p.Steps()), want)
		}
	}
	l, _ := bootRoot(t, map[string]string{"/usr/share/netfilter-persistent/plugins.d/15-ip4tables": ""})
	p := prepare(t, l, Change{Steps: Steps{Rules{Tool: "iptables", Tables: []string{"filter"}, Content: "*filter\n:INPUT DROP\nCOMMIT\n", Boot: true}}})
	if notes := strings.Join(p.Changes[0].Notes, ""); !strings.Contains(notes, "enable netfilter-persistent") {
		t.Errorf("notes %q", notes)
	}
}

// Tables that are emptied need no service that loads them, but whatever loads
// the old ones stopped; one note does for both families.
func TestBootEmptied(t *testing.T) {
	l, _ := bootRoot(t, map[string]string{})
	feed(t, l, "*filter\n:INPUT DROP [0:0]\nCOMMIT\n", "iptables-nft-restore")
	p := prepare(t, l, Change{Steps: Steps{Rules{Tool: "iptables-nft", Tables: []string{"filter"}, Boot: true}, Rules{Tool: "ip6tables-nft", Tables: []string{"filter"}, Boot: true}}})
	notes := p.Changes[0].Notes
	if len(notes) != 1 || !strings.HasPrefix(notes[0], "iptables-nft table filter and ip6tables-nft table filter are emptied until the next boot") || strings.Contains(notes[0], "apt-get") {
		t.Errorf("%q", notes)
	}
}

func TestBootIptables(t *testing.T) {
	l, root := bootRoot(t, map[string]string{
		"/usr/share/netfilter-persistent/plugins.d/15-ip4tables":                    "",
		"/etc/systemd/system/multi-user.target.wants/netfilter-persistent.service@": "x",
		"/etc/iptables/rules.v4": "# mine\n" + xtOld,
	})
	s := Rules{Tool: "iptables", Tables: []string{"filter", "raw"}, Content: "*raw\n-A PREROUTING -j CT --notrack\nCOMMIT\n*filter\n:INPUT DROP\n-A INPUT -i lo -j ACCEPT\nCOMMIT\n", Boot: true}
	got := saved(t, prepare(t, l, Change{Steps: Steps{s}}), "/etc/iptables/rules.v4")
	for _, want := range []string{"# mine\n", ":INPUT DROP [0:0]\n", "-A INPUT -i lo -j ACCEPT", "MASQUERADE", "*raw", "--notrack"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "--dport 22") || strings.Count(got, "*filter") != 1 {
		t.Errorf("the old table is still there:\n%s", got)
	}
	must(t, os.Remove(root+"/etc/iptables/rules.v4"))
	if got := saved(t, prepare(t, l, Change{Steps: Steps{s}}), "/etc/iptables/rules.v4"); strings.Contains(got, "nat") || !strings.Contains(got, "*raw") {
		t.Errorf("a new file:\n%s", got)
	}
	must(t, os.WriteFile(root+"/etc/iptables/rules.v4", []byte("rubbish\n"), 0o644))
	if _, err := Prepare(ctx, l, Change{Steps: Steps{s}}); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a file that cannot be read: %v", err)
	}
}
