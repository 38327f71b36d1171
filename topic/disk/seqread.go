package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"headroom/engine/loop"
	"headroom/trial"
	"headroom/unit"
)

// SeqRead reads a scratch file from end to end through the page cache, several
// readers at once: what sequential scans do, and the work that read-ahead
// shows on (S18).
var SeqRead = &trial.Workload{
	Name: "disk.seqread",
	Doc: "Reads a scratch file in sequence through the page cache, each client its own part, in blocks of PostgreSQL's size. What was read is dropped from the cache before each round and each pass. " +
		"The file is filled with random bytes once and removed at the end.",
	Uses: trial.Disk,
	Params: []trial.Param{
		{Name: "block", Doc: "size of a read, whole 4 kB", Default: "8kB", Check: checkSize(4*unit.KB, unit.MB)},
		{Name: "clients", Doc: "readers at once", Default: "4", Check: whole(1, 16)},
		sizeParam,
	},
	Measures: []trial.Measure{
		{Name: "rate", Unit: unit.BytesPerSecond, Higher: true, Noun: "bytes/s read in sequence"},
		{Name: "p50", Unit: unit.Second, Noun: "median time for 1 MB"},
		{Name: "p99", Unit: unit.Second, Noun: "99th percentile time for 1 MB"},
	},
	New: func(p map[string]string) (trial.Work, error) {
		o, err := parse(p)
		if err != nil {
			return nil, err
		}
		return seqRead{o}, nil
	},
}

type seqRead struct{ options }

// Setup implements trial.Work.
func (w seqRead) Setup(ctx context.Context, s *trial.Stand, say func(string)) error {
	return w.fill(ctx, s, say)
}

// Teardown implements trial.Work.
func (w seqRead) Teardown(_ context.Context, s *trial.Stand) error { return remove(s) }

// Open implements trial.Work.
func (w seqRead) Open(_ context.Context, s *trial.Stand) (trial.Session, error) {
	return seqSession{w, scratchPath(s)}, nil
}

// seqSession opens the file anew in each round, for each client: the kernel
// takes the read-ahead over from the device when a file is opened.
type seqSession struct {
	seqRead
	path string
}

// Close implements trial.Session.
func (seqSession) Close() error { return nil }

// reader goes through its part of the file again and again.
type reader struct {
	f             *os.File
	buf           []byte
	from, to, pos int64
}

// Run implements trial.Session.
func (s seqSession) Run(ctx context.Context, d time.Duration, o trial.RoundOptions) (round trial.Round, err error) {
	readers := make([]*reader, 0, s.clients)
	defer func() {
		for _, r := range readers {
			err = errors.Join(err, r.f.Close())
		}
	}()
	for i := range s.clients {
		f, size, err := openScratch(s.path, os.O_RDONLY)
		if err != nil {
			return trial.Round{}, err
		}
		part := size / int64(s.clients) / piece * piece
		r := &reader{f: f, buf: make([]byte, s.block), from: int64(i) * part, to: int64(i+1) * part}
		readers = append(readers, r)
		if err := r.rewind(); err != nil {
			return trial.Round{}, err
		}
	}
	res, err := loop.Run(ctx, loop.Options{Clients: s.clients, Duration: d, Rate: o.Rate, Seed: o.Seed, Throttle: o.Throttle},
		func(_ context.Context, c int) (int, error) { return readers[c].piece() })
	if err != nil {
		return trial.Round{}, err
	}
	return roundOf(res), nil
}

// rewind begins a pass with nothing of this part in the page cache.
func (r *reader) rewind() error {
	r.pos = r.from
	if err := unix.Fadvise(int(r.f.Fd()), r.from, r.to-r.from, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("drop the scratch file from the page cache: %w", err)
	}
	return nil
}

// piece reads the next 1 MB and returns how many bytes that was.
func (r *reader) piece() (int, error) {
	if r.pos >= r.to {
		if err := r.rewind(); err != nil {
			return 0, err
		}
	}
	done := 0
	for done < piece && r.pos < r.to {
		n, err := r.f.ReadAt(r.buf[:min(int64(len(r.buf)), r.to-r.pos)], r.pos)
		if err != nil && (n == 0 || !errors.Is(err, io.EOF)) {
			return done, counted(err)
		}
		done += n
		r.pos += int64(n)
	}
	return done, nil
}
