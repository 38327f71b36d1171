package disk

import (
	"fmt"
	"slices"
	"strings"

	"headroom/check"
	"headroom/fact"
	"headroom/probe/block"
	"headroom/probe/place"
	"headroom/unit"
)

// held is one mounted file system and the roles of the places on it.
type held struct {
	mount block.Mount
	roles []string
}

func (h held) said() string { return strings.Join(h.roles, ", ") }

// holding groups places by their mount, in the order of the places. What
// cannot be placed is reported.
func holding(s *fact.Set, out *check.Report) []held {
	mounts := fact.Get(s, block.Mounts)
	var list []held
	for _, p := range fact.Get(s, place.Layouts).Places {
		if !p.Mount.OK() {
			out.Unknown(p.Role, p.Mount.Because)
			continue
		}
		i := slices.IndexFunc(list, func(h held) bool { return h.mount.Point == p.Mount.Value })
		if i >= 0 {
			list[i].roles = append(list[i].roles, p.Role)
			continue
		}
		k := slices.IndexFunc(mounts, func(m block.Mount) bool { return m.Point == p.Mount.Value })
		if k < 0 {
			out.Unknown(p.Role, "the mount "+p.Mount.Value+" is not among those read")
			continue
		}
		list = append(list, held{mounts[k], []string{p.Role}})
	}
	return list
}

// How little room is too little: a share and a size, since 5 % of 10 TB is plenty.
var fullness = []struct {
	severity check.Severity
	share    float64
	bytes    int64
}{
	{check.Danger, 0.03, 5 * unit.GB},
	{check.Warning, 0.10, 50 * unit.GB},
	{check.Advice, 0.20, 100 * unit.GB},
}

var nearlyFull = &check.Check{
	Name: "disk.nearly-full",
	Doc: check.Doc{
		Title: "A file system runs out of room",
		Why: "When the write-ahead log finds no room, PostgreSQL stops at once and does not start until there is some; when the data folder does, writing queries fail. " +
			"A full root file system breaks what else runs, logging and repair first. Flash also writes slower and wears faster when nearly full (S26).",
		Evidence: "Room for ordinary users and free inodes of each file system that holds the operating system, data, write-ahead log, log or a tablespace. " +
			"Danger below 3 % and 5 GB, warning below 10 % and 50 GB, advice below 20 % and 100 GB; inodes by the share alone.",
		Fix:     "Free room or grow the file system. An old log, a forgotten replication slot or a large temporary table is the usual cause.",
		Risk:    "Deleting in the data folder by hand destroys databases: never touch pg_wal.",
		Undo:    "Nothing is changed.",
		Sources: []string{"S15", "S21", "S26", "PostgreSQL documentation, Disk Full Failure"},
	},
	Needs: []fact.Any{place.Layouts, block.Mounts},
	Run: func(s *fact.Set, out *check.Report) {
		for _, h := range holding(s, out) {
			m := h.mount
			if !m.Size.OK() {
				out.Unknown("file system "+m.Point, m.Size.Because)
				continue
			}
			if m.Size.Value == 0 || m.Has("ro") {
				continue
			}
			judgeRoom(h, out)
		}
	},
}

func judgeRoom(h held, out *check.Report) {
	m := h.mount
	free := float64(m.Avail.Value) / float64(m.Size.Value)
	cites := []check.Cite{
		{Name: "room left", Value: m.Avail.Value, Unit: unit.Byte, Source: "statfs " + m.Point},
		{Name: "size", Value: m.Size.Value, Unit: unit.Byte, Source: "statfs " + m.Point},
	}
	for _, f := range fullness {
		if free < f.share && m.Avail.Value < f.bytes {
			out.Found(check.Finding{
				Subject: "file system " + m.Point, Severity: f.severity, Basis: check.Measured, Worth: 1 - free, Evidence: cites,
				Summary: fmt.Sprintf("%s (%s) has %s left of %s, %s.", m.Point, h.said(), unit.Bytes(m.Avail.Value), unit.Bytes(m.Size.Value), unit.Format(free, unit.Ratio)),
				Hint:    "Free room or grow it; delete nothing by hand below the data folder.",
			})
			break
		}
	}
	if !m.Inodes.OK() || m.Inodes.Value == 0 || !m.InodeFree.OK() {
		return
	}
	left := float64(m.InodeFree.Value) / float64(m.Inodes.Value)
	for _, f := range fullness[:2] {
		if left < f.share {
			out.Found(check.Finding{
				Subject: "file system " + m.Point, Severity: f.severity, Basis: check.Measured, Worth: 1 - left,
				Summary: fmt.Sprintf("%s (%s) can take only %s more files of %s, whatever room is left.", m.Point, h.said(),
					unit.Format(float64(m.InodeFree.Value), unit.Count), unit.Format(float64(m.Inodes.Value), unit.Count)),
				Evidence: []check.Cite{
					{Name: "inodes left", Value: m.InodeFree.Value, Unit: unit.Count, Source: "statfs " + m.Point},
					{Name: "inodes", Value: m.Inodes.Value, Unit: unit.Count, Source: "statfs " + m.Point},
				},
				Hint: "Many small files are the cause: look for spools, caches and session files.",
			})
			return
		}
	}
}

var sharedDevice = &check.Check{
	Name: "disk.shared-device",
	Doc: check.Doc{
		Title: "Data, log and operating system share a disk",
		Why: "Each commit waits for a write of the log. On the disk that also serves queries and checkpoints it waits behind them, and on a spinning disk the head travels between them. " +
			"The classic set-up keeps operating system, data and log on separate arrays (S21). One shared disk is also one place to run full.",
		Evidence: "The whole disks below the file systems of data, log (pg_wal) and operating system. Advice on a plain spinning disk, a note on what answers like flash and on virtual disks, where it costs less.",
		Fix:      "Put pg_wal on a disk of its own: stop the server, move the folder, leave a symbolic link (or initdb --waldir). A cloud volume of its own also has limits of its own.",
		Risk:     "Losing either disk then loses the cluster: both need redundancy.",
		Undo:     "Move it back in the same way.",
		Sources:  []string{"S21", "S12"},
	},
	Needs: []fact.Any{place.Layouts, block.Devices},
	Run:   runShared,
}

func runShared(s *fact.Set, out *check.Report) {
	l, devices := fact.Get(s, place.Layouts), fact.Get(s, block.Devices)
	if l.NoServer != "" {
		out.Unknown("server", l.NoServer)
		return
	}
	data, _ := l.Find("data")
	wal, _ := l.Find("wal")
	system, _ := l.Find("os")
	for _, p := range []place.Place{data, wal} {
		if !p.Device.OK() {
			out.Unknown(p.Role, p.Device.Because)
			return
		}
	}
	i := slices.IndexFunc(data.Disks, func(d string) bool { return slices.Contains(wal.Disks, d) })
	if i < 0 {
		return
	}
	d, err := block.Find(devices, data.Disks[i])
	if err != nil {
		out.Unknown("disk "+data.Disks[i], err.Error())
		return
	}
	what := "The data and the write-ahead log"
	if slices.Contains(system.Disks, d.Name) {
		what = "The data, the write-ahead log and the operating system"
	}
	f := check.Finding{
		Subject: "disk " + d.Name, Severity: check.Note, Basis: check.ByRule, Worth: 0.02,
		Summary: what + " share " + d.Name + ": commits wait behind reads and checkpoints, and one folder that fills the disk stops all.",
		Hint:    "A disk or volume of its own for pg_wal helps most where commits are many and small.",
		Evidence: []check.Cite{
			{Name: "data", Value: data.Path + " on " + strings.Join(data.Disks, ", "), Source: "/proc/self/mountinfo"},
			{Name: "write-ahead log", Value: wal.Path + " on " + strings.Join(wal.Disks, ", "), Source: "/proc/self/mountinfo"},
		},
	}
	// What it was measured to be counts more than what the kernel takes it for.
	lat, measured := fact.Look(s, place.Latencies)
	flash := measured && lat.Class == place.Flash && lat.Folder == data.Path
	if d.Queue.Rotational.Value && !d.Virtual && !flash {
		f.Severity, f.Worth = check.Advice, 0.2
		f.Summary = what + " share the spinning disk " + d.Name + ": its head travels between them, and each commit waits for it."
	}
	out.Found(f)
}
