//go:build real

package real

import (
	"strings"
	"testing"

	"headroom/testkit/vm"
)

// bootRules are what the machine loads at boot; narrowRules let in by SSH from
// elsewhere only.
const (
	bootRules = `#!/usr/sbin/nft -f
flush ruleset
table inet filter {
	chain input {
		type filter hook input priority filter; policy drop;
		iif lo accept
		ct state established,related accept
		tcp dport { 22, 443 } accept
	}
}
`
	narrowRules = `table inet filter {
	chain input {
		type filter hook input priority filter; policy drop;
		iif lo accept
		ct state established,related accept
		ip saddr 192.0.2.0/24 tcp dport 22 accept
		tcp dport 443 accept
	}
}
`
	// At the end of a login all its processes are killed, root's, too.
	killAtLogout = "[Login]\nKillUserProcesses=yes\nKillExcludeUsers=\n"
)

// outside makes somebody outside, in a namespace on a wire, who knocks at port
// 22 and can log in there.
const outside = `
ip netns add far && ip link add v0 type veth peer name v0 netns far
ip addr add 10.0.0.1/24 dev v0; ip link set v0 up
ip -n far addr add 10.0.0.2/24 dev v0; ip -n far link set v0 up
systemctl start ssh
knock() { ip netns exec far timeout "${1:-20}" bash -c 'exec 3<>/dev/tcp/10.0.0.1/22 && read -u 3 line && sleep '"${2:-0}" 2>/dev/null && echo in || echo out; }
for i in $(seq 60); do [ "$(knock)" = in ] && break; sleep 1; done
[ -e /root/.ssh/id ] || { mkdir -pm 700 /root/.ssh; ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id; cp /root/.ssh/id.pub /root/.ssh/authorized_keys; }
login() { ip netns exec far ssh -tt -S none -i /root/.ssh/id -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR root@10.0.0.1 "$@"; }
say() { echo "<$1>"; cat; echo "</$1>"; }
rules() { nft -s list ruleset; }
same() { rules | cmp - "$1" && echo same; }
planned() { sed -n 's/.*headroom apply \([0-9a-f]*\).*/\1/p' "$1" | head -n 1; }
phase() { headroom journal -o csv 2>/dev/null | grep "$1"; }
until_() { for i in $(seq "$1"); do eval "$2" && return; sleep 1; done; echo "NEVER: $2"; }
narrow() { headroom plan firewall.stateless --rules /root/narrow.nft >/root/plan 2>&1 || cat /root/plan; }
`

func firewalled(t *testing.T, tags ...string) *vm.Machine {
	m := vm.New(t)
	m.Build(tags...)
	m.Write("/etc/nftables.conf", bootRules, 0o755)
	m.Write("/root/narrow.nft", narrowRules, 0o644)
	m.Write("/etc/systemd/logind.conf.d/kill.conf", killAtLogout, 0o644)
	return m
}

type wanted struct{ out, name, text string }

func (w wanted) judge(t *testing.T) {
	t.Helper()
	if got := part(t, w.out, w.name); !strings.Contains(got, w.text) {
		t.Errorf("%s: %q, want %q", w.name, got, w.text)
	}
}

// A login applies rules that let it in no more, and is ended with all its
// processes: the guard, a service, goes on, is started again when it is killed,
// and takes the rules back. A machine that loses its power while rules wait to
// be confirmed boots with the old ones; once they are confirmed, it boots with
// the new ones.
func TestAFirewallChangeAndAPowerCut(t *testing.T) {
	m := firewalled(t)
	first := m.Boot(bootLimit, `systemctl enable -q --now nftables`+outside+`
rules >/root/before; sync /root/before
knock | say before
narrow
login "headroom apply $(planned /root/plan) --confirm-within 150s; sleep 1000" >/root/out &
until_ 300 'grep -q "taken back at" /root/out'; cat /root/out
knock 5 | say shut
guard=$(systemctl list-units --plain --no-legend 'headroom-guard-*' | cut -d ' ' -f 1); systemctl is-active "$guard" | say guard
loginctl list-sessions --no-legend | say logged-in
loginctl terminate-user root; wait $!
until_ 60 '! pgrep -f "sleep 1000"'
{ loginctl list-sessions --no-legend | wc -l; systemctl is-active "$guard"; } | say logged-out
kill -9 "$(systemctl show -p MainPID --value "$guard")"
until_ 60 '[ "$(systemctl show -p NRestarts --value "$guard")" = 1 ]'
systemctl show -p NRestarts --value "$guard" | say restarts
until_ 300 'phase reverted >/dev/null'
knock | say open; same /root/before | say old-rules
headroom apply "$(planned /root/plan)" --confirm-within 1h
knock 5 | say shut-again
headroom journal | say journal
`)
	second := m.Boot(bootLimit, outside+`
knock | say after-the-cut; same /root/before | say rules
id=$(phase awaiting | cut -d , -f 1); phase awaiting | say waits
headroom confirm $id 2>&1 | say confirm-the-lost
headroom revert $id 2>&1 | say revert; same /root/before | say still
headroom plan firewall.stateless >/root/plan 2>&1 || cat /root/plan
headroom apply "$(planned /root/plan)" --confirm-within 30m
id=$(phase awaiting | cut -d , -f 1)
headroom confirm $id 2>&1 | say too-early
knock 120 60 & until_ 60 'ss -Htn state established "( sport = :22 )" | grep -q 10.0.0.2'
headroom confirm $id 2>&1 | say confirm
rules >/root/after; sync /root/after
`)
	third := m.Boot(bootLimit, outside+`
knock | say in-by-the-new; same /root/after | say new-rules
headroom revert "$(phase applied | cut -d , -f 1)" 2>&1 | say back; same /root/before | say old-rules
grep -c headroom /etc/nftables.conf | say left
`)
	for _, w := range []wanted{
		{first, "before", "in"}, {first, "shut", "out"}, {first, "guard", "active"}, {first, "logged-in", "root"}, {first, "logged-out", "0\nactive"}, {first, "restarts", "1"},
		{first, "open", "in"}, {first, "old-rules", "same"}, {first, "shut-again", "out"},
		{second, "after-the-cut", "in"}, {second, "rules", "same"}, {second, "waits", "await"}, {second, "confirm-the-lost", "started anew"}, {second, "revert", "reverted"},
		{second, "still", "same"}, {second, "too-early", "none was seen"}, {second, "confirm", "seen since: a new connection from 10.0.0.2:"},
		{third, "in-by-the-new", "in"}, {third, "new-rules", "same"}, {third, "back", "reverted"}, {third, "old-rules", "same"}, {third, "left", "0"},
	} {
		w.judge(t)
	}
	if strings.Contains(first+second+third, "NEVER") {
		t.Error("what was waited for did not come")
	}
	if t.Failed() {
		t.Log(first, second, third)
	}
}
