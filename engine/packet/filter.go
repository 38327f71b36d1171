package packet

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"headroom/engine/netns"
)

// Hook is where a Filter looks at packets.
type Hook string

// The hooks, from the earliest to the latest.
const (
	// AtDriver is XDP in the driver, before the kernel makes anything of the
	// frame. A wire has it, a loopback has not.
	AtDriver Hook = "xdp"
	// AtGeneric is XDP once the kernel has made a buffer of the frame.
	AtGeneric Hook = "xdp-generic"
	// AtClsact is a tc filter at ingress.
	AtClsact Hook = "clsact"
)

// Lookup is how a Filter finds a source address among many.
type Lookup string

// The look-ups.
const (
	// Every takes every packet, of IPv4 or not, without a look at it.
	Every Lookup = "every"
	// Hash finds whole addresses in a hash table.
	Hash Lookup = "hash"
	// LPM finds the longest prefix in a trie.
	LPM Lookup = "lpm"
	// Range finds the range between two addresses by bisection.
	Range Lookup = "range"
)

// Span is a range of IPv4 addresses, both ends included.
type Span struct{ First, Last netip.Addr }

// Filter drops IPv4 packets by their source address and counts them. It is a
// program of a few instructions that is put together here; no compiler is
// needed. Close it.
type Filter struct {
	prog   *ebpf.Program
	counts *ebpf.Map
	set    *ebpf.Map // nil with Every
	detach func() error
}

// Attach puts a filter on a device of n that drops what comes from one of the
// spans; with Every, everything. For Hash each span is one address, for LPM one
// prefix.
func Attach(n *netns.Namespace, device string, at Hook, how Lookup, spans []Span) (*Filter, error) {
	d, err := n.Device(device)
	if err != nil {
		return nil, err
	}
	f := &Filter{}
	if err := f.open(n, d, at, how, spans); err != nil {
		f.Close()
		return nil, fmt.Errorf("attach a filter (%s, %s) to %s: %w", at, how, device, err)
	}
	return f, nil
}

func (f *Filter) open(n *netns.Namespace, d netns.Device, at Hook, how Lookup, spans []Span) (err error) {
	if err := rlimit.RemoveMemlock(); err != nil { // of kernels before 5.11, where maps count as locked memory
		return err
	}
	f.counts, err = ebpf.NewMap(&ebpf.MapSpec{Name: "headroom_count", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return fmt.Errorf("make the map of counts: %w", err)
	}
	if f.set, err = newSet(how, spans); err != nil {
		return err
	}
	code := f.code(at, how, len(spans))
	kind := ebpf.XDP
	if at == AtClsact {
		kind = ebpf.SchedCLS
	}
	if f.prog, err = ebpf.NewProgram(&ebpf.ProgramSpec{Name: "headroom_drop", Type: kind, Instructions: code, License: "GPL"}); err != nil {
		return fmt.Errorf("load the program: %w", err)
	}
	return n.Do(func() error { return f.attach(n, d, at) })
}

func (f *Filter) attach(n *netns.Namespace, d netns.Device, at Hook) error {
	switch at {
	case AtDriver, AtGeneric:
		flags := link.XDPDriverMode
		if at == AtGeneric {
			flags = link.XDPGenericMode
		}
		l, err := link.AttachXDP(link.XDPOptions{Program: f.prog, Interface: d.Index, Flags: flags})
		if err != nil {
			return err
		}
		f.detach = l.Close
		return nil
	}
	q := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: d.Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
	if err := netlink.QdiscReplace(q); err != nil {
		return fmt.Errorf("add clsact: %w", err)
	}
	bpf := &netlink.BpfFilter{FilterAttrs: netlink.FilterAttrs{LinkIndex: d.Index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1},
		Fd: f.prog.FD(), Name: "headroom_drop", DirectAction: true}
	if err := netlink.FilterReplace(bpf); err != nil {
		return fmt.Errorf("add the tc filter: %w", err)
	}
	f.detach = func() error { return n.Do(func() error { return netlink.QdiscDel(q) }) }
	return nil
}

// Dropped is the number of packets dropped since Attach.
func (f *Filter) Dropped() (int64, error) {
	var each []uint64
	if err := f.counts.Lookup(uint32(0), &each); err != nil {
		return 0, fmt.Errorf("read the filter's count: %w", err)
	}
	sum := int64(0)
	for _, n := range each {
		sum += int64(n)
	}
	return sum, nil
}

// Memory is what the kernel says that the filter's set takes, in bytes; 0
// where it does not say.
func (f *Filter) Memory() int64 {
	if f.set == nil {
		return 0
	}
	info, err := f.set.Info()
	if err != nil {
		return 0
	}
	n, _ := info.Memlock()
	return int64(n)
}

// Close detaches the filter.
func (f *Filter) Close() error {
	var errs []error
	if f.detach != nil {
		errs = append(errs, f.detach())
	}
	if f.prog != nil {
		errs = append(errs, f.prog.Close())
	}
	for _, m := range []*ebpf.Map{f.counts, f.set} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}
