package memory

import (
	"context"
	"os"

	"headroom/host"
	"headroom/metric"
	"headroom/probe/proc"
)

func bytesOf(name, help, key string) proc.Figure {
	return proc.Figure{Key: key, Def: &metric.Def{Name: name, Help: help, Unit: metric.Bytes, Kind: metric.Gauge, Source: "/proc/meminfo " + key}}
}

func pagesOf(name, help, key string) proc.Figure {
	return proc.Figure{Key: key, Def: &metric.Def{Name: name, Help: help, Unit: metric.Count, Kind: metric.Gauge, Source: "/proc/meminfo " + key}}
}

var memoryFigures = []proc.Figure{
	bytesOf("host_memory_total_bytes", "Memory that the kernel manages.", "MemTotal"),
	bytesOf("host_memory_available_bytes", "What programs can still get without swapping.", "MemAvailable"),
	bytesOf("host_memory_free_bytes", "Memory that holds nothing.", "MemFree"),
	bytesOf("host_memory_buffers_bytes", "Cached blocks of devices.", "Buffers"),
	bytesOf("host_memory_cached_bytes", "Cached files, and memory that processes share.", "Cached"),
	bytesOf("host_memory_anonymous_bytes", "Memory of processes that no file stands behind.", "AnonPages"),
	bytesOf("host_memory_shared_bytes", "Shared memory and tmpfs: PostgreSQL's shared_buffers without huge pages are here.", "Shmem"),
	bytesOf("host_memory_slab_reclaimable_bytes", "The kernel's own caches that it can give up.", "SReclaimable"),
	bytesOf("host_memory_slab_fixed_bytes", "The kernel's own memory that it cannot give up.", "SUnreclaim"),
	bytesOf("host_memory_page_tables_bytes", "Memory spent on page tables.", "PageTables"),
	bytesOf("host_memory_dirty_bytes", "Changed pages that wait to be written.", "Dirty"),
	bytesOf("host_memory_writeback_bytes", "Changed pages being written now.", "Writeback"),
	bytesOf("host_memory_committed_bytes", "Memory promised to programs.", "Committed_AS"),
	bytesOf("host_memory_commit_limit_bytes", "Promises the kernel would make if vm.overcommit_memory were 2.", "CommitLimit"),
	bytesOf("host_swap_total_bytes", "Swap space.", "SwapTotal"),
	bytesOf("host_swap_free_bytes", "Swap space not used.", "SwapFree"),
	bytesOf("host_huge_page_size_bytes", "Default size of a huge page.", "Hugepagesize"),
	pagesOf("host_huge_pages", "Huge pages of the default size that are set aside.", "HugePages_Total"),
	pagesOf("host_huge_pages_free", "Huge pages not in use.", "HugePages_Free"),
	pagesOf("host_huge_pages_reserved", "Free huge pages already promised to a program.", "HugePages_Rsvd"),
}

var useCollector = &metric.Collector{
	Name: "memory.use", Doc: "what memory and swap hold", Of: metric.Host, Fast: true, Defs: proc.Defs(memoryFigures),
	Collect: func(_ context.Context, r host.Reader, out *metric.Out) error {
		v, err := proc.ReadMeminfo(r)
		if err != nil {
			return err
		}
		v.Give(out, "/proc/meminfo", memoryFigures)
		return nil
	},
}

func eventsOf(name, unit, help, key string, factor float64) proc.Figure {
	return proc.Figure{Key: key, Factor: factor, Def: &metric.Def{Name: name, Help: help, Unit: unit, Kind: metric.Counter, Source: "/proc/vmstat " + key}}
}

var (
	pageSize      = float64(os.Getpagesize())
	pagingFigures = []proc.Figure{
		eventsOf("host_swap_in_bytes_total", metric.Bytes, "Memory read back from swap.", "pswpin", pageSize),
		eventsOf("host_swap_out_bytes_total", metric.Bytes, "Memory written to swap.", "pswpout", pageSize),
		eventsOf("host_page_faults_total", metric.Count, "Times that a task touched a page that was not mapped.", "pgfault", 1),
		eventsOf("host_major_page_faults_total", metric.Count, "Page faults that had to read from storage.", "pgmajfault", 1),
		eventsOf("host_oom_kills_total", metric.Count, "Processes killed because memory ran out.", "oom_kill", 1),
		eventsOf("host_pages_scanned_direct_total", metric.Count, "Pages that tasks themselves had to look through for free memory: they waited meanwhile.", "pgscan_direct", 1),
		eventsOf("host_pages_scanned_total", metric.Count, "Pages that the kernel looked through in the background for free memory.", "pgscan_kswapd", 1),
		eventsOf("host_compaction_stalls_total", metric.Count, "Times that a task waited for memory to be compacted.", "compact_stall", 1),
		eventsOf("host_file_refaults_total", metric.Count, "Pages of files read again soon after they were dropped: the cache is too small.", "workingset_refault_file", 1),
	}
)

var pagingCollector = &metric.Collector{
	Name: "memory.paging", Doc: "swapping, page faults, searching for free memory, kills for lack of it", Of: metric.Host, Fast: true,
	Defs: proc.Defs(pagingFigures),
	Collect: func(_ context.Context, r host.Reader, out *metric.Out) error {
		v, err := proc.ReadPairs(r, "/proc/vmstat")
		if err != nil {
			return err
		}
		if f, ok := v["workingset_refault"]; ok { // before Linux 5.9 one figure for files and the rest
			v["workingset_refault_file"] = f
		}
		v.Give(out, "/proc/vmstat", pagingFigures)
		return nil
	},
}
