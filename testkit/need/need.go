// Package need holds the rule that a skip must be earned: a test names what it
// needs, and where HEADROOM_REQUIRE says that this must be there, its absence
// fails the test instead of skipping it. It stands apart from testkit so that
// the tests of low floors can use it.
package need

import (
	"os"
	"strings"
	"testing"
	"time"

	"headroom/host"
)

// needs are the things a test may lack on a machine, and how to see whether
// they are there. Each answers "" or what is missing.
var needs = map[string]func() string{
	"root": func() string {
		if os.Getuid() != 0 {
			return "this test changes kernel settings of things it made: run it as root"
		}
		return ""
	},
	"pg": func() string {
		l := host.Open(host.Options{})
		if m, _ := l.Glob("/usr/lib/postgresql/*/bin/postgres"); len(m) == 0 {
			return "no PostgreSQL server binaries: apt-get install postgresql"
		}
		return ""
	},
	"pgbouncer":  program("pgbouncer", "apt-get install pgbouncer"),
	"nginx":      program("nginx", "apt-get install nginx-light"),
	"promtool":   program("promtool", "apt-get install prometheus"),
	"prometheus": program("prometheus", "apt-get install prometheus"),
	"pgbench":    program("pgbench", "apt-get install postgresql-contrib"),
	"chromium":   program("chromium", "apt-get install chromium"),
	"loop": func() string {
		if os.Getuid() != 0 {
			return "loop devices need root"
		}
		if _, err := os.Stat("/dev/loop-control"); err != nil {
			return "the kernel has no loop devices"
		}
		return ""
	},
	"netns": func() string {
		if os.Getuid() != 0 {
			return "network namespaces need root"
		}
		if _, err := os.Stat("/proc/self/ns/net"); err != nil {
			return "the kernel has no network namespaces"
		}
		return ""
	},
	"nft":      program("nft", "apt-get install nftables"),
	"iptables": program("iptables", "apt-get install iptables"),
	"ipset":    program("ipset", "apt-get install ipset"),
	"vm": func() string {
		for _, p := range []string{"qemu-system-x86_64", "mmdebstrap", "mkfs.ext4"} {
			if _, err := host.FindProgram(p); err != nil {
				return "no " + p + ": apt-get install qemu-system-x86 mmdebstrap e2fsprogs"
			}
		}
		return ""
	},
	"systemd": func() string {
		for _, p := range []string{"/lib/systemd/systemd", "/usr/bin/systemd-run", "/usr/bin/nsenter"} {
			if _, err := os.Stat(p); err != nil {
				return "no " + p + ": apt-get install systemd util-linux"
			}
		}
		if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
			return ""
		}
		if _, err := os.Stat("/sys/fs/cgroup/unified/cgroup.controllers"); err == nil {
			return ""
		}
		return "no version 2 of control groups"
	},
	"embedded": func() string {
		if os.Getenv("HEADROOM_OFFLINE") != "" {
			return "HEADROOM_OFFLINE is set: server binaries are not fetched"
		}
		return ""
	},
}

func program(name, how string) func() string {
	return func() string {
		if _, err := host.FindProgram(name); err != nil {
			return "no " + name + ": " + how
		}
		return ""
	}
}

// Have skips the test where something is missing, and fails it instead if
// HEADROOM_REQUIRE (a list with commas, or "all") says that it must be there.
// A name that is not in the list of known needs fails: a skip must be earned.
func Have(t testing.TB, names ...string) {
	t.Helper()
	for _, n := range names {
		look, ok := needs[n]
		if !ok {
			t.Fatalf("BUG: unknown need %q", n)
		}
		why := look()
		if why == "" {
			continue
		}
		Without(t, n, why)
	}
}

// Without skips a test that found out by itself that something is missing, and
// fails it if HEADROOM_REQUIRE says that this must be there.
func Without(t testing.TB, name, why string) {
	t.Helper()
	required := "," + os.Getenv("HEADROOM_REQUIRE") + ","
	if strings.Contains(required, ","+name+",") || required == ",all," {
		t.Fatalf("%s is required here: %s", name, why)
	}
	t.Skip(why)
}

// Eventually polls until ok answers true, at most for the given time, and
// fails the test with what otherwise.
func Eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("after %s still not so: %s", limit, what)
}
