package block

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"headroom/fact"
	"headroom/host"
)

// The bounds of a measurement.
const (
	readSize   = 8192    // PostgreSQL's page
	chunk      = 1 << 20 // of the sequential part
	maxReads   = 2000
	randomTime = 1600 * time.Millisecond
	seqTime    = 300 * time.Millisecond
)

// Latency is how long reads took, measured by reading.
type Latency struct {
	Reads      int64             `json:"reads" unit:"count" src:"timed reads" doc:"random reads of 8 kB, one at a time"`
	Min        float64           `json:"min" unit:"seconds" src:"timed reads" doc:"the fastest of them"`
	P50        float64           `json:"p50" unit:"seconds" src:"timed reads" doc:"half of them took no longer"`
	P95        float64           `json:"p95" unit:"seconds" src:"timed reads" doc:"95 of 100 took no longer"`
	P99        float64           `json:"p99" unit:"seconds" src:"timed reads" doc:"99 of 100 took no longer"`
	Max        float64           `json:"max" unit:"seconds" src:"timed reads" doc:"the slowest of them"`
	Throughput fact.Opt[float64] `json:"throughput" unit:"bytes per second" src:"timed reads" doc:"reading on in one piece, 1 MB at a time"`
	Direct     bool              `json:"direct" src:"open(2) O_DIRECT" doc:"the page cache was by-passed; without it the figures flatter the device"`
	Bytes      int64             `json:"bytes" unit:"bytes" src:"timed reads" doc:"read in all"`
	Seconds    float64           `json:"seconds" unit:"seconds" src:"timed reads" doc:"time it took in all"`
	What       string            `json:"what" src:"headroom" doc:"what was read"`
}

// Measure reads at random places of the files (or devices) at paths, then a
// short piece in sequence. It takes at most 2 s, 2000 random reads and budget
// bytes in all; budget is to be 1 % of the device. The same seed reads the
// same places. Files that vanish meanwhile are passed over. The error says
// why nothing could be read.
func Measure(ctx context.Context, r host.Reader, paths []string, budget int64, seed uint64) (Latency, error) {
	files, err := openAll(r, paths)
	if err != nil {
		return Latency{}, err
	}
	defer func() {
		for _, f := range files {
			_ = f.Close() // opened for reading only
		}
	}()
	if budget < 16*readSize {
		return Latency{}, fmt.Errorf("measure reads: 1 %% of so small a device is not enough to judge by")
	}
	m := &measurement{ctx: ctx, files: files, budget: budget, rng: rand.New(rand.NewPCG(seed, 0xd15c)), start: time.Now()}
	took, err := m.random()
	if err != nil {
		return Latency{}, err
	}
	l := Latency{Reads: int64(len(took)), Direct: files[0].Direct()}
	for _, f := range files {
		l.Direct = l.Direct && f.Direct()
	}
	slices.Sort(took)
	at := func(q float64) float64 { return took[min(int(q*float64(len(took))), len(took)-1)].Seconds() }
	l.Min, l.P50, l.P95, l.P99, l.Max = at(0), at(0.50), at(0.95), at(0.99), at(1)
	l.Throughput = m.sequential()
	l.Bytes, l.Seconds = m.bytes, time.Since(m.start).Seconds()
	return l, ctx.Err()
}

func openAll(r host.Reader, paths []string) ([]host.TimedFile, error) {
	var files []host.TimedFile
	var first error
	for _, p := range paths {
		f, err := r.OpenTimed(p)
		if err != nil {
			first = errors.Join(first, err)
			continue
		}
		if f.Size() >= readSize {
			files = append(files, f)
			continue
		}
		_ = f.Close() // opened for reading only
	}
	if len(files) == 0 {
		if first == nil {
			first = errors.New("measure reads: nothing large enough to read")
		}
		return nil, first
	}
	return files, nil
}

type measurement struct {
	ctx    context.Context
	files  []host.TimedFile
	budget int64
	rng    *rand.Rand
	start  time.Time
	bytes  int64
}

// pick returns a place in one of the files, each page as likely as any other.
func (m *measurement) pick(size int64) (host.TimedFile, int64) {
	var pages int64
	for _, f := range m.files {
		pages += f.Size() / size
	}
	if pages == 0 {
		return nil, 0
	}
	n := m.rng.Int64N(pages)
	for _, f := range m.files {
		have := f.Size() / size
		if n < have {
			return f, n * size
		}
		n -= have
	}
	return nil, 0
}

// random spends at most half of the budget.
func (m *measurement) random() ([]time.Duration, error) {
	var took []time.Duration
	var last error
	reads := min(maxReads, m.budget/2/readSize)
	for try := int64(0); int64(len(took)) < reads && try < 2*reads && time.Since(m.start) < randomTime; try++ {
		if m.ctx.Err() != nil {
			return nil, context.Cause(m.ctx)
		}
		f, off := m.pick(readSize)
		d, err := f.ReadTimed(off, readSize)
		if err != nil {
			last = err
			continue
		}
		took = append(took, d)
		m.bytes += readSize
	}
	if len(took) < 5 {
		if last == nil {
			last = fmt.Errorf("only %d reads within %s", len(took), randomTime)
		}
		return nil, fmt.Errorf("measure reads: %w", last)
	}
	return took, nil
}

// sequential reads on from a random place, in at most seqTime.
func (m *measurement) sequential() fact.Opt[float64] {
	f, off := m.pick(chunk)
	if f == nil || m.budget-m.bytes < 4*chunk {
		return fact.Unknown[float64]("1 % of the device, or what may be read of it, is too little for a sequential read")
	}
	from := m.bytes
	var spent time.Duration
	for spent < seqTime && time.Since(m.start) < randomTime+seqTime && m.budget-m.bytes >= chunk && m.ctx.Err() == nil {
		if off+chunk > f.Size() {
			if f, off = m.pick(chunk); f == nil {
				break
			}
		}
		d, err := f.ReadTimed(off, chunk)
		if err != nil {
			return fact.Unknown[float64](err.Error())
		}
		spent += d
		off += chunk
		m.bytes += chunk
	}
	if m.bytes-from < 4*chunk || spent <= 0 {
		return fact.Unknown[float64]("too little could be read in sequence")
	}
	return fact.Known(float64(m.bytes-from) / spent.Seconds())
}
