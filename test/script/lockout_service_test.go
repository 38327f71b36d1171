package script

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"headroom/change"
	"headroom/testkit/need"
)

// bootUnits starts systemd on a machine of its own: other processes, control
// groups and mounts. Of this machine's files it sees all and can write none
// but those below $1; $2 it can read. It has no units but four empty targets:
// those of the distribution tidy /tmp and /var and set the kernel up at boot.
const bootUnits = `set -eu
mount --make-rprivate /
root=$(mktemp -d "$1/root.XXXX")
mount --rbind / "$root"
awk '{print $5}' /proc/self/mountinfo | grep "^$root" | while read -r m; do mount -o remount,bind,ro "$m"; done
for d in tmp var run etc/systemd/system dev/shm; do mount -t tmpfs tmpfs "$root/$d"; done
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys" && mount -o remount,bind,ro "$root/proc/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mkdir -p "$root$1" "$root$2" "$root/run/lock" "$root/run/units" "$root/run/old"
mount --bind "$1" "$root$1"
mount --bind "$2" "$root$2" && mount -o remount,bind,ro "$root$2"
cd "$root" && pivot_root . run/old && umount -l /run/old && cd /
for f in /etc /usr /root /opt /; do ! (echo >"$f/written") 2>/dev/null || exit 9; done
for d in /tmp /var /run; do [ "$(stat -f -c %T $d)" = tmpfs ] || exit 9; done
for u in test sysinit basic shutdown; do printf '[Unit]\nDescription=test\nDefaultDependencies=no\n' >/run/units/$u.target; done
exec env container=other SYSTEMD_UNIT_PATH=/run/units /lib/systemd/systemd --system --unit=test.target --log-target=console --show-status=no`

// withUnits makes the site's machine run systemd.
func (s *site) withUnits() {
	s.t.Helper()
	need.Have(s.t, "systemd")
	group := s.controlGroup()
	dir, err := os.Open(group)
	s.must(err)
	defer dir.Close()
	var log bytes.Buffer
	c := exec.Command("unshare", "-m", "-p", "-C", "-f", "--kill-child", "--mount-proc", "sh", "-c", bootUnits, "sh", s.dir, filepath.Dir(s.prog))
	c.Stdout, c.Stderr = &log, &log
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	s.must(s.near.Do(c.Start))
	s.t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if s.t.Failed() {
			s.t.Logf("systemd says:\n%s", log.String())
		}
	})
	need.Eventually(s.t, 30*time.Second, "systemd runs", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", c.Process.Pid, c.Process.Pid))
		s.init = strings.TrimSpace(string(b))
		if err != nil || s.init == "" {
			return false
		}
		return exec.Command("nsenter", s.inside("systemctl", "is-active", "test.target")...).Run() == nil
	})
}

// controlGroup makes a control group for the machine, removed with all below it.
func (s *site) controlGroup() string {
	s.t.Helper()
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(root + "/cgroup.controllers"); err != nil {
			continue
		}
		group, err := os.MkdirTemp(root, "headroom-test-")
		s.must(err)
		s.t.Cleanup(func() {
			_ = os.WriteFile(group+"/cgroup.kill", []byte("1"), 0o600)
			for range 100 {
				_ = filepath.WalkDir(group, func(p string, d os.DirEntry, err error) error { _ = syscall.Rmdir(p); return nil })
				if err := syscall.Rmdir(group); err == nil || os.IsNotExist(err) {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		})
		return group
	}
	need.Without(s.t, "systemd", "no version 2 of control groups")
	return ""
}

// inside is how a program is run on the machine, as arguments of nsenter.
func (s *site) inside(argv ...string) []string {
	return append([]string{"-t", s.init, "-m", "-p", "-C", "-n", "-r", "-w", "--"}, argv...)
}

// systemctl runs a verb of systemd's on the machine.
func (s *site) systemctl(args ...string) string {
	s.t.Helper()
	out, err := exec.Command("nsenter", s.inside(append([]string{"systemctl"}, args...)...)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("systemctl %q: %v: %s", args, err, out)
	}
	return string(out)
}

// applyInSession applies the plan in a scope of its own, as a login's
// processes have one.
func (s *site) applyInSession(scope, within string, env ...string) (master *os.File, ended chan struct{}) {
	argv := []string{"env", "-i", "PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "HEADROOM_STATE=" + s.dir, "TERM=dumb"}
	argv = append(append(argv, env...), "systemd-run", "--quiet", "--scope", "--unit="+scope, s.prog, "apply", s.plan, "--confirm-within", within)
	c := exec.Command("nsenter", s.inside(argv...)...)
	master = s.terminal(c)
	ended = make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()
	return master, ended
}

func (s *site) openAgain() {
	s.t.Helper()
	need.Eventually(s.t, 40*time.Second, "somebody can come in again", func() bool { return s.letsIn(300 * time.Millisecond) })
	need.Eventually(s.t, 20*time.Second, "the journal says so", func() bool { return s.entries()[0].Phase == change.Reverted })
	if s.rules() != s.before {
		s.t.Errorf("the rules are:\n%s", s.rules())
	}
}

// armedAs is the journal's word on the guard.
func (s *site) armedAs() string {
	for _, r := range s.entries()[0].Records {
		if r.Type == "armed" {
			return r.Note
		}
	}
	return ""
}

// TestGuardIsAService has the login's processes killed to the last, and the
// guard itself, where systemd runs.
func TestGuardIsAService(t *testing.T) {
	need.Have(t, "root", "netns", "nft", "systemd")
	prog := crashing(t)
	stage := func(t *testing.T) *site {
		t.Parallel()
		s := newSite(t, prog, filters()[0])
		s.withUnits()
		return s
	}
	t.Run("all processes of the session killed", func(t *testing.T) {
		s := stage(t)
		master, ended := s.applyInSession("session-9.scope", "3s")
		waitFor(t, master, "taken back at")
		<-ended
		if unit := s.armedAs(); !strings.HasPrefix(unit, "unit headroom-guard-") {
			t.Errorf("the guard is %q", unit)
		}
		if s.letsIn(200 * time.Millisecond) {
			t.Error("the rules lock nobody out: the test shows nothing")
		}
		s.openAgain()
	})
	t.Run("session killed in the middle", func(t *testing.T) {
		s := stage(t)
		mark := filepath.Join(s.dir, "reached")
		_, _ = s.applyInSession("session-9.scope", "10m", "HEADROOM_CRASH_AT=change.step-applied", "HEADROOM_CRASH_MARK="+mark, "HEADROOM_CRASH_ONCE=1", "HEADROOM_CRASH_SIGNAL=19")
		need.Eventually(t, 30*time.Second, "the step is done", func() bool { _, err := os.Stat(mark); return err == nil })
		s.systemctl("kill", "--signal=KILL", "session-9.scope")
		s.openAgain() // at once, not after 10 minutes
	})
	t.Run("guard killed", func(t *testing.T) {
		s := stage(t)
		master, ended := s.applyInSession("session-9.scope", "3s")
		waitFor(t, master, "taken back at")
		<-ended
		unit := strings.TrimPrefix(s.armedAs(), "unit ")
		was := s.systemctl("show", "--property=MainPID", "--value", unit)
		s.systemctl("kill", "--signal=KILL", unit)
		s.openAgain()
		if n, err := strconv.Atoi(strings.TrimSpace(was)); err != nil || n == 0 {
			t.Errorf("the guard's number was %q", was)
		}
	})
	for _, p := range []string{"change.guard-ready", "change.guard-expired", "change.revert-before-journal", "change.revert-journaled",
		"change.undo-before", "change.undo-done", "change.revert-before-record", "change.revert-recorded"} {
		t.Run("guard killed at "+p, func(t *testing.T) {
			s := stage(t)
			mark := filepath.Join(s.dir, "reached")
			_, ended := s.applyInSession("session-9.scope", "2s", "HEADROOM_CRASH_AT="+p, "HEADROOM_CRASH_MARK="+mark, "HEADROOM_CRASH_ONCE=1")
			<-ended
			need.Eventually(t, 40*time.Second, "the guard is killed", func() bool { _, err := os.Stat(mark); return err == nil })
			s.openAgain()
		})
	}
}
