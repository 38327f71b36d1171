package proc

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"headroom/fact"
	"headroom/host"
)

// CPU is what computes here and how much of it we may have.
type CPU struct {
	Online int64             `json:"online" unit:"count" src:"/proc/stat cpuN" doc:"CPUs that are online"`
	Model  fact.Opt[string]  `json:"model" src:"/proc/cpuinfo model name" doc:"name of the first CPU"`
	Quota  fact.Opt[float64] `json:"quota" unit:"count" src:"cgroup cpu.max or cpu.cfs_quota_us" doc:"CPUs that our control group may use; 0: no limit"`
	Steal  fact.Opt[float64] `json:"steal" unit:"ratio" src:"/proc/stat steal" doc:"share of CPU time since boot that the hypervisor gave to others"`
}

// CPUs is the fact "proc.cpu".
var CPUs = &fact.Source[CPU]{
	Name: "proc.cpu", Doc: "CPUs, the limit on them and what the hypervisor takes away",
	Read: func(_ context.Context, in *fact.In) (CPU, error) { return readCPU(in) },
}

func readCPU(r host.Reader) (CPU, error) {
	b, err := r.ReadFile("/proc/stat")
	if err != nil {
		return CPU{}, err
	}
	t, n, err := parseStat(b)
	if err != nil {
		return CPU{}, err
	}
	c := CPU{Online: n, Model: Model(r), Quota: quota(r), Steal: fact.Unknown[float64]("no CPU time is counted yet")}
	if all := t.total(); all > 0 {
		c.Steal = fact.Known(t.Steal / all)
	}
	return c, nil
}

// times are cumulative CPU seconds by kind, of all CPUs together.
type times struct {
	User, Nice, System, Idle, IOWait, IRQ, SoftIRQ, Steal float64
}

func (t times) total() float64 {
	return t.User + t.Nice + t.System + t.Idle + t.IOWait + t.IRQ + t.SoftIRQ + t.Steal
}

// parseStat reads /proc/stat: the sum line and how many CPUs it lists.
func parseStat(b []byte) (t times, cpus int64, err error) {
	found := false
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "cpu") {
			continue // the line intr holds thousands of fields
		}
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		if f[0] != "cpu" {
			cpus++
			continue
		}
		found = true
		for i, p := range []*float64{&t.User, &t.Nice, &t.System, &t.Idle, &t.IOWait, &t.IRQ, &t.SoftIRQ, &t.Steal} {
			if i+1 >= len(f) {
				break // kernels before 2.6.11 count fewer kinds
			}
			n, err := strconv.ParseUint(f[i+1], 10, 64)
			if err != nil {
				return times{}, 0, fmt.Errorf("read /proc/stat: %.20q is not a count", f[i+1])
			}
			*p = float64(n) / userHZ
		}
	}
	if !found || cpus == 0 {
		return times{}, 0, fmt.Errorf("read /proc/stat: it lists no CPU")
	}
	return t, cpus, nil
}

// Model is the name of the CPU as /proc/cpuinfo has it.
func Model(r host.Reader) fact.Opt[string] {
	b, err := r.ReadFile("/proc/cpuinfo")
	if err != nil {
		return fact.Unknown[string](because(err))
	}
	name := ""
	pairs(b, func(k, v string) {
		if name == "" && (k == "model name" || k == "Model" || k == "cpu model") {
			name = v
		}
	})
	if name == "" {
		return fact.Unknown[string]("/proc/cpuinfo names no model on this architecture")
	}
	return fact.Known(name)
}

// quota is the tightest CPU limit from our control group up to the root.
func quota(r host.Reader) fact.Opt[float64] {
	groups, err := ownGroups(r)
	if err != nil {
		return fact.Unknown[float64](because(err))
	}
	best := 0.0
	take := func(cores float64) {
		if cores > 0 && (best == 0 || cores < best) {
			best = cores
		}
	}
	for _, dir := range groups.unified {
		if s, err := word(r, dir+"/cpu.max"); err == nil {
			limit, period, _ := strings.Cut(s, " ")
			take(cores(limit, period))
		}
	}
	for _, dir := range groups.of["cpu"] {
		limit, err1 := word(r, dir+"/cpu.cfs_quota_us")
		period, err2 := word(r, dir+"/cpu.cfs_period_us")
		if err1 == nil && err2 == nil {
			take(cores(limit, period))
		}
	}
	return fact.Known(best)
}

// cores divides; 0 for "max", -1 and anything that is not a number.
func cores(limit, period string) float64 {
	l, err1 := strconv.ParseFloat(limit, 64)
	p, err2 := strconv.ParseFloat(strings.TrimSpace(period), 64)
	if err1 != nil || err2 != nil || !(l > 0) || !(p > 0) {
		return 0
	}
	return l / p
}

// groups are the folders of our control groups, own first, root last.
type groups struct {
	unified []string
	of      map[string][]string // version 1: by controller
}

// ownGroups reads /proc/self/cgroup, whose lines are "id:controllers:path".
func ownGroups(r host.Reader) (groups, error) {
	b, err := r.ReadFile("/proc/self/cgroup")
	if err != nil {
		return groups{}, err
	}
	g := groups{of: map[string][]string{}}
	for line := range strings.Lines(string(b)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		if part[0] == "0" && part[1] == "" {
			g.unified = upward("/sys/fs/cgroup", part[2])
			continue
		}
		for _, c := range strings.Split(part[1], ",") {
			g.of[c] = append(upward("/sys/fs/cgroup/"+c, part[2]), upward("/sys/fs/cgroup/"+part[1], part[2])...)
		}
	}
	return g, nil
}

// upward lists base/rel and its parents down to base; at most 32 levels.
func upward(base, rel string) []string {
	var out []string
	for p := path.Clean("/" + rel); len(out) < 32; p = path.Dir(p) {
		if p == "/" {
			return append(out, base)
		}
		out = append(out, base+p)
	}
	return out
}
