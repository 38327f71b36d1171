//go:build real

package real

import (
	"encoding/json"
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

// The clock of the machine is set a day on, then a year on, and back again, while
// `up` runs: the same process goes on, what it reads is stored and shown, no
// partition is dropped, the store's page and the charts tell of it.
func TestTheClockIsSet(t *testing.T) {
	m := vm.New(t)
	m.Build()
	out := m.Boot(bootLimit, asked+`
export HEADROOM_STATE=/var/lib/state HOME=/root
headroom up >/root/log 2>&1 & up=$!
for i in $(seq 300); do curl -s -o /dev/null http://127.0.0.1:8420/login && break; sleep 1; done
login; stored
look() { # NAME TEXT: waits until the store says TEXT and points of the new time are there, then asks
  login
  for i in $(seq 300); do ask x "query?match=host_cpus&func=count&from=-1m&step=10" | grep -q '"values":\[[^]]*[1-9]' && break; sleep 1; done
  # An answer may take longer here than the page waits for it: then once more.
  for i in $(seq 300); do status=$(ask "$1-status" status); [[ $status == *"$2"* ]] && break; sleep 1; done; echo "$status"
  for i in $(seq 300); do page=$(curl -s -b /tmp/jar -H "X-Part: state" http://127.0.0.1:8420/queue); [[ $page == *"not packed yet"* ]] && break; sleep 1; done
  ask "$1-points" "query?match=host_cpus&func=count&from=-5m&step=10"; ask "$1-marks" "marks?from=-10m"
  echo "<$1-page>$(echo "$page" | grep -o '<dt>clock.*</dd>' | head -n 1)</$1-page>"
}
look first retention
date -s '+1 day' >/dev/null; look day '24 hours ahead'
date -s '+1 year' >/dev/null; look year '366 days ahead'
date -s '-1 year -1 day' >/dev/null; look back 'time to come'
kill -0 $up && echo "<same>yes</same>" || echo "<same>no</same>"
echo "<log>$(cat /root/log)</log>"
`)
	for _, when := range []string{"first", "day", "year", "back"} {
		judgeClock(t, out, when)
	}
	if part(t, out, "same") != "yes" || strings.Contains(out, "panic") {
		t.Error("it did not go on")
	}
	if t.Failed() {
		t.Log(out)
	}
}

// judgeClock looks at what was told after the clock was set.
func judgeClock(t *testing.T, out, when string) {
	t.Helper()
	var status struct {
		Wrong  []string
		Queue  struct{ Dead_letters int }
		Worker struct {
			Stored int64   `json:"stored_points"`
			Lag    float64 `json:"lag_seconds"`
		}
		Store struct {
			Clock  string
			Tables []struct {
				Name       string
				Partitions int
			}
		}
	}
	if err := json.Unmarshal([]byte(part(t, out, when+"-status")), &status); err != nil {
		t.Fatal(err)
	}
	if w := status.Worker; w.Stored == 0 || w.Lag < 0 || w.Lag > 300 || status.Queue.Dead_letters != 0 {
		t.Errorf("%s: %+v", when, status)
	}
	says := map[string]string{"first": "", "day": "24 hours ahead", "year": "366 days ahead", "back": "a time to come"}[when]
	if got := status.Store.Clock; !strings.Contains(got, says) || says == "" && got != "" || !strings.Contains(part(t, out, when+"-page"), says) {
		t.Errorf("%s: the store says %q of the clock, the page %q", when, got, part(t, out, when+"-page"))
	}
	// Two days of points to begin with; those of a new time are made within 15 s.
	least := map[string]int{"first": 2, "day": 2, "year": 3, "back": 5}[when]
	for _, table := range status.Store.Tables {
		if table.Name == "store_raw" && table.Partitions < least {
			t.Errorf("%s: %d days of points are left, want %d", when, table.Partitions, least)
		}
	}
	if marks := part(t, out, when+"-marks"); (when == "day" || when == "year") && strings.Contains(marks, "the machine was started") || strings.Contains(marks, "the clock was set") == (when == "first") {
		t.Errorf("%s: marks %s", when, marks)
	}
	var points struct {
		Lines []struct{ Values []*float64 }
	}
	if err := json.Unmarshal([]byte(part(t, out, when+"-points")), &points); err != nil {
		t.Fatal(err)
	}
	n := 0.0
	for _, l := range points.Lines {
		for _, v := range l.Values {
			if v != nil {
				n += *v
			}
		}
	}
	if n == 0 {
		t.Errorf("%s: no sample of the last minutes is shown", when)
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
