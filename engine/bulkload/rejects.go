package bulkload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"

	"headroom/engine/record"
)

// rejects is the file of bad records, made when the first one comes. A line
// that is in it already, from a run that was interrupted, is not added again.
type rejects struct {
	path string
	max  int64

	mu    sync.Mutex
	f     *record.Rejects
	known []int64 // lines that are in the file, sorted
	fresh []int64 // lines that were added here, kept only where a second pass may come
	keep  bool
	count int64
}

// add writes one bad record down. Its error ends the load: there are too many.
func (r *rejects) add(b record.Bad) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	if _, found := slices.BinarySearch(r.known, b.Line); found {
		return nil
	}
	if r.f == nil {
		f, err := record.OpenRejects(r.path, r.max)
		if err != nil {
			return err
		}
		r.f = f
	}
	if r.keep {
		r.fresh = append(r.fresh, b.Line)
	}
	return r.f.Add(b)
}

// again is for a second pass over the same input.
func (r *rejects) again() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = append(r.known, r.fresh...)
	slices.Sort(r.known)
	r.count, r.fresh, r.keep = 0, nil, false
}

func (r *rejects) sync() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f == nil {
		return nil
	}
	return r.f.Sync()
}

func (r *rejects) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f == nil {
		return nil
	}
	return r.f.Close()
}

func (r *rejects) counted() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// readKnown reads which lines the file names already. A last line that was cut
// off by a crash does not count, and is ended so that the next one is whole.
func (r *rejects) readKnown() error {
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_APPEND, 0)
	if r.path == "" || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read rejects: %w", err)
	}
	defer f.Close()
	br := bufio.NewReaderSize(f, 64<<10)
	for begin := true; ; {
		part, err := br.ReadSlice('\n')
		whole := err == nil
		if err != nil && err != io.EOF && !errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("read rejects: %w", err)
		}
		if begin && (whole || errors.Is(err, bufio.ErrBufferFull)) {
			number, _, _ := bytes.Cut(part, []byte("\t"))
			if n, perr := strconv.ParseInt(string(number), 10, 64); perr == nil {
				r.known = append(r.known, n)
			}
		}
		if err == io.EOF {
			slices.Sort(r.known)
			if len(part) > 0 {
				_, err := f.WriteString("\n")
				return err
			}
			return nil
		}
		begin = whole
	}
}
