package proc

import (
	"math"
	"testing"

	"headroom/host"
)

func FuzzValues(f *testing.F) {
	f.Add(stat, "Tcp: A B\nTcp: 1 2\n", "TCP: inuse 1 orphan 0\n", "pgfault 1\nNaN NaN\n", "some avg10=0.00 total=12\nfull total=x\n")
	f.Fuzz(func(t *testing.T, a, b, c, d, e string) {
		r := &host.Fake{Files: map[string]string{"/proc/stat": a, "/b": b, "/c": c, "/d": d, "/proc/pressure/cpu": e, "/proc/pressure/io": e, "/proc/pressure/memory": e, "/proc/meminfo": d}}
		for _, read := range []func() (Values, error){
			func() (Values, error) { return ReadStat(r) }, func() (Values, error) { return ReadTable(r, "/b") },
			func() (Values, error) { return ReadSockets(r, "/c") }, func() (Values, error) { return ReadPairs(r, "/d") },
			func() (Values, error) { return ReadStalls(r) }, func() (Values, error) { return ReadMeminfo(r) },
			func() (Values, error) { return ReadNumbers(r, "/b", "/c", "/d"), nil },
		} {
			v, err := read()
			if err != nil {
				continue
			}
			for k, x := range v {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					t.Errorf("%s = %v", k, x)
				}
			}
		}
	})
}
