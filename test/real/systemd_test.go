//go:build real

package real

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"headroom/testkit/vm"
)

// bootLimit is for one boot with its script: a few minutes where the emulator
// has two cores to itself.
const bootLimit = time.Hour

// asked prints what the page's API answers, under a name.
const asked = `
login() { curl -s -c /tmp/jar -L "$(headroom up link)" -o /dev/null; }
ask() { echo "<$1>"; curl -s -b /tmp/jar "http://127.0.0.1:8420/api/v1/$2"; echo "</$1>"; }
pid() { systemctl show -p MainPID --value headroom; }
stored() { for i in $(seq 3000); do ask x status | grep -q '"stored_points":[1-9]' && return; sleep 1; done; echo NOTHING-STORED; }
`

// The unit runs under a real systemd, hardened, as its own user; it is started
// again after a kill, a crash and a hang; it stops in order; what it stored
// before a power cut is there after it.
func TestTheUnitUnderSystemd(t *testing.T) {
	m := vm.New(t)
	m.Build()
	unit, err := os.ReadFile("../../packaging/headroom.service")
	if err != nil {
		t.Fatal(err)
	}
	m.Write("/etc/systemd/system/headroom.service", string(unit), 0o644)
	out := m.Boot(bootLimit, asked+`
useradd --system --home-dir /var/lib/headroom --shell /usr/sbin/nologin headroom
su postgres -c 'createuser headroom && psql -qc "GRANT pg_monitor TO headroom"'
systemctl enable --now headroom || journalctl -u headroom
login; stored
ask targets targets; ask gaps gaps; ask status status
again() { # NAME SIGNAL: what ends it, and whether it is there again
  was=$(pid); kill -"$2" "$was"
  for i in $(seq 300); do sleep 1; now=$(pid); [ "$now" != 0 ] && [ "$now" != "$was" ] && break; done
  for i in $(seq 300); do curl -s -o /dev/null http://127.0.0.1:8420/login && break; sleep 1; done
  echo "<$1>$(systemctl is-active headroom) $([ "$now" != "$was" ] && echo new)</$1>"
}
again killed KILL
again crashed ABRT
again hung STOP
ls /var/lib/systemd/coredump /core* /var/lib/headroom/core* 2>/dev/null
systemctl stop headroom
echo "<stop>$(systemctl show -p Result --value headroom) $(pgrep -u headroom | wc -l)</stop>"
systemctl start headroom; login; stored; ask before "query?match=host_cpus&func=count&from=-1h&step=3600"
`)
	if !strings.Contains(part(t, out, "targets"), ".s.PGSQL.5432") {
		t.Error("the server of the machine was not found")
	}
	if strings.Contains(part(t, out, "gaps"), "permi") {
		t.Errorf("the hardened unit cannot read what it should: %s", part(t, out, "gaps"))
	}
	for _, how := range []string{"killed", "crashed", "hung"} {
		if got := part(t, out, how); got != "active new" {
			t.Errorf("%s, then: %s", how, got)
		}
	}
	if got := part(t, out, "stop"); got != "success 0" {
		t.Errorf("systemctl stop: result and processes left: %s", got)
	}
	if strings.Contains(out, "NOTHING-STORED") {
		t.Error("nothing was stored within 10 minutes")
	}
	before := part(t, out, "before")
	out = m.Boot(bootLimit, asked+`
for i in $(seq 300); do curl -s -o /dev/null http://127.0.0.1:8420/login && break; sleep 1; done
login; stored; ask after "query?match=host_cpus&func=count&from=-1h&step=3600"`)
	count := regexp.MustCompile(`"values":\[[^\]]*\d`)
	if after := part(t, out, "after"); !count.MatchString(before) || !count.MatchString(after) {
		t.Errorf("samples before the power cut: %s\nand after it: %s", before, after)
	}
	if t.Failed() {
		t.Log(out)
	}
}

// part is what a script printed between <name> and </name>.
func part(t *testing.T, out, name string) string {
	t.Helper()
	_, rest, ok := strings.Cut(out, "<"+name+">")
	text, _, ended := strings.Cut(rest, "</"+name+">")
	if !ok || !ended {
		t.Fatalf("the script did not print %s:\n%s", name, out)
	}
	return strings.TrimSpace(text)
}
