package netns

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"headroom/host"
)

// Poller is the kernel's thread that takes in what comes to a device.
type Poller struct{ pid int }

// PollOn has a thread of the kernel take in what comes to a device of n, an end
// of a polled wire, on one CPU. Without it the CPU that sends does.
func (n *Namespace) PollOn(device string, cpu int) (*Poller, error) {
	before, err := pollers(device)
	if err != nil {
		return nil, err
	}
	if err := n.SetDevice(device, "threaded", "1"); err != nil {
		return nil, err
	}
	after, err := pollers(device)
	if err != nil {
		return nil, err
	}
	for pid := range after {
		if before[pid] {
			continue
		}
		var set unix.CPUSet
		set.Set(cpu)
		if err := unix.SchedSetaffinity(pid, &set); err != nil {
			return nil, fmt.Errorf("bind the thread that polls %s to CPU %d: %w", device, cpu, err)
		}
		return &Poller{pid}, nil
	}
	return nil, fmt.Errorf("find the thread that polls %s: the kernel made none, or the wire is not polled", device)
}

// Ran is how long the thread has been on a CPU, in ns.
func (p *Poller) Ran() (int64, error) {
	l := host.Open(host.Options{})
	defer l.Close()
	raw, err := l.ReadFile(fmt.Sprintf("/proc/%d/schedstat", p.pid))
	if err != nil {
		return 0, err
	}
	var ns int64
	if _, err := fmt.Sscan(string(raw), &ns); err != nil {
		return 0, fmt.Errorf("read how long thread %d ran: %w", p.pid, err)
	}
	return ns, nil
}

// pollers are the kernel's threads that poll devices of a name, in any
// namespace.
func pollers(device string) (map[int]bool, error) {
	l := host.Open(host.Options{})
	defer l.Close()
	all, err := l.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return nil, err
	}
	out := map[int]bool{}
	for _, path := range all {
		name, err := l.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(name), "napi/"+device+"-") {
			continue // it ended, or is another
		}
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/comm", &pid); err == nil {
			out[pid] = true
		}
	}
	return out, nil
}
