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
	if _, twice := b.sizes[name]; !twice {
		b.names = append(b.names, name)
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
	raw := encodeDead(DeadLetter{at, reason, data})
	name := fmt.Sprintf("%020d-%020d%s", at.UnixMilli(), seq, deadEnd)
	if err := folder(b.dir).Replace(name, raw); err != nil {
		return err
	}
	b.add(name, int64(len(raw)))
	for len(b.names) > 1 && (b.bytes > b.limit || len(b.names) > deadMost) {
		old := b.names[0]
		if err := os.Remove(folder(b.dir).path(old)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil
		}
		b.bytes -= b.sizes[old]
		delete(b.sizes, old)
		b.names = b.names[1:]
		b.dropped++
	}
	return nil
}

func (b *deadBox) count() (kept, dropped uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.load()
	return uint64(len(b.names)), b.dropped
}

// list returns the newest n, newest first. One that is damaged is listed as
// such.
func (b *deadBox) list(n int) ([]DeadLetter, error) {
	b.mu.Lock()
	err := b.load()
	names := slices.Clone(b.names)
	b.mu.Unlock()
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
		d, err := parseDead(raw)
		if err != nil {
			d = DeadLetter{Reason: fmt.Sprintf("file %s: %v", name, err), Data: raw}
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

func parseDead(raw []byte) (DeadLetter, error) {
	if len(raw) < deadHead || string(raw[:4]) != deadMagic || crc32.Checksum(raw[8:], castagnoli) != binary.LittleEndian.Uint32(raw[4:]) {
		return DeadLetter{}, errors.New("damaged")
	}
	at := time.UnixMilli(int64(binary.LittleEndian.Uint64(raw[8:])))
	n := binary.LittleEndian.Uint32(raw[16:])
	if uint64(n) > uint64(len(raw)-deadHead) {
		return DeadLetter{}, errors.New("damaged")
	}
	return DeadLetter{at, string(raw[deadHead : deadHead+n]), raw[deadHead+n:]}, nil
}
