package memory

import (
	"fmt"

	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/probe/proc"
	"headroom/unit"
)

func sysctl(args ...string) change.Spec {
	s := change.Spec{ID: "memory.sysctl", Args: map[string]string{}}
	for i := 0; i+1 < len(args); i += 2 {
		s.Args[args[i]] = args[i+1]
	}
	return s
}

// swapUsed is how much swap space is in use; 0 if not known.
func swapUsed(m proc.Memory) int64 {
	if !m.SwapTotal.OK() || !m.SwapFree.OK() {
		return 0
	}
	return m.SwapTotal.Value - m.SwapFree.Value
}

const (
	stallAdvice  = 0.05
	stallWarning = 0.20
)

var shortage = &check.Check{
	Name: "memory.shortage",
	Doc: check.Doc{
		Title:    "Work waits for memory",
		Why:      "When memory is short, programs wait while pages are freed, written or read back in. A database server then waits in places that no setting of it shows. The kernel counts that waiting itself (PSI).",
		Evidence: "/proc/pressure/memory over 5 minutes. It fires when some task waited 5 % of the time or more; from 20 %, or when all tasks together waited 5 %, it is a warning.",
		Fix:      "Lower what takes memory (shared_buffers, work_mem × connections, other programs), or add memory. There is no sysctl that makes memory.",
		Risk:     "None by looking.",
		Undo:     "Nothing is changed.",
		Sources:  []string{"Documentation/accounting/psi.rst", "S26"},
	},
	Needs: []fact.Any{proc.Pressures, proc.Memories},
	Run: func(s *fact.Set, out *check.Report) {
		p, m := fact.Get(s, proc.Pressures).Memory, fact.Get(s, proc.Memories)
		if p.Some300 < stallAdvice {
			return
		}
		f := check.Finding{
			Subject: "memory", Severity: check.Advice, Basis: check.Measured, Worth: min(p.Some300, 1),
			Summary: fmt.Sprintf("In %s of the last 5 minutes some work waited for memory, in %s all of it did.", unit.Format(p.Some300, unit.Ratio), unit.Format(p.Full300, unit.Ratio)),
			Hint:    "Give the largest users less (`headroom check postgres` tells what the server may take), or the machine more.",
			Evidence: []check.Cite{
				{Name: "some avg300", Value: p.Some300, Unit: unit.Ratio, Source: "/proc/pressure/memory"},
				{Name: "full avg300", Value: p.Full300, Unit: unit.Ratio, Source: "/proc/pressure/memory"},
				{Name: "MemTotal", Value: m.Total, Unit: unit.Byte, Source: "/proc/meminfo"},
			},
		}
		if m.Available.OK() {
			f.Evidence = append(f.Evidence, check.Cite{Name: "MemAvailable", Value: m.Available.Value, Unit: unit.Byte, Source: "/proc/meminfo"})
		}
		if used := swapUsed(m); used > 0 {
			f.Evidence = append(f.Evidence, check.Cite{Name: "swap in use", Value: used, Unit: unit.Byte, Source: "/proc/meminfo"})
		}
		if p.Some300 >= stallWarning || p.Full300 >= stallAdvice {
			f.Severity = check.Warning
		}
		out.Found(f)
	},
}

const swappinessHigh, swappinessFix = 30, "10"

var swappiness = &check.Check{
	Name: "memory.swappiness",
	Doc: check.Doc{
		Title:    "The kernel swaps programs out to keep file pages",
		Why:      "vm.swappiness weighs memory of programs against cached file pages. With the stock 60, one large copy or backup can push a database server's idle pages out to disk, and they come back one page at a time, at the disk's random-read speed.",
		Evidence: "vm.swappiness over 30 while there is swap space that is not compressed memory (zram). Without swap the figure has no effect.",
		Fix:      "vm.swappiness = 10: swap only when file pages run short.",
		Risk:     "Under real shortage file pages are dropped sooner, so reads get slower first.",
		Undo:     "`headroom revert ID` writes the old value back.",
		Sources:  []string{"Documentation/admin-guide/sysctl/vm.rst", "S21", "S26"},
	},
	Needs: []fact.Any{proc.Memories, proc.Sysctls},
	Run: func(s *fact.Set, out *check.Report) {
		m, k := fact.Get(s, proc.Memories), fact.Get(s, proc.Sysctls)
		switch {
		case !m.SwapTotal.OK():
			out.Unknown("memory", m.SwapTotal.Because)
			return
		case !k.Swappiness.OK():
			out.Unknown("memory", k.Swappiness.Because)
			return
		case m.SwapTotal.Value == 0 || k.Swappiness.Value <= swappinessHigh || m.SwapZram.Value:
			return
		}
		used := swapUsed(m)
		f := check.Finding{
			Subject: "memory", Severity: check.Advice, Basis: check.ByRule, Worth: 0.03,
			Summary: fmt.Sprintf("vm.swappiness is %d: under load the kernel swaps the server's idle memory out to keep file pages, and reads it back page by page.", k.Swappiness.Value),
			Evidence: []check.Cite{
				{Name: "vm.swappiness", Value: k.Swappiness.Value, Source: proc.SysctlPath("vm.swappiness")},
				{Name: "SwapTotal", Value: m.SwapTotal.Value, Unit: unit.Byte, Source: "/proc/meminfo"},
				{Name: "swap in use", Value: used, Unit: unit.Byte, Source: "/proc/meminfo"},
			},
			Fixes: []change.Spec{sysctl("vm.swappiness", swappinessFix)},
		}
		if used > m.SwapTotal.Value/4 && m.Available.OK() && m.Available.Value > used {
			f.Basis, f.Worth = check.Measured, 0.1
			f.Summary = fmt.Sprintf("%s is swapped out although %s of memory is available; vm.swappiness is %d.", unit.Bytes(used), unit.Bytes(m.Available.Value), k.Swappiness.Value)
		}
		out.Found(f)
	},
}

var noSwap = &check.Check{
	Name: "memory.no-swap",
	Doc: check.Doc{
		Title:    "No swap space",
		Why:      "Without swap, a short peak of memory use ends at once in the kernel killing the largest program, which is often a PostgreSQL back end; the server then throws every session out and recovers. A little swap turns that into a slow minute and a warning.",
		Evidence: "SwapTotal of /proc/meminfo is 0.",
		Fix:      "Add 2 to 4 GB of swap (a file or zram will do), with vm.swappiness = 10 so that it is not used without need. Headroom does not make swap space.",
		Risk:     "A machine that does swap in earnest is slow: watch memory.shortage.",
		Undo:     "swapoff, and remove the line in /etc/fstab.",
		Sources:  []string{"PostgreSQL documentation, Linux Memory Overcommit", "S21"},
	},
	Needs: []fact.Any{proc.Memories},
	Run: func(s *fact.Set, out *check.Report) {
		m := fact.Get(s, proc.Memories)
		switch {
		case !m.SwapTotal.OK():
			out.Unknown("memory", m.SwapTotal.Because)
		case m.SwapTotal.Value == 0:
			out.Found(check.Finding{
				Subject: "memory", Severity: check.Note, Basis: check.Measured, Worth: 0.01,
				Summary: fmt.Sprintf("There is no swap space: when the %s of memory run out, the kernel kills a program at once.", unit.Bytes(m.Total)),
				Hint:    "Add 2 to 4 GB of swap, and set vm.swappiness to 10.",
				Evidence: []check.Cite{
					{Name: "SwapTotal", Value: m.SwapTotal.Value, Unit: unit.Byte, Source: "/proc/meminfo"},
					{Name: "MemTotal", Value: m.Total, Unit: unit.Byte, Source: "/proc/meminfo"},
				},
			})
		}
	},
}

var zoneReclaim = &check.Check{
	Name: "memory.zone-reclaim",
	Doc: check.Doc{
		Title:    "Memory of other NUMA nodes is not used",
		Why:      "With vm.zone_reclaim_mode on, a node that is full throws its cached file pages away rather than use another node's free memory. On a database server that empties the cache it lives from, while memory lies idle.",
		Evidence: "vm.zone_reclaim_mode is not 0 on a machine with more than one NUMA node.",
		Fix:      "vm.zone_reclaim_mode = 0, the kernel's own default.",
		Risk:     "Some memory is reached over the other node, a little slower.",
		Undo:     "`headroom revert ID` writes the old value back.",
		Sources:  []string{"Documentation/admin-guide/sysctl/vm.rst"},
	},
	Needs: []fact.Any{proc.Sysctls},
	Run: func(s *fact.Set, out *check.Report) {
		k := fact.Get(s, proc.Sysctls)
		if k.Nodes <= 1 {
			return
		}
		if !k.ZoneReclaim.OK() {
			out.Unknown("memory", k.ZoneReclaim.Because)
			return
		}
		if k.ZoneReclaim.Value == 0 {
			return
		}
		out.Found(check.Finding{
			Subject: "memory", Severity: check.Warning, Basis: check.ByRule, Worth: 0.1,
			Summary: fmt.Sprintf("vm.zone_reclaim_mode is %d: each of the %d NUMA nodes empties its own file cache while others have memory free.", k.ZoneReclaim.Value, k.Nodes),
			Evidence: []check.Cite{
				{Name: "vm.zone_reclaim_mode", Value: k.ZoneReclaim.Value, Source: proc.SysctlPath("vm.zone_reclaim_mode")},
				{Name: "NUMA nodes", Value: k.Nodes, Unit: unit.Count, Source: "/sys/devices/system/node"},
			},
			Fixes: []change.Spec{sysctl("vm.zone_reclaim_mode", "0")},
			Try:   &check.Try{Change: sysctl("vm.zone_reclaim_mode", "0"), Workload: "pg.select"},
		})
	},
}
