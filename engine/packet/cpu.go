package packet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"headroom/host"
)

// Cores is what each CPU has done since boot: seconds by kind of /proc/stat,
// and how often it took packets in and out (/proc/softirqs).
type Cores map[int]Core

// Core is one CPU's part. Seconds are of the tick's resolution, mostly 10 ms.
type Core struct {
	User    float64 `json:"user_seconds"`
	System  float64 `json:"system_seconds"`
	SoftIRQ float64 `json:"softirq_seconds"` // the kernel's work on packets, for the most part
	IRQ     float64 `json:"irq_seconds"`
	Steal   float64 `json:"steal_seconds"`
	Idle    float64 `json:"idle_seconds"` // waiting for disks included
	NetRX   int64   `json:"net_rx"`       // rounds of taking packets in
	NetTX   int64   `json:"net_tx"`
}

// Total is all of a CPU's time.
func (c Core) Total() float64 { return c.User + c.System + c.SoftIRQ + c.IRQ + c.Steal + c.Idle }

// Busy is the share of its time in which the CPU did anything for us; 0 if no
// time passed.
func (c Core) Busy() float64 { return c.share(c.Total() - c.Idle - c.Steal) }

// Soft is the share of its time in softirq; 0 if no time passed.
func (c Core) Soft() float64 { return c.share(c.SoftIRQ) }

func (c Core) share(s float64) float64 {
	if t := c.Total(); t > 0 {
		return s / t
	}
	return 0
}

// userHZ is the unit of /proc/stat, 10 ms on all that Linux runs on.
const userHZ = 100

// ReadCores reads what the CPUs have done so far.
func ReadCores(r host.Reader) (Cores, error) {
	raw, err := r.ReadFile("/proc/stat")
	if err != nil {
		return nil, err
	}
	out, err := parseStat(string(raw))
	if err != nil {
		return nil, err
	}
	if raw, err = r.ReadFile("/proc/softirqs"); err != nil {
		return nil, err
	}
	return out, out.softirqs(string(raw))
}

func parseStat(text string) (Cores, error) {
	out := Cores{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 9 || !strings.HasPrefix(f[0], "cpu") || f[0] == "cpu" {
			continue
		}
		cpu, err := strconv.Atoi(f[0][3:])
		if err != nil {
			return nil, fmt.Errorf("read /proc/stat: %q is no CPU", f[0])
		}
		v := make([]float64, 8) // user nice system idle iowait irq softirq steal
		for i := range v {
			n, err := strconv.ParseUint(f[i+1], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("read /proc/stat: %.20q is not a count", f[i+1])
			}
			v[i] = float64(n) / userHZ
		}
		out[cpu] = Core{User: v[0] + v[1], System: v[2], Idle: v[3] + v[4], IRQ: v[5], SoftIRQ: v[6], Steal: v[7]}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("read /proc/stat: it lists no CPU")
	}
	return out, nil
}

// softirqs adds the counts of /proc/softirqs, a table with a column per CPU.
func (c Cores) softirqs(text string) error {
	head, rest, _ := strings.Cut(text, "\n")
	cpus := strings.Fields(head)
	for line := range strings.Lines(rest) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] != "NET_RX:" && f[0] != "NET_TX:" {
			continue
		}
		for i, s := range f[1:] {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil || i >= len(cpus) {
				return fmt.Errorf("read /proc/softirqs: %.20q is not a count of a CPU", s)
			}
			cpu, err := strconv.Atoi(strings.TrimPrefix(cpus[i], "CPU"))
			core, ok := c[cpu]
			if err != nil || !ok {
				continue // offline
			}
			if f[0] == "NET_RX:" {
				core.NetRX = n
			} else {
				core.NetTX = n
			}
			c[cpu] = core
		}
	}
	return nil
}

// Since is what the CPUs did from an earlier reading on.
func (c Cores) Since(then Cores) Cores {
	out := Cores{}
	for cpu, now := range c {
		was, ok := then[cpu]
		if !ok {
			continue // it came online in between
		}
		out[cpu] = Core{User: now.User - was.User, System: now.System - was.System, SoftIRQ: now.SoftIRQ - was.SoftIRQ, IRQ: now.IRQ - was.IRQ,
			Steal: now.Steal - was.Steal, Idle: now.Idle - was.Idle, NetRX: now.NetRX - was.NetRX, NetTX: now.NetTX - was.NetTX}
	}
	return out
}

// Numbers are the CPUs, in order.
func (c Cores) Numbers() []int {
	out := make([]int, 0, len(c))
	for cpu := range c {
		out = append(out, cpu)
	}
	slices.Sort(out)
	return out
}
