package proc

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"headroom/host"
)

// Load is a reading of the machine's counters. Two of them tell what else
// ran between (see Between). Taking one costs a few milliseconds at most.
type Load struct {
	At    time.Time
	CPUs  int64
	Busy  float64 // CPU seconds spent working, all CPUs together, since boot
	Idle  float64 // CPU seconds idle or waiting for storage
	Steal float64 // CPU seconds that the hypervisor gave to others
	// Tasks are the processes by number; only those that used CPU at all.
	Tasks map[int]Task
	// Stall is the time in which at least one task waited, seconds since
	// boot; nil where the kernel keeps no pressure figures.
	Stall *Stalled
	Disks map[string]Moved // by device name, whole disks and partitions
}

// Task is one process and the CPU it has used.
type Task struct {
	PID, Parent int
	Name        string  // the kernel's name for it, at most 15 bytes
	Born        uint64  // start time in ticks since boot: tells a reused PID
	Seconds     float64 // CPU seconds in user and kernel
}

// Stalled is pressure summed up, in seconds.
type Stalled struct{ CPU, Memory, IO float64 }

// Moved is what went through a block device, in bytes.
type Moved struct{ Read, Written int64 }

// Sample reads the counters. Processes that end while it reads are left out.
func Sample(r host.Reader) (Load, error) {
	l := Load{At: r.Now(), Tasks: map[int]Task{}, Disks: map[string]Moved{}}
	b, err := r.ReadFile("/proc/stat")
	if err != nil {
		return Load{}, err
	}
	t, n, err := parseStat(b)
	if err != nil {
		return Load{}, err
	}
	l.CPUs, l.Steal, l.Idle = n, t.Steal, t.Idle+t.IOWait
	l.Busy = t.total() - l.Idle - l.Steal
	if p, err := readPressure(r); err == nil {
		l.Stall = &Stalled{CPU: p.CPU.Total, Memory: p.Memory.Total, IO: p.IO.Total}
	}
	if b, err := r.ReadFile("/proc/diskstats"); err == nil {
		l.Disks = parseDiskstats(b)
	}
	folders, err := r.Glob("/proc/[0-9]*")
	if err != nil {
		return Load{}, err
	}
	for _, dir := range folders {
		b, err := r.ReadFile(dir + "/stat")
		if err != nil {
			continue
		}
		if task, ok := parseTask(b); ok && task.Seconds > 0 {
			l.Tasks[task.PID] = task
		}
	}
	return l, nil
}

// parseTask reads /proc/PID/stat. The name stands in parentheses and may hold
// blanks and parentheses itself, so it ends at the last one.
func parseTask(b []byte) (Task, bool) {
	s := string(b)
	open, end := strings.IndexByte(s, '('), strings.LastIndexByte(s, ')')
	if open < 0 || end < open {
		return Task{}, false
	}
	f := strings.Fields(s[end+1:])
	if len(f) < 20 { // state is field 3 of the manual, start time field 22
		return Task{}, false
	}
	pid, err1 := strconv.Atoi(strings.TrimSpace(s[:open]))
	parent, err2 := strconv.Atoi(f[1])
	user, err3 := strconv.ParseUint(f[11], 10, 63)
	system, err4 := strconv.ParseUint(f[12], 10, 63)
	born, err5 := strconv.ParseUint(f[19], 10, 64)
	for _, err := range []error{err1, err2, err3, err4, err5} {
		if err != nil {
			return Task{}, false
		}
	}
	return Task{PID: pid, Parent: parent, Name: s[open+1 : end], Born: born, Seconds: (float64(user) + float64(system)) / userHZ}, true
}

// parseDiskstats reads "major minor name reads merged sectors ms writes merged
// sectors …"; a sector is 512 bytes whatever the device's own is.
func parseDiskstats(b []byte) map[string]Moved {
	out := map[string]Moved{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 10 {
			continue
		}
		in, err1 := strconv.ParseInt(f[5], 10, 54)
		done, err2 := strconv.ParseInt(f[9], 10, 54)
		if err1 == nil && err2 == nil && in+done > 0 {
			out[f[2]] = Moved{Read: in * 512, Written: done * 512}
		}
	}
	return out
}

// Activity is what went on between two readings.
type Activity struct {
	Seconds float64
	Busy    float64 // CPUs at work on average, 0…CPUs
	Steal   float64 // share of all CPU time that the hypervisor gave to others, 0…1
	Tasks   []User  // who used CPU, most first
	Stall   Stalled // shares of the time, 0…1; 0 where not told
	Disks   map[string]Moved
}

// User is one process and its share of CPU between two readings.
type User struct {
	Task
	Cores float64 // CPUs used on average
}

// Between compares two readings of the same machine, b after a. Processes
// that began after a count in full; ones that ended before b are missed, as
// the kernel no longer tells of them.
func Between(a, b Load) (Activity, error) {
	secs := b.At.Sub(a.At).Seconds()
	if secs <= 0 {
		return Activity{}, fmt.Errorf("compare two loads: the second is not later")
	}
	act := Activity{Seconds: secs, Busy: (b.Busy - a.Busy) / secs, Disks: map[string]Moved{}}
	if all := b.Busy + b.Idle + b.Steal - a.Busy - a.Idle - a.Steal; all > 0 {
		act.Steal = (b.Steal - a.Steal) / all
	}
	if a.Stall != nil && b.Stall != nil {
		act.Stall = Stalled{CPU: (b.Stall.CPU - a.Stall.CPU) / secs, Memory: (b.Stall.Memory - a.Stall.Memory) / secs, IO: (b.Stall.IO - a.Stall.IO) / secs}
	}
	for pid, t := range b.Tasks {
		used := t.Seconds
		if old, ok := a.Tasks[pid]; ok && old.Born == t.Born {
			used -= old.Seconds
		}
		if used > 0 {
			act.Tasks = append(act.Tasks, User{Task: t, Cores: used / secs})
		}
	}
	sort.Slice(act.Tasks, func(i, j int) bool {
		x, y := act.Tasks[i], act.Tasks[j]
		return x.Cores > y.Cores || x.Cores == y.Cores && x.PID < y.PID
	})
	for name, m := range b.Disks {
		old := a.Disks[name]
		if d := (Moved{Read: m.Read - old.Read, Written: m.Written - old.Written}); d != (Moved{}) {
			act.Disks[name] = d
		}
	}
	return act, nil
}
