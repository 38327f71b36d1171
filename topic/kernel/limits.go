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
	threads = &metric.Def{Name: "host_threads", Unit: metric.Count, Kind: metric.Gauge,
		Help: "Processes and threads that there are.", Source: "/proc/loadavg field 4"}
	threadLimit = &metric.Def{Name: "host_threads_limit", Unit: metric.Count, Kind: metric.Gauge,
		Help:   "Processes and threads that there may be: the smaller of the limits on threads and on process numbers.",
		Source: "/proc/sys/kernel/threads-max, pid_max"}
	files = &metric.Def{Name: "host_open_files", Unit: metric.Count, Kind: metric.Gauge,
		Help: "Open files of all processes.", Source: "/proc/sys/fs/file-nr field 1"}
	fileLimit = &metric.Def{Name: "host_open_files_limit", Unit: metric.Count, Kind: metric.Gauge,
		Help: "Open files that all processes together may have.", Source: "/proc/sys/fs/file-nr field 3"}
)

var limitCollector = &metric.Collector{
	Name: "kernel.limits", Doc: "threads and open files against their limits", Of: metric.Host,
	Defs: []*metric.Def{threads, threadLimit, files, fileLimit},
	Collect: func(_ context.Context, r host.Reader, out *metric.Out) error {
		if n, err := threadCount(r); err != nil {
			out.Gap(err.Error(), "", threads)
		} else {
			out.Add(threads, n)
		}
		const most, pids = "/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max"
		v := proc.ReadNumbers(r, most, pids)
		a, ok1 := v[most]
		b, ok2 := v[pids]
		if ok1 && ok2 {
			out.Add(threadLimit, min(a, b))
		} else {
			out.Gap("this kernel shows no "+most+" or no "+pids, "", threadLimit)
		}
		open, limit, err := openFiles(r)
		if err != nil {
			out.Gap(err.Error(), "", files, fileLimit)
			return nil
		}
		out.Add(files, open)
		out.Add(fileLimit, limit)
		return nil
	},
}

// threadCount is the second figure of "1/345" in /proc/loadavg.
func threadCount(r host.Reader) (float64, error) {
	b, err := r.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	if f := strings.Fields(string(b)); len(f) > 3 {
		_, all, _ := strings.Cut(f[3], "/")
		if n, err := strconv.ParseUint(all, 10, 53); err == nil {
			return float64(n), nil
		}
	}
	return 0, fmt.Errorf("read /proc/loadavg: %.60q holds no count of threads", b)
}

func openFiles(r host.Reader) (open, limit float64, err error) {
	b, err := r.ReadFile("/proc/sys/fs/file-nr")
	if err != nil {
		return 0, 0, err
	}
	f := strings.Fields(string(b))
	if len(f) == 3 {
		a, err1 := strconv.ParseUint(f[0], 10, 64)
		c, err2 := strconv.ParseUint(f[2], 10, 64)
		if err1 == nil && err2 == nil {
			return float64(a), float64(c), nil
		}
	}
	return 0, 0, fmt.Errorf("read /proc/sys/fs/file-nr: %.60q does not hold three counts", b)
}
