package queue

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// double is a disk in memory that keeps apart what is synced and what is not,
// ends all work at a chosen operation, or lets one fail.
type double struct {
	t  testing.TB
	mu sync.Mutex

	files   map[string]*node // what the process sees
	durable map[string]*node // names that survive a power loss
	ops     int
	crashAt int   // from this operation on nothing works; 0: never
	failAt  int   // this operation alone fails
	failure error // with this
}

type node struct {
	data     []byte // what the process sees
	synced   []byte
	writes   []patchWrite
	poisoned bool // a sync failed
}

type patchWrite struct {
	off  int64
	data []byte
}

var errCrash = errors.New("the machine has stopped")

func newDouble(t testing.TB) *double {
	return &double{t: t, files: map[string]*node{}, durable: map[string]*node{}}
}

// op counts an operation that changes something; d.mu is held.
func (d *double) op() error {
	d.ops++
	if d.crashAt > 0 && d.ops >= d.crashAt {
		return errCrash
	}
	if d.ops == d.failAt {
		return d.failure
	}
	return nil
}

func (d *double) Names() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.files)), nil
}

func (d *double) Create(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[name] != nil {
		return nil, fs.ErrExist
	}
	if err := d.op(); err != nil {
		return nil, err
	}
	d.files[name] = &node{}
	return &handle{d, d.files[name]}, nil
}

func (d *double) Open(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[name] == nil {
		return nil, fs.ErrNotExist
	}
	return &handle{d, d.files[name]}, nil
}

// Replace is all or nothing, as host.WriteDurable is.
func (d *double) Replace(name string, content []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.op()
	if errors.Is(err, errCrash) && d.ops == d.crashAt && len(content)%2 == 0 || err == nil {
		n := &node{data: slices.Clone(content), synced: slices.Clone(content)}
		d.files[name], d.durable[name] = n, n
	}
	return err
}

func (d *double) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.op(); err != nil {
		return err
	}
	if d.files[name] == nil {
		return fs.ErrNotExist
	}
	delete(d.files, name)
	return nil
}

func (d *double) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.op(); err != nil {
		return err
	}
	d.durable = maps.Clone(d.files)
	return nil
}

func (d *double) Free() int64 { return -1 }

type handle struct {
	d *double
	n *node
}

func (h *handle) ReadAt(b []byte, off int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if off >= int64(len(h.n.data)) {
		return 0, io.EOF
	}
	n := copy(b, h.n.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func lay(data []byte, w patchWrite) []byte {
	if end := int(w.off) + len(w.data); end > len(data) {
		data = append(data, make([]byte, end-len(data))...)
	}
	copy(data[w.off:], w.data)
	return data
}

// WriteAt that fails has written a part.
func (h *handle) WriteAt(b []byte, off int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if h.n.poisoned {
		h.d.t.Error("a file is written to after its sync failed")
	}
	err := h.d.op()
	if err != nil {
		b = b[:len(b)/2]
	}
	w := patchWrite{off, slices.Clone(b)}
	h.n.data = lay(h.n.data, w)
	h.n.writes = append(h.n.writes, w)
	return len(b), err
}

// Sync that fails has dropped what it should have written, as Linux may do:
// the process goes on seeing it.
func (h *handle) Sync() error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if h.n.poisoned {
		h.d.t.Error("a failed sync is tried again on the same file")
	}
	err := h.d.op()
	if err != nil {
		h.n.poisoned = !errors.Is(err, errCrash)
		if h.n.poisoned {
			h.n.writes = nil
		}
		return err
	}
	h.n.synced, h.n.writes = slices.Clone(h.n.data), nil
	return nil
}

func (h *handle) Truncate(size int64) error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if err := h.d.op(); err != nil {
		return err
	}
	h.n.data = h.n.data[:min(size, int64(len(h.n.data)))]
	return nil
}

func (h *handle) Size() (int64, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return int64(len(h.n.data)), nil
}

func (h *handle) Close() error { return nil }

// after is what a power loss leaves: of the synced all, of the rest by the
// source of chance nothing, all, or torn and out of order.
func (d *double) after(how string, r *rand.Rand) *double {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := newDouble(d.t)
	keep := func() bool { return how == "kept" || how == "torn" && r.IntN(2) == 0 }
	for name, n := range d.files {
		if d.durable[name] != n && !keep() {
			continue
		}
		left.put(name, n, how, keep, r)
	}
	for name, n := range d.durable {
		if d.files[name] == nil && how != "kept" && !keep() {
			left.put(name, n, how, keep, r)
		}
	}
	left.durable = maps.Clone(left.files)
	return left
}

func (d *double) put(name string, n *node, how string, keep func() bool, r *rand.Rand) {
	data := slices.Clone(n.data)
	if how != "kept" {
		data = slices.Clone(n.synced)
		for _, w := range n.writes {
			if !keep() {
				continue
			}
			if part := r.IntN(len(w.data) + 1); r.IntN(2) == 0 {
				w.data = w.data[:part]
			}
			data = lay(data, w)
		}
	}
	d.files[name] = &node{data: data, synced: slices.Clone(data)}
}
