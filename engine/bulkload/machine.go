package bulkload

import (
	"bufio"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machine says how many cores this machine has and how many bytes of memory
// are available; 0 bytes if that cannot be told.
func machine() (cores int, memory int64) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return runtime.NumCPU(), 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "MemAvailable:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			memory = kb << 10
		}
	}
	return runtime.NumCPU(), memory
}

// freeSpace is how many bytes the server's account can still write below a
// folder; -1 if that cannot be told.
func freeSpace(dir string) int64 {
	var st unix.Statfs_t
	if dir == "" || unix.Statfs(dir, &st) != nil {
		return -1
	}
	return int64(st.Bavail) * st.Bsize
}
