package netns_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headroom/engine/netns"
	"headroom/host"
	"headroom/testkit/need"
)

func fresh(t *testing.T) *netns.Namespace {
	t.Helper()
	need.Have(t, "netns")
	n, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

func TestInsideIsElsewhere(t *testing.T) {
	n := fresh(t)
	home := inode(t, "/proc/self/ns/net")
	var in uint64
	err := n.Do(func() error {
		var st unix.Stat_t
		err := unix.Stat("/proc/thread-self/ns/net", &st)
		in = st.Ino
		if main := inode(t, "/proc/self/ns/net"); main != home {
			t.Errorf("the main thread moved, too: %d, was %d", main, home)
		}
		return err
	})
	if err != nil || in == 0 || in == home {
		t.Fatalf("inside: %d, outside: %d, %v", in, home, err)
	}
	out, err := n.Run(t.Context(), host.Cmd{Argv: []string{"readlink", "/proc/self/ns/net"}}, 1<<10)
	if want := fmt.Sprintf("net:[%d]", in); err != nil || strings.TrimSpace(string(out)) != want {
		t.Errorf("a program runs in %q, want %s: %v", out, want, err)
	}
}

func TestNoThreadStaysInside(t *testing.T) {
	n := fresh(t)
	home := inode(t, "/proc/self/ns/net")
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := n.Do(func() error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for range 3 {
		func() {
			defer func() {
				if p := recover(); p != "broken" {
					t.Errorf("recovered %v, want the panic of what ran inside", p)
				}
			}()
			_ = n.Do(func() error { panic("broken") })
		}()
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		var st unix.Stat_t
		if unix.Stat("/proc/self/task/"+task.Name()+"/ns/net", &st) == nil && st.Ino != home {
			t.Errorf("thread %s stays in namespace %d", task.Name(), st.Ino)
		}
	}
}

func TestNothingHasAName(t *testing.T) {
	n := fresh(t)
	if names, _ := os.ReadDir("/run/netns"); len(names) > 0 {
		for _, x := range names {
			var a, b unix.Stat_t
			err := n.Do(func() error { return unix.Stat("/proc/thread-self/ns/net", &a) })
			if err == nil && unix.Stat("/run/netns/"+x.Name(), &b) == nil && a.Ino == b.Ino {
				t.Errorf("the namespace is named %s", x.Name())
			}
		}
	}
}

func TestJoinedTalkBothWaysAtOnce(t *testing.T) {
	a, b := fresh(t), fresh(t)
	if err := netns.Join(a, b, netns.Between()); err != nil {
		t.Fatal(err)
	}
	for _, way := range []struct {
		from, to *netns.Namespace
		addr     string
	}{{a, b, "10.99.0.2"}, {b, a, "10.99.0.1"}, {a, b, "fd00:99::2"}, {b, a, "fd00:99::1"}, {a, a, "127.0.0.1"}, {b, b, "::1"}} {
		if err := talk(way.from, way.to, way.addr); err != nil {
			t.Errorf("%s: %v", way.addr, err)
		}
	}
	if err := netns.Join(a, a, netns.Between()); err == nil {
		t.Error("a namespace was joined with itself")
	}
}

// talk sends one datagram and waits for it.
func talk(from, to *netns.Namespace, addr string) error {
	var in *net.UDPConn
	err := to.Do(func() (err error) {
		in, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(addr), 0)))
		return err
	})
	if err != nil {
		return err
	}
	defer in.Close()
	if err := in.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	return errors.Join(from.Do(func() error {
		c, err := net.Dial("udp", in.LocalAddr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte("hello"))
		return err
	}), func() error {
		got := make([]byte, 10)
		k, _, err := in.ReadFromUDPAddrPort(got)
		if err == nil && string(got[:k]) != "hello" {
			err = fmt.Errorf("got %q", got[:k])
		}
		return err
	}())
}

func TestRulesStayInside(t *testing.T) {
	need.Have(t, "nft")
	n := fresh(t)
	rules := "table inet headroom_netns_test { chain c { type filter hook input priority 0; policy drop; }; }\n"
	if _, err := n.Run(t.Context(), host.Cmd{Argv: []string{"nft", "-f", "-"}, Stdin: strings.NewReader(rules)}, 1<<10); err != nil {
		t.Fatal(err)
	}
	list := host.Cmd{Argv: []string{"nft", "list", "tables"}}
	in, err := n.Run(t.Context(), list, 1<<20)
	if err != nil || !strings.Contains(string(in), "headroom_netns_test") {
		t.Errorf("inside: %q, %v", in, err)
	}
	if out, err := list.Run(t.Context(), 1<<20); err != nil || strings.Contains(string(out), "headroom_netns_test") {
		t.Errorf("outside: %q, %v", out, err)
	}
}

func TestSysctl(t *testing.T) {
	n := fresh(t)
	outside, err := os.ReadFile("/proc/sys/net/ipv4/ip_default_ttl")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Sysctl("net/ipv4/ip_default_ttl", "77"); err != nil {
		t.Fatal(err)
	}
	var in []byte
	if err := n.Do(func() (err error) { in, err = os.ReadFile("/proc/sys/net/ipv4/ip_default_ttl"); return err }); err != nil || string(in) != "77\n" {
		t.Errorf("inside %q, %v", in, err)
	}
	if now, _ := os.ReadFile("/proc/sys/net/ipv4/ip_default_ttl"); string(now) != string(outside) {
		t.Errorf("outside it became %q", now)
	}
	for _, name := range []string{"kernel/panic", "vm/swappiness", "net/ipv4/../../vm/swappiness", "net/core/rmem_max", "net/ipv4"} {
		if err := n.Sysctl(name, "1"); err == nil {
			t.Errorf("%s was set, though it is the machine's", name)
		}
	}
}

func TestClosedOrNeverMade(t *testing.T) {
	n := fresh(t)
	n.Close()
	n.Close()
	for name, x := range map[string]*netns.Namespace{"closed": n, "zero": {}, "nil": nil} {
		if err := x.Do(func() error { t.Errorf("%s: ran", name); return nil }); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := x.Run(context.Background(), host.Cmd{Argv: []string{"true"}}, 0); err == nil {
			t.Errorf("%s: ran a program", name)
		}
		x.Close()
	}
}

func TestEnclosed(t *testing.T) {
	a, b, c := fresh(t), fresh(t), fresh(t)
	if err := netns.Join(a, b, netns.Between()); err != nil {
		t.Fatal(err)
	}
	second := netns.Wire{A: netns.End{Name: "veth1"}, B: netns.End{Name: "veth1"}}
	if err := netns.Join(b, c, second); err != nil {
		t.Fatal(err)
	}
	if err := a.Enclosed(); err != nil {
		t.Errorf("three namespaces in a row: %v", err)
	}
	d, err := a.Device("veth0")
	if err != nil || d.Peer != b || d.Index < 2 || d.MAC == d.Far || d.MAC == [6]byte{} {
		t.Errorf("device %+v, %v", d, err)
	}
	if lo, err := a.Device("lo"); err != nil || lo.Index != 1 || lo.Peer != a {
		t.Errorf("loopback %+v, %v", lo, err)
	}
	// The far end of the row gets a way out.
	way := host.Cmd{Argv: []string{"ip", "link", "add", "out0", "type", "bridge"}}
	if _, err := c.Run(t.Context(), way, 1<<10); err != nil {
		t.Fatal(err)
	}
	if err := a.Enclosed(); err != nil {
		t.Errorf("a way out that is down: %v", err)
	}
	if _, err := c.Run(t.Context(), host.Cmd{Argv: []string{"ip", "link", "set", "out0", "up"}}, 1<<10); err != nil {
		t.Fatal(err)
	}
	if err := a.Enclosed(); err == nil || !strings.Contains(err.Error(), "out0") {
		t.Errorf("a way out that is up: %v", err)
	}
	if _, err := c.Device("out0"); err == nil {
		t.Error("the way out was handed out as a device")
	}
	var none *netns.Namespace
	if none.Enclosed() == nil || (&netns.Namespace{}).Enclosed() == nil {
		t.Error("no namespace is enclosed")
	}
}

func TestSetDevice(t *testing.T) {
	a, b := fresh(t), fresh(t)
	if err := netns.Join(a, b, netns.Between()); err != nil {
		t.Fatal(err)
	}
	if err := b.SetDevice("veth0", "mtu", "1400"); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[*netns.Namespace]string{a: "mtu 1500", b: "mtu 1400"} {
		out, err := n.Run(t.Context(), host.Cmd{Argv: []string{"ip", "link", "show", "veth0"}}, 1<<12)
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("want %s: %s, %v", want, out, err)
		}
	}
	for _, bad := range [][2]string{{"veth0", "../../../kernel/profiling"}, {"veth0", "/mtu"}, {"eth0", "mtu"}, {"veth0", "nothing"}} {
		if err := b.SetDevice(bad[0], bad[1], "1"); err == nil {
			t.Errorf("%v was set", bad)
		}
	}
}
