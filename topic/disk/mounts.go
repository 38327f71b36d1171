package disk

import (
	"fmt"
	"slices"
	"strings"

	"headroom/check"
	"headroom/fact"
	"headroom/probe/block"
	"headroom/probe/place"
)

// keepsTimes are the file systems that write a time of last access.
var keepsTimes = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "jfs", "reiserfs"}

var atime = &check.Check{
	Name: "disk.atime",
	Doc: check.Doc{
		Title: "Every read is also a write",
		Why: "With strict access times each read of a file dirties its inode, which is then written and journaled. PostgreSQL never looks at those times. " +
			"relatime, the default, writes one a day at most, and costs too little to be worth a change.",
		Evidence: "Mount options of the file systems that hold the operating system, data, log or a tablespace. It fires where neither relatime nor noatime is set.",
		Fix:      "mount -o remount,noatime FOLDER, and noatime in /etc/fstab. Headroom does not edit fstab.",
		Risk:     "A few old mail and backup programs want access times.",
		Undo:     "mount -o remount,strictatime FOLDER.",
		Sources:  []string{"mount(8)", "S21"},
	},
	Needs: []fact.Any{place.Layouts, block.Mounts},
	Run: func(s *fact.Set, out *check.Report) {
		for _, h := range holding(s, out) {
			m := h.mount
			if !slices.Contains(keepsTimes, m.FSType) || m.Has("ro") || m.Has("relatime") || m.Has("noatime") {
				continue
			}
			out.Found(check.Finding{
				Subject: "file system " + m.Point, Severity: check.Advice, Basis: check.ByRule, Worth: 0.02,
				Summary:  fmt.Sprintf("%s (%s) is mounted with strict access times: each read of a file is also a write.", m.Point, h.said()),
				Hint:     fmt.Sprintf("Run: mount -o remount,noatime %s   and add noatime to its line in /etc/fstab.", m.Point),
				Evidence: []check.Cite{{Name: "options", Value: strings.Join(m.Options, ","), Source: "/proc/self/mountinfo"}},
			})
		}
	},
}

// unsafe are the options that leave out the flush of the device's cache.
var unsafe = []string{"nobarrier", "barrier=0", "barrier=none"}

var noBarrier = &check.Check{
	Name: "disk.no-barrier",
	Doc: check.Doc{
		Title: "Write barriers are off",
		Why: "Without barriers fsync returns before the disk has emptied its cache. After a power loss committed transactions are missing and the file system itself may be broken, in any order. " +
			"It is safe only with a cache that a battery keeps (S18).",
		Evidence: "A mounted file system has nobarrier or barrier=0, and its device has a write-back cache. A device that reports write through has no cache to lose, or one that is kept by a battery.",
		Fix:      "mount -o remount,barrier=1 FOLDER, and the option out of /etc/fstab. Headroom does not edit fstab.",
		Risk:     "Commits take as long as the disk really needs.",
		Undo:     "Mount with the old option again.",
		Sources:  []string{"S12", "S18", "ext4(5)"},
	},
	Needs: []fact.Any{block.Mounts, block.Devices},
	Run: func(s *fact.Set, out *check.Report) {
		devices := fact.Get(s, block.Devices)
		for _, m := range fact.Get(s, block.Mounts) {
			i := slices.IndexFunc(unsafe, m.Has)
			if i < 0 {
				continue
			}
			f := check.Finding{
				Subject: "file system " + m.Point, Severity: check.Danger, Basis: check.ByRule, Worth: 1,
				Summary:  fmt.Sprintf("%s is mounted with %s: after a power loss, committed data that still was in the disk's cache is gone.", m.Point, unsafe[i]),
				Hint:     fmt.Sprintf("Run: mount -o remount,barrier=1 %s   and take %s out of /etc/fstab, unless a battery keeps the cache.", m.Point, unsafe[i]),
				Evidence: []check.Cite{{Name: "options", Value: strings.Join(m.Options, ","), Source: "/proc/self/mountinfo"}},
			}
			if !cacheCanLose(devices, m, &f) {
				continue
			}
			out.Found(f)
		}
	},
}

// cacheCanLose says whether a write cache below the mount can lose data, as
// far as can be told; what is not known counts as yes, at a lower severity.
func cacheCanLose(devices []block.Device, m block.Mount, f *check.Finding) bool {
	unsure := func(because string) bool {
		f.Severity = check.Warning
		f.Hint += " Whether the disk has a cache that can lose data could not be told: " + because + "."
		return true
	}
	d, err := block.DeviceOf(devices, m)
	if err != nil {
		return unsure(err.Error())
	}
	disks, err := block.Disks(devices, d.Name)
	if err != nil {
		return unsure(err.Error())
	}
	for _, name := range disks {
		d, err := block.Find(devices, name)
		if err != nil {
			return unsure(err.Error())
		}
		if !d.Queue.WriteCache.OK() {
			return unsure(d.Queue.WriteCache.Because)
		}
		if d.Queue.WriteCache.Value == "write back" {
			f.Evidence = append(f.Evidence, check.Cite{Name: "write_cache", Value: d.Queue.WriteCache.Value, Source: sysfs(d, "write_cache")})
			return true
		}
	}
	return false
}
