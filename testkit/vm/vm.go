// Package vm boots a Debian machine of its own in an emulator, for tests of
// what only a whole machine has: systemd, a boot, a kernel's modules. Nothing
// of the host is reached from it: it has no network but its own.
package vm

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headroom/testkit/need"
)

// packages are what the machine has; a change makes its image anew.
const packages = "systemd,systemd-sysv,dbus,udev,kmod,linux-image-cloud-amd64,postgresql,openssh-server,iproute2,iptables,nftables,procps,curl,libpam-systemd"

// begun and done are the lines between which a script's output is.
const (
	begun = "headroom-vm-begin"
	done  = "headroom-vm-done"
)

// Machine is a virtual machine that was never started, with a disk of its own.
type Machine struct {
	t    testing.TB
	root string // its files
	disk string
}

// New unpacks a machine, which takes seconds; the first time on a host it is
// made from Debian's packages, which takes two minutes.
func New(t testing.TB) *Machine {
	t.Helper()
	need.Have(t, "root", "vm")
	tar := image(t)
	dir, err := os.MkdirTemp("", "hr-vm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &Machine{t: t, root: filepath.Join(dir, "root"), disk: filepath.Join(dir, "disk")}
	if err := os.Mkdir(m.root, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "tar", "-xf", tar, "-C", m.root)
	m.Write("/etc/fstab", "/dev/vda / ext4 rw 0 1\n", 0o644)
	m.Write("/etc/hostname", "db1\n", 0o644)
	return m
}

func image(t testing.TB) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, c := range packages {
		sum = sum*31 + int(c)
	}
	tar := filepath.Join(dir, "headroom-test", fmt.Sprintf("vm-%08x.tar", uint32(sum)))
	if _, err := os.Stat(tar); err == nil {
		return tar
	}
	if err := os.MkdirAll(filepath.Dir(tar), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "mmdebstrap", "--variant=minbase", "--include="+packages, "bookworm", tar+".new.tar")
	if err := os.Rename(tar+".new.tar", tar); err != nil {
		t.Fatal(err)
	}
	return tar
}

func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// Write puts a file into the machine, before its first boot.
func (m *Machine) Write(path, content string, mode os.FileMode) {
	m.t.Helper()
	to := filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(to, []byte(content), mode); err != nil {
		m.t.Fatal(err)
	}
}

// Build puts the program into the machine, with build tags if any are given.
func (m *Machine) Build(tags ...string) {
	m.t.Helper()
	run(m.t, "go", "build", "-tags", strings.Join(tags, ","), "-o", filepath.Join(m.root, "usr/local/bin/headroom"), "headroom/cmd/headroom")
}

// Boot starts the machine, runs a shell script in it once it is up, and
// returns what that printed. The power is cut at the script's end: the emulator
// is killed (kill -9), so that what the machine's kernel had not written is
// gone, and what it had is there at the next Boot. A script that does not come
// to its end in time fails the test; an emulated machine is some twenty times
// slower than this one, so be generous.
func (m *Machine) Boot(limit time.Duration, script string) string {
	m.t.Helper()
	if _, err := os.Stat(m.disk); err != nil {
		m.install()
	}
	given := filepath.Join(filepath.Dir(m.disk), "script")
	// The script comes on a disk of its own, padded to whole sectors.
	text := "#!/bin/bash\nexec 2>&1\n" + script + "\necho\necho " + done + "\nsleep infinity\n"
	text += strings.Repeat("\n", 512-len(text)%512)
	if err := os.WriteFile(given, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
	kernel, initrd := m.one("/boot/vmlinuz-*"), m.one("/boot/initrd.img-*")
	ctx, cut := context.WithTimeout(m.t.Context(), limit)
	defer cut()
	c := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-smp", "2", "-m", "2500", "-nographic", "-no-reboot", "-net", "none",
		"-kernel", kernel, "-initrd", initrd, "-append", "root=/dev/vda rw console=ttyS0 quiet systemd.show_status=0",
		"-drive", "file="+m.disk+",format=raw,if=virtio", "-drive", "file="+given+",format=raw,if=virtio,readonly=on")
	console, err := c.StdoutPipe()
	if err == nil {
		c.Stderr = c.Stdout
		err = c.Start()
	}
	if err != nil {
		m.t.Fatal(err)
	}
	out, ended := untilDone(console)
	cut()
	_ = c.Wait()
	if !ended {
		m.t.Fatalf("the machine's script did not come to its end within %s:\n%s", limit, out)
	}
	return out
}

// untilDone reads a console up to where the script is at its end, and returns
// what the script printed.
func untilDone(console io.Reader) (out string, ended bool) {
	var text strings.Builder
	lines := bufio.NewScanner(console)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		switch line := strings.ReplaceAll(lines.Text(), "\r", ""); line {
		case done:
			return text.String(), true
		case begun:
			text.Reset()
		default:
			text.WriteString(line + "\n")
		}
	}
	return text.String(), false
}

func (m *Machine) one(pattern string) string {
	m.t.Helper()
	found, err := filepath.Glob(filepath.Join(m.root, pattern))
	if err != nil || len(found) != 1 {
		m.t.Fatalf("%s: %d files, %v", pattern, len(found), err)
	}
	return found[0]
}

// install makes the disk of the files, with a unit that runs each boot's script.
func (m *Machine) install() {
	m.t.Helper()
	const unit = "/etc/systemd/system/script.service"
	m.Write(unit, `[Unit]
After=multi-user.target
[Service]
ExecStart=/bin/sh -c 'echo `+begun+`; cp /dev/vdb /run/script; exec /bin/bash /run/script'
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
`, 0o644)
	wants := filepath.Join(m.root, "/etc/systemd/system/multi-user.target.wants")
	if err := os.MkdirAll(wants, 0o755); err != nil {
		m.t.Fatal(err)
	}
	for _, link := range [][2]string{{unit, filepath.Join(wants, "script.service")}, {"/dev/null", filepath.Join(m.root, "/etc/systemd/system/serial-getty@ttyS0.service")}} {
		if err := os.Symlink(link[0], link[1]); err != nil {
			m.t.Fatal(err)
		}
	}
	run(m.t, "truncate", "-s", "4G", m.disk)
	run(m.t, "mkfs.ext4", "-q", "-F", "-d", m.root, m.disk)
}
