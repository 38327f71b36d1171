package kernel

import (
	"context"
	"time"

	"headroom/host"
	"headroom/metric"
	"headroom/probe/proc"
)

var (
	synced = &metric.Def{Name: "host_clock_synchronised", Unit: metric.Count, Kind: metric.Gauge,
		Help: "1 if a time service keeps the clock, 0 if not.", Source: "adjtimex(2) STA_UNSYNC"}
	offset = &metric.Def{Name: "host_clock_offset_seconds", Unit: metric.Seconds, Kind: metric.Gauge,
		Help: "What the kernel still has to put right of the clock.", Source: "adjtimex(2) offset"}
	maxError = &metric.Def{Name: "host_clock_error_limit_seconds", Unit: metric.Seconds, Kind: metric.Gauge,
		Help: "How far off the clock may be at worst, as its time service says.", Source: "adjtimex(2) maxerror"}
)

var clockCollector = &metric.Collector{
	Name: "kernel.clock", Doc: "whether the clock is kept, and how well", Of: metric.Host, Every: time.Minute,
	Defs: []*metric.Def{synced, offset, maxError},
	Collect: func(_ context.Context, r host.Reader, out *metric.Out) error {
		c, err := r.Clock()
		if err != nil {
			return err
		}
		kept := 0.0
		if c.Synchronised {
			kept = 1
		}
		out.Add(synced, kept)
		if !c.Synchronised {
			out.Gap("no time service keeps the clock, so nobody knows how far off it is", "systemctl enable --now systemd-timesyncd (or chrony)", offset, maxError)
			return nil
		}
		out.Add(offset, c.Offset.Seconds())
		out.Add(maxError, c.MaxError.Seconds())
		return nil
	},
}

var info = &metric.Def{Name: "host_info", Unit: metric.Info, Kind: metric.Gauge, Labels: []string{"kernel", "os", "virtual", "container"},
	Help: "What the machine is; always 1.", Source: "/proc/sys/kernel/osrelease, /etc/os-release, firmware tables, control groups"}

var infoCollector = &metric.Collector{
	Name: "kernel.info", Doc: "kernel, distribution, hypervisor and container", Of: metric.Host, Every: 5 * time.Minute,
	Defs: []*metric.Def{info},
	Collect: func(_ context.Context, r host.Reader, out *metric.Out) error {
		s := proc.ReadSystem(r)
		out.Add(info, 1, s.Kernel.Value, s.OS.Value, s.Virtual.Value, s.Container.Value)
		return nil
	},
}
