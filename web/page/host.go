package page

// chartsData is a page of sections with charts.
type chartsData struct {
	*view
	Sections []section
}

type section struct {
	ID, Title, Text string
	Charts          []Chart
}

func cpuChart(h scope) Chart {
	return Chart{Title: "CPU", Help: "share of all CPUs by what they do", Unit: "ratio", Stack: true, Max: one,
		Lines: []Line{h.rate("{mode}", `host_cpu_seconds_total{mode!="idle"}`, "mode").overGauge(h, "host_cpus")}}
}

func memoryChart(h scope) Chart {
	return Chart{Title: "Memory", Help: "what memory holds", Unit: "bytes",
		Lines: []Line{
			h.gauge("programs", "host_memory_anonymous_bytes"), h.gauge("cached files", "host_memory_cached_bytes"),
			h.gauge("available", "host_memory_available_bytes"), h.gauge("total", "host_memory_total_bytes")}}
}

func networkChart(h scope) Chart {
	return Chart{Title: "Network", Help: "bytes received and sent a second, without loopback", Unit: "bytes/s",
		Lines: []Line{
			h.rate("{interface} in", `host_network_receive_bytes_total{interface!="lo"}`, "interface").top(6),
			h.rate("{interface} out", `host_network_transmit_bytes_total{interface!="lo"}`, "interface").top(6)}}
}

func (p *pages) host(v *view) (string, bool, any) {
	h := hostScope(v.Host)
	return "charts", true, chartsData{v, []section{
		{ID: "cpu", Title: "CPU and waiting", Charts: []Chart{
			cpuChart(h),
			{Title: "Pressure: some tasks wait", Help: "share of the time in which at least one task waited", Unit: "ratio",
				Lines: []Line{h.rate("{resource}", `host_pressure_waiting_seconds_total{tasks="some"}`, "resource")}},
			{Title: "Pressure: all tasks wait", Help: "share of the time in which nothing could go on", Unit: "ratio",
				Lines: []Line{h.rate("{resource}", `host_pressure_waiting_seconds_total{tasks="full"}`, "resource")}},
			{Title: "Load and tasks", Help: "mean number of tasks that run or wait for the disk", Unit: "count",
				Lines: []Line{h.gauge("load, 1 min", `host_load{over="1m"}`), h.gauge("running", "host_tasks_running"), h.gauge("blocked", "host_tasks_blocked"), h.gauge("CPUs", "host_cpus")}},
			{Title: "Switches and interrupts", Help: "of all CPUs", Unit: "count/s",
				Lines: []Line{h.rate("context switches", "host_context_switches_total"), h.rate("interrupts", "host_interrupts_total"), h.rate("forks", "host_forks_total")}},
		}},
		{ID: "memory", Title: "Memory", Charts: []Chart{
			memoryChart(h),
			{Title: "Written later", Help: "changed in memory and not on disk yet", Unit: "bytes",
				Lines: []Line{h.gauge("dirty", "host_memory_dirty_bytes"), h.gauge("being written", "host_memory_writeback_bytes")}},
			{Title: "Promised memory", Help: "what programs reserved, against the kernel's limit", Unit: "bytes",
				Lines: []Line{h.gauge("promised", "host_memory_committed_bytes"), h.gauge("limit", "host_memory_commit_limit_bytes")}},
			{Title: "Swap traffic", Help: "bytes moved to and from swap", Unit: "bytes/s",
				Lines: []Line{h.rate("in", "host_swap_in_bytes_total"), h.rate("out", "host_swap_out_bytes_total")}},
			{Title: "Page faults and reclaim", Help: "major faults read from disk; direct scans make programs wait", Unit: "count/s",
				Lines: []Line{h.rate("major faults", "host_major_page_faults_total"), h.rate("pages scanned, waiting", "host_pages_scanned_direct_total"), h.rate("kills for lack of memory", "host_oom_kills_total")}},
		}},
		{ID: "network", Title: "Network", Charts: networkCharts(h)},
		{ID: "limits", Title: "Limits of the kernel", Charts: []Chart{
			{Title: "Connection tracking", Help: "entries of their limit: at the limit packets are dropped", Unit: "ratio", Max: one,
				Lines: []Line{h.gauge("used", "host_conntrack_entries").overGauge(h, "host_conntrack_entries_limit")}},
			{Title: "Open files", Help: "of the kernel's limit", Unit: "count", Lines: []Line{h.gauge("open", "host_open_files")}},
			{Title: "Threads", Help: "of the kernel's limit", Unit: "count", Lines: []Line{h.gauge("threads", "host_threads"), h.gauge("limit", "host_threads_limit")}},
		}},
	}}
}

func networkCharts(h scope) []Chart {
	return []Chart{
		networkChart(h),
		{Title: "Packets lost", Help: "dropped or damaged", Unit: "count/s", Lines: []Line{
			h.rate("{interface} in, dropped", "host_network_receive_drops_total", "interface").top(4), h.rate("{interface} out, dropped", "host_network_transmit_drops_total", "interface").top(4),
			h.rate("{interface} in, damaged", "host_network_receive_errors_total", "interface").top(4)}},
		{Title: "TCP connections", Help: "open now, and by state", Unit: "count", Lines: []Line{h.gauge("established", "host_tcp_connections"), h.gauge("{state}", "host_tcp_sockets", "state")}},
		{Title: "TCP trouble", Help: "segments sent again, resets, connections refused for full queues", Unit: "count/s", Lines: []Line{
			h.rate("sent again", "host_tcp_segments_sent_again_total"), h.rate("resets sent", "host_tcp_resets_sent_total"),
			h.rate("accept queue full", "host_tcp_listen_overflows_total"), h.rate("timeouts", "host_tcp_timeouts_total")}},
		{Title: "New TCP connections", Help: "accepted and opened a second", Unit: "count/s", Lines: []Line{h.rate("accepted", "host_tcp_accepted_total"), h.rate("opened", "host_tcp_opened_total")}},
	}
}

func (p *pages) disks(v *view) (string, bool, any) {
	h := hostScope(v.Host)
	by := func(label, name string) Line { return h.rate(label, name, "device").top(8) }
	return "charts", true, chartsData{v, []section{
		{ID: "devices", Title: "Devices", Charts: []Chart{
			{Title: "Disk time", Help: "share of the time with at least one request under way", Unit: "ratio", Max: one, Lines: []Line{by("{device}", "host_disk_busy_seconds_total")}},
			{Title: "Queue", Help: "mean number of requests under way", Unit: "count", Lines: []Line{by("{device}", "host_disk_queued_seconds_total")}},
			{Title: "Latency of reads", Help: "mean time a read took", Unit: "seconds", Lines: []Line{by("{device}", "host_disk_read_seconds_total").overRate(h, "host_disk_reads_total")}},
			{Title: "Latency of writes", Help: "mean time a write took", Unit: "seconds", Lines: []Line{by("{device}", "host_disk_write_seconds_total").overRate(h, "host_disk_writes_total")}},
			{Title: "Latency of flushes", Help: "mean time a flush of the device's cache took: each commit waits for one", Unit: "seconds", Lines: []Line{by("{device}", "host_disk_flush_seconds_total").overRate(h, "host_disk_flushes_total")}},
			{Title: "Throughput", Help: "bytes read and written", Unit: "bytes/s", Lines: []Line{by("{device} read", "host_disk_read_bytes_total"), by("{device} written", "host_disk_write_bytes_total")}},
			{Title: "Requests", Help: "reads, writes and flushes that ended", Unit: "count/s", Lines: []Line{by("{device} reads", "host_disk_reads_total"), by("{device} writes", "host_disk_writes_total"), by("{device} flushes", "host_disk_flushes_total")}},
		}},
		{ID: "file-systems", Title: "File systems", Charts: []Chart{
			{Title: "Space used", Help: "share of each file system that is used", Unit: "ratio", Max: one, Lines: []Line{h.gauge("{mount}", `host_filesystem_available_bytes{fstype!="tmpfs"}`, "mount").overEach(h, "host_filesystem_size_bytes").rest()}},
			{Title: "Space free", Help: "bytes that programs may still write", Unit: "bytes", Lines: []Line{h.gauge("{mount}", `host_filesystem_available_bytes{fstype!="tmpfs"}`, "mount")}},
			{Title: "Inodes used", Help: "share of the files that a file system can hold", Unit: "ratio", Max: one, Lines: []Line{h.gauge("{mount}", `host_filesystem_inodes_free{fstype!="tmpfs"}`, "mount").overEach(h, "host_filesystem_inodes").rest()}},
		}},
		{ID: "raid", Title: "RAID", Charts: []Chart{
			{Title: "Disks of arrays", Help: "wanted, working and failed", Unit: "count", Lines: []Line{h.gauge("{array} wanted", "host_md_disks_wanted", "array"), h.gauge("{array} working", "host_md_disks_working", "array"), h.gauge("{array} failed", "host_md_disks_failed", "array")}},
		}},
	}}
}

func (p *pages) traffic(v *view) (string, bool, any) {
	h := hostScope(v.Host)
	return "charts", true, chartsData{v, []section{
		{ID: "pgbouncer", Title: "PgBouncer", Charts: []Chart{
			{Title: "Clients by state", Help: "active has a server, waiting has none", Unit: "count", Lines: []Line{h.gauge("{state}", "pgbouncer_clients", "state")}},
			{Title: "Servers by state", Help: "connections to PostgreSQL", Unit: "count", Lines: []Line{h.gauge("{state}", "pgbouncer_servers", "state")}},
			{Title: "Longest wait", Help: "of a client for a server", Unit: "seconds", Lines: []Line{h.gauge("{database}", "pgbouncer_longest_wait_seconds", "database").max()}},
			{Title: "Transactions and statements", Help: "that went through", Unit: "count/s", Lines: []Line{h.rate("transactions", "pgbouncer_transactions_total"), h.rate("statements", "pgbouncer_queries_total")}},
			{Title: "Time of a statement", Help: "mean, and mean wait for a server of a statement", Unit: "seconds", Lines: []Line{
				h.rate("statement", "pgbouncer_query_seconds_total").overRate(h, "pgbouncer_queries_total"), h.rate("wait", "pgbouncer_wait_seconds_total").overRate(h, "pgbouncer_queries_total")}},
		}},
		{ID: "nginx", Title: "nginx", Charts: []Chart{
			{Title: "Requests", Help: "answered, by class of status", Unit: "count/s", Lines: []Line{h.rate("{status}", "nginx_log_requests_total", "status"), h.rate("all, by the status page", "nginx_requests_total")}},
			{Title: "Connections", Help: "by state", Unit: "count", Lines: []Line{h.gauge("{state}", "nginx_connections", "state")}},
			{Title: "Time of an answer", Help: "mean, and the part outside of upstream servers", Unit: "seconds", Lines: []Line{
				h.rate("all", "nginx_log_request_seconds_total").overRate(h, "nginx_log_requests_total"), h.rate("outside upstreams", "nginx_log_outside_seconds_total").overRate(h, "nginx_log_requests_total")}},
			{Title: "Tries by upstream", Help: "of requests at each upstream server", Unit: "count/s", Lines: []Line{h.rate("{upstream} {status}", "nginx_upstream_attempts_total", "upstream", "status").top(8)}},
			{Title: "Time by upstream", Help: "mean time a server took to answer", Unit: "seconds", Lines: []Line{h.rate("{upstream}", "nginx_upstream_seconds_total", "upstream").top(8).overRate(h, "nginx_upstream_attempts_total")}},
		}},
	}}
}
