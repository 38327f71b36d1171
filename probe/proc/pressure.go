package proc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"headroom/fact"
	"headroom/fail"
	"headroom/host"
)

// Stall is how much of the time work waited for one resource.
type Stall struct {
	Some10  float64 `json:"some_10s" unit:"ratio" src:"/proc/pressure some avg10" doc:"share of the last 10 s in which at least one task waited"`
	Some60  float64 `json:"some_60s" unit:"ratio" src:"/proc/pressure some avg60" doc:"the same over 60 s"`
	Some300 float64 `json:"some_300s" unit:"ratio" src:"/proc/pressure some avg300" doc:"the same over 5 minutes"`
	Full10  float64 `json:"full_10s" unit:"ratio" src:"/proc/pressure full avg10" doc:"share of the last 10 s in which all tasks waited; 0 where the kernel does not tell"`
	Full60  float64 `json:"full_60s" unit:"ratio" src:"/proc/pressure full avg60" doc:"the same over 60 s"`
	Full300 float64 `json:"full_300s" unit:"ratio" src:"/proc/pressure full avg300" doc:"the same over 5 minutes"`
	Total   float64 `json:"total" unit:"seconds" src:"/proc/pressure some total" doc:"time since boot in which at least one task waited"`
}

// Pressure is the kernel's pressure stall information (PSI).
type Pressure struct {
	CPU    Stall `json:"cpu" doc:"waiting for a CPU"`
	Memory Stall `json:"memory" doc:"waiting for memory to be freed or swapped in"`
	IO     Stall `json:"io" doc:"waiting for storage"`
}

// Pressures is the fact "proc.pressure".
var Pressures = &fact.Source[Pressure]{
	Name: "proc.pressure", Doc: "how much work waits for CPU, memory and storage",
	Read: func(_ context.Context, in *fact.In) (Pressure, error) { return readPressure(in) },
}

func readPressure(r host.Reader) (p Pressure, err error) {
	for name, s := range map[string]*Stall{"cpu": &p.CPU, "memory": &p.Memory, "io": &p.IO} {
		b, err := r.ReadFile("/proc/pressure/" + name)
		if err != nil {
			return Pressure{}, noPressure(name, err)
		}
		if *s, err = parseStall(b); err != nil {
			return Pressure{}, fmt.Errorf("read /proc/pressure/%s: %w", name, err)
		}
	}
	return p, nil
}

// noPressure explains why a pressure file cannot be read. Where the figures are
// switched off, the file is there and reading it says "not supported".
func noPressure(name string, err error) error {
	if errors.Is(err, fail.ErrAbsent) || errors.Is(err, syscall.EOPNOTSUPP) {
		return fail.Hint(fmt.Errorf("read /proc/pressure/%s: this kernel keeps no pressure figures (they came with Linux 4.20 and may need psi=1 on the kernel's command line): %w", name, fail.ErrAbsent),
			"add psi=1 to the kernel's command line and restart the machine")
	}
	return err
}

// parseStall reads "some avg10=0.00 avg60=0.00 avg300=0.00 total=0" and the
// like line "full"; percent and microseconds become ratio and seconds.
func parseStall(b []byte) (s Stall, err error) {
	seen := false
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		fields := map[string]*float64{"avg10": &s.Full10, "avg60": &s.Full60, "avg300": &s.Full300}
		if f[0] == "some" {
			seen = true
			fields = map[string]*float64{"avg10": &s.Some10, "avg60": &s.Some60, "avg300": &s.Some300, "total": &s.Total}
		}
		for _, w := range f[1:] {
			k, v, _ := strings.Cut(w, "=")
			p := fields[k]
			if p == nil {
				continue
			}
			n, err := strconv.ParseFloat(v, 64)
			if err != nil || !(n >= 0 && n < 1e18) {
				return Stall{}, fmt.Errorf("%.40q is not a figure", w)
			}
			*p = n / 100
			if k == "total" {
				*p = n / 1e6
			}
		}
	}
	if !seen {
		return Stall{}, errors.New("no line begins with some")
	}
	return s, nil
}
