package packet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// maxSpans bounds what a Filter's set may hold.
const maxSpans = 1 << 22

// lpmKey is the key of a trie.
type lpmKey struct {
	Bits uint32
	Addr [4]byte
}

// newSet makes and fills the map of a look-up; nil for Every.
func newSet(how Lookup, spans []Span) (*ebpf.Map, error) {
	if how == Every {
		return nil, nil
	}
	if len(spans) == 0 || len(spans) > maxSpans {
		return nil, fmt.Errorf("make a set of %d: want 1 to %d", len(spans), maxSpans)
	}
	spec := &ebpf.MapSpec{Name: "headroom_set", ValueSize: 8, KeySize: 4, MaxEntries: uint32(len(spans))}
	switch how {
	case Hash:
		spec.Type = ebpf.Hash
	case LPM:
		spec.Type, spec.KeySize, spec.Flags = ebpf.LPMTrie, 8, unix.BPF_F_NO_PREALLOC
	case Range:
		spec.Type, spec.MaxEntries = ebpf.Array, uint32(padded(len(spans)))
	default:
		return nil, fmt.Errorf("there is no look-up %q", how)
	}
	m, err := ebpf.NewMap(spec)
	if err == nil {
		err = fillSet(m, how, spans)
	}
	if err != nil {
		if m != nil {
			m.Close()
		}
		return nil, fmt.Errorf("make a set of %d: %w", len(spans), err)
	}
	return m, nil
}

func fillSet(m *ebpf.Map, how Lookup, spans []Span) error {
	ends := make([][2]uint32, len(spans)) // in host order
	for i, s := range spans {
		if !s.First.Is4() || !s.Last.Is4() || s.Last.Less(s.First) {
			return fmt.Errorf("%s to %s is no range of IPv4 addresses", s.First, s.Last)
		}
		ends[i] = [2]uint32{number(s.First), number(s.Last)}
	}
	switch how {
	case Hash:
		return fillHash(m, spans, ends)
	case LPM:
		return fillTrie(m, spans, ends)
	}
	slices.SortFunc(ends, func(a, b [2]uint32) int { return int(int64(a[0]) - int64(b[0])) })
	keys, values := make([]uint32, padded(len(ends))), make([]uint64, padded(len(ends)))
	for i := range keys {
		keys[i], values[i] = uint32(i), uint64(1<<32-1)<<32 // beyond the last: begins after any address, and ends before it
		if i >= len(ends) {
			continue
		}
		if i > 0 && ends[i][0] <= ends[i-1][1] {
			return errors.New("two ranges overlap")
		}
		values[i] = uint64(ends[i][0])<<32 | uint64(ends[i][1])
	}
	return put(m, keys, values)
}

func fillHash(m *ebpf.Map, spans []Span, ends [][2]uint32) error {
	keys := make([]uint32, len(spans))
	for i, s := range spans {
		if ends[i][0] != ends[i][1] {
			return fmt.Errorf("%s to %s is more than one address, which a hash cannot hold", s.First, s.Last)
		}
		a := s.First.As4()
		keys[i] = binary.NativeEndian.Uint32(a[:]) // as the program reads it from the packet
	}
	return put(m, keys, make([]uint64, len(keys)))
}

func fillTrie(m *ebpf.Map, spans []Span, ends [][2]uint32) error {
	keys := make([]lpmKey, len(spans))
	for i, s := range spans {
		size := uint64(ends[i][1]) - uint64(ends[i][0]) + 1
		host := bits.TrailingZeros64(size)
		if size&(size-1) != 0 || uint64(ends[i][0])%size != 0 {
			return fmt.Errorf("%s to %s is no prefix, and a trie holds nothing else", s.First, s.Last)
		}
		keys[i] = lpmKey{uint32(32 - host), s.First.As4()}
	}
	return put(m, keys, make([]uint64, len(keys)))
}

func number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

// put fills a map at one go where the kernel can, else entry by entry.
func put[K any](m *ebpf.Map, keys []K, values []uint64) error {
	_, err := m.BatchUpdate(keys, values, nil)
	if !errors.Is(err, ebpf.ErrNotSupported) {
		return err
	}
	for i := range keys {
		if err := m.Put(&keys[i], values[i]); err != nil {
			return err
		}
	}
	return nil
}
