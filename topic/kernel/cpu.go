package kernel

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"headroom/host"
	"headroom/metric"
	"headroom/probe/proc"
)

var (
	cpuSeconds = &metric.Def{Name: "host_cpu_seconds_total", Unit: metric.Seconds, Kind: metric.Counter, Labels: []string{"mode"},
		Help: "CPU time of all CPUs together, by what it went to; user holds the time given to virtual machines.", Source: "/proc/stat line cpu"}
	cpus = &metric.Def{Name: "host_cpus", Unit: metric.Count, Kind: metric.Gauge,
		Help: "CPUs that are online.", Source: "/proc/stat lines cpuN"}
	switches = &metric.Def{Name: "host_context_switches_total", Unit: metric.Count, Kind: metric.Counter,
		Help: "Times that a CPU went from one task to another.", Source: "/proc/stat ctxt"}
	interrupts = &metric.Def{Name: "host_interrupts_total", Unit: metric.Count, Kind: metric.Counter,
		Help: "Interrupts served.", Source: "/proc/stat intr"}
	forks = &metric.Def{Name: "host_forks_total", Unit: metric.Count, Kind: metric.Counter,
		Help: "Processes and threads made.", Source: "/proc/stat processes"}
	running = &metric.Def{Name: "host_tasks_running", Unit: metric.Count, Kind: metric.Gauge,
		Help: "Tasks that run or wait for a CPU: the run queue.", Source: "/proc/stat procs_running"}
	blocked = &metric.Def{Name: "host_tasks_blocked", Unit: metric.Count, Kind: metric.Gauge,
		Help: "Tasks that wait for storage.", Source: "/proc/stat procs_blocked"}
	booted = &metric.Def{Name: "host_boot_time_seconds", Unit: metric.Seconds, Kind: metric.Gauge,
		Help: "When the machine started, in seconds since 1970.", Source: "/proc/stat btime"}
	load = &metric.Def{Name: "host_load", Unit: metric.Count, Kind: metric.Gauge, Labels: []string{"over"},
		Help: "Load average: tasks that run, wait for a CPU or for storage.", Source: "/proc/loadavg fields 1 to 3"}
)

var cpuFigures = []proc.Figure{
	{Def: cpuSeconds, Key: "user", Labels: []string{"user"}}, {Def: cpuSeconds, Key: "nice", Labels: []string{"nice"}},
	{Def: cpuSeconds, Key: "system", Labels: []string{"system"}}, {Def: cpuSeconds, Key: "idle", Labels: []string{"idle"}},
	{Def: cpuSeconds, Key: "iowait", Labels: []string{"iowait"}}, {Def: cpuSeconds, Key: "irq", Labels: []string{"irq"}},
	{Def: cpuSeconds, Key: "softirq", Labels: []string{"softirq"}}, {Def: cpuSeconds, Key: "steal", Labels: []string{"steal"}},
	{Def: cpus, Key: "cpus"}, {Def: switches, Key: "ctxt"}, {Def: interrupts, Key: "intr"}, {Def: forks, Key: "processes"},
	{Def: running, Key: "procs_running"}, {Def: blocked, Key: "procs_blocked"}, {Def: booted, Key: "btime"},
}

var cpuCollector = &metric.Collector{
	Name: "kernel.cpu", Doc: "CPU time by kind, run queue, context switches, load", Of: metric.Host, Fast: true,
	Defs: append(proc.Defs(cpuFigures), load),
	Collect: func(_ context.Context, r host.Reader, out *metric.Out) error {
		v, err := proc.ReadStat(r)
		if err != nil {
			return err
		}
		v.Give(out, "/proc/stat", cpuFigures)
		if err := giveLoad(r, out); err != nil {
			out.Gap(err.Error(), "", load)
		}
		return nil
	},
}

// giveLoad reads "0.20 0.18 0.12 1/80 11206".
func giveLoad(r host.Reader, out *metric.Out) error {
	b, err := r.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	f := strings.Fields(string(b))
	if len(f) < 3 {
		return fmt.Errorf("read /proc/loadavg: %.40q holds no three averages", b)
	}
	var v [3]float64
	for i := range v {
		if v[i], err = strconv.ParseFloat(f[i], 64); err != nil || !(v[i] >= 0) {
			return fmt.Errorf("read /proc/loadavg: %.20q is no average", f[i])
		}
	}
	for i, over := range []string{"1m", "5m", "15m"} {
		out.Add(load, v[i], over)
	}
	return nil
}
