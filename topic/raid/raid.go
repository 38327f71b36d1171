// Package raid is the topic of disk arrays: Linux' own (md) and those of
// controllers, as far as their maker's tool is installed.
package raid

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"headroom/fail"
	"headroom/host"
	"headroom/metric"
	"headroom/probe/block"
	"headroom/topic"
)

// Topic is disk arrays.
var Topic = topic.Topic{
	Name:       "raid",
	Title:      "RAID: software arrays (md) and controllers",
	Collectors: []*metric.Collector{mdCollector, controllerCollector},
}

func ofArray(name, unit string, kind metric.Kind, help, source string, more ...string) *metric.Def {
	return &metric.Def{Name: name, Unit: unit, Kind: kind, Labels: append([]string{"array", "level"}, more...), Help: help, Source: source}
}

var (
	active   = ofArray("host_md_active", metric.Count, metric.Gauge, "1 if the array works, 0 if it was found and not started.", "/proc/mdstat")
	wanted   = ofArray("host_md_disks_wanted", metric.Count, metric.Gauge, "Disks that the array is made of.", "/proc/mdstat [wanted/working]")
	working  = ofArray("host_md_disks_working", metric.Count, metric.Gauge, "Disks of the array that work; fewer than wanted: it is degraded.", "/proc/mdstat [wanted/working]")
	failed   = ofArray("host_md_disks_failed", metric.Count, metric.Gauge, "Disks marked as failed.", "/proc/mdstat (F)")
	spare    = ofArray("host_md_disks_spare", metric.Count, metric.Gauge, "Disks that wait to stand in.", "/proc/mdstat (S)")
	syncing  = ofArray("host_md_sync_progress_ratio", metric.Ratio, metric.Gauge, "How far a recovery, resync, reshape or check has come; 0 while it waits; only while there is one.", "/proc/mdstat", "action")
	speed    = ofArray("host_md_sync_speed_bytes", metric.Bytes, metric.Gauge, "Bytes per second that it does.", "/proc/mdstat speed", "action")
	mismatch = ofArray("host_md_mismatches", metric.Count, metric.Gauge, "Sectors whose copies differed at the last check.", "/sys/block/*/md/mismatch_cnt")
)

var mdCollector = &metric.Collector{
	Name: "raid.md", Doc: "software arrays: disks that work, recovery, mismatches", Of: metric.Host,
	Defs: []*metric.Def{active, wanted, working, failed, spare, syncing, speed, mismatch},
	Collect: func(_ context.Context, r host.Reader, out *metric.Out) error {
		arrays, err := block.ReadArrays(r)
		if errors.Is(err, fail.ErrAbsent) {
			return fmt.Errorf("read /proc/mdstat: %w: no software RAID is in use here", fail.ErrAbsent)
		}
		if err != nil {
			return err
		}
		if len(arrays) == 0 {
			out.Gap("there is no software array", "")
		}
		for _, a := range arrays {
			giveArray(r, out, a)
		}
		return nil
	},
}

func giveArray(r host.Reader, out *metric.Out, a block.Array) {
	on := 0.0
	if a.Active {
		on = 1
	}
	out.Add(active, on, a.Name, a.Level)
	if a.Wanted > 0 {
		out.Add(wanted, float64(a.Wanted), a.Name, a.Level)
		out.Add(working, float64(a.Working), a.Name, a.Level)
	}
	out.Add(failed, float64(a.Failed), a.Name, a.Level)
	out.Add(spare, float64(a.Spare), a.Name, a.Level)
	if a.Action != "" {
		out.Add(syncing, a.Progress, a.Name, a.Level, a.Action)
		out.Add(speed, a.Speed, a.Name, a.Level, a.Action)
	}
	b, err := r.ReadFile("/sys/block/" + a.Name + "/md/mismatch_cnt")
	if err != nil {
		return // levels without copies have none
	}
	if n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64); err == nil {
		out.Add(mismatch, float64(n), a.Name, a.Level)
	}
}

func ofController(name, help string) *metric.Def {
	return &metric.Def{Name: name, Unit: metric.Count, Kind: metric.Gauge, Labels: []string{"controller"}, Help: help, Source: "storcli /call show J; MegaCli -AdpAllInfo -aALL; ssacli ctrl all show config"}
}

var (
	drives         = ofController("host_raid_virtual_drives", "Virtual drives of a RAID controller.")
	drivesDegraded = ofController("host_raid_virtual_drives_degraded", "Virtual drives that work without all their disks, or are being rebuilt.")
	drivesOffline  = ofController("host_raid_virtual_drives_offline", "Virtual drives that have failed.")
	disks          = ofController("host_raid_disks", "Disks behind a RAID controller.")
	disksFailed    = ofController("host_raid_disks_failed", "Disks that have failed, are missing or are being rebuilt.")
	disksCritical  = ofController("host_raid_disks_critical", "Disks that tell of their coming failure.")
)

var controllerCollector = &metric.Collector{
	Name: "raid.controller", Doc: "virtual drives and disks of RAID controllers, by their maker's tool", Of: metric.Host,
	Every: 5 * time.Minute, Deadline: 30 * time.Second,
	Defs: []*metric.Def{drives, drivesDegraded, drivesOffline, disks, disksFailed, disksCritical},
	Collect: func(ctx context.Context, r host.Reader, out *metric.Out) error {
		kinds, err := hardware(r)
		if err != nil {
			return err
		}
		for _, k := range kinds {
			states, err := k.ask(ctx, r)
			if err != nil {
				out.Gap(err.Error(), fail.HintOf(err))
				continue
			}
			for _, s := range states {
				give(out, s)
			}
		}
		return nil
	},
}

func give(out *metric.Out, s state) {
	out.Add(drives, float64(s.drives), s.name)
	out.Add(drivesDegraded, float64(s.degraded), s.name)
	out.Add(drivesOffline, float64(s.offline), s.name)
	out.Add(disks, float64(s.disks), s.name)
	out.Add(disksFailed, float64(s.failed), s.name)
	if s.criticalKnown {
		out.Add(disksCritical, float64(s.critical), s.name)
	} else {
		out.Gap("this tool does not tell of disks that will fail soon", "", disksCritical)
	}
}
