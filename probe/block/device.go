package block

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"headroom/fact"
	"headroom/fail"
	"headroom/host"
)

// Device is one block device or partition.
type Device struct {
	Name       string           `json:"name" src:"/sys/block" doc:"the kernel's name; a ! in it stands for / below /dev"`
	Kind       string           `json:"kind" src:"/sys/block" doc:"disk, partition, loop, md, dm or zram"`
	Number     string           `json:"number" src:"/sys/block/*/dev" doc:"major:minor, as in /proc/self/mountinfo"`
	Size       int64            `json:"size" unit:"bytes" src:"/sys/block/*/size" doc:"capacity"`
	Virtual    bool             `json:"virtual" src:"/sys/block/*/device/vendor, model; name" doc:"a hypervisor's disk, as far as its name, vendor or model tells"`
	Removable  fact.Opt[bool]   `json:"removable" src:"/sys/block/*/removable" doc:"the medium can be taken out"`
	Vendor     fact.Opt[string] `json:"vendor" src:"/sys/block/*/device/vendor" doc:"who made it"`
	Model      fact.Opt[string] `json:"model" src:"/sys/block/*/device/model" doc:"what its maker calls it"`
	Queue      Queue            `json:"queue" doc:"how the kernel talks to it; a partition has its disk's"`
	Disk       string           `json:"disk,omitempty" src:"/sys/block/*/*/partition" doc:"of a partition: the device it is on"`
	Partitions []string         `json:"partitions,omitempty" src:"/sys/block/*/*/partition" doc:"its partitions"`
	Slaves     []string         `json:"slaves,omitempty" src:"/sys/block/*/slaves" doc:"the devices that it is made of"`
	Holders    []string         `json:"holders,omitempty" src:"/sys/block/*/holders" doc:"the devices that are made of it"`
	Backing    string           `json:"backing,omitempty" src:"/sys/block/*/loop/backing_file" doc:"of a loop device: its file"`
}

// Queue is how the kernel talks to a device.
type Queue struct {
	Rotational    fact.Opt[bool]   `json:"rotational" src:"/sys/block/*/queue/rotational" doc:"the kernel takes it for a spinning disk"`
	Scheduler     fact.Opt[string] `json:"scheduler" src:"/sys/block/*/queue/scheduler" doc:"the I/O scheduler in use"`
	Choices       []string         `json:"choices,omitempty" src:"/sys/block/*/queue/scheduler" doc:"the I/O schedulers there are"`
	ReadAhead     fact.Opt[int64]  `json:"read_ahead" unit:"bytes" src:"/sys/block/*/queue/read_ahead_kb" doc:"how far ahead of a sequential reader the kernel reads"`
	Requests      fact.Opt[int64]  `json:"requests" unit:"count" src:"/sys/block/*/queue/nr_requests" doc:"requests that can wait in the queue"`
	WriteCache    fact.Opt[string] `json:"write_cache" src:"/sys/block/*/queue/write_cache" doc:"write back: the device keeps written data in a cache that must be flushed; write through: it does not"`
	LogicalBlock  fact.Opt[int64]  `json:"logical_block" unit:"bytes" src:"/sys/block/*/queue/logical_block_size" doc:"the smallest piece that can be addressed"`
	PhysicalBlock fact.Opt[int64]  `json:"physical_block" unit:"bytes" src:"/sys/block/*/queue/physical_block_size" doc:"the smallest piece that the device writes in one go"`
	Discard       fact.Opt[bool]   `json:"discard" src:"/sys/block/*/queue/discard_max_bytes" doc:"the device can be told that blocks are no longer used"`
}

// Node is the device's file below /dev.
func (d Device) Node() string { return "/dev/" + strings.ReplaceAll(d.Name, "!", "/") }

// Settable says whether the kernel lets us look at and set the device's own
// queue: a partition has none.
func (d Device) Settable() bool { return d.Kind != "partition" }

// Devices is the fact "block.devices".
var Devices = &fact.Source[[]Device]{
	Name: "block.devices", Doc: "block devices and partitions, by name; loop and zram devices only while in use",
	Read: func(_ context.Context, in *fact.In) ([]Device, error) { return readDevices(in) },
}

func readDevices(r host.Reader) ([]Device, error) {
	dirs, err := r.Glob("/sys/block/*")
	if err != nil {
		return nil, err
	}
	if len(dirs) == 0 {
		return nil, fail.Hint(fmt.Errorf("list block devices: /sys/block is empty or %w (a container often hides it)", fail.ErrAbsent),
			"run headroom on the host itself")
	}
	out := []Device{}
	for _, dir := range dirs {
		d, ok := readDevice(r, dir)
		if !ok {
			continue
		}
		parts, err := r.Glob(dir + "/*/partition")
		if err != nil {
			return nil, err
		}
		var below []Device
		for _, p := range parts {
			p = path.Dir(p)
			d.Partitions = append(d.Partitions, path.Base(p))
			below = append(below, Device{
				Name: path.Base(p), Kind: "partition", Number: number0(r, p+"/dev"), Size: number(r, p+"/size", 512).Value,
				Virtual: d.Virtual, Removable: d.Removable, Vendor: d.Vendor, Model: d.Model, Queue: d.Queue, Disk: d.Name, Holders: names(r, p+"/holders/*"),
			})
		}
		out = append(append(out, d), below...)
	}
	return out, nil
}

// readDevice reads one whole device; ok is false for what stores nothing now.
func readDevice(r host.Reader, dir string) (Device, bool) {
	name := path.Base(dir)
	size := number(r, dir+"/size", 512)
	d := Device{
		Name: name, Kind: kind(r, dir), Number: number0(r, dir+"/dev"), Size: size.Value,
		Removable: flag(r, dir+"/removable"), Vendor: text(r, dir+"/device/vendor"), Model: text(r, dir+"/device/model"),
		Queue: readQueue(r, dir+"/queue"), Slaves: names(r, dir+"/slaves/*"), Holders: names(r, dir+"/holders/*"),
	}
	if d.Kind == "" || size.OK() && size.Value == 0 {
		return Device{}, false
	}
	if d.Kind == "loop" {
		d.Backing, _ = word(r, dir+"/loop/backing_file")
	}
	d.Virtual = virtual(d)
	return d, true
}

// kind tells devices apart; "" for those that hold no lasting data of ours
// (RAM disks, CD and floppy drives).
func kind(r host.Reader, dir string) string {
	name := path.Base(dir)
	for _, k := range []struct{ prefix, kind string }{{"loop", "loop"}, {"zram", "zram"}, {"md", "md"}, {"dm-", "dm"}, {"ram", ""}, {"sr", ""}, {"fd", ""}} {
		if strings.HasPrefix(name, k.prefix) {
			return k.kind
		}
	}
	if _, err := r.Stat(dir + "/dm"); err == nil {
		return "dm"
	}
	return "disk"
}

var hypervisors = []string{"QEMU", "VMware", "VBOX", "Virtual", "Msft", "Google", "Amazon Elastic Block Store", "XenSrc"}

func virtual(d Device) bool {
	if strings.HasPrefix(d.Name, "vd") || strings.HasPrefix(d.Name, "xvd") {
		return true
	}
	named := d.Vendor.Value + " " + d.Model.Value
	return slices.ContainsFunc(hypervisors, func(h string) bool { return strings.Contains(named, h) })
}

func readQueue(r host.Reader, dir string) Queue {
	q := Queue{
		Rotational: flag(r, dir+"/rotational"), ReadAhead: number(r, dir+"/read_ahead_kb", 1024), Requests: number(r, dir+"/nr_requests", 1),
		WriteCache: text(r, dir+"/write_cache"), LogicalBlock: number(r, dir+"/logical_block_size", 1),
		PhysicalBlock: number(r, dir+"/physical_block_size", 1), Discard: fact.Unknown[bool]("the device does not tell"),
	}
	if n := number(r, dir+"/discard_max_bytes", 1); n.OK() {
		q.Discard = fact.Known(n.Value > 0)
	}
	q.Scheduler, q.Choices = schedulers(r, dir+"/scheduler")
	return q
}

// schedulers reads "none [mq-deadline] kyber" or, on devices without a choice,
// the one word "none".
func schedulers(r host.Reader, file string) (now fact.Opt[string], all []string) {
	s, err := word(r, file)
	if err != nil {
		return fact.Unknown[string](err.Error()), nil
	}
	now = fact.Unknown[string](fmt.Sprintf("%s holds %.60q, none of it chosen", file, s))
	for _, w := range strings.Fields(s) {
		bare := strings.TrimSuffix(strings.TrimPrefix(w, "["), "]")
		if bare != w {
			now = fact.Known(bare)
		}
		all = append(all, bare)
	}
	if len(all) == 1 {
		now = fact.Known(all[0])
	}
	return now, all
}

func number0(r host.Reader, file string) string {
	s, _ := word(r, file) // a device without a number matches no mount
	return s
}

func names(r host.Reader, pattern string) []string {
	paths, err := r.Glob(pattern)
	if err != nil {
		return nil
	}
	for i, p := range paths {
		paths[i] = path.Base(p)
	}
	return paths
}

// Find returns a device by name; the error lists the ones there are.
func Find(devices []Device, name string) (Device, error) {
	name = strings.ReplaceAll(strings.TrimPrefix(name, "/dev/"), "/", "!")
	var have []string
	for _, d := range devices {
		if d.Name == name {
			return d, nil
		}
		if d.Settable() {
			have = append(have, d.Name)
		}
	}
	return Device{}, fmt.Errorf("find block device %q: %w (there are: %s)", name, fail.ErrAbsent, strings.Join(have, ", "))
}

// errDeep stops at loops that hold each other, which only a forged tree has.
var errDeep = errors.New("its stacking is too deep to follow")

// Disks lists the whole disks at the bottom of a device, sorted: its own disk,
// or those that an md or dm device is made of. A loop device is its own
// bottom; see Device.Backing.
func Disks(devices []Device, name string) ([]string, error) {
	var out []string
	var down func(name string, depth int) error
	down = func(name string, depth int) error {
		if depth > 16 || len(out) > 1024 {
			return fmt.Errorf("find the disks below %s: %w", name, errDeep)
		}
		d, err := Find(devices, name)
		switch {
		case err != nil:
			return err
		case d.Kind == "partition":
			return down(d.Disk, depth+1)
		case len(d.Slaves) > 0:
			for _, s := range d.Slaves {
				if err := down(s, depth+1); err != nil {
					return err
				}
			}
			return nil
		}
		out = append(out, d.Name)
		return nil
	}
	if err := down(name, 0); err != nil {
		return nil, err
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
