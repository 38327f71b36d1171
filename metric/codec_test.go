package metric

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// batches draws any batch that can be made.
func batches(t *rapid.T) *Batch {
	b := &Batch{ID: ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")), Origin: rapid.StringN(0, 60, MaxOrigin).Draw(t, "origin")}
	value := rapid.OneOf(rapid.Float64(), rapid.Map(rapid.Int64(), func(i int64) float64 { return float64(i) }),
		rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), 1 << 53, -1 << 53, math.MaxFloat64, 1<<53 - 1}))
	at := rapid.OneOf(rapid.Int64(), rapid.Just(int64(1_800_000_000_000)))
	for range rapid.IntRange(0, 8).Draw(t, "rows") {
		r := Row{Series: series(t)}
		for range rapid.SampledFrom([]int{1, 1, 1, 0, 3}).Draw(t, "points") {
			r.Points = append(r.Points, Point{at.Draw(t, "at"), value.Draw(t, "value")})
		}
		b.Rows = append(b.Rows, r)
	}
	return b
}

func series(t *rapid.T) *Series {
	var ls []Label
	for i := range rapid.IntRange(0, 4).Draw(t, "labels") {
		v := Clean(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"a\nb", `c"d\`, "ü🙂", "{}", `",x="`})).Draw(t, "value"))
		ls = append(ls, Label{fmt.Sprintf("l%d", i), v})
	}
	s, err := NewSeries(rapid.SampledFrom([]string{"up", "host_cpu_seconds_total", "a:b"}).Draw(t, "name"), ls)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func equal(a, b *Batch) error {
	if a.ID != b.ID || a.Origin != b.Origin || len(a.Rows) != len(b.Rows) {
		return fmt.Errorf("%v %q %d rows, want %v %q %d rows", b.ID, b.Origin, len(b.Rows), a.ID, a.Origin, len(a.Rows))
	}
	for i := range a.Rows {
		x, y := a.Rows[i], b.Rows[i]
		if x.Series.Key() != y.Series.Key() || x.Series.ID() != y.Series.ID() || len(x.Points) != len(y.Points) {
			return fmt.Errorf("row %d: %s, %d points; want %s, %d points", i, y.Series, len(y.Points), x.Series, len(x.Points))
		}
		for j, p := range x.Points {
			if q := y.Points[j]; p.At != q.At || math.Float64bits(p.Value) != math.Float64bits(q.Value) {
				return fmt.Errorf("row %d point %d: %v, want %v", i, j, q, p)
			}
		}
	}
	return nil
}

func TestRoundTrip(t *testing.T) {
	var d Decoder
	rapid.Check(t, func(t *rapid.T) {
		b := batches(t)
		raw := b.Encode([]byte("before"))
		back, err := d.Decode(raw[6:])
		if err != nil {
			t.Fatal(err)
		}
		clear(raw)
		if err := equal(b, back); err != nil {
			t.Fatal(err)
		}
	})
}

// Every bit that flips is noticed.
func TestDamage(t *testing.T) {
	raw := round(30, 3).Encode(nil)
	var d Decoder
	for i := range raw {
		for bit := range 8 {
			bad := bytes.Clone(raw)
			bad[i] ^= 1 << bit
			if _, err := d.Decode(bad); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("byte %d bit %d: %v, want ErrCorrupt", i, bit, err)
			}
		}
		if _, err := d.Decode(raw[:i]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut to %d: %v", i, err)
		}
	}
	if _, err := d.Decode(append(bytes.Clone(raw), 0)); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("a byte too many: %v", err)
	}
}

// forge seals raw contents as a batch.
func forge(raw []byte) []byte {
	b := append([]byte(codecMagic), codecVersion)
	b = append(b, make([]byte, len(ID{}))...)
	return seal(zenc.EncodeAll(raw, b))
}

// seal adds the checksum.
func seal(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func uvarint(v uint64) []byte { return binary.AppendUvarint(nil, v) }

// Bombs: little input that stands for much. None may cost more than 150 MiB.
func TestBombs(t *testing.T) {
	head := func(rows uint64) []byte { return append([]byte{0}, uvarint(rows)...) } // no origin
	long := []byte("a" + strings.Repeat("b", 150))
	keys := head(1 << 20)
	keys = append(append(append(keys, 0), uvarint(uint64(len(long)))...), long...)
	for range 1<<20 - 1 {
		keys = append(keys, 0x97, 1, 1, 'c') // 151 shared, one of its own
	}
	for name, raw := range map[string][]byte{
		"1 GiB of zeros":          make([]byte, 1<<30),
		"a billion rows":          head(1 << 30),
		"a million shared keys":   keys,
		"points without values":   append(append(head(1), 0, 1, 'a', 0), uvarint(1<<40)...),
		"a million points, short": append(append(head(1), 0, 1, 'a', flagSameTime), uvarint(1<<20)...),
	} {
		data := forge(raw)
		var d Decoder
		before := allocated()
		_, err := d.Decode(data)
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
		if used := allocated() - before; used > 150<<20 {
			t.Errorf("%s: %d bytes of input cost %d MiB", name, len(data), used>>20)
		}
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func FuzzDecode(f *testing.F) {
	f.Add(round(3, 1).Encode(nil))
	f.Add(round(2, 5).Encode(nil))
	var d Decoder
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, form := range [][]byte{data, seal(bytes.Clone(data[:max(0, len(data)-4)])), forge(data)} {
			b, err := d.Decode(form)
			if err != nil {
				if !errors.Is(err, ErrCorrupt) {
					t.Fatalf("%v does not wrap ErrCorrupt", err)
				}
				continue
			}
			again, err := d.Decode(b.Encode(nil))
			if err != nil {
				t.Fatalf("what was decoded cannot be read again: %v", err)
			}
			if err := equal(b, again); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// round is one round of a host: series like those of collectors.
func round(rows, points int) *Batch {
	b := &Batch{ID: NewID(), Origin: "db-12.example.net"}
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).UnixMilli()
	for i := range rows {
		s, err := NewSeries(fmt.Sprintf("host_disk_part%d_read_seconds_total", i/40), []Label{{"host", "db-12.example.net"}, {"device", fmt.Sprintf("nvme%dn1", i%40)}, {"server", "/var/run/postgresql:5432"}})
		if err != nil {
			panic(err)
		}
		r := Row{Series: s}
		for j := range points {
			v := float64(i*1_000_003 + j)
			if i%3 == 0 {
				v = math.Sqrt(v)
			}
			r.Points = append(r.Points, Point{at + int64(j)*10_000, v})
		}
		b.Rows = append(b.Rows, r)
	}
	return b
}

func BenchmarkEncode(b *testing.B) {
	x := round(1000, 1)
	var buf []byte
	cpu := cpuTime()
	for b.Loop() {
		buf = x.Encode(buf[:0])
	}
	b.ReportMetric(float64(b.N)*1000/(cpuTime()-cpu), "points/CPU-s")
	b.ReportMetric(float64(len(buf))/1000, "bytes/point")
}

func BenchmarkDecode(b *testing.B) {
	raw := round(1000, 1).Encode(nil)
	var d Decoder
	cpu := cpuTime()
	for b.Loop() {
		if _, err := d.Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*1000/(cpuTime()-cpu), "points/CPU-s")
}

// cpuTime is what this process used, in seconds: rates by it do not depend on
// who else uses the machine.
func cpuTime() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
