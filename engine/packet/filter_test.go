package packet_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"headroom/engine/netns"
	"headroom/engine/packet"
	"headroom/testkit/need"
)

// wire is two namespaces joined by a polled wire.
func wire(t *testing.T) (a, b *netns.Namespace) {
	t.Helper()
	need.Have(t, "netns")
	for _, n := range []**netns.Namespace{&a, &b} {
		var err error
		if *n, err = netns.New(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*n).Close)
	}
	w := netns.Between()
	w.Poll = true
	if err := netns.Join(a, b, w); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func addr(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n)))
}

// sources is a mix with one packet from each address.
func sources(from []netip.Addr) (mix []packet.Packet) {
	for _, a := range from {
		mix = append(mix, packet.Packet{Src: a, Dst: netip.MustParseAddr("10.99.0.2"), Proto: packet.UDP, SrcPort: 5, DstPort: 7, Size: 60})
	}
	return mix
}

// dropped waits until the filter has seen all that was sent: as many as it is
// to drop, and no more a moment later.
func dropped(t *testing.T, f *packet.Filter, want int64) {
	t.Helper()
	var got int64
	read := func() bool {
		var err error
		if got, err = f.Dropped(); err != nil {
			t.Fatal(err)
		}
		return got >= want
	}
	for end := time.Now().Add(5 * time.Second); !read() && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if got != want {
		t.Errorf("%d packets dropped, want %d", got, want)
	}
}

func TestFilterDropsWhatIsInTheSet(t *testing.T) {
	a, b := wire(t)
	to, err := packet.Inside(a, "veth0")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, at := range []packet.Hook{packet.AtDriver, packet.AtGeneric, packet.AtClsact} {
		for _, how := range []packet.Lookup{packet.Hash, packet.LPM, packet.Range} {
			for _, entries := range []int{1, 2, 3, 1000} {
				spans, from, in := spread(rng, how, entries)
				f, err := packet.Attach(b, "veth0", at, how, spans)
				if err != nil {
					t.Fatalf("%s %s %d: %v", at, how, entries, err)
				}
				sent, err := packet.Flood{To: to, Mix: sources(from), Method: packet.Ring, Count: int64(len(from))}.Run(t.Context())
				if err != nil || sent.Packets != int64(len(from)) {
					t.Fatalf("sent %+v of %d: %v", sent, len(from), err)
				}
				t.Logf("%s, %s of %d", at, how, entries)
				dropped(t, f, int64(in))
				if f.Memory() <= 0 {
					t.Error("the set takes no memory")
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// spread makes a set, and addresses at and beside its edges with the number of
// them that are in it.
func spread(rng *rand.Rand, how packet.Lookup, entries int) (spans []packet.Span, from []netip.Addr, in int) {
	at := uint32(200 << 24) // beyond 127, where a sign would show
	for range entries {
		at += 1 << 10
		first, last := at, at
		switch how {
		case packet.LPM:
			last += 1<<rng.IntN(8) - 1
		case packet.Range:
			first += uint32(rng.IntN(100))
			last = first + uint32(rng.IntN(400))
		}
		spans = append(spans, packet.Span{First: addr(first), Last: addr(last)})
		from = append(from, addr(first), addr(last), addr(first-1), addr(last+1))
		in += 2
	}
	rng.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
	return spans, slices.Clip(from), in
}

func TestLargeFiltersLoad(t *testing.T) {
	a, b := wire(t)
	to, err := packet.Inside(a, "veth0")
	if err != nil {
		t.Fatal(err)
	}
	spans := make([]packet.Span, 1_000_000)
	for i := range spans {
		x := addr(20<<24 + uint32(i)*11)
		spans[i] = packet.Span{First: x, Last: x}
	}
	from := []netip.Addr{spans[0].First, spans[524_288].First, spans[999_999].First, addr(20<<24 + 1), addr(20<<24 + 1_000_000*11), addr(0xdfffffff)}
	for _, how := range []packet.Lookup{packet.Hash, packet.Range} {
		f, err := packet.Attach(b, "veth0", packet.AtDriver, how, spans)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (packet.Flood{To: to, Mix: sources(from), Method: packet.Ring, Count: int64(len(from))}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		dropped(t, f, 3)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFilterRefuses(t *testing.T) {
	_, b := wire(t)
	one := packet.Span{First: addr(10 << 24), Last: addr(10<<24 + 2)}
	for name, c := range map[string]struct {
		how   packet.Lookup
		spans []packet.Span
	}{
		"no such":  {"tree", []packet.Span{one}},
		"empty":    {packet.Hash, nil},
		"a range":  {packet.Hash, []packet.Span{one}},
		"no CIDR":  {packet.LPM, []packet.Span{one}},
		"overlap":  {packet.Range, []packet.Span{one, {First: addr(10<<24 + 1), Last: addr(10<<24 + 9)}}},
		"reversed": {packet.Range, []packet.Span{{First: one.Last, Last: one.First}}},
		"six":      {packet.Range, []packet.Span{{First: six, Last: six}}},
	} {
		if f, err := packet.Attach(b, "veth0", packet.AtDriver, c.how, c.spans); err == nil {
			t.Errorf("%s: taken", name)
			f.Close()
		}
	}
}
