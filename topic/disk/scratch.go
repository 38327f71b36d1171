package disk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"headroom/engine/loop"
	"headroom/fail"
	"headroom/trial"
	"headroom/unit"
)

const (
	scratchName = "headroom-scratch.dat"
	autoSize    = "auto"
	mostAuto    = 1 * unit.GB
	leastSize   = 16 * unit.MB
	piece       = 1 * unit.MB
)

// The share of the free room that a scratch file takes, by itself and at most.
const (
	autoShare = 0.05
	mostShare = 0.5
)

var sizeParam = trial.Param{Name: "size", Doc: "size of the scratch file; auto: 5 % of the free room, at most 1 GB", Default: autoSize,
	Check: func(v string) error {
		if v == autoSize {
			return nil
		}
		return checkSize(leastSize, 1<<50)(v)
	}}

// checkSize checks for a size within bounds, in whole 4 kB.
func checkSize(low, high int64) func(string) error {
	return func(v string) error {
		n, u, err := unit.Parse(v)
		if err != nil {
			return err
		}
		if u != unit.Byte && u != unit.None || n < float64(low) || n > float64(high) || int64(n)%4096 != 0 {
			return fmt.Errorf("%q is not a size from %s to %s in whole 4 kB", v, unit.Bytes(low), unit.Bytes(high))
		}
		return nil
	}
}

// whole checks for a whole number within bounds.
func whole(low, high int) func(string) error {
	return func(v string) error {
		if n, err := strconv.Atoi(v); err != nil || n < low || n > high {
			return fmt.Errorf("%q is not a whole number from %d to %d", v, low, high)
		}
		return nil
	}
}

// options are the parameters that both workloads have.
type options struct {
	size    int64 // 0: auto
	block   int
	clients int
}

func parse(p map[string]string) (options, error) {
	var o options
	block, _, err := unit.Parse(p["block"])
	clients, err2 := strconv.Atoi(p["clients"])
	var size float64
	var err3 error
	if p["size"] != autoSize {
		size, _, err3 = unit.Parse(p["size"])
	}
	if err := errors.Join(err, err2, err3); err != nil {
		return o, fail.With(fmt.Errorf("read parameters block, clients, size: %w", err), fail.Usage)
	}
	return options{size: int64(size), block: int(block), clients: clients}, nil
}

func scratchPath(s *trial.Stand) string { return filepath.Join(s.Dir, scratchName) }

// fill writes the scratch file: random bytes, so that neither compression nor
// thin provisioning below makes reading it cheap. It leaves no file behind
// when it fails.
func (o options) fill(ctx context.Context, s *trial.Stand, say func(string)) (err error) {
	sp, err := s.Host.Space(s.Dir)
	if err != nil {
		return fmt.Errorf("make the scratch file: %w", err)
	}
	size := o.size
	if size == 0 {
		size = min(int64(float64(sp.Avail)*autoShare), mostAuto) / piece * piece
	}
	if size < leastSize || float64(size) > float64(sp.Avail)*mostShare {
		return fail.Hint(fmt.Errorf("make the scratch file: %s has %s of free room, and a file of %s would be too much of it or too small to measure with",
			s.Dir, unit.Bytes(sp.Avail), unit.Bytes(size)), "name another folder, or a size")
	}
	say(fmt.Sprintf("writing a scratch file of %s", unit.Bytes(size)))
	path := scratchPath(s)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make the scratch file: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(fmt.Errorf("make the scratch file: %w", err), os.Remove(path))
		}
	}()
	buf := make([]byte, piece)
	for left := size; left > 0; left -= int64(len(buf)) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		buf = buf[:min(left, piece)]
		if _, err := rand.Read(buf); err != nil {
			return err
		}
		if _, err := f.Write(buf); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// remove deletes the scratch file; that there is none is no error.
func remove(s *trial.Stand) error {
	if err := os.Remove(scratchPath(s)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the scratch file: %w", err)
	}
	return nil
}

// openScratch opens the scratch file and tells its size.
func openScratch(path string, flags int) (*os.File, int64, error) {
	f, err := os.OpenFile(path, flags, 0)
	if errors.Is(err, unix.EINVAL) && flags&unix.O_DIRECT != 0 {
		return nil, 0, fail.Hint(fmt.Errorf("open the scratch file: its file system has no direct reads (O_DIRECT), so memory would be measured and not a disk"),
			"name a folder on another file system")
	}
	if err != nil {
		return nil, 0, fmt.Errorf("open the scratch file: %w", err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil && size < leastSize {
		err = fmt.Errorf("it holds %s only", unit.Bytes(size))
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("open the scratch file: %w", err), f.Close())
	}
	return f, size, nil
}

// buffers are page-aligned, as O_DIRECT wants; one per client.
func buffers(n, size int) (all [][]byte, free func(), err error) {
	free = func() {
		for _, b := range all {
			_ = unix.Munmap(b) // cannot fail for what Mmap returned
		}
	}
	for range n {
		b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			free()
			return nil, nil, fmt.Errorf("get memory to read into: %w", err)
		}
		all = append(all, b)
	}
	return all, free, nil
}

// roundOf makes a round of what a loop did; its figure rate is per unit.
func roundOf(r *loop.Result) trial.Round {
	out := trial.Round{Seconds: r.Seconds, Done: r.Done, Failed: r.Failed, Skipped: r.Skipped, Latency: r.Latency, Figures: map[string]float64{}}
	if r.First != nil {
		out.Why = r.First.Error()
	}
	if r.Done > 0 && r.Seconds > 0 {
		out.Figures["rate"] = float64(r.Units) / r.Seconds
		out.Figures["p50"], out.Figures["p99"] = r.Quantile(0.5), r.Quantile(0.99)
	}
	return out
}
