package change

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"headroom/crash"
	"headroom/fail"
	"headroom/host"
)

// Where systemd runs, the guard of a change that may cut off is a service of
// its own: a detached child belongs to the login's control group still, and is
// killed with it at logout where KillUserProcesses is set. A killed service is
// started again.
const guardUnit = "headroom-guard-"

// ownUnit says whether the guard can be a service: as root, on a machine that
// runs systemd, whose namespaces are ours, too. A guard that needs a server may
// need a password, which would show in the unit.
func (r *run) ownUnit() bool {
	if !r.plan.CutsOff() || r.plan.Server != nil || os.Geteuid() != 0 {
		return false
	}
	if st, err := os.Stat("/run/systemd/system"); err != nil || !st.IsDir() {
		return false
	}
	for _, ns := range []string{"net", "mnt", "pid"} {
		a, err1 := os.Readlink("/proc/self/ns/" + ns)
		b, err2 := os.Readlink("/proc/1/ns/" + ns)
		if err1 != nil || err2 != nil || a != b {
			return false
		}
	}
	return true
}

// passedOn are the variables that tell where Headroom's files are.
var passedOn = []string{"HEADROOM_STATE", "HOME", "STATE_DIRECTORY", "RUNTIME_DIRECTORY", "CONFIGURATION_DIRECTORY", "CACHE_DIRECTORY",
	"XDG_STATE_HOME", "XDG_RUNTIME_DIR", "HEADROOM_CRASH_AT", "HEADROOM_CRASH_SIGNAL", "HEADROOM_CRASH_MARK", "HEADROOM_CRASH_ONCE"}

// startUnit starts the guard as a service and returns its name when it stands by.
func (r *run) startUnit(ctx context.Context, c host.Cmd) (string, error) {
	born, err := startOf(os.Getpid())
	if err != nil {
		return "", err
	}
	unit := guardUnit + r.log.id + ".service"
	argv := []string{"systemd-run", "--quiet", "--collect", "--no-ask-password", "--unit=" + unit, "--service-type=notify",
		"--description=Takes Headroom's change " + r.log.id + " back unless it is confirmed",
		"--property=Restart=on-failure", "--property=RestartSec=1", "--property=StartLimitIntervalSec=3600", "--property=StartLimitBurst=60",
		"--property=OOMScoreAdjust=-900", "--property=TimeoutStartSec=20", "--property=TimeoutStopSec=150"}
	for _, kv := range c.Env {
		if name, _, _ := strings.Cut(kv, "="); slices.Contains(passedOn, name) {
			argv = append(argv, "--setenv="+kv)
		}
	}
	argv = append(argv, "--")
	argv = append(argv, c.Argv...)
	argv = append(argv, fmt.Sprintf("--parent=%d:%d", os.Getpid(), born), r.log.id)
	ctx, stop := context.WithTimeout(ctx, guardStart+5*time.Second)
	defer stop()
	_, err = host.Cmd{Argv: argv}.Run(ctx, 1<<20)
	return unit, err
}

// startOf is when a process was started, in the kernel's ticks since boot: with
// its number that names it for good. One that ended, though its parent did not
// notice yet, is none any more.
func startOf(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 20 {
		return 0, fmt.Errorf("read /proc/%d/stat: it is cut off", pid)
	}
	if f[0] == "Z" || f[0] == "X" {
		return 0, fmt.Errorf("read /proc/%d/stat: %w", pid, fail.ErrAbsent)
	}
	return strconv.ParseUint(f[19], 10, 64)
}

// leader is the applying process, as its guard sees it.
type leader struct {
	pid   int
	gone  chan struct{}     // closed when it has no more to say
	ready func(error) error // tells it that the guard stands by, or why not
	is    func() bool       // says whether pid is still that process
}

// leaderByID is for a guard that was started by systemd. id is "PID:START".
func leaderByID(id string) (*leader, error) {
	p, s, _ := strings.Cut(id, ":")
	pid, err1 := strconv.Atoi(p)
	born, err2 := strconv.ParseUint(s, 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fail.With(fmt.Errorf("read --parent %q: want PID:START", id), fail.Usage)
	}
	l := &leader{pid: pid, gone: make(chan struct{}), ready: notify}
	l.is = func() bool { now, err := startOf(pid); return err == nil && now == born }
	go func() {
		for l.is() {
			time.Sleep(guardPoll)
		}
		close(l.gone)
	}()
	return l, nil
}

// notify tells systemd that the service stands by; see sd_notify(3).
func notify(why error) error {
	if why != nil {
		return nil // the exit status says it, the reason goes to the journal
	}
	at := os.Getenv("NOTIFY_SOCKET")
	if name, ok := strings.CutPrefix(at, "@"); ok {
		at = "\x00" + name
	}
	conn, err := net.Dial("unixgram", at)
	if err != nil {
		return fmt.Errorf("tell systemd that the guard stands by: %w", err)
	}
	_, err = conn.Write([]byte("READY=1"))
	return errors.Join(err, conn.Close())
}

// armUnit is arm where the guard is a service.
func (r *run) armUnit(ctx context.Context, c host.Cmd) error {
	unit, err := r.startUnit(ctx, c)
	if err == nil {
		err = r.log.add(Record{Type: recArmed, Note: "unit " + unit})
	}
	if err == nil {
		crash.At("change.guard-unit-armed")
	}
	return err
}
