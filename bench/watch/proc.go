package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// usage is what a process and all its descendants have used.
type usage struct {
	CPU   float64 // seconds, of the living and of children that were waited for
	RSS   int64   // bytes, private part of memory (Pss) of all
	Files int
	PIDs  int
}

const tick = 100 // clock ticks a second, sysconf(_SC_CLK_TCK) on Linux

// family lists a process and its descendants.
func family(root int) []int {
	parents := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		f := statFields(path)
		if len(f) < 2 {
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
		ppid, _ := strconv.Atoi(f[1])
		parents[ppid] = append(parents[ppid], pid)
	}
	out := []int{root}
	for i := 0; i < len(out); i++ {
		out = append(out, parents[out[i]]...)
	}
	return out
}

// statFields are the fields of /proc/PID/stat after the name.
func statFields(path string) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
}

// used reads what a family has used so far.
func used(root int) usage {
	var u usage
	for _, pid := range family(root) {
		f := statFields(fmt.Sprintf("/proc/%d/stat", pid))
		if len(f) < 15 {
			continue
		}
		for _, i := range []int{11, 12, 13, 14} { // utime stime cutime cstime
			n, _ := strconv.ParseFloat(f[i], 64)
			u.CPU += n / tick
		}
		u.RSS += pss(pid)
		fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		u.Files += len(fds)
		u.PIDs++
	}
	return u
}

func pss(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}
