package queue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"headroom/host"
)

// deadBox is a folder with a file for each message that was set aside:
//
//	"HQD1" | CRC-32C of all after, little-endian | at, Unix ms int64 | length of reason uint32 | reason | message
type deadBox struct {
	dir   string
	limit int64

	mu      sync.Mutex
	sizes   map[string]int64 // by name; names sort by time
	names   []string
	bytes   int64
	dropped uint64
	loaded  bool
}

const (
	deadMagic = "HQD1"
	deadHead  = 20
	deadMost  = 10_000
	deadEnd   = ".dead"
	reasonMax = 4 << 10
)

func newDeadBox(dir string, limit int64) *deadBox {
	return &deadBox{dir: dir, limit: limit, sizes: map[string]int64{}}
}

// load finds what is there; b.mu is held.
func (b *deadBox) load() error {
	if b.loaded {
		return nil
	}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return err
	}
	if err := host.SyncDir(filepath.Dir(b.dir)); err != nil {
		return err
	}
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), deadEnd) {
			b.add(e.Name(), info.Size())
		}
	}
	b.loaded = true
	return nil
}

func (b *deadBox) add(name string, size int64) {
	if i, twice := slices.BinarySearch(b.names, name); !twice {
		b.names = slices.Insert(b.names, i, name)
	}
	b.bytes += size - b.sizes[name]
	b.sizes[name] = size
}

// put keeps a message durably; then the oldest make room.
func (b *deadBox) put(at time.Time, seq uint64, reason string, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.load(); err != nil {
		return err
	}
	raw := encodeDead(DeadLetter{At: at, Reason: reason, Data: data})
	name := fmt.Sprintf("%020d-%020d%s", at.UnixMilli(), seq, deadEnd)
	if err := folder(b.dir).Replace(name, raw); err != nil {
		return err
	}
	b.add(name, int64(len(raw)))
	for len(b.names) > 1 && (b.bytes > b.limit || len(b.names) > deadMost) {
		if b.remove(b.names[0]) != nil {
			return nil
		}
		b.dropped++
	}
	return nil
}

// remove takes a file away; b.mu is held.
func (b *deadBox) remove(name string) error {
	if err := os.Remove(folder(b.dir).path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	b.bytes -= b.sizes[name]
	delete(b.sizes, name)
	if i, there := slices.BinarySearch(b.names, name); there {
		b.names = slices.Delete(b.names, i, i+1)
	}
	return nil
}

// letterID is the name of a file as it can be typed; of a file that is not ours,
// its name.
func letterID(name string) string {
	var at, seq uint64
	if n, _ := fmt.Sscanf(name, "%d-%d"+deadEnd, &at, &seq); n < 2 {
		return name
	}
	return fmt.Sprintf("%d-%d", at, seq)
}

// letterName is the file of an ID; no ID leads to another folder.
func letterName(id string) (string, error) {
	var at, seq uint64
	if n, _ := fmt.Sscanf(id, "%d-%d", &at, &seq); n < 2 {
		return "", ErrNoLetter
	}
	return fmt.Sprintf("%020d-%020d%s", at, seq, deadEnd), nil
}

// get reads the letter of an ID.
func (b *deadBox) get(id string) (DeadLetter, error) {
	name, err := letterName(id)
	if err != nil {
		return DeadLetter{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.load(); err != nil {
		return DeadLetter{}, err
	}
	if _, there := b.sizes[name]; !there {
		return DeadLetter{}, ErrNoLetter
	}
	raw, err := os.ReadFile(folder(b.dir).path(name))
	if errors.Is(err, os.ErrNotExist) {
		return DeadLetter{}, ErrNoLetter
	}
	if err != nil {
		return DeadLetter{}, err
	}
	return parseDead(id, raw)
}

// drop removes the letter of an ID durably.
func (b *deadBox) drop(id string) error {
	name, err := letterName(id)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.load(); err != nil {
		return err
	}
	if _, there := b.sizes[name]; !there {
		return ErrNoLetter
	}
	if err := b.remove(name); err != nil {
		return err
	}
	return host.SyncDir(b.dir)
}

func (b *deadBox) count() (kept, dropped uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.load()
	return uint64(len(b.names)), b.dropped
}

// list returns the newest n older than one of an ID, newest first. One that is
// damaged is listed as such.
func (b *deadBox) list(before string, n int) ([]DeadLetter, error) {
	b.mu.Lock()
	err := b.load()
	names := slices.Clone(b.names)
	b.mu.Unlock()
	if before != "" {
		name, err := letterName(before)
		if err != nil {
			return nil, fmt.Errorf("list dead letters before %.60q: %w", before, err)
		}
		older, _ := slices.BinarySearch(names, name)
		names = names[:older]
	}
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	var out []DeadLetter
	for _, name := range slices.Backward(names) {
		if len(out) >= n {
			break
		}
		raw, err := os.ReadFile(folder(b.dir).path(name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("list dead letters: %w", err)
		}
		id := letterID(name)
		d, err := parseDead(id, raw)
		if err != nil {
			d = DeadLetter{ID: id, Reason: fmt.Sprintf("file %s: %v", name, err), Data: raw}
		}
		out = append(out, d)
	}
	return out, nil
}

func encodeDead(d DeadLetter) []byte {
	reason := d.Reason[:min(len(d.Reason), reasonMax)]
	raw := append([]byte(deadMagic), 0, 0, 0, 0)
	raw = binary.LittleEndian.AppendUint64(raw, uint64(d.At.UnixMilli()))
	raw = binary.LittleEndian.AppendUint32(raw, uint32(len(reason)))
	raw = append(append(raw, reason...), d.Data...)
	binary.LittleEndian.PutUint32(raw[4:], crc32.Checksum(raw[8:], castagnoli))
	return raw
}

func parseDead(id string, raw []byte) (DeadLetter, error) {
	if len(raw) < deadHead || string(raw[:4]) != deadMagic || crc32.Checksum(raw[8:], castagnoli) != binary.LittleEndian.Uint32(raw[4:]) {
		return DeadLetter{}, ErrDamaged
	}
	at := time.UnixMilli(int64(binary.LittleEndian.Uint64(raw[8:])))
	n := binary.LittleEndian.Uint32(raw[16:])
	if uint64(n) > uint64(len(raw)-deadHead) {
		return DeadLetter{}, ErrDamaged
	}
	return DeadLetter{id, at, string(raw[deadHead : deadHead+n]), raw[deadHead+n:]}, nil
}
