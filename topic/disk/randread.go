package disk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"headroom/engine/loop"
	"headroom/trial"
	"headroom/unit"
)

// RandRead reads at random places of a scratch file, past the page cache: what
// index look-ups on a table larger than memory do to a disk (S18, S26).
var RandRead = &trial.Workload{
	Name: "disk.randread",
	Doc: "Reads blocks at random places of a scratch file with O_DIRECT, so many at a time as there are clients. The file is filled with random bytes once and removed at the end. " +
		"With reads below 100 the rest are writes to the same places, which wears flash.",
	Uses: trial.Disk,
	Params: []trial.Param{
		{Name: "block", Doc: "size of a read, whole 4 kB", Default: "8kB", Check: checkSize(4*unit.KB, unit.MB)},
		{Name: "clients", Doc: "reads at a time", Default: "4", Check: whole(1, 256)},
		sizeParam,
		{Name: "reads", Doc: "percent of the operations that read; the others write", Default: "100", Check: whole(0, 100)},
	},
	Measures: []trial.Measure{
		{Name: "rate", Unit: unit.PerSecond, Higher: true, Noun: "random I/Os/s"},
		{Name: "p50", Unit: unit.Second, Noun: "median latency of a random I/O"},
		{Name: "p99", Unit: unit.Second, Noun: "99th percentile latency of a random I/O"},
	},
	New: func(p map[string]string) (trial.Work, error) {
		o, err := parse(p)
		reads, err2 := strconv.Atoi(p["reads"])
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		return randRead{o, reads}, nil
	},
}

type randRead struct {
	options
	reads int
}

// Setup implements trial.Work.
func (w randRead) Setup(ctx context.Context, s *trial.Stand, say func(string)) error {
	return w.fill(ctx, s, say)
}

// Teardown implements trial.Work.
func (w randRead) Teardown(_ context.Context, s *trial.Stand) error { return remove(s) }

// Open implements trial.Work.
func (w randRead) Open(_ context.Context, s *trial.Stand) (trial.Session, error) {
	return randSession{w, scratchPath(s)}, nil
}

// randSession opens the file anew in each round: what is tried may be
// something that the kernel looks at when a file is opened.
type randSession struct {
	randRead
	path string
}

// Close implements trial.Session.
func (randSession) Close() error { return nil }

// Run implements trial.Session.
func (s randSession) Run(ctx context.Context, d time.Duration, o trial.RoundOptions) (round trial.Round, err error) {
	flags := os.O_RDONLY
	if s.reads < 100 {
		flags = os.O_RDWR
	}
	f, size, err := openScratch(s.path, flags|unix.O_DIRECT)
	if err != nil {
		return trial.Round{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	bufs, free, err := buffers(s.clients, s.block)
	if err != nil {
		return trial.Round{}, err
	}
	defer free()
	rngs := make([]*mathrand.Rand, s.clients)
	for i := range rngs {
		rngs[i] = mathrand.New(mathrand.NewPCG(o.Seed, uint64(i)))
		if _, err := rand.Read(bufs[i]); err != nil {
			return trial.Round{}, fmt.Errorf("get random bytes: %w", err)
		}
	}
	blocks := size / int64(s.block)
	res, err := loop.Run(ctx, loop.Options{Clients: s.clients, Duration: d, Rate: o.Rate, Seed: o.Seed, Throttle: o.Throttle},
		func(_ context.Context, c int) (int, error) {
			off := rngs[c].Int64N(blocks) * int64(s.block)
			var err error
			if rngs[c].IntN(100) < s.reads {
				_, err = f.ReadAt(bufs[c], off)
			} else {
				_, err = f.WriteAt(bufs[c], off)
			}
			return 1, counted(err)
		})
	if err != nil {
		return trial.Round{}, err
	}
	return roundOf(res), nil
}

// counted makes an I/O error one that is counted under its own words.
func counted(err error) error {
	if err == nil {
		return nil
	}
	code := "I/O"
	var no unix.Errno
	if errors.As(err, &no) {
		code = no.Error()
	}
	return &loop.Failure{Code: code, Err: err}
}
