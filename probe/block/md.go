package block

import (
	"strconv"
	"strings"

	"headroom/host"
)

// Array is one array of Linux' software RAID, from /proc/mdstat.
type Array struct {
	Name, Level     string // md0, raid1; Level "" while it is inactive
	Active          bool
	ReadOnly        bool
	Members         []string
	Wanted, Working int // disks; 0 where the level has no redundancy
	Failed, Spare   int // members marked so
	// Action is what goes on or waits: recovery, resync, reshape, check; ""
	// for nothing. Progress is 0 to 1, Speed in bytes per second.
	Action          string
	Waiting         bool
	Progress, Speed float64
}

// Degraded says how many disks are missing.
func (a Array) Degraded() int { return max(a.Wanted-a.Working, 0) }

// ReadArrays reads /proc/mdstat; fail.ErrAbsent where the kernel has no
// software RAID.
func ReadArrays(r host.Reader) ([]Array, error) {
	b, err := r.ReadFile("/proc/mdstat")
	if err != nil {
		return nil, err
	}
	return ParseArrays(b), nil
}

// ParseArrays reads the text of /proc/mdstat. Lines that it does not know are
// passed over.
func ParseArrays(b []byte) []Array {
	var out []Array
	var now *Array
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		switch {
		case len(f) > 2 && f[1] == ":" && (f[2] == "active" || f[2] == "inactive"):
			out = append(out, parseArray(f))
			now = &out[len(out)-1]
		case line != "" && line[0] != ' ' && line[0] != '\t':
			now = nil
		case now != nil:
			now.more(f)
		}
	}
	return out
}

// parseArray reads "md0 : active (auto-read-only) raid1 sdb1[1] sda1[0](F)".
func parseArray(f []string) Array {
	a := Array{Name: f[0], Active: f[2] == "active"}
	for _, w := range f[3:] {
		switch {
		case strings.HasPrefix(w, "("):
			a.ReadOnly = strings.Contains(w, "read-only")
		case strings.Contains(w, "["):
			name, flags, _ := strings.Cut(w, "[")
			a.Members = append(a.Members, name)
			a.Failed += strings.Count(flags, "(F)")
			a.Spare += strings.Count(flags, "(S)")
		default:
			a.Level = w
		}
	}
	return a
}

// more reads the lines below the first: "… [2/1] [U_]" and
// "[=>…] recovery = 12.6% (…) finish=127.5min speed=33440K/sec".
func (a *Array) more(f []string) {
	for i, w := range f {
		switch {
		case strings.HasPrefix(w, "[") && strings.HasSuffix(w, "]") && strings.Contains(w, "/"):
			want, have, _ := strings.Cut(strings.Trim(w, "[]"), "/")
			n, err1 := strconv.ParseUint(want, 10, 16)
			m, err2 := strconv.ParseUint(have, 10, 16)
			if err1 == nil && err2 == nil && a.Wanted == 0 {
				a.Wanted, a.Working = int(n), int(m)
			}
		case w == "=" && i > 0 && i+1 < len(f):
			a.Action, a.Progress = f[i-1], percent(f[i+1])
		case strings.HasPrefix(w, "speed="):
			if n, err := strconv.ParseUint(strings.TrimSuffix(w[len("speed="):], "K/sec"), 10, 40); err == nil {
				a.Speed = float64(n) * 1024
			}
		case strings.HasSuffix(w, "=DELAYED") || strings.HasSuffix(w, "=PENDING"):
			a.Action, _, _ = strings.Cut(w, "=")
			a.Waiting = true
		}
	}
}

func percent(s string) float64 {
	f, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || !(f >= 0 && f <= 100) {
		return 0
	}
	return f / 100
}
