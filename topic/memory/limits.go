package memory

import (
	"fmt"
	"strconv"

	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/probe/place"
	"headroom/probe/proc"
	"headroom/unit"
)

var overcommit = &check.Check{
	Name: "memory.overcommit",
	Doc: check.Doc{
		Title:    "The kernel promises more memory than it has",
		Why:      "With vm.overcommit_memory 0 or 1 a program is promised memory that may not be there when it is used; the kernel then kills a process. If that is a PostgreSQL back end, the server ends all sessions and recovers from the log. With 2 the program gets \"out of memory\" instead, and only that query fails.",
		Evidence: "vm.overcommit_memory is 0 (advice) or 1 (warning). It stays quiet where our control group has a memory limit: the group's own killer decides there.",
		Fix:      "vm.overcommit_memory = 2 with a vm.overcommit_ratio that makes the limit 95 % of memory, swap included.",
		Risk:     "Programs that reserve much and use little (Java, browsers, sanitizers) fail to start once the limit is reached. Apply it with --confirm-within and look at Committed_AS on a busy day first.",
		Undo:     "`headroom revert ID` writes the old values back at once.",
		Sources:  []string{"PostgreSQL documentation, Linux Memory Overcommit", "Documentation/mm/overcommit-accounting.rst", "S21"},
	},
	Needs: []fact.Any{proc.Memories, proc.Sysctls},
	Run:   runOvercommit,
}

// committable is the share of memory that may be promised: the rest is left
// to the kernel itself and to page tables.
const committable = 0.95

func runOvercommit(s *fact.Set, out *check.Report) {
	m, k := fact.Get(s, proc.Memories), fact.Get(s, proc.Sysctls)
	if !k.OvercommitMemory.OK() {
		out.Unknown("memory", k.OvercommitMemory.Because)
		return
	}
	if k.OvercommitMemory.Value == 2 || m.Limit.Value > 0 {
		return
	}
	f := check.Finding{
		Subject: "memory", Severity: check.Advice, Basis: check.ByRule, Worth: 0.02,
		Summary: "vm.overcommit_memory is 0: when memory runs out the kernel kills a process, and a killed back end makes PostgreSQL end all sessions.",
		Evidence: []check.Cite{
			{Name: "vm.overcommit_memory", Value: k.OvercommitMemory.Value, Source: proc.SysctlPath("vm.overcommit_memory")},
			{Name: "MemTotal", Value: m.Total, Unit: unit.Byte, Source: "/proc/meminfo"},
		},
	}
	if k.OvercommitMemory.Value == 1 {
		f.Severity = check.Warning
		f.Summary = "vm.overcommit_memory is 1: every promise of memory is made, however large, and the kernel kills a process when they come due; a killed back end makes PostgreSQL end all sessions."
	}
	if !m.Committed.OK() {
		f.Hint = "How much is promised now cannot be read, so no limit is proposed."
		out.Found(f)
		return
	}
	f.Evidence = append(f.Evidence, check.Cite{Name: "Committed_AS", Value: m.Committed.Value, Unit: unit.Byte, Source: "/proc/meminfo"})
	ratio := commitRatio(m)
	limit := commitLimit(m, ratio)
	if m.Committed.Value > limit/10*9 {
		f.Hint = fmt.Sprintf("Programs hold promises of %s already, and the limit would be %s: add swap or lower them before setting it to 2.", unit.Bytes(m.Committed.Value), unit.Bytes(limit))
		out.Found(f)
		return
	}
	f.Hint = fmt.Sprintf("With 2 and a ratio of %d the limit is %s, of which %s is promised now. Programs that reserve far more than they use then fail to start: watch Committed_AS on a busy day first.", ratio, unit.Bytes(limit), unit.Bytes(m.Committed.Value))
	f.Fixes = []change.Spec{sysctl("vm.overcommit_memory", "2", "vm.overcommit_ratio", strconv.FormatInt(ratio, 10))}
	out.Found(f)
}

// commitRatio makes the commit limit, swap included, 95 % of memory.
func commitRatio(m proc.Memory) int64 {
	usable := float64(m.Total - m.HugeTotal.Value*m.HugeSize.Value)
	if usable <= 0 {
		return 50
	}
	r := int64(100 * (committable*usable - float64(m.SwapTotal.Value)) / usable)
	return min(max(r, 50), 95)
}

// What is a bearable time to write out all dirty pages, in seconds.
const (
	stallSeconds = 30
	stallLong    = 120
)

var dirtyLimits = &check.Check{
	Name: "memory.dirty-limits",
	Doc: check.Doc{
		Title:    "More may wait to be written than the disk writes in reasonable time",
		Why:      "Changed pages collect in memory up to the dirty limits. An fsync at a checkpoint, or a writer that meets the limit, then waits until all that is on disk. A percentage that was fine with 4 GB of memory is minutes of standstill with 256 GB.",
		Evidence: "The limit (vm.dirty_bytes, or vm.dirty_ratio of the available memory) divided by the sequential speed measured here. Only reading is measured; writing is rarely faster, so the time is rather too short. Over 30 s is advice, over 2 minutes a warning.",
		Fix:      "vm.dirty_background_bytes at 1 s and vm.dirty_bytes at 4 s of the measured speed, but not below 64 MB and 256 MB.",
		Risk:     "Bulk copies are slowed down to the disk's own speed sooner; pages that change often are written more often.",
		Undo:     "`headroom revert ID` brings the percentages back.",
		Sources:  []string{"Documentation/admin-guide/sysctl/vm.rst", "S18", "S21"},
	},
	Needs: []fact.Any{proc.Memories, proc.Sysctls, place.Latencies},
	Run:   runDirty,
}

func runDirty(s *fact.Set, out *check.Report) {
	m, k, l := fact.Get(s, proc.Memories), fact.Get(s, proc.Sysctls), fact.Get(s, place.Latencies)
	limit, cite, why := dirtyLimit(m, k)
	switch {
	case why != "":
		out.Unknown("memory", why)
		return
	case !l.Read.Throughput.OK():
		out.Unknown("memory", "how fast the disk is: "+l.Read.Throughput.Because)
		return
	}
	speed := l.Read.Throughput.Value
	secs := float64(limit) / speed
	if secs <= stallSeconds {
		return
	}
	background, hard := round64(speed, 64*unit.MB), round64(4*speed, 256*unit.MB)
	fix := sysctl("vm.dirty_background_bytes", sizeArg(background), "vm.dirty_bytes", sizeArg(hard))
	f := check.Finding{
		Subject: "memory", Severity: check.Advice, Basis: check.Measured, Worth: 0.05,
		Summary: fmt.Sprintf("Up to %s may wait to be written before writers are held up; at the %s measured here (by reading) that takes about %s to write, and an fsync may wait that long.",
			unit.Bytes(limit), unit.Format(speed, unit.BytesPerSecond), unit.Seconds(secs)),
		Evidence: []check.Cite{cite,
			{Name: "dirty limit", Value: limit, Unit: unit.Byte, Source: "of MemAvailable"},
			{Name: "sequential speed", Value: speed, Unit: unit.BytesPerSecond, Source: "measured by reading " + l.Read.What}},
		Fixes: []change.Spec{fix},
		Try:   &check.Try{Change: fix, Workload: "pg.upsert"},
	}
	if secs > stallLong {
		f.Severity, f.Worth = check.Warning, 0.1
	}
	out.Found(f)
}

// dirtyLimit is how much may wait to be written before writers are held up.
func dirtyLimit(m proc.Memory, k proc.Sysctl) (limit int64, cite check.Cite, why string) {
	switch {
	case k.DirtyBytes.OK() && k.DirtyBytes.Value > 0:
		return k.DirtyBytes.Value, check.Cite{Name: "vm.dirty_bytes", Value: k.DirtyBytes.Value, Unit: unit.Byte, Source: proc.SysctlPath("vm.dirty_bytes")}, ""
	case !k.DirtyRatio.OK():
		return 0, cite, k.DirtyRatio.Because
	case !m.Available.OK():
		return 0, cite, m.Available.Because
	}
	return m.Available.Value / 100 * k.DirtyRatio.Value,
		check.Cite{Name: "vm.dirty_ratio", Value: float64(k.DirtyRatio.Value) / 100, Unit: unit.Ratio, Source: proc.SysctlPath("vm.dirty_ratio")}, ""
}

// round64 rounds down to whole 64 MB, but not below least.
func round64(v float64, least int64) int64 {
	const step = 64 * unit.MB
	return max(int64(v)/step*step, least)
}

func sizeArg(n int64) string { return strconv.FormatInt(n/unit.MB, 10) + "MB" }

var hugeAlways = &check.Check{
	Name: "memory.transparent-huge-pages",
	Doc: check.Doc{
		Title:    "Transparent huge pages for everybody",
		Why:      "With \"always\" the kernel gives any program huge pages unasked and stops to compact memory for them. PostgreSQL's documentation discourages that: it is known to slow servers down, in bursts that show as latency peaks. Huge pages that the server asks for itself (huge_pages) are another matter and stay useful.",
		Evidence: "/sys/kernel/mm/transparent_hugepage/enabled is always.",
		Fix:      "enabled = madvise: only programs that ask get them.",
		Risk:     "A program that gained without asking gets slower. Memory already in huge pages stays so until its program ends.",
		Undo:     "`headroom revert ID` writes the old choice back.",
		Sources:  []string{"PostgreSQL documentation, huge_pages", "Documentation/admin-guide/mm/transhuge.rst", "S21"},
	},
	Needs: []fact.Any{proc.Memories},
	Run: func(s *fact.Set, out *check.Report) {
		m := fact.Get(s, proc.Memories)
		if !m.THP.OK() {
			out.Unknown("memory", m.THP.Because)
			return
		}
		if m.THP.Value != "always" {
			return
		}
		fix := change.Spec{ID: "memory.thp", Args: map[string]string{"enabled": "madvise"}}
		f := check.Finding{
			Subject: "memory", Severity: check.Advice, Basis: check.ByRule, Worth: 0.03,
			Summary:  "Transparent huge pages are given to every program unasked, and the kernel may stop a program to compact memory for them; PostgreSQL advises against it.",
			Evidence: []check.Cite{{Name: "enabled", Value: m.THP.Value, Source: thpFolder + "enabled"}},
			Fixes:    []change.Spec{fix},
			Try:      &check.Try{Change: fix, Workload: "pg.select"},
		}
		if m.THPDefrag.OK() {
			f.Evidence = append(f.Evidence, check.Cite{Name: "defrag", Value: m.THPDefrag.Value, Source: thpFolder + "defrag"})
			if m.THPDefrag.Value == "always" {
				f.Worth = 0.06
			}
		}
		out.Found(f)
	},
}
