package disk

import (
	"context"
	"time"

	"headroom/host"
	"headroom/metric"
	"headroom/probe/block"
)

func ofDevice(name, unit string, kind metric.Kind, help, source string) *metric.Def {
	return &metric.Def{Name: name, Unit: unit, Kind: kind, Labels: []string{"device", "mapped"}, Help: help, Source: source}
}

// deviceFigures are the metrics of each device, with the figure of each. The
// label mapped is the name of a device of the mapper (LVM, LUKS).
var deviceFigures = []struct {
	def *metric.Def
	of  func(s *block.Stat) (value float64, has bool)
}{
	{ofDevice("host_disk_reads_total", metric.Count, metric.Counter, "Read requests that ended.", "/proc/diskstats field 4"),
		func(s *block.Stat) (float64, bool) { return s.Reads, true }},
	{ofDevice("host_disk_read_bytes_total", metric.Bytes, metric.Counter, "Bytes read.", "/proc/diskstats field 6"),
		func(s *block.Stat) (float64, bool) { return s.ReadBytes, true }},
	{ofDevice("host_disk_read_seconds_total", metric.Seconds, metric.Counter, "Time that reads took, summed; by reads it is their latency.", "/proc/diskstats field 7"),
		func(s *block.Stat) (float64, bool) { return s.ReadSeconds, true }},
	{ofDevice("host_disk_reads_merged_total", metric.Count, metric.Counter, "Read requests joined to a neighbour before they were sent.", "/proc/diskstats field 5"),
		func(s *block.Stat) (float64, bool) { return s.ReadMerged, true }},
	{ofDevice("host_disk_writes_total", metric.Count, metric.Counter, "Write requests that ended.", "/proc/diskstats field 8"),
		func(s *block.Stat) (float64, bool) { return s.Writes, true }},
	{ofDevice("host_disk_write_bytes_total", metric.Bytes, metric.Counter, "Bytes written.", "/proc/diskstats field 10"),
		func(s *block.Stat) (float64, bool) { return s.WriteBytes, true }},
	{ofDevice("host_disk_write_seconds_total", metric.Seconds, metric.Counter, "Time that writes took, summed; by writes it is their latency.", "/proc/diskstats field 11"),
		func(s *block.Stat) (float64, bool) { return s.WriteSeconds, true }},
	{ofDevice("host_disk_writes_merged_total", metric.Count, metric.Counter, "Write requests joined to a neighbour before they were sent.", "/proc/diskstats field 9"),
		func(s *block.Stat) (float64, bool) { return s.WriteMerged, true }},
	{ofDevice("host_disk_in_flight", metric.Count, metric.Gauge, "Requests under way now.", "/proc/diskstats field 12"),
		func(s *block.Stat) (float64, bool) { return s.InFlight, true }},
	{ofDevice("host_disk_busy_seconds_total", metric.Seconds, metric.Counter, "Time with at least one request under way; its rate is the utilisation, which says little of devices that serve many at once.", "/proc/diskstats field 13"),
		func(s *block.Stat) (float64, bool) { return s.BusySeconds, true }},
	{ofDevice("host_disk_queued_seconds_total", metric.Seconds, metric.Counter, "Time summed over all requests under way; its rate is the mean queue length.", "/proc/diskstats field 14"),
		func(s *block.Stat) (float64, bool) { return s.QueuedSeconds, true }},
	{ofDevice("host_disk_discards_total", metric.Count, metric.Counter, "Discard requests that ended.", "/proc/diskstats field 15"),
		func(s *block.Stat) (float64, bool) { return s.Discards, s.HasDiscards }},
	{ofDevice("host_disk_discard_bytes_total", metric.Bytes, metric.Counter, "Bytes that the device was told are no longer used.", "/proc/diskstats field 17"),
		func(s *block.Stat) (float64, bool) { return s.DiscardBytes, s.HasDiscards }},
	{ofDevice("host_disk_discard_seconds_total", metric.Seconds, metric.Counter, "Time that discards took, summed.", "/proc/diskstats field 18"),
		func(s *block.Stat) (float64, bool) { return s.DiscardSeconds, s.HasDiscards }},
	{ofDevice("host_disk_flushes_total", metric.Count, metric.Counter, "Flushes of the device's cache that ended: each commit waits for one.", "/proc/diskstats field 19"),
		func(s *block.Stat) (float64, bool) { return s.Flushes, s.HasFlushes }},
	{ofDevice("host_disk_flush_seconds_total", metric.Seconds, metric.Counter, "Time that flushes took, summed; by flushes it is their latency.", "/proc/diskstats field 20"),
		func(s *block.Stat) (float64, bool) { return s.FlushSeconds, s.HasFlushes }},
}

func deviceDefs() []*metric.Def {
	var out []*metric.Def
	for _, f := range deviceFigures {
		out = append(out, f.def)
	}
	return out
}

// maxDevices bounds the series of one machine.
const maxDevices = 128

// devices is the list of whole devices, read anew each minute.
type devices struct {
	at    time.Time
	whole map[string]string
}

var ioCollector = &metric.Collector{
	Name: "disk.io", Doc: "requests, bytes, latency and queue of each disk", Of: metric.Host, Fast: true, Defs: deviceDefs(),
	Collect: func(_ context.Context, r host.Reader, out *metric.Out) error {
		stats, err := block.ReadStats(r)
		if err != nil {
			return err
		}
		known := metric.Kept[devices](out)
		if d := out.At.Sub(known.at); known.whole == nil || d < 0 || d >= time.Minute {
			if known.whole, err = block.Whole(r); err != nil {
				return err
			}
			known.at = out.At
		}
		given := 0
		missing := map[*metric.Def]bool{}
		for i := range stats {
			s := &stats[i]
			mapped, whole := known.whole[s.Name]
			if len(known.whole) > 0 && !whole || s.Reads+s.Writes == 0 {
				continue // a partition, or a loop device that nothing uses
			}
			if given++; given > maxDevices {
				out.Gap("there are more than 128 disks: the rest is left out", "")
				break
			}
			giveDevice(out, s, mapped, missing)
		}
		if len(missing) > 0 {
			var defs []*metric.Def
			for _, f := range deviceFigures {
				if missing[f.def] {
					defs = append(defs, f.def)
				}
			}
			out.Gap("this kernel does not count them (discards came with Linux 4.18, flushes with 5.5)", "", defs...)
		}
		return nil
	},
}

func giveDevice(out *metric.Out, s *block.Stat, mapped string, missing map[*metric.Def]bool) {
	for _, f := range deviceFigures {
		if v, has := f.of(s); has {
			out.Add(f.def, v, s.Name, mapped)
		} else {
			missing[f.def] = true
		}
	}
}
