package trial

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"headroom/fail"
	"headroom/host"
	"headroom/unit"
)

// Sizer is a Work that knows about how much its data takes on disk, in bytes.
type Sizer interface{ Size() int64 }

// Stock values of the settings that decide what a server may take, in bytes,
// and the unit of a bare number (pg_settings.unit).
var sizes = map[string]struct{ stock, bare float64 }{
	"shared_buffers": {128 * unit.MB, 8 * unit.KB},
	"max_wal_size":   {1 * unit.GB, unit.MB},
}

// setting is the largest value that a size has in one arm, in bytes.
func (s site) setting(name string, a Arm) float64 {
	text, given := s.exp.Options.With[name]
	for _, c := range a.Changes {
		if v, ok := c.Args[name]; ok {
			text, given = v, true
		}
	}
	if !given {
		return sizes[name].stock
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n * sizes[name].bare
	}
	if v, u, err := unit.Parse(text); err == nil && u == unit.Byte {
		return v
	}
	return sizes[name].stock // the server itself will say what is wrong with it
}

// room refuses a trial whose servers do not fit into memory or on the disk,
// each counted with what it may take at most. clones is the number of copies
// beside the origin; the arms' settings are counted for all that run at once.
func (s site) room(r host.Reader, dataDir string, clones int) error {
	arms := s.exp.Arms
	if clones == 0 {
		arms = arms[:1]
	}
	var memory, wal float64
	for _, a := range arms {
		memory += s.setting("shared_buffers", a) + 64*unit.MB
		wal += 1.1 * s.setting("max_wal_size", a)
	}
	data := float64(64 * unit.MB)
	if z, ok := s.work.(Sizer); ok {
		data += 1.3 * float64(z.Size())
	}
	disk := wal + data*float64(clones+1)
	if have, ok := memAvailable(r); ok && memory > 0.9*have {
		return fail.Hint(fmt.Errorf("fit %d servers into memory: %s needed for their shared buffers, %s available", len(arms),
			unit.Format(memory, unit.Byte), unit.Format(have, unit.Byte)), "try smaller values, or fewer arms at once")
	}
	sp, err := r.Space(filepath.Dir(dataDir))
	if err != nil {
		return err
	}
	if disk > float64(sp.Avail) {
		return fail.Hint(fmt.Errorf("fit %d servers into %s: up to %s needed for data and WAL, %s free", clones+1, filepath.Dir(dataDir),
			unit.Format(disk, unit.Byte), unit.Bytes(sp.Avail)), "free some space there, try a smaller max_wal_size, or set HEADROOM_STATE to a folder on a larger disk")
	}
	return nil
}

func memAvailable(r host.Reader) (float64, bool) {
	b, err := r.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == "MemAvailable:" {
			n, err := strconv.ParseFloat(f[1], 64)
			return n * unit.KB, err == nil
		}
	}
	return 0, false
}
