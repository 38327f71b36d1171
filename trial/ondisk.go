package trial

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"headroom/change"
	"headroom/fact"
	"headroom/fail"
	"headroom/host"
	"headroom/probe/block"
)

// onDisk refuses to try a change of a disk in a folder that is not on it: no
// difference would be seen, whatever the change is worth. What cannot be told
// is let through.
func (s site) onDisk(ctx context.Context, r host.Reader, dir string) error {
	for _, a := range s.exp.Arms {
		cs, err := s.env.changes(ctx, r, a)
		if err != nil {
			return err
		}
		for _, c := range cs {
			disk := diskOf(c)
			if disk == "" {
				continue
			}
			set, err := fact.Gather(ctx, r, fact.Options{}, block.Mounts, block.Devices)
			if err != nil {
				return err
			}
			if on, off := elsewhere(fact.Get(set, block.Devices), fact.Get(set, block.Mounts), dir, disk); off {
				return fail.With(fail.Hint(fmt.Errorf("try %s: the work would be done in %s, which is on %s and not on %s", c.Spec, dir, on, disk),
					"name a folder on %s: --scratch DIR, or HEADROOM_STATE=DIR for private servers", disk), fail.Usage)
			}
		}
	}
	return nil
}

// diskOf is the block device whose queue a change sets; "" if none.
func diskOf(c change.Change) string {
	for _, st := range c.Steps {
		if v, ok := st.(change.Value); ok {
			if rest, ok := strings.CutPrefix(v.Path, "/sys/block/"); ok {
				name, _, _ := strings.Cut(rest, "/")
				return name
			}
		}
	}
	return ""
}

// elsewhere says what holds a folder if that is certainly not the disk, nor
// made of it.
func elsewhere(devices []block.Device, mounts []block.Mount, dir, disk string) (on string, off bool) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	m, err := block.Holding(mounts, dir)
	if err != nil {
		return "", false
	}
	if m.FSType == "tmpfs" || m.FSType == "ramfs" {
		return "memory (" + m.FSType + ")", true
	}
	d, err := block.DeviceOf(devices, m)
	if err != nil {
		return "", false
	}
	below := []string{d.Name}
	for i := 0; i < len(below) && i < 100; i++ {
		d, err := block.Find(devices, below[i])
		if err != nil || d.Kind == "loop" || d.Name == disk {
			return "", false
		}
		below = append(below, d.Slaves...)
		if d.Disk != "" {
			below = append(below, d.Disk)
		}
	}
	bottom, err := block.Disks(devices, d.Name)
	if err != nil || slices.Contains(bottom, disk) {
		return "", false
	}
	return strings.Join(bottom, " and "), true
}
