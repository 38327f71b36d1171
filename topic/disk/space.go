package disk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"headroom/fail"
	"headroom/host"
	"headroom/metric"
	"headroom/probe/block"
)

func ofMount(name, unit, help, source string) *metric.Def {
	return &metric.Def{Name: name, Unit: unit, Kind: metric.Gauge, Labels: []string{"mount", "fstype", "device"}, Help: help, Source: source}
}

var (
	fsSize       = ofMount("host_filesystem_size_bytes", metric.Bytes, "Capacity of a file system.", "statfs(2) f_blocks")
	fsAvail      = ofMount("host_filesystem_available_bytes", metric.Bytes, "Room left for ordinary users.", "statfs(2) f_bavail")
	fsInodes     = ofMount("host_filesystem_inodes", metric.Count, "Files that a file system can hold; none where it does not count them.", "statfs(2) f_files")
	fsInodesFree = ofMount("host_filesystem_inodes_free", metric.Count, "Files that it can hold beyond those it has.", "statfs(2) f_ffree")
	fsReadOnly   = ofMount("host_filesystem_read_only", metric.Count, "1 if nothing can be written, as after an error.", "statfs(2) f_flags ST_RDONLY, mount options")
)

// spaceWait is how long one file system may take to answer.
const spaceWait = time.Second

// maxMounts bounds the series of one machine: containers mount hundreds.
const maxMounts = 128

// full are file systems that are full by their nature.
var full = []string{"squashfs", "iso9660", "erofs", "udf", "cramfs"}

// passed are folders whose mounts come and go with containers and sessions, or
// hold nothing: each would be a series for ever.
var passed = []string{"/var/lib/docker/", "/var/lib/containers/", "/var/lib/kubelet/", "/run/docker/", "/run/credentials/", "/run/user/", "/sys/", "/proc/"}

func comesAndGoes(mount string) bool {
	return slices.ContainsFunc(passed, func(p string) bool { return strings.HasPrefix(mount, p) })
}

var spaceCollector = &metric.Collector{
	Name: "disk.space", Doc: "room, files and state of each file system", Of: metric.Host,
	Defs: []*metric.Def{fsSize, fsAvail, fsInodes, fsInodesFree, fsReadOnly},
	Collect: func(ctx context.Context, r host.Reader, out *metric.Out) error {
		b, err := r.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return err
		}
		mounts := storing(block.ParseMounts(b))
		if len(mounts) > maxMounts {
			out.Gap(fmt.Sprintf("there are %d file systems: only %d are looked at", len(mounts), maxMounts), "")
			mounts = mounts[:maxMounts]
		}
		for _, a := range metric.Kept[asker](out).ask(ctx, r, mounts) {
			if a.err != nil {
				out.Gap(a.err.Error(), fail.HintOf(a.err))
				continue
			}
			give(out, a)
		}
		return nil
	},
}

// storing leaves out file systems that hold no files of anybody, that are full
// by their nature, and further mounts of the same one: the first is the one
// that the others are bound from.
func storing(all []block.Mount) []block.Mount {
	var out []block.Mount
	seen := map[string]bool{}
	for _, m := range all {
		if !block.Pseudo(m.FSType) && !slices.Contains(full, m.FSType) && !comesAndGoes(m.Point) && !seen[m.Number] {
			seen[m.Number] = true
			out = append(out, m)
		}
	}
	return out
}

func give(out *metric.Out, a room) {
	label := []string{a.mount.Point, a.mount.FSType, a.mount.Source}
	out.Add(fsSize, float64(a.space.Total), label...)
	out.Add(fsAvail, float64(a.space.Avail), label...)
	if a.space.Inodes > 0 { // 0 where they are made as needed
		out.Add(fsInodes, float64(a.space.Inodes), label...)
		out.Add(fsInodesFree, float64(a.space.InodesAvail), label...)
	}
	only := 0.0
	if a.space.ReadOnly || a.mount.Has("ro") {
		only = 1
	}
	out.Add(fsReadOnly, only, label...)
}

// room is what one file system answered.
type room struct {
	mount block.Mount
	space host.Space
	err   error
}

// asker asks file systems beside each other, and does not ask one again that
// has not answered yet: a question to a dead server cannot be taken back.
type asker struct {
	hung map[string]<-chan room
}

func (k *asker) ask(ctx context.Context, r host.Reader, mounts []block.Mount) []room {
	if k.hung == nil {
		k.hung = map[string]<-chan room{}
	}
	limit := time.NewTimer(spaceWait)
	defer limit.Stop()
	asked := make([]<-chan room, len(mounts))
	var out []room
	for i, m := range mounts {
		if asked[i] = k.hung[m.Point]; asked[i] != nil {
			continue
		}
		if !block.Remote(m.FSType) { // answered from memory
			s, err := r.Space(m.Point)
			out = append(out, room{m, s, err})
			continue
		}
		c := make(chan room, 1)
		asked[i] = c
		go func() {
			s, err := r.Space(m.Point)
			c <- room{m, s, err}
		}()
	}
	late := false
	for i, m := range mounts {
		if asked[i] == nil {
			continue
		}
		a, ok := k.wait(ctx, asked[i], limit.C, late)
		if ok {
			delete(k.hung, m.Point)
		} else {
			late = true
			k.hung[m.Point] = asked[i]
			a = room{err: fail.Hint(fmt.Errorf("measure space of %s (%s from %s): no answer within %s", m.Point, m.FSType, m.Source, spaceWait),
				"bring back the machine behind it, or take it off: umount -l %s", m.Point)}
		}
		out = append(out, a)
	}
	return out
}

// wait takes an answer if it comes in time; late says that time is up.
func (k *asker) wait(ctx context.Context, c <-chan room, limit <-chan time.Time, late bool) (room, bool) {
	if late {
		select {
		case a := <-c:
			return a, true
		default:
			return room{}, false
		}
	}
	select {
	case a := <-c:
		return a, true
	case <-limit:
	case <-ctx.Done():
	}
	return room{}, false
}
