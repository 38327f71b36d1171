package own

import (
	"context"
	"fmt"
	"os"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"time"

	"headroom/host"
	"headroom/metric"
)

var (
	cpu = &metric.Def{Name: "headroom_process_cpu_seconds_total", Unit: metric.Seconds, Kind: metric.Counter, Labels: []string{"mode"},
		Help: "CPU time that Headroom's process has used.", Source: "getrusage(2)"}
	resident = &metric.Def{Name: "headroom_process_resident_bytes", Unit: metric.Bytes, Kind: metric.Gauge,
		Help: "Memory that Headroom's process has in use.", Source: "/proc/self/statm field 2"}
	heap = &metric.Def{Name: "headroom_process_heap_bytes", Unit: metric.Bytes, Kind: metric.Gauge,
		Help: "Memory taken by objects of Headroom's process.", Source: "runtime/metrics /memory/classes/heap/objects:bytes"}
	goroutines = &metric.Def{Name: "headroom_process_goroutines", Unit: metric.Count, Kind: metric.Gauge,
		Help: "Goroutines of Headroom's process.", Source: "runtime/metrics /sched/goroutines:goroutines"}
	openFiles = &metric.Def{Name: "headroom_process_open_files", Unit: metric.Count, Kind: metric.Gauge,
		Help: "Open files and sockets of Headroom's process.", Source: "/proc/self/fd"}
	fileLimit = &metric.Def{Name: "headroom_process_open_files_limit", Unit: metric.Count, Kind: metric.Gauge,
		Help: "Open files and sockets that Headroom's process may have.", Source: "getrlimit(2) RLIMIT_NOFILE"}
)

var process = &metric.Collector{
	Name: "own.process", Doc: "CPU, memory, goroutines and open files of Headroom's own process", Of: metric.Host,
	Defs: []*metric.Def{cpu, resident, heap, goroutines, openFiles, fileLimit},
	Collect: func(_ context.Context, r host.Reader, out *metric.Out) error {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			return fmt.Errorf("ask what our process has used: %w", err)
		}
		out.Add(cpu, time.Duration(u.Utime.Nano()).Seconds(), "user")
		out.Add(cpu, time.Duration(u.Stime.Nano()).Seconds(), "system")
		inRuntime(out)
		inKernel(r, out)
		return nil
	},
}

func inRuntime(out *metric.Out) {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/sched/goroutines:goroutines"}}
	metrics.Read(s)
	out.Add(heap, float64(s[0].Value.Uint64()))
	out.Add(goroutines, float64(s[1].Value.Uint64()))
}

func inKernel(r host.Reader, out *metric.Out) {
	if pages, err := residentPages(r); err != nil {
		out.Gap(err.Error(), "", resident)
	} else {
		out.Add(resident, float64(pages*int64(os.Getpagesize())))
	}
	if fds, err := r.Glob("/proc/self/fd/*"); err != nil {
		out.Gap(err.Error(), "", openFiles)
	} else {
		out.Add(openFiles, float64(len(fds)-1)) // one of them is the folder that is read
	}
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		out.Gap(fmt.Sprintf("ask for the limit of open files: %v", err), "", fileLimit)
	} else {
		out.Add(fileLimit, float64(lim.Cur))
	}
}

func residentPages(r host.Reader) (int64, error) {
	b, err := r.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0, fmt.Errorf("read /proc/self/statm: %.40q has no second field", b)
	}
	n, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read /proc/self/statm: %.20q is not a count", f[1])
	}
	return n, nil
}
