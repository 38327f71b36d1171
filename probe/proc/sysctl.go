package proc

import (
	"context"
	"path"
	"strings"

	"headroom/fact"
	"headroom/host"
)

// Sysctl is the kernel's adjustable figures that matter to a database server.
type Sysctl struct {
	Swappiness       fact.Opt[int64]            `json:"vm.swappiness" unit:"count" src:"/proc/sys/vm/swappiness" doc:"0…200: how readily memory of programs is swapped out to keep file pages"`
	OvercommitMemory fact.Opt[int64]            `json:"vm.overcommit_memory" unit:"count" src:"/proc/sys/vm/overcommit_memory" doc:"0: guess, 1: promise anything, 2: never promise more than the commit limit"`
	OvercommitRatio  fact.Opt[int64]            `json:"vm.overcommit_ratio" unit:"count" src:"/proc/sys/vm/overcommit_ratio" doc:"percent of memory in the commit limit"`
	DirtyRatio       fact.Opt[int64]            `json:"vm.dirty_ratio" unit:"count" src:"/proc/sys/vm/dirty_ratio" doc:"percent of available memory that may be dirty before writers must write themselves; 0: dirty_bytes rules"`
	DirtyBytes       fact.Opt[int64]            `json:"vm.dirty_bytes" unit:"bytes" src:"/proc/sys/vm/dirty_bytes" doc:"the same as a size; 0: dirty_ratio rules"`
	DirtyBackRatio   fact.Opt[int64]            `json:"vm.dirty_background_ratio" unit:"count" src:"/proc/sys/vm/dirty_background_ratio" doc:"percent of available memory that may be dirty before the kernel starts to write; 0: dirty_background_bytes rules"`
	DirtyBackBytes   fact.Opt[int64]            `json:"vm.dirty_background_bytes" unit:"bytes" src:"/proc/sys/vm/dirty_background_bytes" doc:"the same as a size; 0: dirty_background_ratio rules"`
	HugePages        fact.Opt[int64]            `json:"vm.nr_hugepages" unit:"count" src:"/proc/sys/vm/nr_hugepages" doc:"huge pages asked for"`
	ZoneReclaim      fact.Opt[int64]            `json:"vm.zone_reclaim_mode" unit:"count" src:"/proc/sys/vm/zone_reclaim_mode" doc:"not 0: free pages of the own NUMA node before another node's memory is taken"`
	Autogroup        fact.Opt[int64]            `json:"kernel.sched_autogroup_enabled" unit:"count" src:"/proc/sys/kernel/sched_autogroup_enabled" doc:"1: CPU is shared out between sessions, not processes"`
	Scheduler        map[string]fact.Opt[int64] `json:"scheduler" unit:"count" src:"/proc/sys/kernel/sched_*" doc:"further figures of the CPU scheduler, as far as this kernel has them"`
	Nodes            int64                      `json:"numa_nodes" unit:"count" src:"/sys/devices/system/node" doc:"NUMA nodes; 0 if the kernel does not show them"`
}

// knobs ties each sysctl's name to its field.
var knobs = []struct {
	name  string
	field func(*Sysctl) *fact.Opt[int64]
}{
	{"vm.swappiness", func(s *Sysctl) *fact.Opt[int64] { return &s.Swappiness }},
	{"vm.overcommit_ratio", func(s *Sysctl) *fact.Opt[int64] { return &s.OvercommitRatio }},
	{"vm.overcommit_memory", func(s *Sysctl) *fact.Opt[int64] { return &s.OvercommitMemory }},
	{"vm.dirty_background_ratio", func(s *Sysctl) *fact.Opt[int64] { return &s.DirtyBackRatio }},
	{"vm.dirty_background_bytes", func(s *Sysctl) *fact.Opt[int64] { return &s.DirtyBackBytes }},
	{"vm.dirty_ratio", func(s *Sysctl) *fact.Opt[int64] { return &s.DirtyRatio }},
	{"vm.dirty_bytes", func(s *Sysctl) *fact.Opt[int64] { return &s.DirtyBytes }},
	{"vm.nr_hugepages", func(s *Sysctl) *fact.Opt[int64] { return &s.HugePages }},
	{"vm.zone_reclaim_mode", func(s *Sysctl) *fact.Opt[int64] { return &s.ZoneReclaim }},
	{"kernel.sched_autogroup_enabled", func(s *Sysctl) *fact.Opt[int64] { return &s.Autogroup }},
}

// Names lists the sysctls that Sysctl holds, in an order in which they can be
// set one after the other.
func (s *Sysctl) Names() []string {
	out := make([]string, len(knobs))
	for i, k := range knobs {
		out[i] = k.name
	}
	return out
}

// Value returns a sysctl by name; ok is false for a name that is not in Names.
func (s *Sysctl) Value(name string) (v fact.Opt[int64], ok bool) {
	for _, k := range knobs {
		if k.name == name {
			return *k.field(s), true
		}
	}
	return v, false
}

// SysctlPath is the pseudo file of a sysctl: vm.swappiness → /proc/sys/vm/swappiness.
func SysctlPath(name string) string { return "/proc/sys/" + strings.ReplaceAll(name, ".", "/") }

// Sysctls is the fact "proc.sysctl".
var Sysctls = &fact.Source[Sysctl]{
	Name: "proc.sysctl", Doc: "the kernel's adjustable figures that matter to a database server",
	Read: func(_ context.Context, in *fact.In) (Sysctl, error) { return readSysctl(in) },
}

func readSysctl(r host.Reader) (Sysctl, error) {
	s := Sysctl{Scheduler: map[string]fact.Opt[int64]{}}
	if _, err := r.Stat("/proc/sys"); err != nil {
		return s, err
	}
	for _, k := range knobs {
		*k.field(&s) = number(r, SysctlPath(k.name))
	}
	more, err := r.Glob("/proc/sys/kernel/sched_*")
	if err != nil {
		return s, err
	}
	for _, p := range more {
		name := "kernel." + path.Base(p)
		if _, known := s.Value(name); known {
			continue
		}
		if v := number(r, p); v.OK() {
			s.Scheduler[name] = v
		}
	}
	nodes, err := r.Glob("/sys/devices/system/node/node[0-9]*")
	s.Nodes = int64(len(nodes))
	return s, err
}
