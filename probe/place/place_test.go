package place

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"headroom/fact"
	"headroom/fail"
	"headroom/host"
	"headroom/pglocal"
	"headroom/probe/block"
	"headroom/testkit/need"
	"headroom/unit"
)

// disk answers each read in the same time.
type disk struct {
	size   int64
	took   time.Duration
	direct bool
	reads  int
}

func (d *disk) Size() int64  { return d.size }
func (d *disk) Direct() bool { return d.direct }
func (d *disk) Close() error { return nil }
func (d *disk) ReadTimed(int64, int) (time.Duration, error) {
	d.reads++
	return d.took, nil
}

func machine() *host.Fake {
	return &host.Fake{Time: time.Unix(1e9, 0), Timed: map[string]host.TimedFile{},
		Files: map[string]string{
			"/sys/block/vda/dev": "254:0", "/sys/block/vda/size": "20971520", "/sys/block/vda/queue/rotational": "1",
			"/proc/self/mountinfo": "1 0 254:0 / / rw - ext4 /dev/vda rw\n2 1 0:40 / /srv rw - btrfs /dev/vdb rw\n",
			"/etc/hostname":        "x",
		},
		Spaces: map[string]host.Space{"/": {Total: 10 * unit.GB}, "/srv": {Total: 10 * unit.GB}},
		Links:  map[string]string{"/": "/"},
	}
}

func gather(t *testing.T, r host.Reader, probes bool) *fact.Set {
	t.Helper()
	s, err := fact.Gather(context.Background(), r, fact.Options{Probes: probes}, Layouts, Latencies)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLayoutWithoutServer(t *testing.T) {
	l := fact.Get(gather(t, machine(), false), Layouts)
	os, ok := l.Find("os")
	if !ok || os.Device != fact.Known("vda") || len(os.Disks) != 1 || os.Mount != fact.Known("/") || l.NoServer == "" || len(l.Places) != 1 {
		t.Errorf("layout = %+v", l)
	}
	if why := gather(t, machine(), false).Why(Latencies); why != "measuring was refused" {
		t.Errorf("why = %q", why)
	}
}

func TestPlacesThatSpanDevices(t *testing.T) {
	r := machine()
	mounts := block.ParseMounts([]byte(r.Files["/proc/self/mountinfo"]))
	j := joiner{r: r, mounts: mounts, devices: []block.Device{{Name: "vda", Number: "254:0"}}}
	p := j.place("data", "/srv/pg")
	if p.Device.OK() || !strings.Contains(p.Device.Because, "btrfs") || p.Mount != fact.Known("/srv") || p.Disks != nil {
		t.Errorf("place = %+v", p)
	}
	j.devErr = errors.New("a container hides them")
	if p := j.place("os", "/"); p.Device.OK() || !strings.Contains(p.Device.Because, "hides") {
		t.Errorf("place = %+v", p)
	}
}

func TestLatencyPrefersTableFiles(t *testing.T) {
	r := machine()
	raw, table := &disk{size: 10 * unit.GB, took: 10 * time.Microsecond, direct: true}, &disk{size: 100 * unit.MB, took: 5 * time.Millisecond, direct: true}
	r.Timed["/dev/vda"] = raw
	r.Files["/var/lib/postgresql/15/main/PG_VERSION"] = "15"
	l := fact.Get(gather(t, r, true), Latencies)
	if l.Class != Flash || l.Device != fact.Known("vda") || l.Folder != "/var/lib/postgresql" || !strings.Contains(l.Read.What, "/dev/vda") || raw.reads == 0 {
		t.Errorf("raw: %+v", l)
	}
	name := "/var/lib/postgresql/15/main/base/5/16384"
	r.Files[name], r.Timed[name], r.Stats = "x", table, map[string]host.FileInfo{name: {Size: table.size}}
	raw.reads = 0
	l = fact.Get(gather(t, r, true), Latencies)
	if l.Class != Spinning || raw.reads != 0 || table.reads == 0 || !strings.HasPrefix(l.Read.What, "table files: 1 ") {
		t.Errorf("tables: %+v", l)
	}
	if l.Read.Bytes > 10*unit.GB/100 {
		t.Errorf("read %d bytes, more than 1 %% of the device", l.Read.Bytes)
	}
}

func TestLatencyReadsFilesBeforeTheRawDevice(t *testing.T) {
	r := machine()
	name := "/usr/bin/large"
	file := &disk{size: 80 * unit.MB, took: 80 * time.Microsecond, direct: true}
	r.Files[name], r.Timed[name], r.Stats = "x", file, map[string]host.FileInfo{name: {Size: file.size}}
	l := fact.Get(gather(t, r, true), Latencies)
	if l.Class != Flash || l.Folder != "/" || file.reads == 0 || !strings.HasPrefix(l.Read.What, "files: 1 ") {
		t.Errorf("latency = %+v", l)
	}
	r.Links["/usr/bin/large"] = "/usr/bin/elsewhere"
	if why := gather(t, r, true).Why(Latencies); !strings.Contains(why, "/dev/vda") {
		t.Errorf("a link is no file of its own: %q", why)
	}
}

type denied struct{ *host.Fake }

func (denied) OpenTimed(string) (host.TimedFile, error) { return nil, fail.ErrDenied }

func TestLatencyNamesTheRightThatIsMissing(t *testing.T) {
	s := gather(t, denied{machine()}, true)
	if why := s.Why(Latencies); !strings.Contains(why, "/dev/vda needs root or the group disk") {
		t.Errorf("why = %q", why)
	}
}

func TestJudge(t *testing.T) {
	f := func(p50, p95 float64, direct bool, want Class) {
		t.Helper()
		if c, why := Judge(block.Latency{Reads: 100, P50: p50, P95: p95, Direct: direct}); c != want || why == "" {
			t.Errorf("Judge(%g, %g) = %s (%s), want %s", p50, p95, c, why, want)
		}
	}
	f(80e-6, 200e-6, true, Flash)
	f(800e-6, 3.9e-3, true, Flash)
	f(80e-6, 6e-3, true, Unclear)
	f(1.5e-3, 1.8e-3, true, Unclear)
	f(80e-6, 4e-3, true, Unclear)
	f(6e-3, 12e-3, true, Spinning)
	f(6e-3, 12e-3, false, Unclear)
}

func TestLayoutOfARealServer(t *testing.T) {
	need.Have(t, "pg")
	srv, err := pglocal.Start(t.Context(), pglocal.Options{Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	r := host.Open(host.Options{DSN: srv.DSN(), WithPG: true})
	defer r.Close()
	l := fact.Get(gather(t, r, false), Layouts)
	data, ok := l.Find("data")
	wal, ok2 := l.Find("wal")
	if !ok || !ok2 || l.NoServer != "" || wal.Path != data.Path+"/pg_wal" || wal.Mount != data.Mount || wal.Device != data.Device {
		t.Errorf("layout = %+v", l)
	}
}

func TestThisMachine(t *testing.T) {
	need.Have(t, "root")
	r := host.Open(host.Options{})
	s := gather(t, r, true)
	l, ok := fact.Look(s, Latencies)
	if !ok {
		t.Fatalf("latency: %s", s.Why(Latencies))
	}
	if l.Read.Reads < 16 || l.Read.Seconds > 3 || l.Class == "" {
		t.Errorf("latency = %+v", l)
	}
	t.Logf("%+v", l)
	t.Logf("%+v", fact.Get(s, Layouts))
}
