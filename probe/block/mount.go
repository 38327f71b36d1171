package block

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"headroom/fact"
	"headroom/fail"
	"headroom/host"
)

// Mount is one mounted file system that holds files.
type Mount struct {
	Point     string          `json:"point" src:"/proc/self/mountinfo" doc:"the folder where it is mounted"`
	Number    string          `json:"number" src:"/proc/self/mountinfo" doc:"major:minor of its device; major 0: no single block device"`
	FSType    string          `json:"fs_type" src:"/proc/self/mountinfo" doc:"kind of file system"`
	Source    string          `json:"source" src:"/proc/self/mountinfo" doc:"what was mounted, as the mounter named it"`
	Options   []string        `json:"options" src:"/proc/self/mountinfo" doc:"options of this mount and of the file system"`
	Size      fact.Opt[int64] `json:"size" unit:"bytes" src:"statfs(2) f_blocks" doc:"capacity"`
	Avail     fact.Opt[int64] `json:"avail" unit:"bytes" src:"statfs(2) f_bavail" doc:"room left for ordinary users"`
	Inodes    fact.Opt[int64] `json:"inodes" unit:"count" src:"statfs(2) f_files" doc:"files that it can hold; 0 where it does not count them"`
	InodeFree fact.Opt[int64] `json:"inodes_free" unit:"count" src:"statfs(2) f_ffree" doc:"files that it can hold beyond those it has"`
}

// Has says whether the mount has an option, such as "noatime".
func (m Mount) Has(option string) bool { return slices.Contains(m.Options, option) }

// Mounts is the fact "block.mounts".
var Mounts = &fact.Source[[]Mount]{
	Name: "block.mounts", Doc: "mounted file systems that hold files, with their options and room",
	Read: func(_ context.Context, in *fact.In) ([]Mount, error) { return readMounts(in) },
}

// pseudo file systems hold no files of anybody.
var pseudo = []string{"autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs", "fusectl",
	"hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "ramfs", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs", "tracefs"}

// Pseudo says whether a kind of file system holds no files of anybody.
func Pseudo(fsType string) bool { return slices.Contains(pseudo, fsType) }

// Remote says whether asking for room may hang because another machine or
// process must answer.
func Remote(fsType string) bool {
	for _, p := range []string{"nfs", "cifs", "smb", "ceph", "9p", "fuse", "afs", "glusterfs", "lustre", "gpfs", "virtiofs", "ocfs2", "gfs2"} {
		if strings.HasPrefix(fsType, p) {
			return true
		}
	}
	return false
}

func readMounts(r host.Reader) ([]Mount, error) {
	b, err := r.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	out := slices.DeleteFunc(ParseMounts(b), func(m Mount) bool { return Pseudo(m.FSType) })
	for i := range out {
		fillSpace(r, &out[i])
	}
	return out, nil
}

func fillSpace(r host.Reader, m *Mount) {
	why := "not asked: another machine or process must answer, and may hang"
	if !Remote(m.FSType) {
		sp, err := r.Space(m.Point)
		if err == nil {
			m.Size, m.Avail, m.Inodes, m.InodeFree = fact.Known(sp.Total), fact.Known(sp.Avail), fact.Known(sp.Inodes), fact.Known(sp.InodesAvail)
			return
		}
		why = err.Error()
	}
	u := fact.Unknown[int64](why)
	m.Size, m.Avail, m.Inodes, m.InodeFree = u, u, u, u
}

// maxOptions is far above what the longest real line holds.
const maxOptions = 256

// ParseMounts reads the text of /proc/self/mountinfo. Lines that do not have
// its form are left out, as are mounts that a later one at the same folder
// covers. Room is not known to it.
func ParseMounts(b []byte) []Mount {
	out := []Mount{}
	at := map[string]int{}
	for line := range strings.Lines(string(b)) {
		left, right, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		f, g := strings.Split(left, " "), strings.Split(right, " ")
		if !ok || len(f) < 6 || len(g) < 3 || !path.IsAbs(f[4]) {
			continue
		}
		point := unescape(f[4])
		if path.Clean(point) != point {
			continue
		}
		m := Mount{Number: f[2], Point: point, FSType: g[0], Source: unescape(g[1]), Options: []string{}}
		for _, o := range strings.Split(f[5]+","+g[2], ",") {
			if len(m.Options) == maxOptions {
				break
			}
			if o = unescape(o); o != "" && !slices.Contains(m.Options, o) {
				m.Options = append(m.Options, o)
			}
		}
		if i, twice := at[m.Point]; twice {
			out[i] = m
			continue
		}
		at[m.Point] = len(out)
		out = append(out, m)
	}
	return out
}

// unescape turns the kernel's \040 and its like (blank, tab, newline,
// backslash) back into bytes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Holding returns the mount that holds a path: the one with the longest
// folder that path is in. The path must be resolved and absolute.
func Holding(mounts []Mount, p string) (Mount, error) {
	p = path.Clean(p)
	best := -1
	for i, m := range mounts {
		inside := m.Point == "/" || p == m.Point || strings.HasPrefix(p, m.Point+"/")
		if inside && (best < 0 || len(m.Point) > len(mounts[best].Point)) {
			best = i
		}
	}
	if best < 0 || !path.IsAbs(p) {
		return Mount{}, fmt.Errorf("find the file system of %s: %w", p, fail.ErrAbsent)
	}
	return mounts[best], nil
}

// ErrNoDevice says that a file system is not on a block device of its own.
var ErrNoDevice = errors.New("not on one block device")

// DeviceOf returns the device that a mount is on. The error wraps ErrNoDevice
// for file systems that span devices or have none, and names the kind.
func DeviceOf(devices []Device, m Mount) (Device, error) {
	major, _, _ := strings.Cut(m.Number, ":")
	if major == "0" {
		return Device{}, fmt.Errorf("find the device of %s: %s is %w (%s)", m.Point, m.FSType, ErrNoDevice, noDevice(m))
	}
	for _, d := range devices {
		if d.Number == m.Number {
			return d, nil
		}
	}
	return Device{}, fmt.Errorf("find the device of %s: device %s of %s is not among those in /sys/block", m.Point, m.Number, m.Source)
}

func noDevice(m Mount) string {
	switch {
	case m.FSType == "btrfs" || m.FSType == "zfs" || m.FSType == "bcachefs":
		return "it may span several"
	case m.FSType == "overlay":
		return "a container's layers; the data may be on any file system below it"
	case m.FSType == "tmpfs":
		return "it is memory"
	case Remote(m.FSType):
		return "it comes over the network or from another process"
	}
	return "the kernel names none"
}
