package packet_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"headroom/engine/packet"
	"headroom/host"
)

func TestCores(t *testing.T) {
	fake := &host.Fake{Files: map[string]string{
		"/proc/stat":     "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 50 200 500 50 10 90 0 0 0\ncpu2 0 0 0 1000 0 0 0 0 0 0\nintr 5\n",
		"/proc/softirqs": "                    CPU0       CPU1       CPU2\n  NET_TX:          1          2          3\n  NET_RX:         10         20         30\n   BLOCK:          0 0 0\n",
	}}
	c, err := packet.ReadCores(fake)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Numbers(); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("CPUs %v", got)
	}
	if c[0] != (packet.Core{User: 1.5, System: 2, SoftIRQ: 0.9, IRQ: 0.1, Idle: 5.5, NetRX: 10, NetTX: 1}) || c[2].NetRX != 30 {
		t.Errorf("%+v", c)
	}
	if c[0].Busy() != 0.45 || c[0].Soft() != 0.09 || c[2].Busy() != 0 || (packet.Core{}).Busy() != 0 {
		t.Errorf("busy %v, soft %v", c[0].Busy(), c[0].Soft())
	}
	if d := c.Since(packet.Cores{2: c[2]}); len(d) != 1 || d[2] != (packet.Core{}) {
		t.Errorf("since: %+v", d)
	}
	for file, bad := range map[string]string{"/proc/stat": "cpu0 1 2 x 4 5 6 7 8\n", "/proc/softirqs": "CPU0\nNET_RX: 1 2\n"} {
		broken := &host.Fake{Files: map[string]string{"/proc/stat": fake.Files["/proc/stat"], "/proc/softirqs": fake.Files["/proc/softirqs"]}}
		broken.Files[file] = bad
		if _, err := packet.ReadCores(broken); err == nil {
			t.Errorf("%s of %q was taken", file, bad)
		}
	}
}

func TestAFloodShowsInTheCores(t *testing.T) {
	a, _ := wire(t)
	to, err := packet.Inside(a, "veth0")
	if err != nil {
		t.Fatal(err)
	}
	l := host.Open(host.Options{})
	defer l.Close()
	before, err := packet.ReadCores(l)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (packet.Flood{To: to, Mix: sources([]netip.Addr{addr(1 << 24)}), For: 200 * time.Millisecond, CPUs: []int{0}}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, err := packet.ReadCores(l)
	if err != nil {
		t.Fatal(err)
	}
	if d := after.Since(before); d[0].NetRX == 0 {
		t.Errorf("CPU 0 took no packets in: %+v", d)
	}
}
