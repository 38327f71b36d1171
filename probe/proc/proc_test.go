package proc

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"headroom/fact"
	"headroom/fail"
	"headroom/host"
	"headroom/unit"
)

const stat = `cpu  100 10 50 800 20 5 5 10 0 0
cpu0 50 5 25 400 10 2 3 5 0 0
cpu1 50 5 25 400 10 3 2 5 0 0
intr 1
`

func machine() *host.Fake {
	return &host.Fake{Time: time.Unix(1e9, 0), Files: map[string]string{
		"/proc/stat":                                         stat,
		"/proc/cpuinfo":                                      "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu hypervisor sse\n",
		"/proc/self/cgroup":                                  "0::/app/worker\n",
		"/sys/fs/cgroup/app/cpu.max":                         "150000 100000\n",
		"/sys/fs/cgroup/app/worker/cpu.max":                  "max 100000\n",
		"/sys/fs/cgroup/app/worker/memory.max":               "1073741824\n",
		"/proc/meminfo":                                      "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\nHugePages_Total: 4\nHugepagesize: 2048 kB\nDirty: bad kB\n",
		"/sys/kernel/mm/transparent_hugepage/enabled":        "[always] madvise never\n",
		"/proc/sys/vm/swappiness":                            "60\n",
		"/proc/sys/vm/dirty_ratio":                           "lots\n",
		"/proc/sys/kernel/sched_rt_period_us":                "1000000\n",
		"/proc/pressure/cpu":                                 "some avg10=1.50 avg60=0.00 avg300=0.00 total=2000000\n",
		"/proc/pressure/memory":                              "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=12.00 avg300=0.00 total=0\n",
		"/proc/pressure/io":                                  "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		"/etc/sysctl.d/60-headroom-vm.swappiness.conf":       "vm.swappiness = 10\n",
		"/etc/sysctl.d/10-early.conf":                        "vm.swappiness=30\n",
		"/etc/sysctl.d/99-late.conf":                         "# vm.swappiness=1\n-vm/swappiness = 40\nnet.ipv4.ip_forward=1\n",
		"/usr/lib/sysctl.d/99-late.conf":                     "vm.swappiness=99\n",
		"/etc/udev/rules.d/60-headroom-vda-rotational.rules": "rule\n",
		"/proc/uptime":                                       "123.5 99\n",
		"/etc/os-release":                                    "NAME=x\nPRETTY_NAME=\"Some Linux 9\"\n",
		"/proc/sys/kernel/osrelease":                         "6.1.0\n",
		"/proc/1/cgroup":                                     "0::/kubepods/x\n",
		"/proc/diskstats":                                    " 254 0 vda 10 0 8 1 20 0 16 1 0 1 1\n",
		"/proc/7/stat":                                       "7 (a) b (c)) S 1 7 7 0 -1 0 0 0 0 0 150 50 0 0 20 0 1 0 99 1 1\n",
		"/proc/8/stat":                                       "8 (idle) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 1 1\n",
		"/sys/devices/system/node/node0/cpulist":             "0-1\n",
	}}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func gather(t *testing.T, r host.Reader) *fact.Set {
	t.Helper()
	s, err := fact.Gather(context.Background(), r, fact.Options{}, CPUs, Memories, Pressures, Sysctls, Boots, Systems)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFactsOfAMachine(t *testing.T) {
	s := gather(t, machine())
	c := fact.Get(s, CPUs)
	if c.Online != 2 || c.Model.Value != "Some CPU @ 2 GHz" || c.Quota != fact.Known(1.5) || c.Steal != fact.Known(0.01) {
		t.Errorf("cpu = %+v", c)
	}
	m := fact.Get(s, Memories)
	if m.Total != 16*unit.GB || m.Available != fact.Known(int64(8*unit.GB)) || m.HugeSize.Value != 2*unit.MB || m.Limit.Value != unit.GB || m.THP.Value != "always" {
		t.Errorf("memory = %+v", m)
	}
	if m.Dirty.OK() || m.THPDefrag.OK() {
		t.Error("a garbled or absent figure must be unknown with its reason")
	}
	p := fact.Get(s, Pressures)
	if p.CPU.Some10 != 0.015 || p.CPU.Total != 2 || p.Memory.Full60 != 0.12 {
		t.Errorf("pressure = %+v", p)
	}
	k := fact.Get(s, Sysctls)
	if k.Swappiness.Value != 60 || k.DirtyRatio.OK() || k.Nodes != 1 || k.Scheduler["kernel.sched_rt_period_us"].Value != 1e6 {
		t.Errorf("sysctl = %+v", k)
	}
	y := fact.Get(s, Systems)
	if y.OS.Value != "Some Linux 9" || y.Virtual.Value != "some" || y.Container.Value != "kubepods" || y.Uptime.Value != 123.5 {
		t.Errorf("system = %+v", y)
	}
}

func TestBootTellsWhoWins(t *testing.T) {
	b := fact.Get(gather(t, machine()), Boots)
	if !b.Udev || !b.SysctlD || b.Tmpfiles || len(b.Own) != 2 || b.Own[0] != RulesFile("vda", "rotational") || b.Own[1] != SysctlFile("vm.swappiness") {
		t.Errorf("boot = %+v", b)
	}
	l, ok := b.Overrides("vm.swappiness", "10")
	if !ok || l.File != "/etc/sysctl.d/99-late.conf" || l.Value != "40" {
		t.Errorf("override = %+v %v: the folder in /etc hides the one in /usr/lib, and only later files win", l, ok)
	}
	if _, ok := b.Overrides("vm.swappiness", "40"); ok {
		t.Error("the same value is no override")
	}
}

func TestAbsentIsNeverAValue(t *testing.T) {
	s := gather(t, &host.Fake{Files: map[string]string{}})
	for _, src := range []fact.Any{CPUs, Memories, Pressures, Sysctls} {
		if s.Why(src) == "" {
			t.Errorf("%s is known on a machine without /proc", src.Key())
		}
	}
	if why := s.Why(Pressures); !strings.Contains(why, "keeps no pressure figures") || !errors.Is(s.Error(Pressures), fail.ErrAbsent) {
		t.Errorf("pressure: %q", why)
	}
}

func TestOldCgroups(t *testing.T) {
	r := &host.Fake{Files: map[string]string{
		"/proc/self/cgroup":                            "4:memory:/a\n2:cpu,cpuacct:/a\n",
		"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":  "-1\n",
		"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
		"/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us":        "50000\n",
		"/sys/fs/cgroup/cpu/a/cpu.cfs_period_us":       "100000\n",
		"/sys/fs/cgroup/memory/memory.limit_in_bytes":  "9223372036854771712\n",
	}}
	if q := quota(r); q != fact.Known(0.5) {
		t.Errorf("quota = %+v", q)
	}
	if l := memoryLimit(r, 1<<34); l != fact.Known(int64(0)) {
		t.Errorf("limit = %+v: the largest number means none", l)
	}
}

func TestBetweenTellsWhoWasBusy(t *testing.T) {
	r := machine()
	a, err := Sample(r)
	if err != nil || len(a.Tasks) != 1 || a.Tasks[7].Name != "a) b (c)" || a.Tasks[7].Seconds != 2 || a.Disks["vda"] != (Moved{4096, 8192}) {
		t.Fatalf("sample = %+v, %v", a, err)
	}
	r.Time = r.Time.Add(2 * time.Second)
	r.Files["/proc/stat"] = strings.Replace(stat, "cpu  100 10 50 800 20 5 5 10", "cpu  200 10 50 980 20 5 5 130", 1)
	r.Files["/proc/7/stat"] = "7 (new) S 1 7 7 0 -1 0 0 0 0 0 20 0 0 0 20 0 1 0 5000 1 1\n"
	r.Files["/proc/9/stat"] = "9 (hog) R 1 7 7 0 -1 0 0 0 0 0 180 0 0 0 20 0 1 0 5000 1 1\n"
	b, err := Sample(r)
	if err != nil {
		t.Fatal(err)
	}
	act, err := Between(a, b)
	if err != nil || !near(act.Busy, 0.5) || !near(act.Steal, 0.3) || len(act.Tasks) != 2 || act.Tasks[0].Name != "hog" || !near(act.Tasks[0].Cores, 0.9) || !near(act.Tasks[1].Cores, 0.1) {
		t.Errorf("activity = %+v, %v (a reused process number counts from zero)", act, err)
	}
	if _, err := Between(b, a); err == nil {
		t.Error("readings in the wrong order must be refused")
	}
}

func TestThisMachine(t *testing.T) {
	r := host.Open(host.Options{})
	s := gather(t, r)
	if c := fact.Get(s, CPUs); c.Online < 1 {
		t.Errorf("cpu = %+v", c)
	}
	if m := fact.Get(s, Memories); m.Total < unit.MB {
		t.Errorf("memory = %+v", m)
	}
	l, err := Sample(r)
	if err != nil || len(l.Tasks) == 0 {
		t.Errorf("load = %+v, %v", l, err)
	}
	if testing.Verbose() {
		var b strings.Builder
		_ = s.Save(&b)
		t.Log(b.String())
	}
}

func BenchmarkSample(b *testing.B) {
	r := host.Open(host.Options{})
	for b.Loop() {
		if _, err := Sample(r); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzParsers(f *testing.F) {
	for _, s := range machine().Files {
		f.Add([]byte(s))
	}
	f.Add([]byte("cpu 1 2\ncpu0\n"))
	f.Add([]byte("some avg10=1e999 total=-1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := parseMeminfo(b); err == nil && m.Total <= 0 {
			t.Errorf("memory %+v", m)
		}
		if st, n, err := parseStat(b); err == nil && (n < 1 || st.total() < 0) {
			t.Errorf("cpu %+v %d", st, n)
		}
		if s, err := parseStall(b); err == nil && !(s.Some10 >= 0 && s.Total >= 0) {
			t.Errorf("stall %+v", s)
		}
		if task, ok := parseTask(b); ok && task.Seconds < 0 {
			t.Errorf("task %+v", task)
		}
		for _, m := range parseDiskstats(b) {
			if m.Read < 0 && m.Written < 0 {
				t.Errorf("moved %+v", m)
			}
		}
		parseSysctls(string(b))
		fake := &host.Fake{Files: map[string]string{"/proc/self/cgroup": string(b)}}
		quota(fake)
	})
}
