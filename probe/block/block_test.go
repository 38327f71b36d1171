package block

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"headroom/fact"
	"headroom/fail"
	"headroom/host"
	"headroom/testkit/need"
	"headroom/unit"
)

// machine has a RAID of two partitions, a loop device and a hypervisor's disk.
func machine() *host.Fake {
	f := &host.Fake{Files: map[string]string{}, Spaces: map[string]host.Space{"/": {Total: 100 * unit.GB, Avail: 10 * unit.GB, Inodes: 1000, InodesAvail: 10}}}
	dev := func(name, number, sectors string, more map[string]string) {
		base := "/sys/block/" + name
		f.Files[base+"/dev"], f.Files[base+"/size"] = number+"\n", sectors+"\n"
		for k, v := range more {
			f.Files[base+"/"+k] = v + "\n"
		}
	}
	dev("sda", "8:0", "2097152", map[string]string{"queue/rotational": "1", "queue/scheduler": "none [mq-deadline] bfq", "queue/read_ahead_kb": "128",
		"queue/discard_max_bytes": "0", "device/vendor": "ATA", "device/model": "Some Disk ", "sda1/partition": "1", "sda1/dev": "8:1", "sda1/size": "2048", "sda1/holders/md0/x": ""})
	dev("sdb", "8:16", "2097152", map[string]string{"sdb1/partition": "1", "sdb1/dev": "8:17", "sdb1/size": "2048"})
	dev("md0", "9:0", "2048", map[string]string{"slaves/sda1/x": "", "slaves/sdb1/x": "", "queue/scheduler": "none"})
	dev("vda", "254:0", "4096", map[string]string{"queue/rotational": "yes", "queue/scheduler": "nonsense words"})
	dev("loop0", "7:0", "4096", map[string]string{"loop/backing_file": "/srv/image"})
	dev("loop1", "7:1", "0", nil)
	dev("sr0", "11:0", "4096", nil)
	dev("cciss!c0d0", "104:0", "4096", nil)
	f.Files["/proc/self/mountinfo"] = `1 0 9:0 / / rw,relatime shared:1 - ext4 /dev/md0 rw,barrier=0
2 1 0:5 / /proc rw - proc proc rw
3 1 0:40 / /srv/old rw - tmpfs none rw
4 1 254:0 / /srv/a\040b\134c rw,noatime - xfs /dev/vda rw
5 1 0:41 / /srv/net rw - nfs4 host:/x rw
6 1 8:99 / /srv/gone rw - ext4 /dev/sdz rw
7 1 0:42 / /srv/old rw - btrfs /dev/sdy rw
garbage
`
	return f
}

func gather(t *testing.T, r host.Reader) *fact.Set {
	t.Helper()
	s, err := fact.Gather(context.Background(), r, fact.Options{}, Devices, Mounts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDevices(t *testing.T) {
	ds := fact.Get(gather(t, machine()), Devices)
	var got []string
	for _, d := range ds {
		got = append(got, d.Name+" "+d.Kind)
	}
	want := []string{"cciss!c0d0 disk", "loop0 loop", "md0 md", "sda disk", "sda1 partition", "sdb disk", "sdb1 partition", "vda disk"}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("devices = %q, want %q", got, want)
	}
	sda, err := Find(ds, "/dev/sda")
	q := sda.Queue
	if err != nil || sda.Size != unit.GB || q.Rotational != fact.Known(true) || q.Scheduler.Value != "mq-deadline" || len(q.Choices) != 3 ||
		q.ReadAhead != fact.Known(int64(128*unit.KB)) || q.Discard != fact.Known(false) || sda.Model.Value != "Some Disk" || sda.Virtual {
		t.Errorf("sda = %+v, %v", sda, err)
	}
	vda, _ := Find(ds, "vda")
	if vda.Queue.Rotational.OK() || vda.Queue.Scheduler.OK() || !vda.Virtual || vda.Queue.ReadAhead.OK() {
		t.Errorf("vda = %+v: garbled figures must be unknown", vda)
	}
	if _, err := Find(ds, "sdq"); !errors.Is(err, fail.ErrAbsent) || !strings.Contains(err.Error(), "sda, sdb, vda") {
		t.Errorf("find: %v must list the devices there are", err)
	}
	if d, _ := Find(ds, "cciss/c0d0"); d.Node() != "/dev/cciss/c0d0" {
		t.Errorf("node = %q", d.Node())
	}
}

func TestStacking(t *testing.T) {
	ds := fact.Get(gather(t, machine()), Devices)
	for name, want := range map[string][]string{"md0": {"sda", "sdb"}, "sda1": {"sda"}, "vda": {"vda"}, "loop0": {"loop0"}} {
		if got, err := Disks(ds, name); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("disks below %s = %q, %v", name, got, err)
		}
	}
	ring := []Device{{Name: "dm-0", Kind: "dm", Slaves: []string{"dm-1"}}, {Name: "dm-1", Kind: "dm", Slaves: []string{"dm-0"}}}
	if _, err := Disks(ring, "dm-0"); err == nil {
		t.Error("a ring of devices must be an error")
	}
}

func TestMounts(t *testing.T) {
	s := gather(t, machine())
	ds, ms := fact.Get(s, Devices), fact.Get(s, Mounts)
	at := func(p string) Mount {
		m, err := Holding(ms, p)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if m := at("/var/lib"); m.Point != "/" || !m.Has("barrier=0") || !m.Has("relatime") || m.Avail != fact.Known(int64(10*unit.GB)) {
		t.Errorf("/var/lib: %+v", m)
	}
	if m := at(`/srv/a b\c/d`); m.Number != "254:0" || !m.Has("noatime") {
		t.Errorf("escapes: %+v", m)
	}
	if m := at("/srv/netto"); m.Point != "/" {
		t.Errorf("a name that only begins alike is outside: %+v", m)
	}
	if m := at("/srv/net"); m.Size.OK() {
		t.Error("a network file system must not be asked")
	}
	if d, err := DeviceOf(ds, at("/")); err != nil || d.Name != "md0" {
		t.Errorf("device of / = %+v, %v", d, err)
	}
	if _, err := DeviceOf(ds, at("/srv/old")); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "btrfs") {
		t.Errorf("the later mount covers the earlier, and spans devices: %v", err)
	}
	if _, err := DeviceOf(ds, at("/srv/gone")); err == nil || errors.Is(err, ErrNoDevice) {
		t.Errorf("a device that is not in /sys/block: %v", err)
	}
}

func TestContainerWithoutBlockDevices(t *testing.T) {
	s := gather(t, &host.Fake{})
	if why := s.Why(Devices); !strings.Contains(why, "/sys/block is empty or not there (a container") {
		t.Errorf("why = %q", why)
	}
}

// disk is a TimedFile that answers after a fixed pattern of times.
type disk struct {
	size   int64
	direct bool
	took   func(n int) time.Duration
	reads  []int64
	broken bool
}

func (d *disk) Size() int64  { return d.size }
func (d *disk) Direct() bool { return d.direct }
func (d *disk) Close() error { return nil }
func (d *disk) ReadTimed(off int64, n int) (time.Duration, error) {
	if d.broken {
		return 0, errors.New("medium error")
	}
	if off < 0 || off+int64(n) > d.size || off%4096 != 0 {
		return 0, errors.New("out of bounds")
	}
	d.reads = append(d.reads, off)
	return d.took(len(d.reads)), nil
}

func TestMeasureKeepsItsBounds(t *testing.T) {
	d := &disk{size: unit.GB, direct: true, took: func(n int) time.Duration { return time.Duration(n%100+1) * time.Microsecond }}
	r := &host.Fake{Timed: map[string]host.TimedFile{"/dev/x": d}}
	l, err := Measure(context.Background(), r, []string{"/dev/x"}, unit.GB/100, 1)
	if err != nil {
		t.Fatal(err)
	}
	if l.Bytes > unit.GB/100 || l.Reads > 2000 || l.Reads != unit.GB/100/2/8192 || !l.Direct || !l.Throughput.OK() {
		t.Errorf("latency = %+v", l)
	}
	if !(l.Min == 1e-6 && l.Min < l.P50 && l.P50 < l.P95 && l.P95 < l.P99 && l.P99 <= l.Max && l.Max == 1e-4) {
		t.Errorf("quantiles = %+v", l)
	}
	first := append([]int64(nil), d.reads...)
	d.reads = nil
	if _, err := Measure(context.Background(), r, []string{"/dev/x"}, unit.GB/100, 1); err != nil || !reflect.DeepEqual(first, d.reads) {
		t.Errorf("the same seed must read the same places: %v", err)
	}
	if _, err := Measure(context.Background(), r, []string{"/dev/x"}, 1000, 1); err == nil {
		t.Error("a budget too small to judge by must be refused")
	}
	if _, err := Measure(context.Background(), r, []string{"/dev/y"}, unit.GB, 1); !errors.Is(err, fail.ErrAbsent) {
		t.Errorf("absent: %v", err)
	}
	d.broken = true
	if _, err := Measure(context.Background(), r, []string{"/dev/x"}, unit.GB, 1); err == nil || !strings.Contains(err.Error(), "medium error") {
		t.Errorf("broken: %v", err)
	}
}

func TestMeasureALoopDevice(t *testing.T) {
	need.Have(t, "loop")
	file := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(file, []byte(strings.Repeat("0123456789abcdef", 4<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(argv ...string) string {
		t.Helper()
		out, err := host.Cmd{Argv: argv}.Run(context.Background(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	node := run("losetup", "--find", "--show", "--read-only", file)
	defer run("losetup", "--detach", node)
	r := host.Open(host.Options{})
	ds := fact.Get(gather(t, r), Devices)
	d, err := Find(ds, node)
	if err != nil || d.Kind != "loop" || d.Backing != file || d.Size != 64*unit.MB {
		t.Errorf("loop = %+v, %v", d, err)
	}
	l, err := Measure(context.Background(), r, []string{node}, d.Size/100, 7)
	if err != nil || l.Reads < 16 || l.Seconds > 2.5 || l.Bytes > d.Size/100 {
		t.Errorf("latency = %+v, %v", l, err)
	}
	t.Logf("%+v", l)
}

func TestThisMachine(t *testing.T) {
	s := gather(t, host.Open(host.Options{}))
	ms := fact.Get(s, Mounts)
	if m, err := Holding(ms, "/"); err != nil || !m.Size.OK() {
		t.Errorf("root = %+v, %v", m, err)
	}
	if testing.Verbose() {
		var b strings.Builder
		_ = s.Save(&b)
		t.Log(b.String())
	}
}

func FuzzMounts(f *testing.F) {
	f.Add([]byte(machine().Files["/proc/self/mountinfo"]))
	f.Add([]byte(`1 2 3:4 / /\04 a,\1 - x y z`))
	f.Fuzz(func(t *testing.T, b []byte) {
		ms := ParseMounts(b)
		seen := map[string]bool{}
		for _, m := range ms {
			if seen[m.Point] || m.Point == "" {
				t.Errorf("mount point %q twice or empty", m.Point)
			}
			seen[m.Point] = true
			if _, err := Holding(ms, m.Point+"/x"); err != nil {
				t.Errorf("%q holds nothing: %v", m.Point, err)
			}
		}
	})
}

func FuzzQueue(f *testing.F) {
	f.Add("none [mq-deadline] bfq", "128")
	f.Add("[]", "-1")
	f.Add("[a] [b]", "9223372036854775807")
	f.Fuzz(func(t *testing.T, choice, figure string) {
		r := &host.Fake{Files: map[string]string{"/sys/block/sda/dev": "8:0", "/sys/block/sda/size": figure,
			"/sys/block/sda/queue/scheduler": choice, "/sys/block/sda/queue/read_ahead_kb": figure}}
		ds, err := readDevices(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ds {
			if d.Size < 0 || d.Queue.ReadAhead.Value < 0 || d.Queue.Scheduler.OK() && d.Queue.Scheduler.Value != "" && len(d.Queue.Choices) == 0 {
				t.Errorf("device %+v", d)
			}
		}
	})
}
