package kernel

import (
	"context"

	"headroom/host"
	"headroom/metric"
	"headroom/probe/proc"
)

var waited = &metric.Def{Name: "host_pressure_waiting_seconds_total", Unit: metric.Seconds, Kind: metric.Counter, Labels: []string{"resource", "tasks"},
	Help: "Time in which tasks waited for a resource: some (at least one) or full (all that were not idle).", Source: "/proc/pressure total"}

// cpu full is left out: it is not defined for a machine as a whole, and the
// kernel writes 0.
var pressureFigures = []proc.Figure{
	{Def: waited, Key: "cpu some", Labels: []string{"cpu", "some"}},
	{Def: waited, Key: "memory some", Labels: []string{"memory", "some"}}, {Def: waited, Key: "memory full", Labels: []string{"memory", "full"}},
	{Def: waited, Key: "io some", Labels: []string{"io", "some"}}, {Def: waited, Key: "io full", Labels: []string{"io", "full"}},
}

var pressureCollector = &metric.Collector{
	Name: "kernel.pressure", Doc: "time lost to waiting for CPU, memory and storage (PSI)", Of: metric.Host, Fast: true,
	Defs: proc.Defs(pressureFigures),
	Collect: func(_ context.Context, r host.Reader, out *metric.Out) error {
		v, err := proc.ReadStalls(r)
		if err != nil {
			return err
		}
		v.Give(out, "/proc/pressure", pressureFigures)
		return nil
	},
}
