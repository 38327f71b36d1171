package postgres

import (
	"fmt"
	"math"

	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/probe/pg"
	"headroom/probe/proc"
	"headroom/unit"
)

var memoryNeeds = []fact.Any{pg.Servers, pg.Settings, proc.Memories}

var sharedBuffers = &check.Check{
	Name: "postgres.shared-buffers",
	Doc: check.Doc{
		Title: "shared_buffers does not fit the machine's memory",
		Why: "Pages that are not in shared_buffers are fetched from the kernel (a copy and a system call) or from disk, and changed pages are pushed out and read again. " +
			"A quarter of the memory is where to start; beyond 40 % it takes from the kernel's cache what it gives.",
		Evidence: "shared_buffers, the memory, the size of the databases, and pages found and not found. Fires below 15 % of the memory if the databases do not fit in it, and above 50 %.",
		Fix:      "A quarter of the memory, at most 32 GB before a trial says that more is better.",
		Risk:     "A restart. Too much can make memory short; very large values want huge pages.",
		Undo:     undoSetting,
		Sources:  []string{"S1", "S21", "https://www.postgresql.org/docs/current/runtime-config-resource.html#GUC-SHARED-BUFFERS"},
	},
	Needs: append([]fact.Any{pg.Databases}, memoryNeeds...),
	Run: func(s *fact.Set, out *check.Report) {
		v, ok := numbers(s, out, "shared_buffers")
		if !ok || !here(s, out) {
			return
		}
		c, mem := fact.Get(s, pg.Settings), usable(fact.Get(s, proc.Memories))
		dbs := fact.Get(s, pg.Databases)
		size, known := databaseBytes(dbs)
		hits, reads := pages(dbs)
		share := v[0] / mem
		fix := set("shared_buffers", megabytes(roundSize(math.Min(mem/4, 32*unit.GB))))
		f := check.Finding{Subject: server, Severity: check.Advice, Basis: check.ByRule,
			Evidence: []check.Cite{cite(c, "shared_buffers"), figure("memory", mem, unit.Byte, "/proc/meminfo MemTotal, cgroup limit")},
			Fixes:    []change.Spec{fix}, Try: prove(fix, "pg.tpcb")}
		switch {
		case share > 0.5:
			f.Severity, f.Worth = check.Warning, 0.3
			f.Summary = fmt.Sprintf("shared_buffers is %s of %s of memory (%s): little is left for sessions and the kernel's cache.",
				c.Shown("shared_buffers"), unit.Format(mem, unit.Byte), unit.Format(share, unit.Ratio))
		case share < 0.15 && v[0] < 32*unit.GB && !(known && size <= v[0]):
			missed := reads / math.Max(hits+reads, 1)
			f.Worth = math.Min(0.3, 0.05+missed)
			f.Summary = fmt.Sprintf("shared_buffers is %s of %s of memory (%s)", c.Shown("shared_buffers"), unit.Format(mem, unit.Byte), unit.Format(share, unit.Ratio))
			if known {
				f.Summary += fmt.Sprintf(", and the databases take %s", unit.Format(size, unit.Byte))
				f.Evidence = append(f.Evidence, figure("databases", size, unit.Byte, "pg_database_size()"))
			}
			f.Summary += "."
			if hits+reads > 0 {
				f.Summary += fmt.Sprintf(" %s of page requests were not found in it.", unit.Format(missed, unit.Ratio))
				f.Evidence = append(f.Evidence, figure("pages not found", reads, unit.Count, "pg_stat_database blks_read"))
			}
		default:
			return
		}
		out.Found(f)
	},
}

// databaseBytes is the size of all databases; known is false if one is not known.
func databaseBytes(dbs []pg.Database) (sum float64, known bool) {
	for _, d := range dbs {
		if !d.Bytes.OK() {
			return 0, false
		}
		sum += float64(d.Bytes.Value)
	}
	return sum, true
}

func pages(dbs []pg.Database) (hits, reads float64) {
	for _, d := range dbs {
		hits, reads = hits+float64(d.Hits), reads+float64(d.Reads)
	}
	return hits, reads
}

var hugePages = &check.Check{
	Name: "postgres.huge-pages",
	Doc: check.Doc{
		Title: "A large shared_buffers runs on small pages",
		Why: "Every session has page tables of its own: with 4 kB pages 8 GB of shared_buffers costs each session that touches it all 16 MB of them, and the processor looks them up all the time. " +
			"With pages of 2 MB it is 32 kB.",
		Evidence: "huge_pages, shared_buffers, and the huge pages that the kernel has set aside. Fires from 4 GB of shared_buffers on.",
		Fix:      "Set aside enough huge pages (vm.nr_hugepages), leave huge_pages=try, restart the server.",
		Risk:     "Memory set aside can be used for nothing else. A kernel that has run for long may not find enough free memory in one piece until a reboot.",
		Undo:     "`headroom revert ID` of the sysctl, then restart the server.",
		Sources:  []string{"S21", "https://www.postgresql.org/docs/current/kernel-resources.html#LINUX-HUGE-PAGES"},
	},
	Needs: memoryNeeds,
	Run:   runHugePages,
}

func runHugePages(s *fact.Set, out *check.Report) {
	v, ok := numbers(s, out, "shared_buffers")
	if !ok || !here(s, out) || v[0] < 4*unit.GB {
		return
	}
	c, m := fact.Get(s, pg.Settings), fact.Get(s, proc.Memories)
	if status := c.Text("huge_pages_status"); status == "on" { // 17 and newer say what they got
		return
	}
	if !m.HugeTotal.OK() || !m.HugeSize.OK() || m.HugeSize.Value == 0 {
		out.Unknown(server, "the kernel's huge pages: "+m.HugeTotal.Because+m.HugeSize.Because)
		return
	}
	aside := float64(m.HugeTotal.Value) * float64(m.HugeSize.Value)
	if !c.Off("huge_pages") && aside >= v[0] {
		return
	}
	need := math.Ceil(v[0] * 1.05 / float64(m.HugeSize.Value))
	if exact, ok := c.Number("shared_memory_size_in_huge_pages"); ok && exact > 0 { // 15 and newer
		need = exact
	}
	f := check.Finding{Subject: server, Severity: check.Advice, Basis: check.ByRule, Worth: 0.12,
		Evidence: []check.Cite{cite(c, "huge_pages"), cite(c, "shared_buffers"), figure("huge pages set aside", aside, unit.Byte, "/proc/meminfo HugePages_Total")}}
	f.Summary = fmt.Sprintf("shared_buffers is %s, and the kernel has %s set aside: it runs on pages of 4 kB.", c.Shown("shared_buffers"), hugeAside(aside))
	if aside < need*float64(m.HugeSize.Value) {
		f.Fixes = append(f.Fixes, change.Spec{ID: "memory.sysctl", Args: map[string]string{"vm.nr_hugepages": fmt.Sprintf("%.0f", need)}})
		f.Hint = "Restart the server afterwards: it asks for huge pages only when it starts."
	}
	if c.Off("huge_pages") {
		f.Summary = fmt.Sprintf("huge_pages is off and shared_buffers is %s.", c.Shown("shared_buffers"))
		f.Fixes = append(f.Fixes, set("huge_pages", "try"))
	}
	out.Found(f)
}

func hugeAside(bytes float64) string {
	if bytes == 0 {
		return "no huge pages"
	}
	return unit.Format(bytes, unit.Byte) + " of huge pages"
}

var effectiveCache = &check.Check{
	Name: "postgres.effective-cache-size",
	Doc: check.Doc{
		Title:    "The planner is told a wrong size of the cache",
		Why:      "effective_cache_size takes no memory: it tells the planner how much of a table it may hope to find cached. Told too little, it prefers reading whole tables to using an index.",
		Evidence: "effective_cache_size and the memory. Fires below 40 % and above 100 % of the memory.",
		Fix:      "Three quarters of the memory.",
		Risk:     "Plans change, as a rule for the better. Look at your slowest queries afterwards.",
		Undo:     undoSetting,
		Sources:  []string{"https://www.postgresql.org/docs/current/runtime-config-query.html#GUC-EFFECTIVE-CACHE-SIZE"},
	},
	Needs: memoryNeeds,
	Run: func(s *fact.Set, out *check.Report) {
		v, ok := numbers(s, out, "effective_cache_size")
		if !ok || !here(s, out) {
			return
		}
		c, mem := fact.Get(s, pg.Settings), usable(fact.Get(s, proc.Memories))
		share := v[0] / mem
		if share >= 0.4 && share <= 1 {
			return
		}
		out.Found(check.Finding{Subject: server, Severity: check.Advice, Basis: check.ByRule, Worth: 0.05,
			Summary: fmt.Sprintf("effective_cache_size is %s, %s of the memory (%s): the planner expects a cache of that size.",
				c.Shown("effective_cache_size"), unit.Format(share, unit.Ratio), unit.Format(mem, unit.Byte)),
			Hint:     "It shows on plans that could use an index: try it with your own queries (pg.script).",
			Evidence: []check.Cite{cite(c, "effective_cache_size"), figure("memory", mem, unit.Byte, "/proc/meminfo MemTotal, cgroup limit")},
			Fixes:    []change.Spec{set("effective_cache_size", megabytes(roundSize(mem*0.75)))}})
	},
}
