package trial

import (
	"testing"

	"headroom/probe/block"
)

func TestAFolderOnAnotherDiskIsKnown(t *testing.T) {
	devices := []block.Device{
		{Name: "sda", Kind: "disk", Number: "8:0", Partitions: []string{"sda1"}}, {Name: "sda1", Kind: "partition", Number: "8:1", Disk: "sda"},
		{Name: "sdb", Kind: "disk", Number: "8:16"}, {Name: "sdc", Kind: "disk", Number: "8:32"},
		{Name: "md0", Kind: "md", Number: "9:0", Slaves: []string{"sdb", "sdc"}}, {Name: "loop0", Kind: "loop", Number: "7:0"},
	}
	mounts := []block.Mount{
		{Point: "/", Number: "8:1", FSType: "ext4"}, {Point: "/data", Number: "9:0", FSType: "xfs"}, {Point: "/shm", Number: "0:5", FSType: "tmpfs"},
		{Point: "/loop", Number: "7:0", FSType: "ext4"}, {Point: "/btrfs", Number: "0:9", FSType: "btrfs"},
	}
	for _, c := range []struct {
		dir, disk, on string
		off           bool
	}{
		{"/x", "sda", "", false}, {"/x", "sdb", "sda", true}, {"/data/x", "sdb", "", false}, {"/data/x", "md0", "", false},
		{"/data/x", "sda", "sdb and sdc", true}, {"/shm", "sda", "memory (tmpfs)", true}, {"/loop", "sda", "", false}, {"/btrfs/x", "sda", "", false},
	} {
		if on, off := elsewhere(devices, mounts, c.dir, c.disk); on != c.on || off != c.off {
			t.Errorf("%s, change of %s: on %q, %t", c.dir, c.disk, on, off)
		}
	}
}
