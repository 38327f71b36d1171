package block

import (
	"path"
	"strconv"
	"strings"

	"headroom/host"
)

// Stat is what went through one block device since it was made, from
// /proc/diskstats.
type Stat struct {
	Name                       string
	Reads, Writes              float64 // requests that ended
	ReadMerged, WriteMerged    float64 // requests joined to a neighbour before they were sent
	ReadBytes, WriteBytes      float64
	ReadSeconds, WriteSeconds  float64 // summed over requests: their latency
	InFlight                   float64 // requests under way now
	BusySeconds, QueuedSeconds float64 // time with at least one under way; summed over those under way
	HasDiscards                bool    // Linux 4.18 and newer
	Discards, DiscardBytes     float64
	DiscardSeconds             float64
	HasFlushes                 bool // Linux 5.5 and newer
	Flushes, FlushSeconds      float64
}

// sector is the unit of /proc/diskstats whatever the device's own is.
const sector = 512

// ReadStats reads /proc/diskstats: partitions and all.
func ReadStats(r host.Reader) ([]Stat, error) {
	b, err := r.ReadFile("/proc/diskstats")
	if err != nil {
		return nil, err
	}
	var out []Stat
	for line := range strings.Lines(string(b)) {
		if s, ok := parseStat(line); ok {
			out = append(out, s)
		}
	}
	return out, nil
}

// parseStat reads "major minor name" and 11, 15 or 17 figures.
func parseStat(line string) (Stat, bool) {
	f := strings.Fields(line)
	if len(f) < 14 {
		return Stat{}, false
	}
	var v [17]float64
	for i := 3; i < min(len(f), 20); i++ {
		n, err := strconv.ParseUint(f[i], 10, 64)
		if err != nil {
			return Stat{}, false
		}
		v[i-3] = float64(n)
	}
	s := Stat{
		Name: f[2], Reads: v[0], ReadMerged: v[1], ReadBytes: v[2] * sector, ReadSeconds: v[3] / 1e3,
		Writes: v[4], WriteMerged: v[5], WriteBytes: v[6] * sector, WriteSeconds: v[7] / 1e3,
		InFlight: v[8], BusySeconds: v[9] / 1e3, QueuedSeconds: v[10] / 1e3,
	}
	if s.HasDiscards = len(f) >= 18; s.HasDiscards {
		s.Discards, s.DiscardBytes, s.DiscardSeconds = v[11], v[13]*sector, v[14]/1e3
	}
	if s.HasFlushes = len(f) >= 20; s.HasFlushes {
		s.Flushes, s.FlushSeconds = v[15], v[16]/1e3
	}
	return s, true
}

// Whole lists the whole devices that store something, with the name that an
// administrator gave a device of the mapper, "" for others. Where /sys/block
// is hidden it is empty.
func Whole(r host.Reader) (map[string]string, error) {
	dirs, err := r.Glob("/sys/block/*")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, dir := range dirs {
		if kind(r, dir) != "" {
			name, _ := word(r, dir+"/dm/name")
			out[path.Base(dir)] = name
		}
	}
	return out, nil
}
