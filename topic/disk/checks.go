package disk

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"headroom/change"
	"headroom/check"
	"headroom/fact"
	"headroom/probe/block"
	"headroom/probe/place"
	"headroom/unit"
)

func queue(device, name, value string) change.Spec {
	return change.Spec{ID: "disk.queue", Object: device, Args: map[string]string{name: value}}
}

// queueOf is the device whose queue rules for a device: of a partition, its disk.
func queueOf(devices []block.Device, name string) (block.Device, error) {
	d, err := block.Find(devices, name)
	if err == nil && !d.Settable() {
		return block.Find(devices, d.Disk)
	}
	return d, err
}

// timesOf cites the measured times.
func timesOf(l place.Latency) []check.Cite {
	from := "measured: " + l.Read.What
	return []check.Cite{
		{Name: "half of the random reads took at most", Value: l.Read.P50, Unit: unit.Second, Source: from},
		{Name: "95 in 100 took at most", Value: l.Read.P95, Unit: unit.Second, Source: from},
	}
}

var rotationalFlag = &check.Check{
	Name: "disk.rotational-flag",
	Doc: check.Doc{
		Title: "The kernel takes a disk for what it is not",
		Why: "The rotational flag tells I/O schedulers, write-back throttling, swap and file systems whether seeks are dear. " +
			"SSDs behind a RAID controller that were flagged rotational did 200–300 operations a second at 100 % busy; with the flag at 0, 1300 at 50 % (S6). " +
			"Controllers and hypervisors often report it wrong.",
		Evidence: "queue/rotational against the time of random 8 kB reads, measured on the data folder's device. Flash: half take under 1 ms and 95 in 100 under 4 ms, which is one turn of the fastest disk, without any seek. " +
			"Spinning: half take 2 ms or more. What lies between is not judged.",
		Fix:     "disk.queue DEVICE rotational=0 (or 1).",
		Risk:    "The kernel then no longer sorts and waits for neighbouring requests: slower if the device does turn after all.",
		Undo:    "`headroom revert ID` writes the old flag back and removes the file that sets it at boot.",
		Sources: []string{"S6", "S18", "S26", "Documentation/block/queue-sysfs.rst"},
	},
	Needs: []fact.Any{block.Devices, place.Latencies},
	Run:   runRotational,
}

func runRotational(s *fact.Set, out *check.Report) {
	devices, l := fact.Get(s, block.Devices), fact.Get(s, place.Latencies)
	if !l.Device.OK() {
		out.Unknown("disk of "+l.Folder, l.Device.Because)
		return
	}
	top, err := queueOf(devices, l.Device.Value)
	if err != nil {
		out.Unknown("disk "+l.Device.Value, err.Error())
		return
	}
	names := append([]string{top.Name}, l.Disks...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		d, err := block.Find(devices, name)
		switch {
		case err != nil:
			out.Unknown("disk "+name, err.Error())
		case !d.Queue.Rotational.OK():
			out.Unknown("disk "+name, d.Queue.Rotational.Because)
		case l.Class == place.Unclear:
			out.Unknown("disk "+name, l.Why)
		case d.Queue.Rotational.Value && l.Class == place.Flash:
			out.Found(flagged(d, l, "0"))
		case !d.Queue.Rotational.Value && l.Class == place.Spinning:
			out.Found(flagged(d, l, "1"))
		}
	}
}

// flagged is the finding for a wrong flag; fix is the right one.
func flagged(d block.Device, l place.Latency, fix string) check.Finding {
	f := check.Finding{
		Subject: "disk " + d.Name, Severity: check.Advice, Basis: check.Measured, Worth: 0.1,
		Summary: fmt.Sprintf("The kernel takes %s for a spinning disk, but random reads take %s (95 in 100 at most %s), which no disk that turns can do.",
			d.Name, unit.Seconds(l.Read.P50), unit.Seconds(l.Read.P95)),
		Evidence: []check.Cite{{Name: "rotational", Value: 1, Source: sysfs(d, "rotational")}},
		Fixes:    []change.Spec{queue(d.Name, "rotational", fix)},
		Try:      &check.Try{Change: queue(d.Name, "rotational", fix), Workload: "disk.randread"},
	}
	if s := d.Queue.Scheduler.Value; s == "bfq" || s == "cfq" {
		f.Severity, f.Worth = check.Warning, 0.5
		f.Summary += fmt.Sprintf(" Its scheduler, %s, holds requests back for seeks that never come.", s)
	}
	if fix == "1" {
		f.Worth, f.Evidence[0].Value = 0.05, 0
		f.Summary = fmt.Sprintf("The kernel takes %s for flash, but half of the random reads take %s or more, as long as a disk needs to turn.", d.Name, unit.Seconds(l.Read.P50))
		f.Hint = "If it is flash, it is overloaded, throttled or far away: then look for that first, and leave the flag."
	}
	f.Evidence = append(f.Evidence, timesOf(l)...)
	return f
}

// selfScheduling are makers' names of volumes behind a controller that orders
// requests itself.
var selfScheduling = []string{"PERC", "MegaRAID", "MR9", "LOGICAL VOLUME", "ServeRAID", "LSI", "AVAGO", "Smart Array"}

var scheduler = &check.Check{
	Name: "disk.scheduler",
	Doc: check.Doc{
		Title: "An I/O scheduler that does not suit the disk",
		Why: "bfq (and cfq before it) is made for one spinning disk under a desktop: it holds requests back to keep a reader's seeks together, and costs CPU per request, which caps a flash disk (S6: noop, deadline or the right flag gave five times the operations). " +
			"One spinning disk without any scheduler loses the ordering that saves it seeks. Between the others it hardly matters (S18).",
		Evidence: "queue/scheduler of each fixed disk. Fires for bfq or cfq on a disk that is not rotational or belongs to a hypervisor, and for none, noop or kyber on a plain spinning disk. " +
			"A RAID controller's volume and md or dm devices are left alone: what is below them orders the requests.",
		Fix:     "disk.queue DEVICE scheduler=none on flash and virtual disks, mq-deadline on spinning ones.",
		Risk:    "bfq also shares a disk out fairly between control groups: that is lost.",
		Undo:    "`headroom revert ID` writes the old scheduler back; nr_requests then has the kernel's default for it.",
		Sources: []string{"S6", "S18", "Documentation/block/bfq-iosched.rst"},
	},
	Needs: []fact.Any{block.Devices},
	Quiet: []string{"disk.rotational-flag"},
	Run: func(s *fact.Set, out *check.Report) {
		for _, d := range fact.Get(s, block.Devices) {
			if d.Kind != "disk" || d.Removable.Value {
				continue
			}
			judgeScheduler(d, out)
		}
	},
}

func judgeScheduler(d block.Device, out *check.Report) {
	q := d.Queue
	switch {
	case !q.Scheduler.OK():
		out.Unknown("disk "+d.Name, q.Scheduler.Because)
		return
	case !q.Rotational.OK() && !d.Virtual:
		out.Unknown("disk "+d.Name, q.Rotational.Because)
		return
	case len(q.Choices) < 2:
		return
	}
	now := q.Scheduler.Value
	seeks := q.Rotational.Value && !d.Virtual
	wrong := now == "bfq" || now == "cfq"
	better := []string{"none", "noop", "mq-deadline", "deadline"}
	said := fmt.Sprintf("%s uses the scheduler %s, which holds requests back to save seeks; this disk has none to save.", d.Name, now)
	if d.Virtual {
		said = fmt.Sprintf("%s uses the scheduler %s, which holds requests back to save seeks; the hypervisor below orders them anyway.", d.Name, now)
	}
	if seeks {
		wrong = now == "none" || now == "noop" || now == "kyber"
		wrong = wrong && !slices.ContainsFunc(selfScheduling, func(m string) bool { return strings.Contains(d.Vendor.Value+" "+d.Model.Value, m) })
		better = []string{"mq-deadline", "deadline"}
		said = fmt.Sprintf("%s is a spinning disk without a scheduler that orders requests (%s): its head travels more than it must.", d.Name, now)
	}
	if !wrong {
		return
	}
	f := check.Finding{
		Subject: "disk " + d.Name, Severity: check.Advice, Basis: check.ByRule, Worth: 0.1, Summary: said,
		Evidence: []check.Cite{
			{Name: "scheduler", Value: now, Source: sysfs(d, "scheduler")},
			{Name: "rotational", Value: q.Rotational.Value, Source: sysfs(d, "rotational")},
		},
	}
	for _, b := range better {
		if slices.Contains(q.Choices, b) {
			f.Fixes = []change.Spec{queue(d.Name, "scheduler", b)}
			f.Try = &check.Try{Change: f.Fixes[0], Workload: "disk.randread"}
			break
		}
	}
	if f.Fixes == nil {
		f.Hint = "The kernel offers only " + strings.Join(q.Choices, ", ") + "; load another scheduler's module first."
	}
	out.Found(f)
}

const (
	leastAhead = 128 * unit.KB // what the kernel begins with
	mostAhead  = 8 * unit.MB
	readers    = 4 // sequential readers at once
)

var readAhead = &check.Check{
	Name: "disk.read-ahead",
	Doc: check.Doc{
		Title: "Read-ahead too small for the device",
		Why: "A sequential scan reads through the page cache, which fetches this much in one go. If that is little against what the device delivers while it waits, every piece pays the waiting anew: " +
			"on disk arrays, sequential reads rose from 519 to 1035 MB/s by read-ahead alone (S18: 128 kB to 16 MB).",
		Evidence: "The device should be given 4 times what it delivers in one access time (measured speed × measured median × 4, so that several readers at once lose little to waiting). It fires when read_ahead_kb is less than half of that; the proposal is the next power of two, between 128 kB and 8 MB. " +
			"A large value is not held against it: the kernel reads ahead only where it sees a sequence, so random reads of 8 kB do not pay for it. Programs that map files (LMDB) do.",
		Fix:     "disk.queue DEVICE read_ahead_kb=…",
		Risk:    "Scans that stop early read more than they use; many at once take more memory.",
		Undo:    "`headroom revert ID` writes the old value back and removes the file that sets it at boot.",
		Sources: []string{"S18", "S25", "Documentation/block/queue-sysfs.rst"},
	},
	Needs: []fact.Any{block.Devices, place.Latencies},
	Run:   runReadAhead,
}

func runReadAhead(s *fact.Set, out *check.Report) {
	l := fact.Get(s, place.Latencies)
	if !l.Device.OK() {
		out.Unknown("disk of "+l.Folder, l.Device.Because)
		return
	}
	d, err := queueOf(fact.Get(s, block.Devices), l.Device.Value)
	switch {
	case err != nil:
		out.Unknown("disk "+l.Device.Value, err.Error())
		return
	case !d.Queue.ReadAhead.OK():
		out.Unknown("disk "+d.Name, d.Queue.ReadAhead.Because)
		return
	case !l.Read.Throughput.OK():
		out.Unknown("disk "+d.Name, l.Read.Throughput.Because)
		return
	}
	now, need := d.Queue.ReadAhead.Value, readers*l.Read.P50*l.Read.Throughput.Value
	if float64(now)*2 >= need || now >= mostAhead {
		return
	}
	wanted := int64(leastAhead)
	for wanted < mostAhead && float64(wanted) < need {
		wanted *= 2
	}
	deliver := float64(now) / l.Read.Throughput.Value
	fix := queue(d.Name, "read_ahead_kb", strconv.FormatInt(wanted/unit.KB, 10))
	f := check.Finding{
		Subject: "disk " + d.Name, Severity: check.Advice, Basis: check.Measured, Worth: 0.05,
		Summary: fmt.Sprintf("Read-ahead of %s is %s: with several sequential readers each piece takes %s to begin and %s to deliver, so they may get only %s of the %s that the disk can do.",
			d.Name, unit.Bytes(now), unit.Seconds(l.Read.P50), unit.Seconds(deliver), unit.Format(deliver/(deliver+l.Read.P50), unit.Ratio), unit.Format(l.Read.Throughput.Value, unit.BytesPerSecond)),
		Evidence: append([]check.Cite{
			{Name: "read_ahead_kb", Value: now, Unit: unit.Byte, Source: sysfs(d, "read_ahead_kb")},
			{Name: "sequential speed", Value: l.Read.Throughput.Value, Unit: unit.BytesPerSecond, Source: "measured: " + l.Read.What},
		}, timesOf(l)[0]),
		Fixes: []change.Spec{fix},
		Try:   &check.Try{Change: fix, Workload: "disk.seqread"},
	}
	if l.Class == place.Spinning {
		f.Worth = 0.2
	}
	out.Found(f)
}
