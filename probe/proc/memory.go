package proc

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"headroom/fact"
	"headroom/host"
)

// Memory is the machine's memory and how the kernel is told to use it.
type Memory struct {
	Total        int64            `json:"total" unit:"bytes" src:"/proc/meminfo MemTotal" doc:"memory that the kernel manages"`
	Available    fact.Opt[int64]  `json:"available" unit:"bytes" src:"/proc/meminfo MemAvailable" doc:"what programs can still get without swapping"`
	Limit        fact.Opt[int64]  `json:"limit" unit:"bytes" src:"cgroup memory.max or memory.limit_in_bytes" doc:"memory that our control group may use; 0: no limit"`
	SwapTotal    fact.Opt[int64]  `json:"swap_total" unit:"bytes" src:"/proc/meminfo SwapTotal" doc:"swap space"`
	SwapFree     fact.Opt[int64]  `json:"swap_free" unit:"bytes" src:"/proc/meminfo SwapFree" doc:"swap space not used"`
	SwapZram     fact.Opt[bool]   `json:"swap_zram" src:"/proc/swaps" doc:"some of the swap space is compressed memory (zram), which is quick"`
	Dirty        fact.Opt[int64]  `json:"dirty" unit:"bytes" src:"/proc/meminfo Dirty" doc:"changed pages that wait to be written"`
	Writeback    fact.Opt[int64]  `json:"writeback" unit:"bytes" src:"/proc/meminfo Writeback" doc:"changed pages being written now"`
	PageTables   fact.Opt[int64]  `json:"page_tables" unit:"bytes" src:"/proc/meminfo PageTables" doc:"memory spent on page tables"`
	CommitLimit  fact.Opt[int64]  `json:"commit_limit" unit:"bytes" src:"/proc/meminfo CommitLimit" doc:"promises the kernel would make if vm.overcommit_memory were 2"`
	Committed    fact.Opt[int64]  `json:"committed" unit:"bytes" src:"/proc/meminfo Committed_AS" doc:"memory promised to programs now"`
	HugeTotal    fact.Opt[int64]  `json:"huge_total" unit:"count" src:"/proc/meminfo HugePages_Total" doc:"huge pages of the default size that are set aside"`
	HugeFree     fact.Opt[int64]  `json:"huge_free" unit:"count" src:"/proc/meminfo HugePages_Free" doc:"huge pages not in use"`
	HugeReserved fact.Opt[int64]  `json:"huge_reserved" unit:"count" src:"/proc/meminfo HugePages_Rsvd" doc:"free huge pages already promised to a program"`
	HugeSize     fact.Opt[int64]  `json:"huge_size" unit:"bytes" src:"/proc/meminfo Hugepagesize" doc:"default size of a huge page"`
	THP          fact.Opt[string] `json:"thp" src:"/sys/kernel/mm/transparent_hugepage/enabled" doc:"transparent huge pages: always, madvise or never"`
	THPDefrag    fact.Opt[string] `json:"thp_defrag" src:"/sys/kernel/mm/transparent_hugepage/defrag" doc:"when a program waits for memory to be compacted into huge pages"`
}

// Memories is the fact "proc.memory".
var Memories = &fact.Source[Memory]{
	Name: "proc.memory", Doc: "memory, swap, huge pages, and what waits to be written",
	Read: func(_ context.Context, in *fact.In) (Memory, error) { return readMemory(in) },
}

func readMemory(r host.Reader) (Memory, error) {
	b, err := r.ReadFile("/proc/meminfo")
	if err != nil {
		return Memory{}, err
	}
	m, err := parseMeminfo(b)
	if err != nil {
		return Memory{}, err
	}
	m.Limit = memoryLimit(r, m.Total)
	m.SwapZram = swapZram(r)
	m.THP = chosen(r, "/sys/kernel/mm/transparent_hugepage/enabled")
	m.THPDefrag = chosen(r, "/sys/kernel/mm/transparent_hugepage/defrag")
	return m, nil
}

// meminfo reads lines such as "MemTotal:  24684092 kB"; sizes come in bytes.
func meminfo(b []byte) map[string]int64 {
	found := make(map[string]int64, 64)
	pairs(b, func(name, value string) {
		figure, kb := strings.CutSuffix(value, " kB")
		n, err := strconv.ParseInt(strings.TrimSpace(figure), 10, 64)
		if err != nil || n < 0 || n > 1<<52 {
			return
		}
		if kb {
			n <<= 10
		}
		found[name] = n
	})
	return found
}

func parseMeminfo(b []byte) (Memory, error) {
	found := meminfo(b)
	var m Memory
	if m.Total = found["MemTotal"]; m.Total == 0 {
		return Memory{}, fmt.Errorf("read /proc/meminfo: it tells no MemTotal")
	}
	for name, p := range map[string]*fact.Opt[int64]{
		"MemAvailable": &m.Available, "SwapTotal": &m.SwapTotal, "SwapFree": &m.SwapFree, "Dirty": &m.Dirty,
		"Writeback": &m.Writeback, "PageTables": &m.PageTables, "CommitLimit": &m.CommitLimit, "Committed_AS": &m.Committed,
		"HugePages_Total": &m.HugeTotal, "HugePages_Free": &m.HugeFree, "HugePages_Rsvd": &m.HugeReserved, "Hugepagesize": &m.HugeSize,
	} {
		*p = fact.Unknown[int64]("/proc/meminfo has no line " + name)
		if n, ok := found[name]; ok {
			*p = fact.Known(n)
		}
	}
	return m, nil
}

// memoryLimit is the tightest limit from our control group up to the root; a
// limit of all memory or more is none.
func memoryLimit(r host.Reader, total int64) fact.Opt[int64] {
	g, err := ownGroups(r)
	if err != nil {
		return fact.Unknown[int64](because(err))
	}
	best := int64(0)
	take := func(path string) {
		s, err := word(r, path)
		if err != nil {
			return
		}
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && n > 0 && n < total && (best == 0 || n < best) {
			best = n
		}
	}
	for _, dir := range g.unified {
		take(dir + "/memory.max")
	}
	for _, dir := range g.of["memory"] {
		take(dir + "/memory.limit_in_bytes")
	}
	return fact.Known(best)
}

func swapZram(r host.Reader) fact.Opt[bool] {
	b, err := r.ReadFile("/proc/swaps")
	if err != nil {
		return fact.Unknown[bool](because(err))
	}
	return fact.Known(strings.Contains("\n"+string(b), "\n/dev/zram"))
}
