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

var workMem = &check.Check{
	Name: "postgres.work-mem",
	Doc: check.Doc{
		Title:    "work_mem times connections is more than the memory",
		Why:      "Every sort and hash of every session may take work_mem (hashes work_mem × hash_mem_multiplier). If all sessions do at once what one may, the kernel kills the server for lack of memory, and all sessions with it.",
		Evidence: "work_mem × hash_mem_multiplier × max_connections against the memory that shared_buffers leaves.",
		Fix:      "A work_mem that fits, fewer connections, or a larger work_mem only for the roles or queries that need it (SET, ALTER ROLE).",
		Risk:     "Sorts that fitted may go to disk: watch temporary files.",
		Undo:     undoSetting,
		Sources:  []string{"S20", "S21", "https://www.postgresql.org/docs/current/runtime-config-resource.html#GUC-WORK-MEM"},
	},
	Needs: append([]fact.Any{pg.Activity}, memoryNeeds...),
	Run: func(s *fact.Set, out *check.Report) {
		v, ok := numbers(s, out, "work_mem", "max_connections", "shared_buffers")
		if !ok || !here(s, out) {
			return
		}
		c, mem := fact.Get(s, pg.Settings), usable(fact.Get(s, proc.Memories))
		times, ok := c.Number("hash_mem_multiplier")
		if !ok {
			times = 1 // before 13
		}
		left := mem - v[2]
		most := v[0] * times * v[1]
		if most <= left {
			return
		}
		used := float64(fact.Get(s, pg.Activity).Used)
		f := check.Finding{Subject: server, Severity: check.Advice, Basis: check.ByRule, Worth: 0.1,
			Summary: fmt.Sprintf("%s connections with one hash each may take %s of work_mem, and shared_buffers leaves %s of memory (%s connections now).",
				unit.Format(v[1], unit.Count), unit.Format(most, unit.Byte), unit.Format(math.Max(left, 0), unit.Byte), unit.Format(used, unit.Count)),
			Evidence: []check.Cite{cite(c, "work_mem"), cite(c, "max_connections"), cite(c, "shared_buffers"),
				figure("hash_mem_multiplier", times, unit.None, "pg_settings"), figure("memory", mem, unit.Byte, "/proc/meminfo MemTotal, cgroup limit")}}
		if used*v[0]*times > left {
			f.Severity, f.Worth = check.Warning, 0.6
		}
		if fit := roundSize(left / 2 / v[1] / times); left > 0 && fit >= 4*unit.MB && fit < v[0] {
			f.Fixes = []change.Spec{set("work_mem", megabytes(fit))}
		}
		f.Hint = "Fewer connections (a pooler such as PgBouncer) help as well."
		out.Found(f)
	},
}

var tempFiles = &check.Check{
	Name: "postgres.temp-files",
	Doc: check.Doc{
		Title:    "Sorts and hashes go to disk",
		Why:      "A sort that does not fit work_mem writes temporary files and reads them again.",
		Evidence: "Temporary files and bytes per database since its statistics began. Fires from 1 GB an hour on, if the mean file is above work_mem.",
		Fix:      "A larger work_mem, if the memory has room for it at all connections; else for the queries that need it. log_temp_files=10MB names them.",
		Risk:     "Memory: work_mem counts per sort and per session.",
		Undo:     undoSetting,
		Sources:  []string{"S21", "https://www.postgresql.org/docs/current/runtime-config-resource.html#GUC-WORK-MEM"},
	},
	Needs: append([]fact.Any{pg.Databases}, memoryNeeds...),
	Run:   runTempFiles,
}

func runTempFiles(s *fact.Set, out *check.Report) {
	v, ok := numbers(s, out, "work_mem", "max_connections", "shared_buffers")
	if !ok {
		return
	}
	c := fact.Get(s, pg.Settings)
	same := fact.Get(s, pg.Servers).Same
	room := 0.0 // what each connection could have
	if same.OK() && same.Value {
		room = (usable(fact.Get(s, proc.Memories)) - v[2]) / 2 / v[1] / 2
	}
	for _, d := range fact.Get(s, pg.Databases) {
		if !d.Since.OK() || d.TempFiles == 0 {
			continue
		}
		perHour := float64(d.TempBytes) / math.Max(d.Since.Value, 60) * 3600
		mean := float64(d.TempBytes) / float64(d.TempFiles)
		if d.TempBytes < unit.GB || perHour < unit.GB || mean < v[0] {
			continue
		}
		f := check.Finding{Subject: "database " + pg.Quote(d.Name), Severity: check.Advice, Basis: check.Measured,
			Worth: math.Min(0.3, 0.05+perHour/(2*unit.TB)),
			Summary: fmt.Sprintf("%s temporary files, %s in %s (%s each), because sorts and hashes did not fit work_mem (%s).",
				unit.Format(float64(d.TempFiles), unit.Count), unit.Format(float64(d.TempBytes), unit.Byte), unit.Seconds(d.Since.Value), unit.Format(mean, unit.Byte), c.Shown("work_mem")),
			Evidence: []check.Cite{cite(c, "work_mem"), figure("temporary bytes", d.TempBytes, unit.Byte, "pg_stat_database temp_bytes"), figure("temporary files", d.TempFiles, unit.Count, "pg_stat_database temp_files")},
			Hint:     "Find the queries with log_temp_files=10MB."}
		if want := roundSize(math.Min(2*mean, room)); want > v[0]*1.4 {
			fix := set("work_mem", megabytes(want))
			f.Fixes = []change.Spec{fix}
		} else {
			f.Hint += " There is no memory for a larger work_mem at all connections: raise it for those queries' role only (ALTER ROLE … SET work_mem)."
		}
		out.Found(f)
	}
}

var maintenanceMem = &check.Check{
	Name: "postgres.maintenance-work-mem",
	Doc: check.Doc{
		Title: "Vacuum and index builds have little memory for large tables, or may take too much",
		Why:   "Vacuum collects dead rows in this memory and passes over all indexes each time it is full (before PostgreSQL 17 at 6 bytes per dead row); index builds sort in it.",
		Evidence: "maintenance_work_mem, the memory, and the largest table. Fires at 128 MB and below if there is a table over 4 GB and 8 GB of memory, " +
			"and where one index build may take more than half of the memory that shared_buffers leaves, or more than all of it together with the autovacuum workers.",
		Fix:     "A sixty-fourth of the memory per autovacuum worker, at most 1 GB.",
		Risk:    "Each autovacuum worker may take that much (or autovacuum_work_mem).",
		Undo:    undoSetting,
		Sources: []string{"S21", "https://www.postgresql.org/docs/current/runtime-config-resource.html#GUC-MAINTENANCE-WORK-MEM"},
	},
	Needs: append([]fact.Any{pg.Tables}, memoryNeeds...),
	Run: func(s *fact.Set, out *check.Report) {
		v, ok := numbers(s, out, "maintenance_work_mem", "autovacuum_max_workers")
		if !ok || !here(s, out) {
			return
		}
		var big pg.Table
		for _, t := range fact.Get(s, pg.Tables).Tables {
			if t.Bytes > big.Bytes {
				big = t
			}
		}
		c, mem := fact.Get(s, pg.Settings), usable(fact.Get(s, proc.Memories))
		if tooMuchMaintenance(s, out, v[0], v[1], mem) {
			return
		}
		if v[0] > 128*unit.MB || big.Bytes < 4*unit.GB || mem < 8*unit.GB {
			return
		}
		want := roundSize(math.Min(unit.GB, mem/64*3/math.Max(v[1], 3)))
		if want <= v[0] {
			return
		}
		out.Found(check.Finding{Subject: server, Severity: check.Advice, Basis: check.ByRule, Worth: 0.06,
			Summary: fmt.Sprintf("maintenance_work_mem is %s, and table %s alone is %s: vacuum and index builds work in many small pieces.",
				c.Shown("maintenance_work_mem"), big.Quoted(), unit.Bytes(big.Bytes)),
			Evidence: []check.Cite{cite(c, "maintenance_work_mem"), figure("largest table", big.Bytes, unit.Byte, "pg_class relpages"), figure("memory", mem, unit.Byte, "/proc/meminfo MemTotal, cgroup limit")},
			Fixes:    []change.Spec{set("maintenance_work_mem", megabytes(want))}})
	},
}

// tooMuchMaintenance reports a maintenance_work_mem that the memory does not
// bear; it says whether it did.
func tooMuchMaintenance(s *fact.Set, out *check.Report, each, workers, mem float64) bool {
	c := fact.Get(s, pg.Settings)
	shared, _ := c.Number("shared_buffers")
	auto, ok := c.Number("autovacuum_work_mem")
	if !ok || auto < 0 {
		auto = each
	}
	if fact.Get(s, pg.Servers).Major < 17 {
		auto = math.Min(auto, unit.GB) // vacuum takes no more
	}
	left := math.Max(mem-shared, 0)
	most := each + workers*auto
	if most <= left && each <= left/2 {
		return false
	}
	f := check.Finding{Subject: server, Severity: check.Advice, Basis: check.ByRule, Worth: 0.1,
		Summary: fmt.Sprintf("One index build (maintenance_work_mem is %s) and %s autovacuum workers may take %s, and shared_buffers leaves %s of memory.",
			c.Shown("maintenance_work_mem"), unit.Format(workers, unit.Count), unit.Format(most, unit.Byte), unit.Format(left, unit.Byte)),
		Evidence: []check.Cite{cite(c, "maintenance_work_mem"), cite(c, "autovacuum_max_workers"), cite(c, "shared_buffers"), figure("memory", mem, unit.Byte, "/proc/meminfo MemTotal, cgroup limit")}}
	if each > left {
		f.Severity, f.Worth = check.Warning, 0.3
	}
	if fit := roundSize(math.Min(unit.GB, left/16)); fit >= 16*unit.MB && fit < each {
		f.Fixes = []change.Spec{set("maintenance_work_mem", megabytes(fit))}
	}
	out.Found(f)
	return true
}
